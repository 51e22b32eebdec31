/* SPDX-License-Identifier: Apache-2.0
 *
 * pieces.c - see parts.h: SentencePiece's BPE, of tokenizer.model and the tokens that were added to
 * it.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "train/gguf/parts.h"

#define BPE    2
#define UNUSED -10000 /* scores of tokens that are not in tokenizer.model: none of that number */
#define ADDED  -1000  /* and added */

/* Of SentencePiece's types DEFINED is a normal one for llama.cpp. */
static int32_t type_of(const struct zr_gguf_piece *p)
{
	if (p->type == ZR_TOKEN_UNKNOWN || p->type == ZR_TOKEN_CONTROL ||
	    p->type == ZR_TOKEN_UNUSED || p->type == ZR_TOKEN_BYTE)
		return p->type;
	return ZR_TOKEN_NORMAL;
}

static int take_pieces(const struct zr_gguf_tokens *t, struct zr_gguf_token *list,
		       struct zr_error *err)
{
	struct zr_gguf_proto proto;
	char *data, path[PATH_MAX + 64];
	size_t bytes;

	snprintf(path, sizeof path, "%s/tokenizer.model", t->dir);
	int rc = zr_gguf_beside_text(t->dir, "tokenizer.model", &data, &bytes, err);
	if (rc)
		return rc;
	if (!data)
		return zr_err(err, ZR_EINVAL, "%s: it has gone", path);

	rc = zr_gguf_proto_read(data, bytes, path, &proto, err);
	if (!rc && proto.model != BPE)
		rc = zr_err(err, ZR_EINVAL,
			    "--gguf: %s is no BPE: llama.cpp reads this one as another model's",
			    path);
	if (!rc && proto.n > t->vocabulary)
		rc = zr_err(err, ZR_EINVAL,
			    "--gguf: %s has %lld pieces, and the model has %lld tokens: it is the "
			    "tokenizer of another model",
			    path, (long long)proto.n, (long long)t->vocabulary);
	for (int64_t i = 0; !rc && i < proto.n; i++) {
		const struct zr_gguf_piece *p = &proto.piece[i];
		rc = zr_gguf_list_set(&list[i], p->text, p->bytes, p->score, type_of(p), err);
	}

	free(proto.piece);
	free(data);
	return rc;
}

/* Whether the model has a row for an added token. A line says which are left out. */
static int fits(const struct zr_gguf_tokens *t, const char *text, int64_t id)
{
	if (id >= 0 && id < t->vocabulary)
		return 1;

	zr_logf(ZR_LOG_WARN, "export",
		"%s: token %s is left out: its number is %lld, and the model has %lld", t->dir,
		text, (long long)id, (long long)t->vocabulary);
	return 0;
}

static int take_added_file(const struct zr_gguf_tokens *t, struct zr_gguf_token *list,
			   struct zr_error *err)
{
	const char *text;
	json_t *added, *id;
	int rc = zr_gguf_beside(t->dir, "added_tokens.json", &added, err);

	json_object_foreach(added, text, id)
	{
		const int64_t at = json_integer_value(id);
		if (!rc && fits(t, text, at))
			rc = zr_gguf_list_set(&list[at], text, strlen(text), ADDED,
					      ZR_TOKEN_DEFINED, err);
	}

	json_decref(added);
	return rc;
}

/* One that tokenizer_config.json or tokenizer.json adds. */
static int take_token(const struct zr_gguf_tokens *t, const json_t *one, int64_t id, int phi,
		      struct zr_gguf_token *list, struct zr_error *err)
{
	const char *text = json_string_value(json_object_get(one, "content"));
	const int special = json_is_true(json_object_get(one, "special"));

	if (!text || !fits(t, text, id))
		return 0;
	if (special || (!phi && zr_gguf_looks_special(text)))
		return zr_gguf_list_set(&list[id], text, strlen(text), ADDED, ZR_TOKEN_CONTROL,
					err);
	if (phi)
		return zr_gguf_list_set(&list[id], text, strlen(text), ADDED, ZR_TOKEN_DEFINED,
					err);
	return zr_gguf_list_set_spaced(&list[id], text, ADDED, ZR_TOKEN_DEFINED, err);
}

static int take_added(const struct zr_gguf_tokens *t, int phi, struct zr_gguf_token *list,
		      struct zr_error *err)
{
	const json_t *added = json_object_get(t->json, "added_tokens");
	json_t *one;
	const char *key;
	size_t i;
	int rc = take_added_file(t, list, err);

	json_object_foreach(json_object_get(t->settings, "added_tokens_decoder"), key, one)
	{
		if (!rc)
			rc = take_token(t, one, strtoll(key, NULL, 10), phi, list, err);
	}

	if (!phi)
		return rc;
	json_array_foreach((json_t *)added, i, one)
	{
		const int64_t id = json_integer_value(json_object_get(one, "id"));
		if (!rc)
			rc = take_token(t, one, id, phi, list, err);
	}

	return rc;
}

static int has_token(const struct zr_gguf_token *list, int64_t n, const char *text)
{
	for (int64_t i = 0; i < n; i++)
		if (!strcmp(list[i].text, text))
			return 1;

	return 0;
}

static int is_as_phi3(const struct zr_gguf_token *list, int64_t n)
{
	return has_token(list, n, "</s>") && has_token(list, n, "<unk>") &&
	       has_token(list, n, "<s>") && has_token(list, n, "<|endoftext|>");
}

int zr_gguf_pieces(const struct zr_gguf_tokens *t, int phi, struct zr_error *err)
{
	struct zr_gguf_token *list = zr_gguf_list_new(t->vocabulary, UNUSED, err);
	if (!list)
		return err->code;

	int rc = take_pieces(t, list, err);
	if (!rc)
		rc = take_added(t, phi, list, err);
	if (!rc) {
		zr_gguf_text(t->keys, "tokenizer.ggml.model", "llama");
		zr_gguf_text(t->keys, "tokenizer.ggml.pre", "default");
		zr_gguf_list_keys(t->keys, list, t->vocabulary, 1);
		*t->as_phi3 = phi && is_as_phi3(list, t->vocabulary);
	}

	zr_gguf_list_free(list, t->vocabulary);
	if (rc)
		return rc;
	return zr_gguf_special(t, -1, err);
}
