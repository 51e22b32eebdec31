/* SPDX-License-Identifier: Apache-2.0
 *
 * grow.c - see pretrained.h: tokens that are added to those of a model, and the rows that it gets
 * for them.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/model.h>

#include "core/pretrained/pretrained.h"

int (*zr_tokens_added)(const char *dir, const char *tokens, int32_t **ids, int64_t *size,
		       int64_t *distinct, struct zr_error *err);

/* The key of config.json that says how many rows there are. */
static const struct zr_config_key *rows_key(const struct zr_pretrained_v1 *v)
{
	for (uint32_t i = 0; i < v->n_keys; i++) {
		const struct zr_config_key *k =
			(const void *)((const char *)v->keys + (size_t)i * v->key_stride);
		if (k->option && !strcmp(k->option, "vocabulary") && !strchr(k->name, '.'))
			return k;
	}

	return NULL;
}

static int64_t rows_of(const struct zr_model_json *f, const struct zr_config_key *k)
{
	const json_t *value = json_object_get(f->root, k->name);

	if (json_is_integer(value))
		return json_integer_value(value);
	if (!value && k->def)
		return strtoll(k->def, NULL, 10);

	return 0;
}

static int find_ids(struct zr_model_json *f, const char *tokens, struct zr_error *err)
{
	char *dir = strdup(f->path);
	if (!dir)
		return zr_no_memory(err);

	*strrchr(dir, '/') = 0;
	struct zr_added_tokens *to = &f->added;
	int rc = zr_tokens_added(dir, tokens, &to->id, &to->size, &to->distinct, err);
	free(dir);
	return rc;
}

int zr_pretrained_grow(struct zr_model_json *f, const struct zr_pretrained_v1 *v,
		       const char *tokens, struct zr_error *err)
{
	const struct zr_config_key *k = rows_key(v);
	int64_t rows = 0;

	if (k)
		rows = rows_of(f, k);
	if (!zr_tokens_added)
		return zr_err(err, ZR_ENOTSUP, "this program reads no tokenizers");
	if (rows < 1)
		return zr_err(err, ZR_EINVAL, "%s does not say how many tokens the model knows",
			      f->path);

	int rc = find_ids(f, tokens, err);
	if (rc || f->added.size <= rows)
		return rc;
	if (f->added.size != f->added.distinct)
		return zr_err(err, ZR_EINVAL,
			      "the tokenizer.json beside %s has %lld tokens, of ids below %lld: "
			      "with such gaps transformers would make too few rows for them",
			      f->path, (long long)f->added.distinct, (long long)f->added.size);
	if (json_object_set_new(f->root, k->name, json_integer((json_int_t)f->added.size)))
		return zr_no_memory(err);

	f->rows = (struct zr_grown_rows){ .from = rows, .to = f->added.size };
	return 0;
}
