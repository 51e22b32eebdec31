/* SPDX-License-Identifier: Apache-2.0
 *
 * beside.c - see parts.h: files of a tokenizer, and lists of tokens.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "train/gguf/parts.h"

#define MOST (1u << 30) /* bytes of a file */

int zr_gguf_beside_text(const char *dir, const char *name, char **text, size_t *bytes,
			struct zr_error *err)
{
	char path[PATH_MAX + 64];

	*text = NULL;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	int no = zr_file_text(AT_FDCWD, path, 1, MOST, text, bytes);
	if (!no || no == ENOENT || no == ENOTDIR)
		return 0;
	return zr_file_failed(err, path, "cannot read", no);
}

int zr_gguf_beside(const char *dir, const char *name, json_t **out, struct zr_error *err)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return zr_json_file_if_there(path, MOST, out, err);
}

/* ---- lists ---- */

int zr_gguf_list_set(struct zr_gguf_token *t, const char *text, size_t bytes, float score,
		     int32_t type, struct zr_error *err)
{
	char *own = malloc(bytes + 1);
	if (!own)
		return zr_no_memory(err);

	memcpy(own, text, bytes);
	own[bytes] = 0;
	free(t->text);
	*t = (struct zr_gguf_token){ own, bytes, score, type };
	return 0;
}

int zr_gguf_list_set_spaced(struct zr_gguf_token *t, const char *text, float score, int32_t type,
			    struct zr_error *err)
{
	static const char sign[] = "\xe2\x96\x81"; /* U+2581 */
	char *own = strdup(text), *at = own;

	if (!own)
		return zr_no_memory(err);
	while ((at = strstr(at, sign))) {
		*at++ = ' ';
		memmove(at, at + 2, strlen(at + 2) + 1);
	}

	int rc = zr_gguf_list_set(t, own, strlen(own), score, type, err);
	free(own);
	return rc;
}

struct zr_gguf_token *zr_gguf_list_new(int64_t n, float score, struct zr_error *err)
{
	struct zr_gguf_token *list = calloc((size_t)n + 1, sizeof *list);
	char text[32];

	for (int64_t i = 0; list && i < n; i++) {
		const int bytes = snprintf(text, sizeof text, "[PAD%lld]", (long long)i);
		if (zr_gguf_list_set(&list[i], text, (size_t)bytes, score, ZR_TOKEN_UNUSED, err)) {
			zr_gguf_list_free(list, n);
			return NULL;
		}
	}

	if (!list)
		zr_no_memory(err);
	return list;
}

void zr_gguf_list_free(struct zr_gguf_token *list, int64_t n)
{
	for (int64_t i = 0; list && i < n; i++)
		free(list[i].text);
	free(list);
}

/* Whether a text begins and ends so. */
static int between(const char *text, const char *first, const char *last)
{
	const size_t n = strlen(text), head = strlen(first), tail = strlen(last);
	return n >= head && n >= tail && !memcmp(text, first, head) &&
	       !memcmp(text + n - tail, last, tail);
}

int zr_gguf_looks_special(const char *text)
{
	static const char *const known[] = { "<pad>", "<mask>", "<2mass>", "[@BOS@]" };

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(text, known[i]))
			return 1;

	/* the second pair has the full-width bar of DeepSeek, U+FF5C */
	return between(text, "<|", "|>") || between(text, "<\xef\xbd\x9c", "\xef\xbd\x9c>") ||
	       between(text, "<unused", ">");
}

void zr_gguf_list_keys(struct zr_gguf_keys *k, const struct zr_gguf_token *list, int64_t n,
		       int scores)
{
	float *score = calloc((size_t)n + 1, sizeof *score);
	int32_t *type = calloc((size_t)n + 1, sizeof *type);

	if (!score || !type)
		k->failed = 1;
	zr_gguf_texts(k, "tokenizer.ggml.tokens", (uint64_t)n);
	for (int64_t i = 0; score && type && i < n; i++) {
		zr_gguf_add(k, list[i].text, list[i].bytes);
		score[i] = list[i].score;
		type[i] = list[i].type;
	}

	if (scores && score)
		zr_gguf_f32s(k, "tokenizer.ggml.scores", score, (uint64_t)n);
	if (type)
		zr_gguf_i32s(k, "tokenizer.ggml.token_type", type, (uint64_t)n);
	free(score);
	free(type);
}
