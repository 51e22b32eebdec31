/* SPDX-License-Identifier: Apache-2.0
 *
 * input.c - see input.h. zlib reads plain and gzip files; without it a gzip file is refused.
 */
#include "cmd/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_ZLIB

#include <zlib.h>

struct zr_input {
	const char *path;
	gzFile f;
};

static int adopt(struct zr_input *in, int fd)
{
	in->f = gzdopen(fd, "rb");
	if (in->f)
		gzbuffer(in->f, 1 << 18);
	return in->f ? 0 : -1;
}

int zr_input_read(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	int code = 0, len = gzread(in->f, p, (unsigned)(n > 1 << 30 ? 1 << 30 : n));
	const char *why = gzerror(in->f, &code);
	*got = len > 0 ? (size_t)len : 0;
	if (len >= 0 && code == Z_BUF_ERROR)
		return zr_err(err, ZR_EINVAL, "%s: the compressed file is truncated", in->path);
	return len < 0 ? zr_err(err, ZR_EIO, "%s: %s", in->path, code == Z_ERRNO ? strerror(errno) : why) : 0;
}

uint64_t zr_input_at(const struct zr_input *in)
{
	z_off_t at = gzoffset(in->f);
	return at < 0 ? 0 : (uint64_t)at;
}

static void leave(struct zr_input *in)
{
	gzclose_r(in->f);
}

#else

struct zr_input {
	const char *path;
	int fd;
	uint64_t at;
};

static int adopt(struct zr_input *in, int fd)
{
	in->fd = fd;
	return 0;
}

int zr_input_read(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	ssize_t len;
	do
		len = read(in->fd, p, n);
	while (len < 0 && errno == EINTR);
	if (len < 0)
		return zr_err(err, ZR_EIO, "%s: %s", in->path, strerror(errno));
	if (!in->at && len > 1 && !memcmp(p, "\x1f\x8b", 2))
		return zr_err(err, ZR_ENOTSUP,
			      "%s: is compressed and this build has no zlib: gunzip it, or install zlib1g-dev and configure and build again",
			      in->path);
	in->at += (uint64_t)len;
	*got = (size_t)len;
	return 0;
}

uint64_t zr_input_at(const struct zr_input *in)
{
	return in->at;
}

static void leave(struct zr_input *in)
{
	close(in->fd);
}

#endif

int zr_input_open(const char *path, struct zr_input **out, struct zr_error *err)
{
	int std = !strcmp(path, "-");
	int fd = std ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return zr_err(err, ZR_EINVAL, "%s: %s", path, strerror(errno));
	struct zr_input *in = calloc(1, sizeof *in);
	if (!in || adopt(in, fd)) {
		close(fd);
		free(in);
		return zr_err(err, ZR_ENOMEM, "out of memory");
	}
	in->path = std ? "standard input" : path;
	*out = in;
	return 0;
}

void zr_input_close(struct zr_input *in)
{
	if (in)
		leave(in);
	free(in);
}
