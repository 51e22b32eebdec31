/* SPDX-License-Identifier: Apache-2.0
 *
 * tokens.c - see parts.h: which kind of tokenizer a model has.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json.h"
#include "files/tokenizer/tokenizer.h"
#include "train/gguf/parts.h"

/* Vocabularies of models that need more than their files say. */
#define CODE_LLAMA          32016
#define CODE_LLAMA_TURN_END 32010
#define GRANITE_SMALL       49152

static int there(const struct zr_gguf_tokens *t, const char *name)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof path, "%s/%s", t->dir, name);
	return !access(path, F_OK);
}

/* BPE that falls back on bytes, as SentencePiece's becomes in tokenizer.json. */
static int falls_back(const struct zr_gguf_tokens *t)
{
	const json_t *model = json_object_get(t->json, "model");
	return json_is_true(json_object_get(model, "byte_fallback"));
}

static int need_pieces(const struct zr_gguf_tokens *t, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL,
		      "--gguf: %s: llama.cpp needs tokenizer.model of this tokenizer, whose scores "
		      "tokenizer.json does not have: put it there, or name a directory that has "
		      "it with --tokenizer",
		      t->dir);
}

static int write_bpe(const struct zr_gguf_tokens *t, struct zr_error *err)
{
	if (!t->json && there(t, "tekken.json"))
		return zr_err(err, ZR_EINVAL,
			      "--gguf: %s: tekken.json is not read: Mistral's directories for "
			      "transformers have tokenizer.json",
			      t->dir);
	if (!t->json)
		return zr_err(err, ZR_EINVAL,
			      "--gguf: %s: there is no tokenizer.json and no tokenizer.model: "
			      "--tokenizer names a directory that has the model's",
			      t->dir);
	if (falls_back(t))
		return need_pieces(t, err);
	return zr_gguf_bpe(t, err);
}

static int write_llama(struct zr_gguf_tokens *t, struct zr_error *err)
{
	const json_t *space = json_object_get(t->settings, "add_prefix_space");

	if (json_is_boolean(space))
		zr_gguf_bool(t->keys, "tokenizer.ggml.add_space_prefix", json_is_true(space));
	if (t->vocabulary == CODE_LLAMA)
		t->turn_end = CODE_LLAMA_TURN_END;
	t->never_begins = t->vocabulary == GRANITE_SMALL;

	if (there(t, "tokenizer.model"))
		return zr_gguf_pieces(t, 0, err);
	return write_bpe(t, err);
}

static int write_gemma(const struct zr_gguf_tokens *t, struct zr_error *err)
{
	if (!there(t, "tokenizer.model"))
		return need_pieces(t, err);

	zr_gguf_bool(t->keys, "tokenizer.ggml.add_space_prefix", 0);
	return zr_gguf_pieces(t, 0, err);
}

static int write_phi(const struct zr_gguf_tokens *t, struct zr_error *err)
{
	const char *class = json_string_value(json_object_get(t->settings, "tokenizer_class"));

	if ((class && !strcmp(class, "GPT2Tokenizer")) || !there(t, "tokenizer.model"))
		return write_bpe(t, err);
	return zr_gguf_pieces(t, 1, err);
}

static int write_family(struct zr_gguf_tokens *t, const struct zr_gguf_family *f,
			struct zr_error *err)
{
	switch (f->id) {
	case ZR_GGUF_LLAMA:
	case ZR_GGUF_MISTRAL:
		return write_llama(t, err);
	case ZR_GGUF_GEMMA2:
	case ZR_GGUF_GEMMA3:
		return write_gemma(t, err);
	case ZR_GGUF_PHI3:
		return write_phi(t, err);
	case ZR_GGUF_QWEN2:
	case ZR_GGUF_QWEN3:
		break;
	}

	if (there(t, "tokenizer.model"))
		return zr_gguf_pieces(t, 0, err);
	return write_bpe(t, err);
}

/* tokenizer.json with the tokens that training added. */
static int read_with(const char *dir, const char *added, json_t **out, struct zr_error *err)
{
	char *text;
	size_t bytes;
	int rc = zr_tokenizer_text_with(dir, added, &text, &bytes, err);
	if (rc)
		return rc;

	rc = zr_json_object(text, bytes, dir, out, err);
	free(text);
	return rc;
}

int zr_gguf_tokenizer(const char *dir, const char *added, const struct zr_gguf_family *f,
		      const json_t *config, int64_t vocabulary, struct zr_gguf_keys *keys,
		      int *as_phi3, struct zr_error *err)
{
	struct zr_gguf_tokens t = { .dir = dir,
				    .config = config,
				    .vocabulary = vocabulary,
				    .keys = keys,
				    .turn_end = -1,
				    .as_phi3 = as_phi3 };

	int rc = added ? read_with(dir, added, &t.json, err) :
			 zr_gguf_beside(dir, "tokenizer.json", &t.json, err);
	if (!rc)
		rc = zr_gguf_beside(dir, "tokenizer_config.json", &t.settings, err);
	if (!rc)
		rc = write_family(&t, f, err);
	json_decref(t.json);
	json_decref(t.settings);
	return rc;
}
