/* SPDX-License-Identifier: Apache-2.0
 *
 * token_file.c - see token_file.h.
 */
#include "files/tokens/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"

#define HEADER 256
#define ROOM   (1 << 16) /* tokens written at a time */

struct zr_token_file {
	const char *path;
	char *tmp;
	FILE *f;
	int width, raw;
	int64_t tokens;
	size_t n; /* of `out`, to be written */
	union {
		uint16_t two[ROOM];
		uint32_t four[ROOM];
	} out;
};

static int failed(const struct zr_token_file *f, const char *what, struct zr_error *err)
{
	return zr_err(err, ZR_EIO, "%s: cannot %s: %s", f->tmp, what, strerror(errno));
}

static int write_header(struct zr_token_file *f, struct zr_error *err)
{
	int32_t head[HEADER] = { f->width == 2 ? 20240520 : 20240801, f->width == 2 ? 1 : 7,
				 (int32_t)f->tokens };

	if (f->raw)
		return 0;
	if (fseek(f->f, 0, SEEK_SET) || fwrite(head, sizeof head, 1, f->f) != 1)
		return failed(f, "write", err);

	return 0;
}

int zr_token_file_create(const char *path, int width, int raw, struct zr_token_file **out,
			 struct zr_error *err)
{
	struct zr_token_file *f = calloc(1, sizeof *f);
	if (!f || !(f->tmp = zr_text("%s.tmp", path))) {
		free(f);
		return zr_no_memory(err);
	}

	f->path = path;
	f->width = width;
	f->raw = raw;
	unlink(f->tmp); /* removes even a link: a new file takes its place */
	int fd = open(f->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		f->f = NULL;
	else
		f->f = fdopen(fd, "wb");
	int rc;
	if (f->f)
		rc = write_header(f, err);
	else
		rc = zr_err(err, ZR_EINVAL, "%s: %s", f->tmp, strerror(errno));
	if (rc)
		zr_token_file_close(f, 0, NULL);
	else
		*out = f;

	return rc;
}

static int write_out(struct zr_token_file *f, struct zr_error *err)
{
	size_t n = f->n;
	f->n = 0;
	if (fwrite(&f->out, (size_t)f->width, n, f->f) != n)
		return failed(f, "write", err);

	return 0;
}

int zr_token_file_put(struct zr_token_file *f, const int32_t *ids, size_t n, struct zr_error *err)
{
	if (!f->raw && (int64_t)n > ZR_TOKEN_FILE_MOST - f->tokens)
		return zr_err(
			err, ZR_EINVAL,
			"%s: llm.c's header counts %d tokens at most: use --raw, or fewer texts at "
			"a time",
			f->path, ZR_TOKEN_FILE_MOST);

	f->tokens += (int64_t)n;
	for (size_t m; n; n -= m, ids += m) {
		m = n;
		if (m > ROOM - f->n)
			m = ROOM - f->n;
		for (size_t i = 0; i < m && f->width == 2; i++)
			f->out.two[f->n + i] = (uint16_t)ids[i];
		if (f->width == 4)
			memcpy(f->out.four + f->n, ids, m * sizeof *ids);
		f->n += m;
		if (f->n == ROOM && write_out(f, err))
			return ZR_EIO;
	}

	return 0;
}

int64_t zr_token_file_tokens(const struct zr_token_file *f)
{
	return f->tokens;
}

static int finish(struct zr_token_file *f, struct zr_error *err)
{
	int rc = write_out(f, err);
	if (!rc)
		rc = write_header(f, err);
	if (!rc && (fflush(f->f) || fsync(fileno(f->f))))
		rc = failed(f, "write", err);
	if (!rc && rename(f->tmp, f->path))
		rc = zr_err(err, ZR_EIO, "%s: cannot rename to %s: %s", f->tmp, f->path,
			    strerror(errno));
	if (!rc && (errno = zr_sync_parent(f->path))) /* makes the name durable, like the file */
		rc = failed(f, "make its name durable", err);

	return rc;
}

int zr_token_file_close(struct zr_token_file *f, int keep, struct zr_error *err)
{
	if (!f)
		return 0;

	int rc = 0;
	if (keep)
		rc = finish(f, err);
	if (f->f)
		fclose(f->f);
	if (f->f && (!keep || rc))
		unlink(f->tmp);
	free(f->tmp);
	free(f);
	return rc;
}
