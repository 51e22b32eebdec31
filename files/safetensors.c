/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.c - see safetensors.h: reading.
 */
#include "files/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/json.h"

struct zr_st_tensor zr_st_make(const char *name, int32_t dtype, int32_t ndim, const int64_t *dims,
			       uint64_t at)
{
	struct zr_st_tensor t = {
		.name = name, .dtype = dtype, .ndim = ndim, .elements = 1, .at = at
	};

	for (int32_t d = 0; d < ndim; d++) {
		t.dims[d] = dims[d];
		t.elements *= dims[d];
	}

	t.bytes = (uint64_t)(t.elements * zr_dtype_bytes(dtype));
	return t;
}

/* ---- the header ---- */

static int bad(const struct zr_st *st, struct zr_error *err, const char *name, const char *what)
{
	return zr_err(err, ZR_EINVAL, "%s: tensor %s: %s", st->path, name, what);
}

/* A whole number that is not negative; -1: it is something else. */
static int64_t count_of(const json_t *j)
{
	if (json_is_integer(j) && json_integer_value(j) >= 0)
		return (int64_t)json_integer_value(j);

	return -1;
}

static int read_shape(const struct zr_st *st, struct zr_st_tensor *t, const json_t *shape,
		      struct zr_error *err)
{
	if (!json_is_array(shape) || json_array_size(shape) > ZR_ST_DIMS)
		return bad(st, err, t->name, "no shape of at most 8 dimensions");

	t->ndim = (int32_t)json_array_size(shape);
	t->elements = 1;
	for (int32_t d = 0; d < t->ndim; d++) {
		t->dims[d] = count_of(json_array_get(shape, (size_t)d));
		if (t->dims[d] < 0 || __builtin_mul_overflow(t->elements, t->dims[d], &t->elements))
			return bad(st, err, t->name, "an impossible shape");
	}

	return 0;
}

static int read_tensor(const struct zr_st *st, struct zr_st_tensor *t, const json_t *e,
		       struct zr_error *err)
{
	const json_t *offsets = json_object_get(e, "data_offsets");
	const struct zr_dtype *type =
		zr_dtype_find(0, json_string_value(json_object_get(e, "dtype")));
	int64_t from = count_of(json_array_get(offsets, 0)),
		to = count_of(json_array_get(offsets, 1)), bytes;

	if (!type->name)
		return bad(st, err, t->name, "an unknown dtype");

	t->dtype = type->id;
	if (json_array_size(offsets) != 2 || from < 0 || to < from ||
	    (uint64_t)to > st->bytes - st->data)
		return bad(st, err, t->name,
			   "a place outside the file, which may have been cut short");

	int rc = read_shape(st, t, json_object_get(e, "shape"), err);
	if (rc)
		return rc;
	if (__builtin_mul_overflow(t->elements, (int64_t)type->bytes, &bytes) || bytes != to - from)
		return bad(st, err, t->name, "its shape is not as large as its place");

	t->at = (uint64_t)from;
	t->bytes = (uint64_t)bytes;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct zr_st_tensor *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;

	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct zr_st_tensor *)a)->name,
		      ((const struct zr_st_tensor *)b)->name);
}

/* Between them the tensors have all of the data. */
static int check_places(struct zr_st *st, struct zr_error *err)
{
	uint64_t end = 0;

	qsort(st->tensor, (size_t)st->n, sizeof *st->tensor, by_place);
	for (int64_t i = 0; i < st->n; i++) {
		if (st->tensor[i].at != end)
			return bad(st, err, st->tensor[i].name, "a gap or an overlap before it");

		end += st->tensor[i].bytes;
	}

	if (end != st->bytes - st->data)
		return zr_err(err, ZR_EINVAL,
			      "%s: %llu bytes of data, but the header has tensors of %llu",
			      st->path, (unsigned long long)(st->bytes - st->data),
			      (unsigned long long)end);

	qsort(st->tensor, (size_t)st->n, sizeof *st->tensor, by_name);
	return 0;
}

static int read_tensors(struct zr_st *st, struct zr_error *err)
{
	const char *name;
	json_t *e;
	int rc = 0;

	st->tensor = calloc(json_object_size(st->root) + 1, sizeof *st->tensor);
	if (!st->tensor)
		return zr_err(err, ZR_ENOMEM, "%s: out of memory", st->path);

	json_object_foreach(st->root, name, e)
	{
		if (!strcmp(name, "__metadata__"))
			continue;

		st->tensor[st->n].name = name;
		rc = read_tensor(st, &st->tensor[st->n++], e, err);
		if (rc)
			return rc;
	}

	return check_places(st, err);
}

/* Reads the length of the header. */
static int read_length(const struct zr_st *st, uint64_t *n, struct zr_error *err)
{
	int no = zr_read_all_at(st->fd, n, sizeof *n, 0);
	if (no && no != ENODATA)
		return zr_err(err, ZR_EIO, "%s: cannot read: %s", st->path, strerror(no));
	if (no || *n < 2 || *n > ZR_ST_HEADER_MAX)
		return zr_err(err, ZR_EINVAL, "%s: not a safetensors file", st->path);
	if (*n > st->bytes - sizeof *n)
		return zr_err(err, ZR_EINVAL, "%s: cut short in its header", st->path);

	return 0;
}

static int read_header(struct zr_st *st, struct zr_error *err)
{
	uint64_t n = 0;
	int rc = read_length(st, &n, err);
	if (rc)
		return rc;

	char *text = malloc(sizeof n + n);
	if (!text)
		return zr_err(err, ZR_ENOMEM, "%s: out of memory for a header of %llu bytes",
			      st->path, (unsigned long long)n);

	int no = zr_read_all_at(st->fd, text, sizeof n + n, 0);
	if (no)
		rc = zr_file_failed(err, st->path, "cannot read its header", no);
	else
		rc = zr_json_object(text + sizeof n, n, st->path, &st->root, err);
	if (!rc)
		st->hash = XXH3_64bits(text, sizeof n + n);
	st->data = sizeof n + n;
	free(text);
	if (!rc)
		rc = read_tensors(st, err);

	return rc;
}

int zr_st_open_fd(int fd, const char *path, struct zr_st *out, struct zr_error *err)
{
	struct zr_st st = { .fd = fd };
	struct stat about = { 0 };
	int failed = fd < 0 || fstat(fd, &about) || !(st.path = strdup(path));

	st.bytes = (uint64_t)about.st_size;
	int rc;
	if (failed)
		rc = zr_file_failed(err, path, "", errno);
	else
		rc = read_header(&st, err);
	if (rc)
		zr_st_close(&st);
	else
		*out = st;

	return rc;
}

int zr_st_open(const char *path, struct zr_st *out, struct zr_error *err)
{
	return zr_st_open_fd(zr_file_open(AT_FDCWD, path, 1), path, out, err);
}

void zr_st_close(struct zr_st *st)
{
	if (st->fd >= 0)
		close(st->fd);
	free(st->tensor);
	json_decref(st->root);
	free(st->path);
	*st = (struct zr_st){ .fd = -1 };
}

const struct zr_st_tensor *zr_st_find(const struct zr_st *st, const char *name)
{
	struct zr_st_tensor key = { .name = name };
	return bsearch(&key, st->tensor, (size_t)st->n, sizeof key, by_name);
}

const char *zr_st_meta(const struct zr_st *st, const char *key)
{
	return json_string_value(json_object_get(json_object_get(st->root, "__metadata__"), key));
}

const char *zr_st_type(const struct zr_st *st, const struct zr_st_tensor *t)
{
	return json_string_value(json_object_get(json_object_get(st->root, t->name), "dtype"));
}

int zr_st_failed(const struct zr_st *st, const struct zr_st_tensor *t, int no, struct zr_error *err)
{
	if (no == ENODATA)
		return zr_err(err, ZR_EINVAL, "%s: cut short in tensor %s", st->path, t->name);
	return zr_err(err, ZR_EIO, "%s: cannot read tensor %s: %s", st->path, t->name,
		      strerror(no));
}

int zr_st_read(const struct zr_st *st, const struct zr_st_tensor *t, uint64_t from, uint64_t n,
	       void *to, struct zr_error *err)
{
	int no = zr_read_all_at(st->fd, to, n, st->data + t->at + from);
	if (no)
		return zr_st_failed(st, t, no, err);

	return 0;
}
