/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_file.c - see rows.h: a file of rows that may grow and be replaced.
 */
#include "cmd/report/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

#define CHUNK (1 << 20)

int zr_rows_open(struct zr_rows_file *f, const char *dir)
{
	static const char *const name[] = { "metrics.jsonl", "metrics.csv" };

	memset(f, 0, sizeof *f);
	f->fd = -1;
	for (int i = 0; i < 2; i++) {
		int n = snprintf(f->path, sizeof f->path, "%s/%s", dir, name[i]);
		f->csv = i;
		if (n > 0 && n < (int)sizeof f->path && !access(f->path, F_OK))
			return 1;
	}

	return 0;
}

void zr_rows_close(struct zr_rows_file *f)
{
	if (f->fd > 0)
		close(f->fd);
	zr_rows_free(&f->rows);
	f->fd = -1;
}

/* Whether the file that bears the name is another one, or was cut and written again. */
static int replaced(const struct zr_rows_file *f)
{
	char now[ZR_ROWS_LAST];
	struct stat st;
	int64_t n = f->at < ZR_ROWS_LAST ? f->at : ZR_ROWS_LAST;

	if (f->fd < 0 || stat(f->path, &st) || st.st_ino != f->inode)
		return 1;
	return zr_read_all_at(f->fd, now, (size_t)n, (uint64_t)(f->at - n)) ||
	       memcmp(now, f->last + ZR_ROWS_LAST - n, (size_t)n);
}

static int begin(struct zr_rows_file *f, struct zr_error *err)
{
	struct stat st;

	if (f->fd >= 0)
		close(f->fd);
	zr_rows_free(&f->rows);
	f->at = 0;
	f->fd = zr_file_open(AT_FDCWD, f->path, 1);
	if (f->fd < 0 || fstat(f->fd, &st))
		return zr_file_failed(err, f->path, "opened", errno);

	f->inode = st.st_ino;
	return 0;
}

static void note_read(struct zr_rows_file *f, const char *text, size_t bytes)
{
	size_t n = bytes < ZR_ROWS_LAST ? bytes : ZR_ROWS_LAST;
	memmove(f->last, f->last + n, ZR_ROWS_LAST - n);
	memcpy(f->last + ZR_ROWS_LAST - n, text + bytes - n, n);
	f->at += (int64_t)bytes;
}

/* Takes all whole lines of a text; returns their bytes, or -1 without memory. */
static ssize_t take(struct zr_rows_file *f, const char *text, size_t bytes)
{
	const char *p = text, *end = text + bytes, *newline;

	for (; (newline = memchr(p, '\n', (size_t)(end - p))); p = newline + 1) {
		size_t n = (size_t)(newline - p);
		if (f->csv ? zr_rows_csv(&f->rows, p, n) : zr_rows_json(&f->rows, p, n))
			return -1;
	}

	return p - text;
}

int zr_rows_read(struct zr_rows_file *f, struct zr_error *err)
{
	int changed = replaced(f), rc = changed ? begin(f, err) : 0;

	char *text = rc ? NULL : malloc(CHUNK);
	if (!rc && !text)
		rc = zr_no_memory(err);
	while (!rc) {
		ssize_t n = pread(f->fd, text, CHUNK, f->at), used;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = zr_file_failed(err, f->path, "read", errno);
		used = n > 0 ? take(f, text, (size_t)n) : 0;
		if (used < 0)
			rc = zr_err(err, ZR_ENOMEM, "%s: no memory for its rows", f->path);
		f->torn = n > used;
		if (used <= 0)
			break;

		note_read(f, text, (size_t)used);
		changed = 1;
	}

	free(text);
	if (rc)
		return rc;
	return changed;
}
