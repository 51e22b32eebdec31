/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - tokenizer.json: the file, and its parts in the order that they need each other.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "files/tokenizer/parts.h"

#define MOST (1 << 30) /* bytes of a tokenizer.json */

/* The model of a file that does not name it, as the library tells them apart. */
static const char *unnamed_model(const struct zr_tokenizer_loading *l, const json_t *model)
{
	if (l->lists.merges.text)
		return "BPE";
	if (l->lists.vocab.text && *l->lists.vocab.text == '[')
		return "Unigram";

	return json_object_get(model, "max_input_chars_per_word") ? "WordPiece" : "BPE";
}

/* Which model a file has; ZR_MODELS: one that is not known. */
static int model_of(const struct zr_tokenizer_loading *l, const json_t *model)
{
	static const char *const names[ZR_MODELS] = { [ZR_MODEL_BPE] = "BPE",
						      [ZR_MODEL_UNIGRAM] = "Unigram",
						      [ZR_MODEL_WORDPIECE] = "WordPiece" };
	const json_t *type = json_object_get(model, "type");
	const char *name = json_string_value(type);
	int i = 0;

	if (!type) /* in old files */
		name = unnamed_model(l, model);
	while (i < ZR_MODELS && (!name || strcmp(name, names[i])))
		i++;

	return i;
}

static int load_model(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added)
{
	struct zr_tokenizer *t = l->t;

	if (!json_is_object(model))
		return zr_load_found(l, "model", "an object", model);

	t->model = model_of(l, model);
	if (t->model == ZR_MODELS)
		return zr_load_found(l, "model.type", "BPE, Unigram or WordPiece",
				     json_object_get(model, "type"));

	t->bpe.characters &= t->model == ZR_MODEL_BPE;
	t->spaced &= t->bpe.characters || t->model == ZR_MODEL_UNIGRAM;
	int rc = zr_load_flag(l, model, "model", "byte_fallback", 0, &t->byte_fallback);
	if (rc)
		return rc;
	if (t->model == ZR_MODEL_UNIGRAM)
		return zr_load_unigram(l, model, added);
	if (t->model == ZR_MODEL_WORDPIECE)
		return zr_load_wordpiece(l, model, added);

	return zr_load_bpe(l, model, added);
}

static int is_byte_level(const json_t *root)
{
	const json_t *pre = json_object_get(root, "pre_tokenizer"), *o;
	for (size_t i = 0; (o = zr_load_step(pre, "pretokenizers", i)); i++)
		if (!strcmp(zr_load_type(o), "ByteLevel"))
			return 1;

	return 0;
}

static int load(struct zr_tokenizer_loading *l, const json_t *root)
{
	const json_t *added = json_object_get(root, "added_tokens");
	if (added && !json_is_null(added) && !json_is_array(added))
		return zr_load_found(l, "added_tokens", "an array", added);

	l->t->spaced = zr_load_is_spaced(root);
	l->t->bpe.characters = !is_byte_level(root);
	int rc = load_model(l, json_object_get(root, "model"), added);
	if (!rc)
		rc = zr_load_normalizer(l, json_object_get(root, "normalizer"));
	if (!rc)
		rc = zr_load_splits(l, json_object_get(root, "pre_tokenizer"));
	if (!rc && l->t->model == ZR_MODEL_UNIGRAM && l->t->spaced)
		l->t->apart = !l->t->split[l->t->n_splits - 1].regex && zr_unigram_apart(l->t);
	if (!rc)
		rc = zr_load_added(l, added);
	if (!rc)
		rc = zr_load_gaps(l);
	if (!rc)
		rc = zr_load_decoder(l, json_object_get(root, "decoder"));
	if (rc)
		return rc;

	return zr_load_template(l, json_object_get(root, "post_processor"));
}

/* All of the file but for its lists. */
static int read_root(struct zr_tokenizer_loading *l, json_t **root)
{
	struct zr_error why = { 0 };

	if (zr_lists_find(&l->lists, l->text, l->bytes))
		return zr_no_memory(l->err);

	const struct zr_buf *rest = &l->lists.rest;
	if (!zr_json_object(rest->p, rest->n, l->file, root, &why))
		return 0;

	return zr_json_object(l->text, l->bytes, l->file, root, l->err); /* says where */
}

int zr_tokenizer_read(const char *file, char **text, size_t *n, struct zr_error *err)
{
	int no = zr_file_text(AT_FDCWD, file, 1, MOST, text, n);
	if (no)
		return zr_file_failed(err, file, "", no);

	return 0;
}

int zr_tokenizer_load(const char *file, const char *text, size_t n, zr_tokenizer_look *look,
		      void *arg, struct zr_tokenizer **out, struct zr_error *err)
{
	struct zr_tokenizer_loading l = { .err = err, .file = file, .text = text, .bytes = n };
	json_t *root = NULL;
	int rc = read_root(&l, &root);

	if (!rc) {
		l.t = calloc(1, sizeof *l.t);
		if (l.t)
			rc = load(&l, root);
		else
			rc = zr_no_memory(err);
	}

	if (!rc && look)
		rc = look(arg, &l);
	json_decref(root);
	zr_buf_free(&l.lists.rest);
	zr_names_free(&l.names);
	if (rc)
		zr_tokenizer_close(l.t);
	else
		*out = l.t;

	return rc;
}
