/* SPDX-License-Identifier: Apache-2.0
 *
 * input.c - see input.h. Without zlib or zstd what they compress is refused. A gzip stream is
 * followed here, member by member: zlib's gzread passes some files that are cut short as whole
 * ones.
 */
#include "files/chat/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#define PIECE (1 << 18)
/* most bytes of text for each compressed one; of prose it is 3, of logs 20, of one letter 1030 */
#define RATIO 256
#define SLACK (1 << 20)

enum { PLAIN, GZIP, ZSTD };

struct zr_input {
	const char *path;
	int fd;
	uint64_t at;           /* bytes of the file that were read */
	int begun, compressed; /* PLAIN, GZIP or ZSTD */
	uint64_t expanded;     /* bytes that came of it so far */
	unsigned char *p;      /* what of `piece` is not used */
	size_t n;
	int end; /* of the file */
#ifdef HAVE_ZLIB
	z_stream z;
	int inside; /* a member has begun and not ended */
#endif
#ifdef HAVE_ZSTD
	ZSTD_DStream *zstd;
	int frame; /* one has begun and not ended */
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
	int rc = 0;

	if (!in->n)
		rc = refill(in, 1, err);
	*got = in->n < n ? in->n : n;
	memcpy(p, in->p, *got);
	in->p += *got;
	in->n -= *got;
	return rc;
}

/* A small file must not fill the disk. */
static int too_far(const struct zr_input *in, struct zr_error *err)
{
	uint64_t most = SLACK + RATIO * zr_input_at(in);
	if (in->expanded <= most)
		return 0;

	return zr_err(err, ZR_EINVAL,
		      "%s: its first %llu bytes expand to more than %d times as much (%llu "
		      "bytes), as no text does; if it is meant, %s",
		      in->path, (unsigned long long)zr_input_at(in), RATIO,
		      (unsigned long long)in->expanded,
		      in->compressed == GZIP ? "gunzip it" : "decompress it first");
}

#ifdef HAVE_ZLIB

static int start_gzip(struct zr_input *in, struct zr_error *err)
{
	in->inside = 1;
	if (inflateInit2(&in->z, 15 + 16) == Z_OK)
		return 0;
	return zr_no_memory(err);
}

/* Expands what is there of a member, up to `room` bytes. */
static int inflate_some(struct zr_input *in, void *p, unsigned room, size_t *got,
			struct zr_error *err)
{
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
	if (!in->inside || code == Z_OK)
		return 0;
	if (code == Z_MEM_ERROR)
		return zr_no_memory(err);
	if (code != Z_BUF_ERROR)
		return zr_err(err, ZR_EIO, "%s: %s", in->path, in->z.msg ? in->z.msg : "damaged");
	if (in->end)
		return zr_err(err, ZR_EINVAL, "%s: the compressed file is truncated", in->path);

	return 0;
}

/* Some bytes, or none at the end. Members may be padded with zeros. */
static int expand(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	unsigned room = n > PIECE ? PIECE : (unsigned)n;
	int rc = 0;

	for (*got = 0; !rc && !*got;) {
		if (!in->n)
			rc = refill(in, 1, err);
		for (; !in->inside && in->n && !*in->p; in->n--)
			in->p++;
		if (rc || (in->end && !in->n && !in->inside))
			return rc;

		if (in->n || in->inside)
			rc = inflate_some(in, p, room, got, err);
	}

	return rc;
}

static void leave_gzip(struct zr_input *in)
{
	if (in->compressed == GZIP)
		inflateEnd(&in->z);
}

#else

static int start_gzip(struct zr_input *in, struct zr_error *err)
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

static void leave_gzip(struct zr_input *in)
{
	(void)in;
}

#endif

#ifdef HAVE_ZSTD

static int start_zstd(struct zr_input *in, struct zr_error *err)
{
	in->zstd = ZSTD_createDStream();
	if (in->zstd)
		return 0;
	return zr_no_memory(err);
}

static int expand_zstd(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	ZSTD_outBuffer out = { p, n, 0 };

	for (*got = 0; !*got; *got = out.pos) {
		int rc = 0;
		if (!in->n)
			rc = refill(in, 1, err);
		if (rc || (!in->n && !in->frame))
			return rc;

		ZSTD_inBuffer from = { in->p, in->n, 0 };
		size_t left = ZSTD_decompressStream(in->zstd, &out, &from);
		if (ZSTD_isError(left))
			return zr_err(err, ZR_EIO, "%s: %s", in->path, ZSTD_getErrorName(left));
		if (!in->n && !out.pos && left)
			return zr_err(err, ZR_EINVAL, "%s: the compressed file is truncated",
				      in->path);

		in->p += from.pos;
		in->n -= from.pos;
		in->frame = left != 0;
	}

	return 0;
}

static void leave_zstd(struct zr_input *in)
{
	ZSTD_freeDStream(in->zstd);
}

#else

static int start_zstd(struct zr_input *in, struct zr_error *err)
{
	return zr_err(err, ZR_ENOTSUP,
		      "%s: is compressed by zstd, which this build lacks: decompress it, or "
		      "install libzstd-dev and configure and build again",
		      in->path);
}

static int expand_zstd(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	return plain(in, p, n, got, err);
}

static void leave_zstd(struct zr_input *in)
{
	(void)in;
}

#endif

static int detect_compression(struct zr_input *in, struct zr_error *err)
{
	int rc = refill(in, 4, err), is = PLAIN;

	in->begun = !rc;
	if (rc)
		return rc;
	if (in->n >= 2 && !memcmp(in->p, "\x1f\x8b", 2))
		is = GZIP;
	else if (in->n >= 4 && !memcmp(in->p, "\x28\xb5\x2f\xfd", 4))
		is = ZSTD;
	if (is == GZIP)
		rc = start_gzip(in, err);
	else if (is == ZSTD)
		rc = start_zstd(in, err);
	else
		rc = 0;
	in->compressed = rc ? PLAIN : is;
	return rc;
}

int zr_input_read(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err)
{
	int rc = 0;

	if (!in->begun)
		rc = detect_compression(in, err);
	*got = 0;
	if (rc)
		return rc;
	if (in->compressed == PLAIN)
		return plain(in, p, n, got, err);
	if (in->compressed == GZIP)
		rc = expand(in, p, n, got, err);
	else
		rc = expand_zstd(in, p, n, got, err);
	in->expanded += *got;
	if (rc)
		return rc;

	return too_far(in, err);
}

uint64_t zr_input_at(const struct zr_input *in)
{
	return in->at - in->n;
}

int zr_input_open(const char *path, struct zr_input **out, struct zr_error *err)
{
	int std = !strcmp(path, "-");
	int fd;

	if (std)
		fd = dup(STDIN_FILENO);
	else
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return zr_err(err, ZR_EINVAL, "%s: %s", path, strerror(errno));

	struct zr_input *in = calloc(1, sizeof *in);
	if (!in) {
		close(fd);
		return zr_no_memory(err);
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

	leave_gzip(in);
	leave_zstd(in);
	close(in->fd);
	free(in);
}
