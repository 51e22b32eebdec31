/* SPDX-License-Identifier: Apache-2.0
 *
 * line.c - see line.h.
 */
#include "line.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const struct line *l, const char *doing)
{
	return zr_fail(l->h, ZR_EIO, "%s: cannot %s: %s", l->name, doing, strerror(errno));
}

static ssize_t read_at(const struct line *l, char *to, size_t bytes, int64_t off)
{
	ssize_t n;
	do
		n = pread(l->fd, to, bytes, off);
	while (n < 0 && errno == EINTR);
	return n;
}

/* Cuts what follows the last newline. */
static int cut_torn_line(struct line *l)
{
	int64_t from = 0;

	if (l->size > LINE_ROOM)
		from = l->size - LINE_ROOM;
	ssize_t n = read_at(l, l->text, LINE_ROOM, from);
	if (n < 0)
		return failed(l, "read");

	while (n > 0 && l->text[n - 1] != '\n')
		n--;
	if (n == 0 && from > 0)
		return zr_fail(l->h, ZR_EINVAL,
			       "%s: is not a text of lines; move it away or set path", l->name);
	if (from + n == l->size)
		return ZR_OK;

	l->size = from + n;
	zr_log(l->h, ZR_LOG_WARN, "%s: cutting off a line that was not finished", l->name);
	if (ftruncate(l->fd, l->size))
		return failed(l, "truncate");

	return ZR_OK;
}

/* Puts the name of the file into l->name: in the run directory, or as it was given. */
static int choose_name(struct line *l, const char *path, int ours)
{
	int n = snprintf(l->name, sizeof l->name, "%s%s%s", ours ? l->h->run_dir : "",
			 ours ? "/" : "", path);

	if (n < 0 || (size_t)n >= sizeof l->name)
		return zr_fail(l->h, ZR_EINVAL, "path = %s: too long", path);

	return ZR_OK;
}

/* What the run directory has is a file, and no link. */
static int open_file(struct line *l, int ours)
{
	const char *why;
	int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC;

	if (ours)
		flags |= O_NOFOLLOW | O_NONBLOCK;
	l->fd = open(l->name, flags, 0666);
	if (l->fd >= 0)
		return ZR_OK;

	if (ours && errno == ELOOP)
		why = "it is a symbolic link, which a run does not follow: remove it";
	else
		why = strerror(errno);
	return zr_fail(l->h, ZR_EINVAL, "path = %s: cannot open: %s", l->name, why);
}

/* How large the file is, without a line that was not finished. */
static int find_end(struct line *l, int ours)
{
	struct stat st;

	if (fstat(l->fd, &st))
		return failed(l, "stat");
	if (ours && !S_ISREG(st.st_mode))
		return zr_fail(l->h, ZR_EINVAL, "path = %s: is not a regular file: remove it",
			       l->name);

	l->size = S_ISREG(st.st_mode) ? st.st_size : 0;
	if (!l->size)
		return ZR_OK;

	return cut_torn_line(l);
}

int line_open(struct line *l, const struct zr_host *h, const char *path)
{
	const int ours = path[0] != '/' && h->run_dir;

	l->h = h;
	l->used = 0;
	int rc = choose_name(l, path, ours);
	if (!rc)
		rc = open_file(l, ours);
	if (rc)
		return rc;

	rc = find_end(l, ours);
	if (rc)
		line_close(l);

	return rc;
}

void line_close(struct line *l)
{
	close(l->fd);
	l->fd = -1;
}

void line_text(struct line *l, const char *text)
{
	size_t n = strlen(text);
	if (n > LINE_ROOM - l->used)
		n = LINE_ROOM - l->used; /* full: line_end() refuses it */
	memcpy(l->text + l->used, text, n);
	l->used += (uint32_t)n;
}

void line_number(struct line *l, double v)
{
	char text[40], *comma;
	int digits;

	if (isnan(v)) {
		line_text(l, "nan");
		return;
	}

	if (isinf(v)) {
		line_text(l, v > 0 ? "inf" : "-inf");
		return;
	}

	if (v == floor(v) && fabs(v) < 1e15) { /* a count is not written as 2e+09 */
		snprintf(text, sizeof text, "%.0f", v);
	} else {
		for (digits = 1; digits <= 17; digits++) {
			snprintf(text, sizeof text, "%.*g", digits, v);
			if (strtod(text, NULL) == v)
				break;
		}
	}

	comma = strchr(text, ','); /* the program's locale may have one for a point */
	if (comma)
		*comma = '.';
	line_text(l, text);
}

/* Takes back the first `bytes` bytes of a line whose rest was not written. Whether the file has
 * none of the line now: a pipe keeps it, and what another process appended behind it stays. */
static int take_back(const struct line *l, size_t bytes)
{
	struct stat st;

	if (!bytes)
		return 1;

	const off_t end = lseek(l->fd, 0, SEEK_CUR);
	return end >= (off_t)bytes && !fstat(l->fd, &st) && st.st_size == end &&
	       !ftruncate(l->fd, end - (off_t)bytes);
}

/* A disk may have room again when the next line comes. */
static int not_written(const struct line *l, size_t bytes)
{
	const int no = errno, full = no == ENOSPC || no == EDQUOT || no == EFBIG;
	const int back = take_back(l, bytes);

	errno = no;
	if (full && back)
		return zr_fail(l->h, ZR_EAGAIN, "%s: cannot write: %s", l->name, strerror(no));

	return failed(l, "write");
}

int line_end(struct line *l)
{
	const char *p = l->text;
	ssize_t n;

	if (l->used == LINE_ROOM) {
		l->used = 0;
		return zr_fail(l->h, ZR_EINVAL, "%s: a line is longer than %d bytes", l->name,
			       LINE_ROOM - 1);
	}

	l->text[l->used++] = '\n';
	for (; l->used; p += n, l->used -= (uint32_t)n) {
		n = write(l->fd, p, l->used);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0) {
			l->used = 0;
			return not_written(l, (size_t)(p - l->text));
		}
	}

	return ZR_OK;
}

int line_flush(struct line *l)
{
	/* a pipe or a terminal has nothing to flush: EINVAL */
	if (fsync(l->fd) && errno != EINVAL && errno != EROFS)
		return failed(l, "flush");

	return ZR_OK;
}

int line_first(struct line *l)
{
	ssize_t n = 0;

	if (l->size)
		n = read_at(l, l->text, LINE_ROOM - 1, 0);
	if (n < 0)
		return failed(l, "read");

	l->text[n] = 0;
	l->text[strcspn(l->text, "\n")] = 0;
	return ZR_OK;
}
