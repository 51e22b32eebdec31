/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes.c - reading plain and gzip files. zlib reads both; without it a gzip file is refused.
 */
#include "bytes.h"

#include <errno.h>
#include <string.h>

#define PIECE 65536 /* bytes per call of sink */

#ifdef HAVE_ZLIB

#include <zlib.h>

int bytes_read(const struct zr_host *h, const char *name, bytes_sink *sink, void *arg)
{
	uint8_t piece[PIECE];
	gzFile f = gzopen(name, "rbe");
	int n, rc = ZR_OK, code;
	if (!f)
		return zr_fail(h, ZR_EINVAL, "%s: %s", name, errno ? strerror(errno) : "no memory");
	/* zlib reads anything else as it is, also what only claims to be compressed */
	const char *dot = strrchr(name, '.');
	if (dot && !strcmp(dot, ".gz") && gzdirect(f))
		rc = zr_fail(h, ZR_EINVAL, "%s: is not a gzip file, though its name ends in .gz; decompress or rename it", name);
	while (!rc && (n = gzread(f, piece, sizeof piece)) != 0) {
		if (n < 0)
			rc = zr_fail(h, ZR_EIO, "%s", gzerror(f, &code)); /* has the name */
		else
			rc = sink(arg, piece, n);
	}
	code = gzclose_r(f);
	if (!rc && code == Z_BUF_ERROR)
		return zr_fail(h, ZR_EINVAL, "%s: the compressed file is truncated", name);
	if (!rc && code != Z_OK)
		return zr_fail(h, ZR_EIO, "%s: read error", name);
	return rc;
}

#else

#include <stdio.h>

int bytes_read(const struct zr_host *h, const char *name, bytes_sink *sink, void *arg)
{
	uint8_t piece[PIECE];
	FILE *f = fopen(name, "rbe");
	int rc = ZR_OK, first = 1;
	size_t n;
	if (!f)
		return zr_fail(h, ZR_EINVAL, "%s: %s", name, strerror(errno));
	while (!rc && (n = fread(piece, 1, sizeof piece, f)) > 0) {
		if (first && n > 1 && piece[0] == 0x1f && piece[1] == 0x8b)
			rc = zr_fail(h, ZR_ENOTSUP,
				     "%s: is compressed and this build has no zlib: gunzip it, or install zlib1g-dev and "
				     "configure and build again", name);
		else
			rc = sink(arg, piece, (int64_t)n);
		first = 0;
	}
	if (!rc && ferror(f))
		rc = zr_fail(h, ZR_EIO, "%s: %s", name, strerror(errno));
	fclose(f);
	return rc;
}

#endif
