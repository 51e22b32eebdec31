/* SPDX-License-Identifier: Apache-2.0
 *
 * load_models.c - the models Unigram and WordPiece of tokenizer.json.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

/* ---- Unigram ---- */

/* The library reads a number as its digits, an integer, times or by a power of ten, each rounded to
 * a double: not always the nearest one, which x is. The digits are the fewest that mean x, as the
 * library and Python write it. */
static double as_read(double x)
{
	char text[40], digits[40];
	int precision = 14, n = 0, exponent;
	do
		snprintf(text, sizeof text, "%.*e", precision, x);
	while (strtod(text, NULL) != x && ++precision < 17);
	for (const char *p = text; *p && *p != 'e'; p++)
		if (*p >= '0' && *p <= '9')
			digits[n++] = *p;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	digits[n] = 0;
	exponent = atoi(strchr(text, 'e') + 1) - n + 1;
	double power = 1, y = (double)strtoull(digits, NULL, 10);
	if (abs(exponent) > 22) /* powers up to here are exact */
		return x;
	for (int i = 0; i < abs(exponent); i++)
		power *= 10;
	y = exponent < 0 ? y / power : y * power;
	return x < 0 ? -y : y;
}

/* The token and score of an entry. */
static int load_entry(struct zr_load *l, size_t i, const json_t *v, struct zr_trie_text *text,
		      size_t *texts)
{
	const char *key = json_string_value(json_array_get(v, 0));
	const json_t *score = json_array_get(v, 1);
	struct zr_tokenizer *t = l->t;
	char place[64];
	int kind;
	snprintf(place, sizeof place, "model.vocab[%zu]", i);
	if (!key || !json_is_number(score) || !isfinite(json_number_value(score)))
		return zr_load_found(l, place, "a token and its score", v);
	int rc = zr_load_token(l, key, (int64_t)i, &kind);
	if (rc)
		return rc;
	if (json_object_set_new(l->vocab, key, json_integer((json_int_t)i)))
		return zr_err(l->err, ZR_ENOMEM, "out of memory");
	const struct zr_token *token = &t->token[i];
	t->score[i] = as_read(json_number_value(score));
	if (!i || t->score[i] < t->unknown_score)
		t->unknown_score = t->score[i];
	struct zr_trie_text *next = &text[*texts];
	*next = (struct zr_trie_text){ token->p, token->n, (int32_t)i };
	if (kind == ZR_TOKEN_BYTE) /* in text it stands for what it is written as */
		*next = (struct zr_trie_text){ key, (uint32_t)strlen(key), (int32_t)i };
	*texts += kind != ZR_TOKEN_OTHER && next->n;
	return 0;
}

static int load_entries(struct zr_load *l, const json_t *list)
{
	size_t n = json_array_size(list), texts = 0, i;
	struct zr_trie_text *text = malloc((n + 1) * sizeof *text);
	json_t *v;
	int rc = 0;
	l->t->score = calloc((size_t)l->t->size + 1, sizeof *l->t->score);
	if (!text || !l->t->score)
		rc = zr_err(l->err, ZR_ENOMEM, "out of memory");
	json_array_foreach (list, i, v)
		rc = rc ? rc : load_entry(l, i, v, text, &texts);
	l->t->unknown_score -= 10; /* kUnkPenalty of SentencePiece */
	if (!rc && zr_trie_build(&l->t->trie, text, texts))
		rc = zr_err(l->err, ZR_ENOMEM, "out of memory");
	free(text);
	return rc;
}

int zr_load_unigram(struct zr_load *l, json_t *model, const json_t *added)
{
	json_t *list = json_object_get(model, "vocab");
	const json_t *unknown = json_object_get(model, "unk_id");
	size_t n = json_array_size(list), bytes = 0;
	if (!n)
		return zr_load_found(l, "model.vocab", "a list of tokens with their scores", list);
	if (n > ZR_TOKENIZER_IDS)
		return zr_load_fail(l, ZR_ENOTSUP, "model.vocab", "has %zu tokens, more than %d", n,
				    ZR_TOKENIZER_IDS);
	if (!json_is_integer(unknown) || json_integer_value(unknown) < 0 ||
	    json_integer_value(unknown) >= (json_int_t)n)
		return zr_load_found(l, "model.unk_id", "the id of a token", unknown);
	l->t->unknown = (int32_t)json_integer_value(unknown);
	l->t->size = (int64_t)n;
	for (size_t i = 0; i < n; i++)
		bytes += json_string_length(json_array_get(json_array_get(list, i), 0)) + 1;
	json_incref(list);
	l->vocab = json_object(); /* takes the place of the list */
	int rc = json_object_set_new(model, "vocab", l->vocab) ?
			 zr_err(l->err, ZR_ENOMEM, "out of memory") :
			 zr_load_room(l, bytes, added);
	rc = rc ? rc : load_entries(l, list);
	json_decref(list);
	return rc;
}

/* ---- WordPiece ---- */

static int build_trie(struct zr_load *l)
{
	struct zr_tokenizer *t = l->t;
	struct zr_trie_text *text = malloc((json_object_size(l->vocab) + 1) * sizeof *text);
	const char *key;
	json_t *v;
	size_t n = 0;
	if (!text)
		return zr_err(l->err, ZR_ENOMEM, "out of memory");
	json_object_foreach (l->vocab, key, v) {
		text[n] = (struct zr_trie_text){ key, (uint32_t)strlen(key),
						 (int32_t)json_integer_value(v) };
		n += text[n].n > 0;
	}
	int rc = zr_trie_build(&t->trie, text, n) ? zr_err(l->err, ZR_ENOMEM, "out of memory") : 0;
	free(text);
	return rc;
}

int zr_load_wordpiece(struct zr_load *l, json_t *model, const json_t *added)
{
	struct zr_tokenizer *t = l->t;
	const json_t *prefix = json_object_get(model, "continuing_subword_prefix");
	const json_t *longest = json_object_get(model, "max_input_chars_per_word");
	const char *text = prefix ? json_string_value(prefix) : "##";
	if (!text)
		return zr_load_found(l, "model.continuing_subword_prefix", "a text", prefix);
	if (longest && (!json_is_integer(longest) || json_integer_value(longest) < 0))
		return zr_load_found(l, "model.max_input_chars_per_word", "a number", longest);
	t->longest_word = longest ? (size_t)json_integer_value(longest) : 100;
	int rc = zr_load_vocab(l, added);
	rc = rc ? rc : zr_load_unknown(l, json_object_get(model, "unk_token"), "[UNK]");
	if (!rc && t->unknown < 0)
		rc = zr_load_found(l, "model.unk_token", "a token of the vocabulary", NULL);
	rc = rc ? rc : build_trie(l);
	if (rc)
		return rc;
	t->continuing = zr_trie_walk(&t->trie, text, strlen(text));
	t->no_continuing = *text && !t->continuing;
	return 0;
}
