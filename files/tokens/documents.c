/* SPDX-License-Identifier: Apache-2.0
 *
 * documents.c - see documents.h. Tokens go where they stay, behind room for the header; the other
 * tensors go to files without a name, and are copied behind the tokens in the end.
 */
#include "files/tokens/documents.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"

#define HEADER 8192 /* bytes, with their count of 8 */
#define ROOM   4096 /* elements written at a time */

struct zr_documents {
	const char *path;
	char *tmp;
	FILE *tokens, *learned, *starts; /* learned: NULL: not masked */
	int64_t vocabulary, start;       /* start: of the document */
	int width;                       /* bytes of a token */
	struct zr_documents_totals sum;
	json_t *meta;
};

int zr_documents_header(const char *name, const char *text, size_t n, json_t **out,
			struct zr_error *err)
{
	json_error_t why;
	*out = zr_json_load(text, n, 0, &why);
	if (*out)
		return 0;
	if (errno == ENOMEM)
		return zr_err(err, ZR_ENOMEM, "%s: out of memory", name);

	return zr_err(err, ZR_EINVAL, "%s: the header is no JSON: %s", name, why.text);
}

static int failed(const struct zr_documents *d, const char *doing, struct zr_error *err)
{
	return zr_err(err, ZR_EIO, "%s: cannot %s: %s", d->tmp, doing, strerror(errno));
}

/* ---- creation ---- */

/* What bears the name goes, and nothing is written through it. */
static FILE *create(const char *name, mode_t mode)
{
	unlink(name);
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	FILE *f = NULL;
	if (fd >= 0)
		f = fdopen(fd, "w+b");
	if (fd >= 0 && !f)
		close(fd);

	return f;
}

/* A file in the directory of the other, which loses its name at once. */
static int nameless(const struct zr_documents *d, const char *what, FILE **out,
		    struct zr_error *err)
{
	char *name = zr_text("%s.%s", d->tmp, what);
	if (!name)
		return zr_no_memory(err);

	*out = create(name, 0600);
	int rc = 0;
	if (!*out || unlink(name))
		rc = zr_err(err, ZR_EIO, "%s: %s", name, strerror(errno));
	free(name);
	return rc;
}

static int create_files(struct zr_documents *d, mode_t mode, int masked, struct zr_error *err)
{
	const int64_t first = 0;

	d->tokens = create(d->tmp, mode);
	if (!d->tokens)
		return zr_err(err, ZR_EINVAL, "%s: %s", d->tmp, strerror(errno));

	int rc = nameless(d, "documents", &d->starts, err);
	if (!rc && masked)
		rc = nameless(d, "learned", &d->learned, err);
	if (!rc &&
	    (fseek(d->tokens, HEADER, SEEK_SET) || fwrite(&first, sizeof first, 1, d->starts) != 1))
		rc = failed(d, "write", err);

	return rc;
}

int zr_documents_create(const char *path, mode_t mode, int64_t vocabulary, int masked,
			struct zr_documents **out, struct zr_error *err)
{
	struct zr_documents *d = calloc(1, sizeof *d);
	if (!d || !(d->tmp = zr_text("%s.tmp", path))) {
		free(d);
		return zr_no_memory(err);
	}

	d->path = path;
	d->vocabulary = vocabulary;
	d->width = vocabulary > 65536 ? 4 : 2;
	d->meta = json_object();
	int rc = create_files(d, mode, masked, err);
	if (!rc)
		rc = zr_documents_count(d, "vocabulary", vocabulary, err);
	if (rc)
		zr_documents_close(d, 0, NULL);
	else
		*out = d;

	return rc;
}

/* ---- documents ---- */

static int put_tokens(struct zr_documents *d, const int32_t *ids, size_t n)
{
	uint16_t two[ROOM];

	if (d->width == 4)
		return fwrite(ids, sizeof *ids, n, d->tokens) != n;

	for (size_t m; n; n -= m, ids += m) {
		m = n;
		if (m > ROOM)
			m = ROOM;
		for (size_t i = 0; i < m; i++)
			two[i] = (uint16_t)ids[i];
		if (fwrite(two, sizeof *two, m, d->tokens) != m)
			return 1;
	}

	return 0;
}

static int put_learned(struct zr_documents *d, const uint8_t *learned, size_t n)
{
	uint8_t flags[ROOM];
	int first = d->sum.tokens == d->start;

	for (size_t m; n; n -= m) {
		m = n;
		if (m > ROOM)
			m = ROOM;
		for (size_t i = 0; i < m; i++, first = 0) {
			flags[i] = !first && (!learned || learned[i]);
			d->sum.targets += flags[i];
		}

		learned = learned ? learned + m : NULL;
		if (d->learned && fwrite(flags, 1, m, d->learned) != m)
			return 1;
	}

	return 0;
}

int zr_documents_put(struct zr_documents *d, const int32_t *ids, const uint8_t *learned, size_t n,
		     struct zr_error *err)
{
	if (put_tokens(d, ids, n) || put_learned(d, learned, n))
		return failed(d, "write", err);
	d->sum.tokens += (int64_t)n;
	return 0;
}

int zr_documents_end(struct zr_documents *d, struct zr_error *err)
{
	int64_t n = d->sum.tokens - d->start;
	if (!n)
		return 0;

	d->start = d->sum.tokens;
	d->sum.documents++;
	if (n > d->sum.longest)
		d->sum.longest = n;
	if (fwrite(&d->start, sizeof d->start, 1, d->starts) != 1)
		return failed(d, "write", err);

	return 0;
}

int zr_documents_count(struct zr_documents *d, const char *name, int64_t n, struct zr_error *err)
{
	char text[24];

	snprintf(text, sizeof text, "%lld", (long long)n);
	zr_json_put(&d->meta, name, json_string(text));
	if (d->meta)
		return 0;

	return zr_no_memory(err);
}

struct zr_documents_totals zr_documents_total(const struct zr_documents *d)
{
	return d->sum;
}

/* ---- the end ---- */

/* Appends a tensor to the tokens. */
static int append(struct zr_documents *d, FILE *from)
{
	char piece[1 << 16];
	size_t n = 1;

	if (fflush(from) || fseek(from, 0, SEEK_SET))
		return 1;

	while (n) {
		n = fread(piece, 1, sizeof piece, from);
		if (fwrite(piece, 1, n, d->tokens) != n)
			return 1;
	}

	return ferror(from);
}

static void describe(json_t **root, const char *name, const char *type, int64_t n, int width,
		     int64_t *at)
{
	json_t *o = json_pack("{s:s, s:[I], s:[I, I]}", "dtype", type, "shape", (json_int_t)n,
			      "data_offsets", (json_int_t)*at, (json_int_t)(*at + n * width));
	*at += n * width;
	zr_json_put(root, name, o);
}

/* The text of the header; NULL: no memory. */
static char *header_text(struct zr_documents *d)
{
	json_t *root = json_object();
	int64_t at = 0;

	zr_json_put(&d->meta, "format", json_string("zeroth.documents/1"));
	zr_json_put(&root, "__metadata__", json_incref(d->meta));
	describe(&root, "tokens", d->width == 4 ? "U32" : "U16", d->sum.tokens, d->width, &at);
	if (d->learned)
		describe(&root, "learned", "U8", d->sum.tokens, 1, &at);
	describe(&root, "documents", "I64", d->sum.documents + 1, 8, &at);

	char *text = zr_json_dump(root, JSON_COMPACT);
	json_decref(root);
	return text;
}

static int write_header(struct zr_documents *d, struct zr_error *err)
{
	char header[HEADER];
	const uint64_t length = HEADER - sizeof length;
	char *text = header_text(d);
	if (!text)
		return zr_no_memory(err);

	const size_t n = strlen(text);
	memset(header, ' ', sizeof header);
	memcpy(header, &length, sizeof length);
	if (n <= length)
		memcpy(header + sizeof length, text, n);
	free(text);
	if (n > length)
		return zr_err(err, ZR_EINVAL, "%s: too many counts for its header", d->path);
	if (fseek(d->tokens, 0, SEEK_SET) || fwrite(header, sizeof header, 1, d->tokens) != 1)
		return failed(d, "write", err);

	return 0;
}

static int finish(struct zr_documents *d, struct zr_error *err)
{
	if ((d->learned && append(d, d->learned)) || append(d, d->starts))
		return failed(d, "write", err);

	int rc = write_header(d, err);
	if (!rc && (fflush(d->tokens) || fsync(fileno(d->tokens))))
		rc = failed(d, "write", err);
	if (!rc && rename(d->tmp, d->path))
		rc = zr_err(err, ZR_EIO, "%s: cannot rename to %s: %s", d->tmp, d->path,
			    strerror(errno));
	if (!rc && (errno = zr_sync_parent(d->path)))
		rc = failed(d, "make its name durable", err);

	return rc;
}

int zr_documents_close(struct zr_documents *d, int keep, struct zr_error *err)
{
	if (!d)
		return 0;

	int rc = keep ? finish(d, err) : 0, there = d->tokens != NULL;
	if (d->tokens)
		fclose(d->tokens);
	if (d->learned)
		fclose(d->learned);
	if (d->starts)
		fclose(d->starts);
	if (there && (!keep || rc))
		unlink(d->tmp);
	json_decref(d->meta);
	free(d->tmp);
	free(d);
	return rc;
}
