/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.c - see weights.h.
 */
#include "cmd/weights.h"

#include <stdlib.h>
#include <xxhash.h>

#include "core/checkpoint/safetensors.h"

static json_t *metadata(const struct zr_model_decl *d)
{
	json_t *meta = json_pack("{s:s}", "format", "pt");
	for (const char *const *m = d->meta; m && m[0] && m[1]; m += 2)
		json_object_set_new(meta, m[0], json_string(m[1]));
	return meta;
}

static int create(const struct zr_session *s, const char *path, struct zr_st_writer *w, struct zr_error *err)
{
	const struct zr_layout *l = &s->setup->layout;
	struct zr_st_tensor *t = malloc(((size_t)l->n_tensors + 1) * sizeof *t);
	json_t *meta = metadata(&s->setup->decl);
	uint64_t at = 0;
	for (int32_t i = 0; t && i < l->n_tensors; i++) {
		const struct zr_tensor *d = l->tensor[i].decl;
		t[i] = zr_st_make(d->name, ZR_F32, d->ndim, d->dims, at);
		at += t[i].bytes;
	}
	int rc = t ? zr_st_create(w, path, t, l->n_tensors, meta, err) : zr_err(err, ZR_ENOMEM, "out of memory");
	json_decref(meta);
	free(t);
	return rc;
}

static int write_values(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	(void)t, (void)first;
	zr_st_append(arg, x, (size_t)n * sizeof *x);
	return 0;
}

int zr_weights_save(struct zr_session *s, const char *path, struct zr_error *err)
{
	struct zr_st_writer w;
	if (s->setup->process.rank)
		return zr_session_masters(s, NULL, NULL, err);
	int rc = create(s, path, &w, err);
	if (rc)
		return rc;
	rc = zr_session_masters(s, write_values, &w, err);
	int end = zr_st_finish(&w, !rc, err);
	return rc ? rc : end;
}

/* Whether a tensor is there as the model wants it. */
static int check_tensor(const struct zr_st *st, const struct zr_tensor *want, struct zr_error *err)
{
	const struct zr_st_tensor *t = zr_st_find(st, want->name);
	const char *type = t ? zr_st_type(t->dtype) : NULL;
	if (!t)
		return zr_err(err, ZR_EINVAL, "%s: tensor %s is missing", st->path, want->name);
	if (t->dtype != ZR_F32)
		return zr_err(err, ZR_EINVAL, "%s: tensor %s has type %s, expected F32", st->path, want->name, type ? type : "?");
	int same = t->ndim == want->ndim;
	for (int32_t d = 0; same && d < t->ndim; d++)
		same = t->dims[d] == want->dims[d];
	return same ? 0 : zr_err(err, ZR_EINVAL, "%s: tensor %s has another shape than the model's config says", st->path, want->name);
}

struct reader {
	const struct zr_layout *layout;
	struct zr_st st;
};

static int read_values(void *arg, int32_t i, int64_t first, int64_t n, float *x, struct zr_error *err)
{
	const struct reader *r = arg;
	const struct zr_st_tensor *t = zr_st_find(&r->st, r->layout->tensor[i].decl->name);
	return zr_st_read(&r->st, t, (uint64_t)first * sizeof *x, (uint64_t)n * sizeof *x, x, err);
}

int zr_weights_load(struct zr_session *s, const char *path, struct zr_error *err)
{
	struct reader r = { .layout = &s->setup->layout };
	int rc = zr_st_open(path, &r.st, err);
	if (rc)
		return rc;
	for (int32_t i = 0; !rc && i < r.layout->n_tensors; i++)
		rc = check_tensor(&r.st, r.layout->tensor[i].decl, err);
	if (!rc)
		rc = zr_session_fill(s, read_values, &r, err);
	zr_st_close(&r.st);
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
