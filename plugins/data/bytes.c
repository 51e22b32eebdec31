/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes.c - reading plain and gzip files. Without zlib a gzip file is refused. Its stream is
 * followed here, member by member: zlib's gzread passes some files that are cut short as whole
 * ones. Where libdeflate is, it expands a small file of one member, which most are.
 */
#define _GNU_SOURCE
#include "bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE 65536     /* bytes per call of sink */
#define LARGE (2 << 20) /* bytes of a large page */

struct source {
	const struct zr_host *h;
	const char *name;
	int fd;
	uint8_t in[PIECE];
	int64_t n; /* bytes in it; 0 at the end of the file */
};

static int next(struct source *s)
{
	do
		s->n = read(s->fd, s->in, sizeof s->in);
	while (s->n < 0 && errno == EINTR);
	if (s->n < 0)
		return zr_fail(s->h, ZR_EIO, "%s: %s", s->name, strerror(errno));

	return ZR_OK;
}

static int plain(struct source *s, bytes_sink *sink, void *arg)
{
	int rc = ZR_OK;
	while (!rc && s->n) {
		rc = sink(arg, s->in, s->n);
		if (!rc)
			rc = next(s);
	}

	return rc;
}

#ifdef HAVE_ZLIB

#include <zlib.h>

/* What the bytes in s->in expand to. *inside: whether they end within a member. */
static int expand(struct source *s, z_stream *z, int *inside, bytes_sink *sink, void *arg)
{
	uint8_t out[PIECE];
	int rc = ZR_OK, code;

	z->next_in = s->in;
	z->avail_in = (unsigned)s->n;
	do {
		/* padding between members */
		for (; !*inside && z->avail_in && !*z->next_in; z->avail_in--)
			z->next_in++;
		if (!*inside && !z->avail_in)
			break;

		z->next_out = out;
		z->avail_out = sizeof out;
		code = inflate(z, Z_NO_FLUSH);
		*inside = code != Z_STREAM_END;
		if (!*inside)
			inflateReset(z);
		else if (code != Z_OK && code != Z_BUF_ERROR)
			return zr_fail(s->h, code == Z_MEM_ERROR ? ZR_ENOMEM : ZR_EIO, "%s: %s",
				       s->name, z->msg ? z->msg : "damaged");
		if (z->avail_out < sizeof out)
			rc = sink(arg, out, (int64_t)(sizeof out - z->avail_out));
	} while (!rc && (z->avail_in || !z->avail_out));
	return rc;
}

#ifdef HAVE_LIBDEFLATE

#include <libdeflate.h>
#include <sys/stat.h>

#define SMALL (16 << 20) /* bytes, compressed and expanded, of a file that is expanded at once */

/* What one member is that fills the file, as its last bytes say how long, or NULL: several members,
 * a large one, a damaged one. */
static uint8_t *only_member(const uint8_t *in, size_t n, size_t *bytes)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	const uint8_t *end = in + n;
	size_t most = 0;

	if (n >= 18)
		most = end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 |
		       (size_t)end[-1] << 24;
	uint8_t *out = NULL;
	if (d && most && most <= SMALL)
		out = bytes_room(most);
	size_t used = 0;
	if (out && (libdeflate_gzip_decompress_ex(d, in, n, out, most, &used, bytes) || used < n)) {
		free(out);
		out = NULL;
	}

	libdeflate_free_decompressor(d);
	return out;
}

/* A small file of one member: at once, in a third of zlib's time. *done: it was such a file. */
static int small(struct source *s, bytes_sink *sink, void *arg, int *done)
{
	struct stat st;
	uint8_t *in = NULL, *out = NULL;
	size_t at = 0, n = 0;
	int rc = ZR_OK;

	if (!fstat(s->fd, &st) && S_ISREG(st.st_mode) && st.st_size <= SMALL)
		in = malloc((size_t)st.st_size + 1);
	if (in && pread(s->fd, in, (size_t)st.st_size + 1, 0) == st.st_size)
		out = only_member(in, (size_t)st.st_size, &n);
	*done = out != NULL;
	for (; out && !rc && at < n; at += PIECE)
		rc = sink(arg, out + at, (int64_t)(n - at < PIECE ? n - at : PIECE));
	free(out);
	free(in);
	return rc;
}

#else

static int small(struct source *s, bytes_sink *sink, void *arg, int *done)
{
	(void)s, (void)sink, (void)arg;
	*done = 0;
	return ZR_OK;
}

#endif

static int compressed(struct source *s, bytes_sink *sink, void *arg)
{
	z_stream z = { 0 };
	int done, inside = 1, rc = small(s, sink, arg, &done);
	if (rc || done)
		return rc;
	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return zr_fail(s->h, ZR_ENOMEM, "%s: no memory", s->name);

	while (!rc && s->n) {
		rc = expand(s, &z, &inside, sink, arg);
		if (!rc)
			rc = next(s);
	}

	inflateEnd(&z);
	if (!rc && inside)
		return zr_fail(s->h, ZR_EINVAL, "%s: the compressed file is truncated", s->name);

	return rc;
}

#else

static int compressed(struct source *s, bytes_sink *sink, void *arg)
{
	(void)sink, (void)arg;
	return zr_fail(
		s->h, ZR_ENOTSUP,
		"%s: is compressed and this build has no zlib: gunzip it, or install zlib1g-dev "
		"and configure and build again",
		s->name);
}

#endif

void *bytes_room(size_t bytes)
{
	const size_t whole = (bytes + LARGE - 1) / LARGE * LARGE;
	void *room = aligned_alloc(LARGE, whole);
	if (room)
		madvise(room, whole, MADV_HUGEPAGE);

	return room;
}

int bytes_read(const struct zr_host *h, const char *name, bytes_sink *sink, void *arg)
{
	struct source s = { .h = h, .name = name, .fd = open(name, O_RDONLY | O_CLOEXEC) };
	const char *dot = strrchr(name, '.');
	int rc;

	if (s.fd < 0)
		return zr_fail(h, ZR_EINVAL, "%s: %s", name, strerror(errno));

	rc = next(&s);
	if (!rc && s.n > 1 && s.in[0] == 0x1f && s.in[1] == 0x8b)
		rc = compressed(&s, sink, arg);
	else if (!rc && dot && !strcmp(dot, ".gz"))
		rc = zr_fail(
			h, ZR_EINVAL,
			"%s: is not a gzip file, though its name ends in .gz; decompress or rename "
			"it",
			name);
	else if (!rc)
		rc = plain(&s, sink, arg);
	close(s.fd);
	return rc;
}
