/* SPDX-License-Identifier: Apache-2.0
 *
 * bpe.c - see parts.h: byte-level BPE, of tokenizer.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "train/gguf/parts.h"

static const char file[] = "tokenizer.json";

/* Sets token `id` of the list. */
static int set(const struct zr_gguf_tokens *t, struct zr_gguf_token *list, const char *text,
	       int64_t id, int32_t type, struct zr_error *err)
{
	if (id < 0 || id >= t->vocabulary)
		return zr_err(
			err, ZR_EINVAL,
			"--gguf: %s/%s: token %s is number %lld, and the model has %lld: it is "
			"the tokenizer of another model",
			t->dir, file, text, (long long)id, (long long)t->vocabulary);
	if (type == ZR_TOKEN_DEFINED)
		return zr_gguf_list_set_spaced(&list[id], text, 0, type, err);
	return zr_gguf_list_set(&list[id], text, strlen(text), 0, type, err);
}

static int take_vocabulary(const struct zr_gguf_tokens *t, const json_t *vocabulary,
			   struct zr_gguf_token *list, struct zr_error *err)
{
	const char *text;
	json_t *id;

	json_object_foreach((json_t *)vocabulary, text, id)
	{
		int rc = set(t, list, text, json_integer_value(id), ZR_TOKEN_NORMAL, err);
		if (rc)
			return rc;
	}

	return 0;
}

/* What tokenizer_config.json says of an added token; NULL: nothing. */
static const json_t *setting_of(const struct zr_gguf_tokens *t, int64_t id)
{
	char key[24];

	snprintf(key, sizeof key, "%lld", (long long)id);
	return json_object_get(json_object_get(t->settings, "added_tokens_decoder"), key);
}

static int take_added(const struct zr_gguf_tokens *t, struct zr_gguf_token *list,
		      struct zr_error *err)
{
	const json_t *added = json_object_get(t->json, "added_tokens"), *one;
	size_t i;

	json_array_foreach((json_t *)added, i, one)
	{
		const char *text = json_string_value(json_object_get(one, "content"));
		const int64_t id = json_integer_value(json_object_get(one, "id"));
		const json_t *said = setting_of(t, id);
		const json_t *special = json_object_get(said ? said : one, "special");
		if (!text)
			return zr_err(err, ZR_EINVAL,
				      "--gguf: %s/%s: an added token has no content", t->dir, file);

		const int control = json_is_true(special) || zr_gguf_looks_special(text);
		int rc = set(t, list, text, id, control ? ZR_TOKEN_CONTROL : ZR_TOKEN_DEFINED, err);
		if (rc)
			return rc;
	}

	return 0;
}

static const char *content(const json_t *token)
{
	return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

static int is_added(const struct zr_gguf_tokens *t, const char *text)
{
	const json_t *added = json_object_get(t->json, "added_tokens"), *one;
	size_t i;

	json_array_foreach((json_t *)added, i, one)
	{
		const char *own = json_string_value(json_object_get(one, "content"));
		if (own && !strcmp(own, text))
			return 1;
	}

	return 0;
}

/* A token that tokenizer_config.json names as a special one is one, wherever it stands. */
static int take_named(const struct zr_gguf_tokens *t, const json_t *vocabulary, const json_t *token,
		      struct zr_gguf_token *list, struct zr_error *err)
{
	const char *text = content(token);
	if (!text || !*text || is_added(t, text))
		return 0;

	const json_t *id = json_object_get(vocabulary, text);
	if (!id)
		return zr_err(err, ZR_EINVAL,
			      "--gguf: %s/tokenizer_config.json names token %s, which %s does not "
			      "have",
			      t->dir, text, file);
	return set(t, list, text, json_integer_value(id), ZR_TOKEN_CONTROL, err);
}

static int take_settings(const struct zr_gguf_tokens *t, const json_t *vocabulary,
			 struct zr_gguf_token *list, struct zr_error *err)
{
	static const char *const keys[] = { "bos_token", "eos_token", "unk_token", "sep_token",
					    "pad_token", "cls_token", "mask_token" };
	static const char *const lists[] = { "additional_special_tokens", "extra_special_tokens" };
	const json_t *one;
	size_t k;
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof keys / sizeof *keys; i++)
		rc = take_named(t, vocabulary, json_object_get(t->settings, keys[i]), list, err);
	for (size_t i = 0; !rc && i < sizeof lists / sizeof *lists; i++) {
		json_array_foreach(json_object_get(t->settings, lists[i]), k, one)
		{
			if (!rc)
				rc = take_named(t, vocabulary, one, list, err);
		}
	}

	return rc;
}

/* ---- merges ---- */

/* A part of a merge, in which a space is written as byte-level tokens have it. */
static char *part_text(const char *part)
{
	size_t spaces = 0;
	for (const char *p = part; *p; p++)
		spaces += *p == ' ';

	char *out = malloc(strlen(part) + spaces + 1), *to = out;
	for (; out && *part; part++) {
		if (*part != ' ') {
			*to++ = *part;
			continue;
		}

		memcpy(to, "\xc4\xa0", 2); /* U+0120 */
		to += 2;
	}

	if (out)
		*to = 0;
	return out;
}

static int put_pair(struct zr_gguf_keys *k, const json_t *pair, struct zr_error *err)
{
	const char *left = json_string_value(json_array_get(pair, 0)),
		   *right = json_string_value(json_array_get(pair, 1));
	if (!left || !right)
		return zr_err(err, ZR_EINVAL, "--gguf: %s: a merge is no pair of texts", file);

	char *a = part_text(left), *b = part_text(right), *text = NULL;
	if (a && b)
		text = zr_text("%s %s", a, b);
	if (text)
		zr_gguf_add(k, text, strlen(text));
	free(a);
	free(b);
	free(text);
	return text ? 0 : zr_no_memory(err);
}

static int put_merges(const struct zr_gguf_tokens *t, const json_t *merges, struct zr_error *err)
{
	const json_t *one;
	size_t i;

	if (!json_array_size(merges))
		return 0;

	zr_gguf_texts(t->keys, "tokenizer.ggml.merges", json_array_size(merges));
	json_array_foreach((json_t *)merges, i, one)
	{
		const char *text = json_string_value(one);
		int rc = 0;
		if (text)
			zr_gguf_add(t->keys, text, strlen(text));
		else
			rc = put_pair(t->keys, one, err);
		if (rc)
			return rc;
	}

	return 0;
}

/* ---- all of it ---- */

int zr_gguf_bpe(const struct zr_gguf_tokens *t, struct zr_error *err)
{
	const json_t *model = json_object_get(t->json, "model");
	const json_t *vocabulary = json_object_get(model, "vocab");
	const char *kind = json_string_value(json_object_get(model, "type")), *pre = NULL;
	int said = 0;

	if (!kind && json_object_get(model, "merges")) /* as older files have it */
		kind = "BPE";
	if (!kind || strcmp(kind, "BPE"))
		return zr_err(err, ZR_EINVAL,
			      "--gguf: %s/%s is of type %s: BPE is what is written of it", t->dir,
			      file, kind ? kind : "unknown");

	struct zr_gguf_token *list = zr_gguf_list_new(t->vocabulary, 0, err);
	if (!list)
		return err->code;

	int rc = take_vocabulary(t, vocabulary, list, err);
	if (!rc)
		rc = take_added(t, list, err);
	if (!rc)
		rc = take_settings(t, vocabulary, list, err);
	if (!rc)
		rc = zr_gguf_pre(t, &pre, &said, err);
	if (!rc) {
		zr_gguf_text(t->keys, "tokenizer.ggml.model", "gpt2");
		zr_gguf_text(t->keys, "tokenizer.ggml.pre", pre);
		zr_gguf_list_keys(t->keys, list, t->vocabulary, 0);
		rc = put_merges(t, json_object_get(model, "merges"), err);
	}

	zr_gguf_list_free(list, t->vocabulary);
	if (rc)
		return rc;
	return zr_gguf_special(t, said ? 0 : -1, err);
}
