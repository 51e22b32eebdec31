/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c - see output.h.
 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int output_failed(const struct output *o, const char *doing)
{
	const int full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
	return zr_fail(o->h, full ? ZR_EAGAIN : ZR_EIO, "%s: cannot %s: %s", o->name, doing,
		       strerror(errno));
}

int output_dir(struct output *o, const struct zr_host *h, const char *path)
{
	const int ours = path[0] != '/' && h->run_dir;
	int n;

	o->h = h;
	o->fd = -1;
	n = snprintf(o->name, sizeof o->name, "%s%s%s", ours ? h->run_dir : "", ours ? "/" : "",
		     path);
	if (n < 0 || (size_t)n >= sizeof o->name)
		return zr_fail(h, ZR_EINVAL, "path = %s: too long", path);
	if (mkdir(o->name, 0777) && errno != EEXIST)
		return zr_fail(h, ZR_EINVAL, "path = %s: cannot make the directory: %s", o->name,
			       strerror(errno));

	o->dir = open(o->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (ours ? O_NOFOLLOW : 0));
	if (o->dir >= 0)
		return ZR_OK;

	return zr_fail(h, ZR_EINVAL, "path = %s: %s", o->name,
		       errno == ENOTDIR || errno == ELOOP ? "is not a directory of the run: remove "
							    "it" :
							    strerror(errno));
}

int output_enter(struct output *o, const char *name, int make)
{
	size_t used = strlen(o->name);
	int dir, rc = ZR_OK;

	snprintf(o->name + used, sizeof o->name - used, "/%s", name);
	if (make && mkdirat(o->dir, name, 0777) && errno != EEXIST)
		rc = output_failed(o, "make the directory");
	if (rc)
		dir = -1;
	else
		dir = openat(o->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (!rc && dir < 0)
		rc = output_failed(o, "open the directory");
	if (rc) {
		o->name[used] = 0;
		return rc;
	}

	close(o->dir);
	o->dir = dir;
	return ZR_OK;
}

int output_file(struct output *o, const char *name, int make)
{
	size_t used = strlen(o->name);
	struct stat st;

	snprintf(o->name + used, sizeof o->name - used, "/%s", name);
	o->fd = openat(o->dir, name,
		       O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC |
			       (make ? O_CREAT | O_EXCL : 0),
		       0666);
	if (o->fd < 0 || fstat(o->fd, &st)) {
		int rc = output_failed(o, make ? "make" : "open");
		o->name[used] = 0;
		return rc;
	}

	if (!S_ISREG(st.st_mode))
		return zr_fail(o->h, ZR_EINVAL, "%s: is not a regular file: remove it", o->name);

	o->size = st.st_size;
	return ZR_OK;
}

void output_close(struct output *o)
{
	if (o->fd >= 0)
		close(o->fd);
	if (o->dir >= 0)
		close(o->dir);
	o->fd = o->dir = -1;
}

int output_write(struct output *o, const void *p, size_t bytes)
{
	const char *at = p;

	while (bytes > 0) {
		ssize_t n = write(o->fd, at, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return output_failed(o, "write");

		at += n;
		bytes -= (size_t)n;
		o->size += n;
	}

	return ZR_OK;
}

int output_cut(struct output *o, int64_t bytes)
{
	o->size = bytes;
	if (ftruncate(o->fd, bytes))
		return output_failed(o, "truncate");

	return ZR_OK;
}

int output_undo(struct output *o, int64_t bytes, int rc)
{
	int cut = ZR_OK;
	if (rc && o->size > bytes)
		cut = output_cut(o, bytes);
	return cut ? ZR_EIO : rc;
}

int output_flush(struct output *o)
{
	if (fsync(o->fd))
		return output_failed(o, "flush");

	return ZR_OK;
}
