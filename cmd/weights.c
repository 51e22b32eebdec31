/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.c - see weights.h.
 */
#define _GNU_SOURCE
#include "cmd/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define HEADER_MAX (64u << 20)

static json_t *metadata(const struct zr_model_decl *d)
{
	json_t *meta = json_pack("{s:s}", "format", "pt");
	for (const char *const *m = d->meta; m && m[0] && m[1]; m += 2)
		json_object_set_new(meta, m[0], json_string(m[1]));
	return meta;
}

/* The JSON header, padded with blanks so that the data starts at a multiple of 8. Returned owned. */
static char *make_header(const struct zr_session *s, size_t *len)
{
	const struct zr_layout *l = &s->setup->layout;
	json_t *root = json_object();
	int64_t at = 0;
	json_object_set_new(root, "__metadata__", metadata(&s->setup->decl));
	for (int32_t i = 0; i < l->n_tensors; i++) {
		const struct zr_place *t = &l->tensor[i];
		json_t *shape = json_array();
		for (int d = 0; d < t->decl->ndim; d++)
			json_array_append_new(shape, json_integer(t->decl->dims[d]));
		json_object_set_new(root, t->decl->name,
				    json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
					      (json_int_t)at, (json_int_t)(at + t->elements * 4)));
		at += t->elements * 4;
	}
	char *text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	if (!text)
		return NULL;
	size_t n = strlen(text), padded = (n + 7) / 8 * 8;
	char *out = realloc(text, padded + 1);
	if (!out) {
		free(text);
		return NULL;
	}
	memset(out + n, ' ', padded - n);
	*len = padded;
	return out;
}

static int write_header(FILE *f, const struct zr_session *s)
{
	size_t len;
	char *header = make_header(s, &len);
	if (!header)
		return -1;
	uint64_t n = len; /* little-endian hosts only, as the format */
	int ok = fwrite(&n, sizeof n, 1, f) == 1 && fwrite(header, 1, len, f) == len;
	free(header);
	return ok ? 0 : -1;
}

/* A failing write must not keep this rank from the collectives: it is remembered, and told at the end. */
struct writer {
	FILE *f;
	int failed; /* errno */
};

static int write_values(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	struct writer *w = arg;
	(void)t, (void)first;
	if (!w->failed && fwrite(x, sizeof *x, (size_t)n, w->f) != (size_t)n)
		w->failed = errno ? errno : EIO;
	return 0;
}

static int save_here(struct zr_session *s, const char *path, struct zr_error *err)
{
	char tmp[PATH_MAX];
	snprintf(tmp, sizeof tmp, "%s.tmp", path);
	struct writer w = { .f = fopen(tmp, "we") };
	if (!w.f)
		return zr_err(err, ZR_EIO, "%s: cannot write: %s", tmp, strerror(errno));
	if (write_header(w.f, s))
		w.failed = errno ? errno : EIO;
	int rc = zr_session_masters(s, write_values, &w, err);
	if (!w.failed && (fflush(w.f) || fsync(fileno(w.f))))
		w.failed = errno;
	if (fclose(w.f) && !w.failed)
		w.failed = errno;
	if (!rc && !w.failed && rename(tmp, path))
		w.failed = errno;
	if (rc || w.failed)
		unlink(tmp);
	return rc || !w.failed ? rc : zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(w.failed));
}

int zr_weights_save(struct zr_session *s, const char *path, struct zr_error *err)
{
	return s->setup->process.rank ? zr_session_masters(s, NULL, NULL, err) : save_here(s, path, err);
}

/* Reads and parses the header; *data is the file offset of the first tensor byte. */
static json_t *read_header(FILE *f, const char *path, uint64_t *data, struct zr_error *err)
{
	uint64_t n;
	json_error_t why;
	if (fread(&n, sizeof n, 1, f) != 1 || n < 2 || n > HEADER_MAX) {
		zr_err(err, ZR_EINVAL, "%s: not a safetensors file", path);
		return NULL;
	}
	char *text = malloc(n);
	json_t *root = NULL;
	if (!text || fread(text, 1, n, f) != n)
		zr_err(err, ZR_EINVAL, "%s: truncated safetensors header", path);
	else if (!(root = json_loadb(text, n, 0, &why)) || !json_is_object(root))
		zr_err(err, ZR_EINVAL, "%s: safetensors header is not a JSON object", path);
	free(text);
	if (root && !json_is_object(root)) {
		json_decref(root);
		root = NULL;
	}
	*data = 8 + n;
	return root;
}

static int same_shape(const json_t *shape, const struct zr_tensor *t)
{
	if ((int)json_array_size(shape) != t->ndim)
		return 0;
	for (int d = 0; d < t->ndim; d++)
		if (json_integer_value(json_array_get(shape, (size_t)d)) != t->dims[d])
			return 0;
	return 1;
}

struct reader {
	const struct zr_session *s;
	FILE *f;
	const char *path;
	const json_t *root;
	uint64_t data;
};

/* Whether tensor i is there as the model wants it. */
static int check_tensor(const struct reader *r, int32_t i, struct zr_error *err)
{
	const struct zr_place *t = &r->s->setup->layout.tensor[i];
	const json_t *e = json_object_get(r->root, t->decl->name);
	const char *dtype = json_string_value(json_object_get(e, "dtype"));
	if (!e)
		return zr_err(err, ZR_EINVAL, "%s: tensor %s is missing", r->path, t->decl->name);
	if (!dtype || strcmp(dtype, "F32"))
		return zr_err(err, ZR_EINVAL, "%s: tensor %s has type %s, expected F32", r->path, t->decl->name, dtype ? dtype : "?");
	if (!same_shape(json_object_get(e, "shape"), t->decl))
		return zr_err(err, ZR_EINVAL, "%s: tensor %s has another shape than the model's config says", r->path, t->decl->name);
	return 0;
}

static int read_values(void *arg, int32_t i, int64_t first, int64_t n, float *x, struct zr_error *err)
{
	const struct reader *r = arg;
	const char *name = r->s->setup->layout.tensor[i].decl->name;
	json_int_t at = json_integer_value(json_array_get(json_object_get(json_object_get(r->root, name), "data_offsets"), 0));
	if (at < 0 || fseeko(r->f, (off_t)(r->data + (uint64_t)at + (uint64_t)first * sizeof *x), SEEK_SET) ||
	    fread(x, sizeof *x, (size_t)n, r->f) != (size_t)n)
		return zr_err(err, ZR_EINVAL, "%s: truncated at tensor %s", r->path, name);
	return 0;
}

int zr_weights_load(struct zr_session *s, const char *path, struct zr_error *err)
{
	struct reader r = { .s = s, .path = path, .f = fopen(path, "re") };
	if (!r.f)
		return zr_err(err, ZR_EINVAL, "%s: %s", path, strerror(errno));
	json_t *root = read_header(r.f, path, &r.data, err);
	int rc = root ? 0 : ZR_EINVAL;
	r.root = root;
	for (int32_t i = 0; !rc && i < s->setup->layout.n_tensors; i++)
		rc = check_tensor(&r, i, err);
	if (!rc)
		rc = zr_session_fill(s, read_values, &r, err);
	json_decref(root);
	fclose(r.f);
	return rc;
}

static int digest_values(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	(void)t, (void)first;
	XXH3_64bits_update(arg, x, (size_t)n * sizeof *x);
	return 0;
}

int zr_weights_digest(struct zr_session *s, uint64_t *digest, struct zr_error *err)
{
	XXH3_state_t *x = XXH3_createState();
	if (!x)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	XXH3_64bits_reset(x);
	int rc = zr_session_masters(s, digest_values, x, err);
	*digest = XXH3_64bits_digest(x);
	XXH3_freeState(x);
	return rc;
}
