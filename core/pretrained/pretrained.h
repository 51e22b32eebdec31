/* SPDX-License-Identifier: Apache-2.0
 *
 * pretrained.h - a directory of Hugging Face as the start of a model: config.json gives the plugin
 * and its options. Nothing in the file is trusted; messages name file and key. The parameters:
 * files/pretrained/tensors.h. [main]
 */
#ifndef ZR_CORE_PRETRAINED_H
#define ZR_CORE_PRETRAINED_H

#include <jansson.h>

#include "core/plugin/loader.h"

/* Tokens that are added to those of a tokenizer.json. */
struct zr_added_tokens {
	int32_t *id;      /* of each, owned; NULL: none is added */
	int64_t size;     /* one more than the largest id, of all tokens */
	int64_t distinct; /* how many there are */
};

/* Tensors with a row for each token have `to` of them, and `from` in their files: 0: as many. */
struct zr_grown_rows {
	int64_t from, to;
};

/* config.json, read. */
struct zr_model_json {
	char *path;          /* of the file */
	json_t *root;        /* an object */
	const char *type;    /* its model_type */
	const char *ignored; /* keys, separated by blanks, that it may have; NULL: none; borrowed */
	/* tensor of the files because of which it was untied; NULL: it was not */
	char *head;
	struct zr_added_tokens added; /* by [model] add_tokens */
	struct zr_grown_rows rows;    /* the root says the new number */
};

/* on failure there is nothing to close */
int zr_model_json_open(const char *dir, struct zr_model_json *out, struct zr_error *err);
void zr_model_json_close(struct zr_model_json *f); /* a zeroed one is fine */

/* Bytes of a JSON file of a model, at most. */
#define ZR_MODEL_JSON_MAX (64u << 20) /* an index of a million tensors is smaller */

/* find.c: the id of the plugin that reads its model_type: of several the one of the same name.
 * Plugins are loaded in a process of their own. */
#define ZR_PLUGIN_ID 64
int zr_pretrained_find(const struct zr_model_json *f, char id[ZR_PLUGIN_ID], struct zr_error *err);

/* tables.c: those of a plugin, NULL: it reads no directories; whether it reads a model_type; those
 * of one that reads it. */
struct zr_pretrained_v1;
struct zr_config_key;
const struct zr_pretrained_v1 *zr_pretrained_of(const struct zr_plugin *p);
int zr_pretrained_reads(const struct zr_pretrained_v1 *v, const char *type);
int zr_pretrained_tables(const struct zr_model_json *f, const struct zr_plugin *p,
			 const struct zr_pretrained_v1 **out, struct zr_error *err);

/* Calls set for every option that the file determines, with the key that does it; fails with what
 * the plugin lacks. */
typedef int zr_option_fn(void *arg, const struct zr_config_key *k, const char *value,
			 struct zr_error *err);
int zr_pretrained_options(const struct zr_model_json *f, const struct zr_plugin *p,
			  zr_option_fn *set, void *arg, struct zr_error *err);
/* Files decide whether a model is tied: where they have a head that differs from the embedding the
 * file's tie_word_embeddings becomes false, as transformers 5 reads it. files/pretrained/tensors.c
 * says which differ; files that cannot be opened do not, since whoever reads them says so. */
int zr_pretrained_untie(struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			struct zr_error *err);
extern int (*zr_head_differs)(const char *dir, const char *prefix, const char *head,
			      const char *embedding, int *differs, struct zr_error *err);
/* Adds tokens, texts separated by blanks, to those of the tokenizer.json beside the file: their
 * ids, and a row for each where the model has none. zr_tokenizer_places finds the ids. A failure
 * is of the tokens. */
int zr_pretrained_grow(struct zr_model_json *f, const struct zr_pretrained_v1 *v,
		       const char *tokens, struct zr_error *err);
extern int (*zr_tokens_added)(const char *dir, const char *tokens, int32_t **ids, int64_t *size,
			      int64_t *distinct, struct zr_error *err);
/* What the plugin says to values that depend on its options. */
int zr_pretrained_accepts(const struct zr_model_json *f, const struct zr_plugin *p,
			  const void *opts, struct zr_error *err);
/* Keys that neither the plugin nor Zeroth knows, "a, b", cut where `size` ends. */
void zr_pretrained_unknown(const struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			   char *out, size_t size);
/* These keys, and those whose values it does not compute, "a = 1, b"; returns how many. */
int zr_pretrained_differences(const struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			      char *out, size_t size);
/* What of the file training does not follow, "KEY = VALUE (here ...), ...", cut at `size`. */
struct zr_section;
void zr_pretrained_named(const struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			 const struct zr_section *model, char *out, size_t size);

#endif
