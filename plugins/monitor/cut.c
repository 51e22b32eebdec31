/* SPDX-License-Identifier: Apache-2.0
 *
 * cut.c - see line.h: takes rows out of a file that a run goes on with. Where these are its last
 * ones, as a killed run leaves them, the file is truncated; else what stays is written to a file
 * beside it, which takes its name. Either way it has all of its old rows or all of its new ones.
 */
#include "line.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct row {
	int64_t step; /* -1: a line of something else, which stays */
	int64_t at, end;
	int gone;
};

struct rows {
	struct row *v;
	int64_t n, room;
	int64_t gone;
};

static int failed(const struct line *l, const char *doing)
{
	return zr_fail(l->h, ZR_EIO, "%s: cannot %s: %s", l->name, doing, strerror(errno));
}

/* The number that follows `head`, or -1. */
static int64_t step_of(const char *row, int64_t bytes, const char *head)
{
	int64_t step = 0, i = (int64_t)strlen(head), first = i;
	if (bytes < i || memcmp(row, head, (size_t)i))
		return -1;

	for (; i < bytes && row[i] >= '0' && row[i] <= '9' && i - first < 18; i++)
		step = step * 10 + (row[i] - '0');
	if (i > first && i < bytes && strchr(",}\n", row[i]))
		return step;

	return -1;
}

/* A later row of a step counts, and with it what came after that step before is of no use. */
static void drop(struct rows *r, int64_t from)
{
	for (int64_t i = r->n; i-- > 0 && (r->v[i].step < 0 || r->v[i].step >= from);)
		if (r->v[i].step >= 0 && !r->v[i].gone) {
			r->v[i].gone = 1;
			r->gone++;
		}
}

static int list(struct rows *r, const char *text, int64_t size, const char *head, int64_t last)
{
	for (int64_t at = 0, end; at < size; at = end) {
		const char *newline = memchr(text + at, '\n', (size_t)(size - at));
		end = newline ? newline + 1 - text : size;
		int64_t step = step_of(text + at, end - at, head);
		if (r->n == r->room) {
			int64_t room = r->room * 2 + 1024;
			struct row *v = realloc(r->v, (size_t)room * sizeof *v);
			if (!v)
				return ZR_ENOMEM;

			r->v = v;
			r->room = room;
		}

		if (step >= 0)
			drop(r, step);
		r->v[r->n++] = (struct row){ step, at, end, step > last };
		r->gone += step > last;
	}

	return ZR_OK;
}

static int write_all(int fd, const char *text, int64_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(fd, text, (size_t)bytes);
		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0) {
			text += n;
			bytes -= n;
		}
	}

	return 0;
}

/* Writes the rows that stay; returns their bytes, or -1. */
static int64_t write_rows(int fd, const struct rows *r, const char *text)
{
	int64_t size = 0;

	for (int64_t i = 0; i < r->n; i++) {
		const struct row *w = &r->v[i];
		if (w->gone)
			continue;
		if (write_all(fd, text + w->at, w->end - w->at))
			return -1;

		size += w->end - w->at;
	}

	return size;
}

/* What stays, in a new file of the old one's name. */
static int replace(struct line *l, const struct rows *r, const char *text)
{
	char name[PATH_MAX], *real = realpath(l->name, NULL); /* a path of its own may be a link */
	int fd = -1, rc = ZR_OK;
	int64_t size = -1;

	if (real && snprintf(name, sizeof name, "%s.tmp", real) < (int)sizeof name) {
		unlink(name);
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
	}

	if (fd < 0)
		rc = failed(l, "make a file beside it");
	if (!rc && (size = write_rows(fd, r, text)) < 0)
		rc = failed(l, "write the file beside it");
	if (!rc && (fsync(fd) || rename(name, real)))
		rc = failed(l, "take the name of it");
	if (!rc) {
		close(l->fd);
		l->fd = fd;
		l->size = size;
	} else if (fd >= 0) {
		close(fd);
		unlink(name);
	}

	free(real);
	return rc;
}

static int take_out(struct line *l, const struct rows *r, const char *text)
{
	int64_t keep = 0, i;
	while (keep < r->n && !r->v[keep].gone)
		keep++;
	for (i = keep; i < r->n && r->v[i].gone; i++)
		;
	if (i < r->n)
		return replace(l, r, text);

	l->size = r->v[keep].at;
	if (ftruncate(l->fd, l->size))
		return failed(l, "truncate");

	return ZR_OK;
}

int line_cut(struct line *l, const char *head, int64_t last)
{
	struct rows r = { 0 };
	const size_t size = (size_t)l->size;
	char *text;
	int rc = ZR_OK;

	if (!size) /* a new file, or none of a disk's */
		return ZR_OK;

	text = mmap(NULL, size, PROT_READ, MAP_SHARED, l->fd, 0);
	if (text == MAP_FAILED)
		return failed(l, "map");
	if (list(&r, text, l->size, head, last))
		rc = zr_fail(l->h, ZR_ENOMEM, "%s: no memory for its rows", l->name);
	if (!rc && r.gone)
		rc = take_out(l, &r, text);
	if (!rc && r.gone)
		zr_log(l->h, ZR_LOG_INFO,
		       "%s: the run goes on after step %lld: took out %lld row%s of a training "
		       "that was left",
		       l->name, (long long)last, (long long)r.gone, r.gone == 1 ? "" : "s");
	munmap(text, size);
	free(r.v);
	return rc;
}
