/* SPDX-License-Identifier: Apache-2.0
 *
 * load_models.c - the models Unigram and WordPiece of tokenizer.json.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

/* Whether a value of the file is a number from 0 on, and below n. */
static int is_below(const json_t *v, size_t n)
{
	return json_is_integer(v) && json_integer_value(v) >= 0 &&
	       (uint64_t)json_integer_value(v) < n;
}

/* ---- Unigram ---- */

/* Reads the entry of token i: its name, which follows the others, and its score. */
static int read_entry(struct zr_tokenizer_loading *l, int32_t i, struct zr_list *list,
		      struct zr_name *name)
{
	struct zr_buf *to = &l->names.text;
	double *score = &l->t->score[i];
	size_t at = to->n;
	char place[64];

	const char *p = zr_list_string(zr_list_mark(list->p, '['), to);
	*name = (struct zr_name){ .p = to->p + at, .n = (uint32_t)(to->n - at), .id = i };
	p = zr_list_mark(zr_list_number(zr_list_mark(p, ','), score), ']');
	if (!p || !isfinite(*score)) {
		snprintf(place, sizeof place, "model.vocab[%d]", i);
		return zr_load_unread(l, place, "a token and its score", list->p);
	}

	list->p = p;
	if (zr_buf_add(to, "", 1))
		return zr_no_memory(l->err);

	return 0;
}

/* The token and score of an entry. */
static int load_entry(struct zr_tokenizer_loading *l, int32_t i, struct zr_list *list,
		      struct zr_trie_text *text, size_t *texts)
{
	struct zr_tokenizer *t = l->t;
	const struct zr_token *token = &t->token[i];
	struct zr_trie_text *next = &text[*texts];
	struct zr_name name;
	int kind;

	int rc = read_entry(l, i, list, &name);
	if (!rc)
		rc = zr_load_token(l, &name, &kind);
	if (rc)
		return rc;

	zr_names_put(&l->names, name.p, name.n, name.id);
	if (!i || t->score[i] < t->unknown_score)
		t->unknown_score = t->score[i];
	*next = (struct zr_trie_text){ token->p, token->n, name.id, 0 };
	if (kind == ZR_TOKEN_BYTE) /* in text it stands for what it is written as */
		*next = (struct zr_trie_text){ name.p, name.n, name.id, 0 };
	*texts += kind != ZR_TOKEN_OTHER && next->n;
	return 0;
}

static int load_entries(struct zr_tokenizer_loading *l, struct zr_list list)
{
	size_t texts = 0, i = 0;
	struct zr_trie_text *text = malloc((list.entries + 1) * sizeof *text);
	int rc = 0, more;

	l->t->score = calloc((size_t)l->t->size + 1, sizeof *l->t->score);
	if (!text || !l->t->score)
		rc = zr_no_memory(l->err);
	while (!rc && (more = zr_list_next(&list))) {
		if (more < 0)
			rc = zr_load_unread(l, "model.vocab", "a list", list.text);
		else
			rc = load_entry(l, i++, &list, text, &texts);
	}

	l->t->unknown_score -= 10; /* kUnkPenalty of SentencePiece */
	if (!rc && zr_trie_build(&l->t->trie, text, texts))
		rc = zr_no_memory(l->err);
	free(text);
	return rc;
}

int zr_load_unigram(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added)
{
	struct zr_list list = l->lists.vocab;
	const json_t *unknown = json_object_get(model, "unk_id");
	size_t n = list.entries;

	if (!list.text || *list.text != '[' || zr_list_next(&list) != 1)
		return zr_load_unread(l, "model.vocab", "a list of tokens with their scores",
				      list.text);
	if (n > ZR_TOKENIZER_IDS)
		return zr_load_fail(l, ZR_ENOTSUP, "model.vocab", "has %zu tokens, more than %d", n,
				    ZR_TOKENIZER_IDS);
	if (!is_below(unknown, n))
		return zr_load_found(l, "model.unk_id", "the id of a token", unknown);

	l->t->unknown = (int32_t)json_integer_value(unknown);
	l->t->size = (int64_t)n;
	int rc = zr_load_names(l, added);
	if (!rc)
		rc = zr_load_room(l, list.bytes, added);
	if (rc)
		return rc;

	return load_entries(l, l->lists.vocab);
}

/* ---- WordPiece ---- */

static int build_trie(struct zr_tokenizer_loading *l)
{
	struct zr_tokenizer *t = l->t;
	struct zr_trie_text *text = malloc((l->names.n + 1) * sizeof *text);
	size_t n = 0;

	if (!text)
		return zr_no_memory(l->err);

	for (size_t i = 0; i < l->names.n; i++) {
		const struct zr_name *name = &l->names.name[i];
		text[n] = (struct zr_trie_text){ name->p, name->n, name->id, 0 };
		n += text[n].n > 0;
	}

	int rc = 0;
	if (zr_trie_build(&t->trie, text, n))
		rc = zr_no_memory(l->err);
	free(text);
	return rc;
}

int zr_load_wordpiece(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added)
{
	struct zr_tokenizer *t = l->t;
	const json_t *prefix = json_object_get(model, "continuing_subword_prefix");
	const json_t *longest = json_object_get(model, "max_input_chars_per_word");
	const char *text = "##";

	if (prefix)
		text = json_string_value(prefix);
	if (!text)
		return zr_load_found(l, "model.continuing_subword_prefix", "a text", prefix);
	if (longest && !is_below(longest, SIZE_MAX / 2))
		return zr_load_found(l, "model.max_input_chars_per_word", "a number", longest);

	t->longest_word = longest ? (size_t)json_integer_value(longest) : 100;
	int rc = zr_load_vocab(l, added);
	if (!rc)
		rc = zr_load_unknown(l, json_object_get(model, "unk_token"), "[UNK]");
	if (!rc && t->unknown < 0)
		rc = zr_load_found(l, "model.unk_token", "a token of the vocabulary", NULL);
	if (!rc)
		rc = build_trie(l);
	if (rc)
		return rc;

	t->prefix = strlen(text);
	t->continuing = zr_trie_walk(&t->trie, text, strlen(text));
	t->no_continuing = *text && !t->continuing;
	return 0;
}
