/* SPDX-License-Identifier: Apache-2.0
 *
 * load_added.c - added tokens of tokenizer.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

/* The id belongs to this content, in the vocabulary or from now on. */
static int claim(struct zr_tokenizer_loading *l, const char *place, const char *content, int64_t id)
{
	struct zr_tokenizer *t = l->t;
	size_t n = strlen(content);
	const struct zr_name *known = zr_names_find(&l->names, content, n);
	if (known && known->id != id)
		return zr_load_fail(l, ZR_EINVAL, place, "%.60s has id %lld, and also %d", content,
				    (long long)id, known->id);
	if (!known && t->token[id].p)
		return zr_load_fail(l, ZR_EINVAL, place, "%.60s has the id %lld of %.60s", content,
				    (long long)id, t->token[id].p);
	if (!known) {
		zr_names_put(&l->names, content, n, id);
		t->token[id] = (struct zr_token){ .p = t->text.p + t->text.n, .n = (uint32_t)n };
		memcpy(t->text.p + t->text.n, content, n + 1);
		t->text.n += n + 1;
	}

	return 0;
}

static int append(void *arg, const char *p, size_t n)
{
	return zr_buf_add(arg, p, n);
}

/* Appends the content as it is looked for. */
static int put_wanted(struct zr_tokenizer_loading *l, const char *content, int normalized,
		      struct zr_buf *to)
{
	const struct zr_tokenizer *t = l->t;
	size_t n = strlen(content);

	if (!normalized)
		return zr_buf_add(to, content, n);

	if (t->normalizer.n) {
		struct zr_match *match = NULL;
		int rc = zr_match_open(&match, l->err);
		if (!rc)
			rc = zr_normalize(&t->normalizer, match, content, n, 1, to, l->err);
		zr_match_close(match);
		return rc;
	}

	if (t->spaces == ZR_SPACES_NORMALIZED) {
		if (t->prepend && zr_buf_add(to, " ", 1))
			return ZR_ENOMEM;

		return zr_spaces(content, n, to);
	}

	if (t->nfc)
		return zr_form(ZR_FORM_C, content, n, append, to, l->err);

	return zr_buf_add(to, content, n);
}

/* The content as it is looked for, owned by the token. */
static int wanted_text(struct zr_tokenizer_loading *l, struct zr_added_token *a,
		       const char *content, int normalized)
{
	struct zr_buf text = { 0 };
	int rc = put_wanted(l, content, normalized, &text);

	a->len = (uint32_t)text.n;
	if (!rc)
		rc = zr_buf_add(&text, "", 1);
	a->content = text.p;
	if (rc)
		return zr_err(l->err, rc, "out of memory");

	return 0;
}

static int need_words(struct zr_tokenizer_loading *l, struct zr_added *all, const char *place)
{
	struct zr_error why = { 0 };
	int rc = zr_regex_compile("[" ZR_WORD_CLASS "]", 0, &all->word, &why);
	if (rc)
		return zr_load_fail(l, rc, place, "single_word: %s", why.text);

	return 0;
}

/* What an object of added_tokens says of a token, its text apart. */
static int load_flags(struct zr_tokenizer_loading *l, const json_t *o, const char *place,
		      struct zr_added_token *a, int *normalized)
{
	int special;
	int rc = zr_load_flag(l, o, place, "lstrip", 0, &a->lstrip);
	if (!rc)
		rc = zr_load_flag(l, o, place, "rstrip", 0, &a->rstrip);
	if (!rc)
		rc = zr_load_flag(l, o, place, "single_word", 0, &a->single_word);
	if (!rc)
		rc = zr_load_flag(l, o, place, "special", 0, &special);
	if (!rc)
		rc = zr_load_flag(l, o, place, "normalized", !special, normalized);
	if (!rc)
		l->t->token[a->id].special = special != 0;

	return rc;
}

static int load_one(struct zr_tokenizer_loading *l, const json_t *o, const char *place)
{
	struct zr_added_token a = { .id = (int32_t)json_integer_value(json_object_get(o, "id")) };
	const char *content = json_string_value(json_object_get(o, "content"));
	int normalized;

	if (!content)
		return zr_load_found(l, place, "an object with id and content", o);

	int rc = claim(l, place, content, a.id);
	if (!rc)
		rc = load_flags(l, o, place, &a, &normalized);
	if (rc || !*content) /* one without text is never found */
		return rc;

	struct zr_added *all = &l->t->added[normalized];
	rc = wanted_text(l, &a, content, normalized);
	if (!rc && !a.len) { /* nor one of which nothing is left */
		free((char *)a.content);
		return 0;
	}

	all->token[all->n++] = a;
	if (rc || !a.single_word || all->word)
		return rc;

	return need_words(l, all, place);
}

int zr_load_added(struct zr_tokenizer_loading *l, const json_t *list)
{
	struct zr_added *all = l->t->added;
	char place[64];
	json_t *v;
	size_t i;
	int rc = 0;

	for (int64_t k = 0; k < l->t->size; k++)
		l->t->own += l->t->token[k].p != NULL;
	all[1].marked = l->t->spaces == ZR_SPACES_NORMALIZED;
	for (int k = 0; k < 2; k++) {
		all[k].token = calloc(json_array_size(list) + 1, sizeof *all[k].token);
		if (!all[k].token)
			rc = zr_no_memory(l->err);
	}

	json_array_foreach(list, i, v)
	{
		snprintf(place, sizeof place, "added_tokens[%zu]", i);
		if (!rc)
			rc = load_one(l, v, place);
	}

	if (!rc) {
		zr_added_sort(&all[0]);
		zr_added_sort(&all[1]);
	}

	return rc;
}
