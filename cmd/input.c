/* SPDX-License-Identifier: Apache-2.0
 *
 * input.c - see input.h. Without zlib a gzip file is refused. Its stream is followed here, member
 * by member: zlib's gzread passes some files that are cut short as whole ones.
 */
#include "cmd/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

#define PIECE (1 << 18)
/* most bytes of text for each compressed one; of prose it is 3, of logs 20, of one letter 1030 */
#define RATIO 256
#define SLACK (1 << 20)

struct zr_input {
	const char *path;
	int fd;
	uint64_t at;        /* bytes of the file that were read */
	int begun, compressed;
	unsigned char *p;   /* what of `piece` is not used */
	size_t n;
	int end;            /* of the file */
#ifdef HAVE_ZLIB
	z_stream z;
	int inside;         /* a member has begun and not ended */
	uint64_t expanded;  /* bytes so far */
#endif
	unsigned char piece[PIECE];
};

/* Reads on until there are `least` bytes, or the file ends. */
static int refill(struct zr_input *in, size_t least, struct zr_error *err)
{
	memmove(in->piece, in->p, in->n);
	in->p = in->piece;
	while (in->n < least && !in->end) {
		ssize_t len = read(in->fd, in->piece + in->n, PIECE - in->n);
		if (len < 0) /* EINTR: somebody wants to stop, and no input may come */
			return zr_err(err, ZR_EIO, "%s: %s", in->path, strerror(errno));
		in->end = !len;
		in->n += (size_t)len;
		in->at += (uint64_t)len;
	}
	return 0;
}

static int plain(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	int rc = in->n ? 0 : refill(in, 1, err);
	*got = in->n < n ? in->n : n;
	memcpy(p, in->p, *got);
	in->p += *got;
	in->n -= *got;
	return rc;
}

#ifdef HAVE_ZLIB

static int start(struct zr_input *in, struct zr_error *err)
{
	in->inside = 1;
	return inflateInit2(&in->z, 15 + 16) == Z_OK ? 0 : zr_err(err, ZR_ENOMEM, "out of memory");
}

/* A small file must not fill the disk. */
static int too_far(const struct zr_input *in, struct zr_error *err)
{
	uint64_t most = SLACK + RATIO * zr_input_at(in);
	return in->expanded <= most ?
		       0 :
		       zr_err(err, ZR_EINVAL,
			      "%s: its first %llu bytes expand to more than %d times as much (%llu "
			      "bytes), as no text does; if it is meant, gunzip it",
			      in->path, (unsigned long long)zr_input_at(in), RATIO,
			      (unsigned long long)in->expanded);
}

/* Some bytes, or none at the end. Members may be padded with zeros. */
static int expand(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	unsigned room = n > PIECE ? PIECE : (unsigned)n;
	for (*got = 0; !*got;) {
		int rc = in->n ? 0 : refill(in, 1, err);
		for (; !in->inside && in->n && !*in->p; in->n--)
			in->p++;
		if (rc || (in->end && !in->n && !in->inside))
			return rc;
		if (!in->n && !in->inside)
			continue;
		in->z.next_in = in->p;
		in->z.avail_in = (unsigned)in->n;
		in->z.next_out = p;
		in->z.avail_out = room;
		int code = inflate(&in->z, Z_NO_FLUSH);
		in->p = in->z.next_in;
		in->n = in->z.avail_in;
		*got = room - in->z.avail_out;
		in->inside = code != Z_STREAM_END;
		if (!in->inside)
			inflateReset(&in->z);
		else if (code == Z_BUF_ERROR && in->end)
			return zr_err(err, ZR_EINVAL, "%s: the compressed file is truncated",
				      in->path);
		else if (code != Z_OK && code != Z_BUF_ERROR)
			return zr_err(err, code == Z_MEM_ERROR ? ZR_ENOMEM : ZR_EIO, "%s: %s",
				      in->path, in->z.msg ? in->z.msg : "damaged");
	}
	in->expanded += *got;
	return too_far(in, err);
}

static void leave(struct zr_input *in)
{
	if (in->compressed)
		inflateEnd(&in->z);
}

#else

static int start(struct zr_input *in, struct zr_error *err)
{
	return zr_err(
		err, ZR_ENOTSUP,
		"%s: is compressed and this build has no zlib: gunzip it, or install zlib1g-dev "
		"and configure and build again",
		in->path);
}

static int expand(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	return plain(in, p, n, got, err);
}

static void leave(struct zr_input *in)
{
	(void)in;
}

#endif

static int look(struct zr_input *in, struct zr_error *err)
{
	int rc = refill(in, 2, err);
	in->begun = !rc;
	if (rc || in->n < 2 || memcmp(in->p, "\x1f\x8b", 2))
		return rc;
	rc = start(in, err);
	in->compressed = !rc;
	return rc;
}

int zr_input_read(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	int rc = in->begun ? 0 : look(in, err);
	*got = 0;
	return rc ? rc : in->compressed ? expand(in, p, n, got, err) : plain(in, p, n, got, err);
}

uint64_t zr_input_at(const struct zr_input *in)
{
	return in->at - in->n;
}

int zr_input_open(const char *path, struct zr_input **out, struct zr_error *err)
{
	int std = !strcmp(path, "-");
	int fd = std ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return zr_err(err, ZR_EINVAL, "%s: %s", path, strerror(errno));
	struct zr_input *in = calloc(1, sizeof *in);
	if (!in) {
		close(fd);
		return zr_err(err, ZR_ENOMEM, "out of memory");
	}
	in->path = std ? "standard input" : path;
	in->fd = fd;
	in->p = in->piece;
	*out = in;
	return 0;
}

void zr_input_close(struct zr_input *in)
{
	if (!in)
		return;
	leave(in);
	close(in->fd);
	free(in);
}
