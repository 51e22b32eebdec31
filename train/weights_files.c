/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_files.c - see weights.h: the files of [model] path and [adapter] path.
 */
#include "train/weights.h"

#include "core/base/log.h"
#include "core/pretrained/pretrained.h"
#include "files/pretrained/tensors.h"
#include "files/tokenizer/tokenizer.h"
#include "train/adapter.h"

static int open_model(struct zr_setup *s, const struct zr_model_json *config,
		      struct zr_tensor_files **f, struct zr_error *err)
{
	const struct zr_section *model = s->roles.model.section;
	const struct zr_pretrained_v1 *v;
	char named[400];

	int rc = zr_pretrained_tables(config, model->plugin, &v, err);
	if (rc)
		return rc;
	if (config->head && s->facts.process.rank == 0)
		zr_logf(ZR_LOG_INFO, "model",
			"%s: tie_word_embeddings, but %s differs from the "
			"embedding: both are kept, as by transformers 5 (4 drops the first)",
			config->path, config->head);
	zr_pretrained_named(config, v, model, named, sizeof named);
	if (*named && s->facts.process.rank == 0)
		zr_logf(ZR_LOG_INFO, "model", "%s: not followed: %s", config->path, named);
	return zr_tensor_files_open_grown(model->path, &s->facts.layout, ZR_FILES_MODEL, v->prefix,
					  v->ignored, config->rows, f, err);
}

static int compare_copies(const struct zr_setup *s, const struct zr_weights_files *f,
			  struct zr_error *err)
{
	char prefix[256];

	zr_adapter_prefix(s, prefix, sizeof prefix);
	return zr_adapter_compare_copies(s, prefix, f->model, f->adapter, err);
}

int zr_weights_files_open(struct zr_setup *s, struct zr_weights_files *out, struct zr_error *err)
{
	const struct zr_model_json *config = zr_config_model_json(s->cfg);

	*out = (struct zr_weights_files){ 0 };
	int rc = 0;
	if (config)
		rc = open_model(s, config, &out->model, err);
	if (!rc)
		rc = zr_adapter_open(s, &out->adapter, err);
	if (!rc && out->model && out->adapter)
		rc = compare_copies(s, out, err);
	if (rc)
		zr_weights_files_close(out);
	return rc;
}

void zr_weights_files_close(struct zr_weights_files *f)
{
	zr_tensor_files_close(f->model);
	zr_tensor_files_close(f->adapter);
	*f = (struct zr_weights_files){ 0 };
}

int zr_weights_files_have(const struct zr_weights_files *f, int32_t i)
{
	return (f->adapter && zr_tensor_files_have(f->adapter, i)) ||
	       (f->model && zr_tensor_files_have(f->model, i));
}

int zr_weights_files_read(void *files, int32_t i, int64_t first, int64_t n, float *x,
			  struct zr_error *err)
{
	const struct zr_weights_files *f = files;
	const int adapter = f->adapter && zr_tensor_files_have(f->adapter, i);
	return zr_tensor_files_read(adapter ? f->adapter : f->model, i, first, n, x, err);
}

struct origin {
	struct zr_session *s;
	struct zr_weights_files files;
};

/* What no file has is random. */
static int first_values(void *arg, int32_t i, int64_t first, int64_t n, float *x,
			struct zr_error *err)
{
	struct origin *from = arg;
	if (zr_weights_files_have(&from->files, i))
		return zr_weights_files_read(&from->files, i, first, n, x, err);
	return zr_init_values(from->s, i, first, n, x, err);
}

/* Weights that begin as random ones are of a tokenizer that has all of its tokens. */
static int check_tokens(const struct zr_setup *s, struct zr_error *err)
{
	const struct zr_section *model = s->roles.model.section;

	if (!model->add_tokens || model->path)
		return 0;
	return zr_config_blame(s->cfg, model->name, ZR_EINVAL, err,
			       "add_tokens = %s: tokens are added to those of a model that was "
			       "trained: needs path",
			       model->add_tokens);
}

/* Whether an adapter learns something for each token. */
static int adapts_rows(const struct zr_setup *s)
{
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++) {
		const struct zr_place *t = &s->facts.layout.tensor[i];
		for (int32_t d = 0; d < t->decl->ndim && t->flags & ZR_TENSOR_ADDED; d++)
			if (t->decl->dims[d] == s->facts.decl.vocabulary)
				return 1;
	}

	return 0;
}

/* Warns where rows of new tokens stay as they are: people expect that they are learned. */
static void tell_frozen(const struct zr_setup *s)
{
	const char *name = zr_adapter_frozen_rows(s);

	if (!s->roles.model.section->add_tokens || !name || s->facts.process.rank ||
	    s->facts.mode != ZR_MODE_TRAIN || adapts_rows(s))
		return;

	zr_logf(ZR_LOG_WARN, "model",
		"add_tokens: %s is frozen, so that the rows of new tokens there stay what they "
		"are%s",
		name,
		s->roles.adapter.inst ?
			": [adapter] modules_to_save trains the embedding and the head" :
			"");
}

int zr_weights_begin(struct zr_session *s, struct zr_error *err)
{
	struct origin from = { .s = s };

	int rc = check_tokens(s->setup, err);
	if (!rc)
		rc = zr_weights_files_open(s->setup, &from.files, err);
	if (!rc)
		rc = zr_session_begin(s, first_values, &from, err);
	if (!rc)
		tell_frozen(s->setup);
	zr_weights_files_close(&from.files);
	return rc;
}

/* The core calls zr_tokenizer_places by a pointer, as libcore has no tokenizers; each program that
 * reads weights links this file. */
__attribute__((constructor)) static void lend(void)
{
	zr_tokens_added = zr_tokenizer_places;
}
