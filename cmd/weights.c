/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.c - see weights.h.
 */
#include "cmd/weights.h"

#include <stdlib.h>
#include <xxhash.h>

#include "core/files/json.h"
#include "core/log.h"
#include "core/pretrained/pretrained.h"
#include "files/safetensors.h"
#include "files/pretrained/tensors.h"

static json_t *metadata(const struct zr_model_decl *d)
{
	json_t *meta = json_pack("{s:s}", "format", "pt");
	for (const char *const *m = d->meta; m && m[0] && m[1]; m += 2)
		zr_json_put(&meta, m[0], zr_json_string(m[1], "(not UTF-8)"));
	return meta;
}

static int create(const struct zr_session *s, const char *path, struct zr_st_writer *w,
		  struct zr_error *err)
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
	int rc = t && meta ? zr_st_create(w, path, t, l->n_tensors, meta, err) :
			     zr_err(err, ZR_ENOMEM, "out of memory");
	json_decref(meta);
	free(t);
	return rc;
}

static int write_values(void *arg, const struct zr_place *t, int64_t first, int64_t n,
			const float *x)
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

int zr_weights_load(struct zr_session *s, const char *path, struct zr_error *err)
{
	struct zr_tensor_files *f = NULL;
	int rc = zr_tensor_files_open(path, &s->setup->layout, "", "", &f, err);
	if (!rc)
		rc = zr_session_fill(s, zr_tensor_files_read, f, err);
	zr_tensor_files_close(f);
	return rc;
}

static int begin_with(struct zr_session *s, const struct zr_model_json *config,
		      struct zr_error *err)
{
	const struct zr_section *model = s->setup->model.section;
	const struct zr_pretrained_v1 *v;
	struct zr_tensor_files *f = NULL;
	char unknown[400], named[400];
	int rc = zr_pretrained_tables(config, model->plugin, &v, err);
	if (rc)
		return rc;
	zr_pretrained_unknown(config, v, unknown, sizeof unknown);
	if (*unknown && s->setup->process.rank == 0)
		zr_logf(ZR_LOG_WARN, "model", "%s: %s does not know and leaves alone: %s",
			config->path, model->plugin->desc->id, unknown);
	zr_pretrained_named(config, v, model, named, sizeof named);
	if (*named && s->setup->process.rank == 0)
		zr_logf(ZR_LOG_INFO, "model", "%s: not followed: %s", config->path, named);
	rc = zr_tensor_files_open(model->path, &s->setup->layout, v->prefix, v->ignored, &f, err);
	if (!rc)
		rc = zr_session_begin(s, zr_tensor_files_read, f, err);
	zr_tensor_files_close(f);
	return rc;
}

int zr_weights_begin(struct zr_session *s, struct zr_error *err)
{
	const struct zr_model_json *config = zr_config_model_json(s->setup->cfg);
	return config ? begin_with(s, config, err) : zr_session_init(s, err);
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
		return zr_err(err, ZR_ENOMEM, "out of memory");
	XXH3_64bits_reset(x);
	int rc = zr_session_masters(s, digest_values, x, err);
	*digest = XXH3_64bits_digest(x);
	XXH3_freeState(x);
	return rc;
}
