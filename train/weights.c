/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.c - see weights.h.
 */
#include "train/weights.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/json.h"
#include "files/safetensors.h"
#include "files/pretrained/tensors.h"
#include "train/adapter.h"

static json_t *metadata(const struct zr_model_decl *d)
{
	json_t *meta = json_pack("{s:s}", "format", "pt");
	for (const char *const *m = d->meta; m && m[0] && m[1]; m += 2)
		zr_json_put(&meta, m[0], zr_json_string(m[1], "(not UTF-8)"));
	return meta;
}

/* A file that is written. */
struct saving {
	struct zr_st_writer w;
	const struct zr_layout *layout;
	int of_adapter; /* what it added, and what it does not freeze, alone */
	const char *prefix;
	char head[256]; /* the name of a copy of tensor `copied`, which is the last one */
	int32_t copied; /* -1: there is none */
	int copying;
};

static int is_left_out(const struct saving *v, int64_t tensor)
{
	if (v->copying)
		return tensor != v->copied;

	return v->of_adapter && v->layout->tensor[tensor].flags & ZR_TENSOR_FROZEN;
}

static int create(const struct zr_setup *s, const char *path, struct saving *v,
		  struct zr_error *err)
{
	const struct zr_layout *l = v->layout;
	const size_t room = strlen(v->prefix) + 256;
	struct zr_st_tensor *t = malloc(((size_t)l->n_tensors + 2) * sizeof *t);
	char *name = malloc(((size_t)l->n_tensors + 1) * room);
	json_t *meta = metadata(&s->facts.decl);
	uint64_t at = 0;
	int32_t n = 0;

	for (int32_t i = 0; t && name && i < l->n_tensors; i++) {
		const struct zr_tensor *d = l->tensor[i].decl;
		char *called = name + (size_t)n * room;
		if (is_left_out(v, i))
			continue;

		snprintf(called, room, "%s%s", v->prefix, d->name);
		t[n++] = zr_st_make(called, ZR_F32, d->ndim, d->dims, at);
		at += t[n - 1].bytes;
	}

	v->copied = v->of_adapter ? zr_adapter_head(s, v->head, sizeof v->head) : -1;
	if (t && v->copied >= 0) {
		const struct zr_tensor *d = l->tensor[v->copied].decl;
		t[n++] = zr_st_make(v->head, ZR_F32, d->ndim, d->dims, at);
	}

	int rc;
	if (t && name && meta)
		rc = zr_st_create(&v->w, path, t, n, meta, err);
	else
		rc = zr_no_memory(err);
	json_decref(meta);
	free(name);
	free(t);
	return rc;
}

static int write_values(void *arg, const struct zr_place *t, int64_t first, int64_t n,
			const float *x)
{
	struct saving *v = arg;
	(void)first;
	if (!is_left_out(v, t - v->layout->tensor))
		zr_st_append(&v->w, x, (size_t)n * sizeof *x);
	return 0;
}

/* All ranks give their values as often as rank 0 writes some. */
static int give_values(struct zr_session *s, const struct saving *v, struct zr_error *err)
{
	char unused[256];
	int rc = zr_session_masters(s, NULL, NULL, err);

	if (!rc && v->of_adapter && zr_adapter_head(s->setup, unused, sizeof unused) >= 0)
		rc = zr_session_masters(s, NULL, NULL, err);
	return rc;
}

static int save(struct zr_session *s, const char *path, struct saving *v, struct zr_error *err)
{
	v->layout = &s->setup->facts.layout;
	if (s->setup->facts.process.rank)
		return give_values(s, v, err);

	int rc = create(s->setup, path, v, err);
	if (rc)
		return rc;

	rc = zr_session_masters(s, write_values, v, err);
	v->copying = 1;
	if (!rc && v->copied >= 0)
		rc = zr_session_masters(s, write_values, v, err);
	int end = zr_st_finish(&v->w, !rc, err);
	if (rc)
		return rc;
	return end;
}

int zr_weights_save(struct zr_session *s, const char *path, struct zr_error *err)
{
	struct saving v = { .prefix = "" };
	return save(s, path, &v, err);
}

int zr_weights_save_adapter(struct zr_session *s, const char *path, const char *prefix,
			    struct zr_error *err)
{
	struct saving v = { .prefix = prefix, .of_adapter = 1 };
	return save(s, path, &v, err);
}

#define CHUNK (1 << 20) /* values that are copied at a time */

/* The values of a tensor that is not left out; x: room for CHUNK of them. */
static int append(struct saving *v, int32_t tensor, zr_values_fn *fn, void *arg, float *x,
		  struct zr_error *err)
{
	const int64_t all = is_left_out(v, tensor) ? 0 : v->layout->tensor[tensor].elements;
	int rc = 0;

	for (int64_t at = 0, n; !rc && at < all; at += n) {
		n = all - at < CHUNK ? all - at : CHUNK;
		rc = fn(arg, tensor, at, n, x, err);
		zr_st_append(&v->w, x, rc ? 0 : (size_t)n * sizeof *x);
	}

	return rc;
}

int zr_weights_write_adapter(const struct zr_setup *s, const char *path, const char *prefix,
			     zr_values_fn *fn, void *arg, struct zr_error *err)
{
	struct saving v = { .layout = &s->facts.layout, .prefix = prefix, .of_adapter = 1 };
	float *x = malloc(CHUNK * sizeof *x);

	int rc;
	if (x)
		rc = create(s, path, &v, err);
	else
		rc = zr_no_memory(err);
	if (!rc) {
		for (int32_t i = 0; !rc && i < s->facts.layout.n_tensors; i++)
			rc = append(&v, i, fn, arg, x, err);
		v.copying = 1;
		if (!rc && v.copied >= 0)
			rc = append(&v, v.copied, fn, arg, x, err);

		int end = zr_st_finish(&v.w, !rc, err);
		if (!rc)
			rc = end;
	}

	free(x);
	return rc;
}

int zr_weights_load(struct zr_session *s, const char *path, struct zr_error *err)
{
	struct zr_tensor_files *f = NULL;

	int rc = zr_tensor_files_open(path, &s->setup->facts.layout, ZR_FILES_WHOLE, "", "", &f,
				      err);
	if (!rc)
		rc = zr_session_fill(s, zr_tensor_files_read, f, err);
	zr_tensor_files_close(f);
	return rc;
}

static int digest_values(void *arg, const struct zr_place *t, int64_t first, int64_t n,
			 const float *x)
{
	(void)t, (void)first;
	XXH3_64bits_update(arg, x, (size_t)n * sizeof *x);
	return 0;
}

int zr_weights_digest(struct zr_session *s, uint64_t *digest, struct zr_error *err)
{
	XXH3_state_t *x = XXH3_createState();
	if (!x)
		return zr_no_memory(err);

	XXH3_64bits_reset(x);
	int rc = zr_session_masters(s, digest_values, x, err);
	*digest = XXH3_64bits_digest(x);
	XXH3_freeState(x);
	return rc;
}
