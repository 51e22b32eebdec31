/* SPDX-License-Identifier: Apache-2.0
 *
 * zip.c - see zip.h.
 */
#include "files/torch/zip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

#define END_BYTES      22 /* of the record at the end, without its comment */
#define LOCATOR_BYTES  20 /* of what is before it with 64 bits: where END64 is */
#define END64_BYTES    56
#define ENTRY_BYTES    46 /* of an entry of the directory, without its name */
#define LOCAL_BYTES    30 /* of what is before each file, likewise */
#define DIRECTORY_MOST (256u << 20)
#define NOT_IN_32_BITS 0xffffffffu
#define NOT_IN_16_BITS 0xffffu
#define EXTRA_64_BITS  1
#define SIGN_END       0x06054b50u
#define SIGN_LOCATOR   0x07064b50u
#define SIGN_END64     0x06064b50u
#define SIGN_ENTRY     0x02014b50u
#define SIGN_LOCAL     0x04034b50u

struct archive {
	int fd;
	uint64_t from, bytes;
	const char *path;
	uint64_t directory, directory_bytes, files; /* directory: from the archive's start */
};

static uint64_t number(const unsigned char *p, int bytes)
{
	uint64_t v = 0;
	for (int i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

static int refuse(const struct archive *a, const char *what, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL, "%s: not a file of torch.save: %s", a->path, what);
}

static int read_at(const struct archive *a, uint64_t at, void *to, size_t n, struct zr_error *err)
{
	if (at > a->bytes || n > a->bytes - at)
		return refuse(a, "it ends too early", err);
	if (zr_read_all_at(a->fd, to, n, a->from + at))
		return zr_file_failed(err, a->path, "read", errno);

	return 0;
}

/* The sizes of an archive that is too large for 32 bits. at: where its end record is. */
static int read_end64(struct archive *a, uint64_t at, struct zr_error *err)
{
	unsigned char p[END64_BYTES];

	if (at < LOCATOR_BYTES)
		return refuse(a, "its end says nothing of its sizes", err);
	int rc = read_at(a, at - LOCATOR_BYTES, p, LOCATOR_BYTES, err);
	if (!rc && number(p, 4) != SIGN_LOCATOR)
		rc = refuse(a, "its end says nothing of its sizes", err);
	if (!rc)
		rc = read_at(a, number(p + 8, 8), p, END64_BYTES, err);
	if (!rc && number(p, 4) != SIGN_END64)
		rc = refuse(a, "its end is damaged", err);
	if (rc)
		return rc;

	a->files = number(p + 32, 8);
	a->directory_bytes = number(p + 40, 8);
	a->directory = number(p + 48, 8);
	return 0;
}

/* torch.save writes no comment behind the end. */
static int read_end(struct archive *a, struct zr_error *err)
{
	unsigned char p[END_BYTES];

	if (a->bytes < END_BYTES)
		return refuse(a, "it is too short", err);
	int rc = read_at(a, a->bytes - END_BYTES, p, END_BYTES, err);
	if (!rc && number(p, 4) != SIGN_END)
		rc = refuse(a, "it has no end record: it is cut off, or written before PyTorch 1.6",
			    err);
	if (rc)
		return rc;

	a->files = number(p + 10, 2);
	a->directory_bytes = number(p + 12, 4);
	a->directory = number(p + 16, 4);
	if (a->files == NOT_IN_16_BITS || a->directory_bytes == NOT_IN_32_BITS ||
	    a->directory == NOT_IN_32_BITS)
		return read_end64(a, a->bytes - END_BYTES, err);
	return 0;
}

/* What an entry has in 64 bits, in this order, where 32 do not suffice. */
static int read_extra(const struct archive *a, const unsigned char *p, size_t n, uint64_t *size[3],
		      struct zr_error *err)
{
	while (n >= 4) {
		const uint64_t id = number(p, 2);
		uint64_t bytes = number(p + 2, 2);
		p += 4;
		n -= 4;
		if (bytes > n)
			return refuse(a, "an entry of its directory is damaged", err);

		const unsigned char *at = p;
		p += bytes;
		n -= bytes;
		for (int i = 0; id == EXTRA_64_BITS && i < 3; i++) {
			if (*size[i] != NOT_IN_32_BITS)
				continue;
			if (bytes < 8)
				return refuse(a, "an entry of its directory is damaged", err);

			*size[i] = number(at, 8);
			at += 8;
			bytes -= 8;
		}
	}

	return 0;
}

/* From the place of an entry's local header to that of its data. */
static int find_data(const struct archive *a, struct zr_zip_file *f, uint64_t local,
		     struct zr_error *err)
{
	unsigned char p[LOCAL_BYTES];
	int rc = read_at(a, local, p, LOCAL_BYTES, err);
	if (!rc && number(p, 4) != SIGN_LOCAL)
		rc = refuse(a, "a file is not where its directory says", err);
	if (rc)
		return rc;

	f->at = local + LOCAL_BYTES + number(p + 26, 2) + number(p + 28, 2);
	if (f->at > a->bytes || f->bytes > a->bytes - f->at)
		return refuse(a, "a file ends behind it", err);

	f->at += a->from;
	return 0;
}

/* One entry of the directory, which takes *taken of the `left` ones at p. */
static int read_entry(const struct archive *a, const unsigned char *p, size_t left,
		      struct zr_zip_file *f, size_t *taken, struct zr_error *err)
{
	if (left < ENTRY_BYTES || number(p, 4) != SIGN_ENTRY)
		return refuse(a, "an entry of its directory is damaged", err);

	const size_t name = number(p + 28, 2), extra = number(p + 30, 2),
		     comment = number(p + 32, 2);
	uint64_t packed = number(p + 20, 4), bytes = number(p + 24, 4), local = number(p + 42, 4);
	uint64_t *size[3] = { &bytes, &packed, &local };

	*taken = ENTRY_BYTES + name + extra + comment;
	if (*taken > left)
		return refuse(a, "an entry of its directory is damaged", err);

	int rc = read_extra(a, p + ENTRY_BYTES + name, extra, size, err);
	if (rc)
		return rc;
	if (number(p + 10, 2) || packed != bytes)
		return refuse(a, "a file in it is compressed", err);

	f->name = strndup((const char *)p + ENTRY_BYTES, name);
	f->bytes = bytes;
	if (!f->name)
		return zr_no_memory(err);
	return find_data(a, f, local, err);
}

static int read_directory(const struct archive *a, const unsigned char *p, struct zr_zip *out,
			  struct zr_error *err)
{
	size_t at = 0, taken = 0;
	int rc = 0;

	for (uint64_t i = 0; !rc && i < a->files; i++) {
		rc = read_entry(a, p + at, a->directory_bytes - at, &out->file[i], &taken, err);
		out->n++;
		at += taken;
	}

	return rc;
}

int zr_zip_open(int fd, uint64_t from, uint64_t bytes, const char *path, struct zr_zip *out,
		struct zr_error *err)
{
	struct archive a = { .fd = fd, .from = from, .bytes = bytes, .path = path };
	unsigned char *p = NULL;

	*out = (struct zr_zip){ 0 };
	int rc = read_end(&a, err);
	if (!rc &&
	    (a.directory_bytes > DIRECTORY_MOST || a.files > a.directory_bytes / ENTRY_BYTES))
		rc = refuse(&a, "its directory is too large", err);
	if (rc)
		return rc;

	p = malloc(a.directory_bytes + 1);
	out->file = calloc(a.files + 1, sizeof *out->file);
	if (!p || !out->file)
		rc = zr_no_memory(err);
	if (!rc)
		rc = read_at(&a, a.directory, p, a.directory_bytes, err);
	if (!rc)
		rc = read_directory(&a, p, out, err);
	free(p);
	if (rc)
		zr_zip_close(out);
	return rc;
}

void zr_zip_close(struct zr_zip *z)
{
	for (int64_t i = 0; i < z->n; i++)
		free(z->file[i].name);
	free(z->file);
	*z = (struct zr_zip){ 0 };
}

const struct zr_zip_file *zr_zip_find(const struct zr_zip *z, const char *name)
{
	for (int64_t i = 0; i < z->n; i++) {
		const char *in = strchr(z->file[i].name, '/');
		if (in && !strcmp(in + 1, name))
			return &z->file[i];
	}

	return NULL;
}
