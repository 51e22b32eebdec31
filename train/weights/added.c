/* SPDX-License-Identifier: Apache-2.0
 *
 * added.c - see added.h. Keys and flags are those that save_pretrained of transformers 4.57 writes;
 * 5.24 reads them, and writes the list as extra_special_tokens, which 4.57 takes for an object.
 */
#include "train/weights/added.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/json_text.h"
#include "core/base/text.h"
#include "files/tokenizer/tokenizer.h"

#define MOST (64u << 20) /* bytes of a tokenizer_config.json */

/* A token is a text or an object that has it. */
static const char *content(const json_t *token)
{
	return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* Further special tokens: a list, made where there is none. NULL: out of memory. */
static json_t *special_list(json_t *root)
{
	json_t *list = json_object_get(root, "extra_special_tokens");

	if (json_is_array(list))
		return list;

	list = json_object_get(root, "additional_special_tokens");
	if (json_is_array(list))
		return list;
	if (json_object_set_new(root, "additional_special_tokens", json_array()))
		return NULL;

	return json_object_get(root, "additional_special_tokens");
}

static int put_special(json_t *list, const char *token)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *text = content(one);
		if (text && !strcmp(text, token))
			return 0;
	}

	return json_array_append_new(list, json_string(token));
}

/* By its number, unless it is there. */
static int put_decoder(json_t *decoder, const char *token, int32_t id)
{
	char key[24];

	snprintf(key, sizeof key, "%d", id);
	if (json_object_get(decoder, key))
		return 0;

	return json_object_set_new(decoder, key,
				   json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", token,
					     "lstrip", 0, "normalized", 0, "rstrip", 0,
					     "single_word", 0, "special", 1));
}

static int put_tokens(json_t *root, const struct zr_tokenizer *t, const char *tokens,
		      struct zr_error *err)
{
	json_t *list = special_list(root), *decoder = json_object_get(root, "added_tokens_decoder");
	const char *word;
	size_t n;
	int failed = !list;

	while (!failed && (word = zr_next_word(&tokens, &n))) {
		char *token = strndup(word, n);
		failed = !token || put_special(list, token);
		if (!failed && json_is_object(decoder))
			failed = put_decoder(decoder, token, zr_tokenizer_added(t, token));
		free(token);
	}

	if (failed)
		return zr_no_memory(err);

	return 0;
}

int zr_added_settings(const char *dir, const char *tokens, char **text, size_t *bytes,
		      struct zr_error *err)
{
	char path[PATH_MAX + 64];
	struct zr_tokenizer *t = NULL;
	json_t *root;

	*text = NULL;
	snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
	int rc = zr_json_file_if_there(path, MOST, &root, err);
	if (rc || !root)
		return rc;

	rc = zr_tokenizer_open_with(dir, tokens, &t, err);
	if (!rc)
		rc = put_tokens(root, t, tokens, err);
	zr_tokenizer_close(t);
	char *lines = rc ? NULL : zr_json_text(root, JSON_INDENT(2));
	if (lines)
		*text = zr_text("%s\n", lines);
	free(lines);
	json_decref(root);
	if (!rc && !*text)
		rc = zr_no_memory(err);
	if (!rc)
		*bytes = strlen(*text);
	return rc;
}
