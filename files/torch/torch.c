/* SPDX-License-Identifier: Apache-2.0
 *
 * torch.c - see torch.h.
 */
#include "files/torch/torch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/dtype.h"
#include "core/base/file.h"
#include "files/pretrained/tensors.h"

#define PICKLE_MOST (256u << 20)

static int open_file(const char *path, struct zr_torch *t, struct zr_error *err)
{
	struct stat st;

	*t = (struct zr_torch){ .fd = zr_file_open(AT_FDCWD, path, 1) };
	if (t->fd < 0)
		return zr_file_failed(err, path, "opened", errno);
	if (fstat(t->fd, &st))
		return zr_file_failed(err, path, "looked at", errno);

	t->bytes = (uint64_t)st.st_size;
	t->path = strdup(path);
	if (!t->path)
		return zr_no_memory(err);
	return 0;
}

static int read_pickle(struct zr_torch *t, uint64_t at, uint64_t n, struct zr_error *err)
{
	if (n > PICKLE_MOST)
		return zr_err(err, ZR_EINVAL, "%s: a pickle of %llu bytes, more than %u", t->path,
			      (unsigned long long)n, PICKLE_MOST);

	void *bytes = malloc(n + 1);
	if (!bytes)
		return zr_no_memory(err);

	int rc = 0;
	if (zr_read_all_at(t->fd, bytes, n, at))
		rc = zr_file_failed(err, t->path, "read", errno);
	if (!rc)
		rc = zr_pickle_read(bytes, n, t->path, &t->pickle, &t->root, err);
	free(bytes);
	return rc;
}

static int check_order(const struct zr_torch *t, struct zr_error *err)
{
	static const char little[] = "little";
	const struct zr_zip_file *f = zr_zip_find(&t->zip, "byteorder");
	char text[sizeof little] = "";

	if (!f)
		return 0;
	if (f->bytes == sizeof little - 1 && !zr_read_all_at(t->fd, text, f->bytes, f->at) &&
	    !strcmp(text, little))
		return 0;
	return zr_err(err, ZR_EINVAL, "%s: its numbers are not little-endian", t->path);
}

static int read_archive(struct zr_torch *t, uint64_t from, uint64_t n, struct zr_error *err)
{
	int rc = zr_zip_open(t->fd, from, n, t->path, &t->zip, err);
	if (rc)
		return rc;

	const struct zr_zip_file *f = zr_zip_find(&t->zip, "data.pkl");
	if (!f)
		return zr_err(err, ZR_EINVAL, "%s: not a file of torch.save: it has no data.pkl",
			      t->path);

	rc = check_order(t, err);
	if (rc)
		return rc;
	return read_pickle(t, f->at, f->bytes, err);
}

int zr_torch_open_at(const char *path, uint64_t from, uint64_t bytes, struct zr_torch *out,
		     struct zr_error *err)
{
	int rc = open_file(path, out, err);
	if (!rc && (from > out->bytes || bytes > out->bytes - from))
		rc = zr_err(err, ZR_EINVAL, "%s: it is shorter than its metadata says", path);
	if (!rc)
		rc = read_archive(out, from, bytes, err);
	if (rc)
		zr_torch_close(out);
	return rc;
}

int zr_torch_open(const char *path, struct zr_torch *out, struct zr_error *err)
{
	int rc = open_file(path, out, err);
	if (!rc)
		rc = read_archive(out, 0, out->bytes, err);
	if (rc)
		zr_torch_close(out);
	return rc;
}

int zr_pickle_open(const char *path, struct zr_torch *out, struct zr_error *err)
{
	int rc = open_file(path, out, err);
	if (!rc)
		rc = read_pickle(out, 0, out->bytes, err);
	if (rc)
		zr_torch_close(out);
	return rc;
}

void zr_torch_close(struct zr_torch *t)
{
	zr_pickle_free(t->pickle);
	zr_zip_close(&t->zip);
	if (t->path || t->fd > 0)
		close(t->fd);
	free(t->path);
	*t = (struct zr_torch){ .fd = -1 };
}

int zr_torch_place(const struct zr_torch *t, const struct zr_py *x, const char *name, uint64_t *at,
		   struct zr_error *err)
{
	char file[160];
	uint64_t size, from, bytes;

	if (!x || x->kind != ZR_PY_TENSOR)
		return zr_err(err, ZR_EINVAL, "%s: %s: not a tensor", t->path, name);
	if (!x->dtype)
		return zr_err(err, ZR_EINVAL,
			      "%s: %s: a type of numbers that Zeroth has no use for", t->path,
			      name);
	if (!zr_py_in_a_row(x))
		return zr_err(err, ZR_EINVAL,
			      "%s: %s: its elements do not lie in a row: save it with "
			      ".contiguous()",
			      t->path, name);

	snprintf(file, sizeof file, "data/%.100s", x->storage->text);
	const struct zr_zip_file *f = zr_zip_find(&t->zip, file);
	size = (uint64_t)zr_dtype_bytes(x->dtype);
	if (!f || __builtin_mul_overflow((uint64_t)x->offset, size, &from) ||
	    __builtin_mul_overflow((uint64_t)x->elements, size, &bytes) || from > f->bytes ||
	    bytes > f->bytes - from)
		return zr_err(err, ZR_EINVAL, "%s: %s: its values are missing", t->path, name);

	*at = f->at + from;
	return 0;
}

static int widen(int32_t dtype, const void *p, double *out)
{
	union {
		float f;
		double d;
		int64_t l;
		int32_t i;
		uint16_t h;
	} v;
	float half;

	memcpy(&v, p, sizeof v);
	switch (dtype) {
	case ZR_F32:
		*out = (double)v.f;
		return 1;
	case ZR_F64:
		*out = v.d;
		return 1;
	case ZR_I64:
		*out = (double)v.l;
		return 1;
	case ZR_I32:
		*out = v.i;
		return 1;
	case ZR_F16:
		zr_widen_f16(&v.h, 1, &half);
		*out = (double)half;
		return 1;
	default:
		return 0;
	}
}

int zr_torch_number(const struct zr_torch *t, const struct zr_py *x, const char *name, double *out,
		    struct zr_error *err)
{
	char bytes[8] = { 0 };
	uint64_t at;

	if (zr_py_number(x, out))
		return 0;

	int rc = zr_torch_place(t, x, name, &at, err);
	if (!rc && x->elements != 1)
		rc = zr_err(err, ZR_EINVAL, "%s: %s: not one number", t->path, name);
	if (!rc && zr_read_all_at(t->fd, bytes, (size_t)zr_dtype_bytes(x->dtype), at))
		rc = zr_file_failed(err, t->path, "read", errno);
	if (!rc && !widen(x->dtype, bytes, out))
		rc = zr_err(err, ZR_EINVAL, "%s: %s: not a number", t->path, name);
	return rc;
}
