/* SPDX-License-Identifier: Apache-2.0
 *
 * load_steps.c - pre-tokenizer and post-processor of tokenizer.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

/* ---- pre-tokenizer ---- */

static int load_behavior(struct zr_tokenizer_loading *l, const json_t *o, const char *place,
			 struct zr_split *s)
{
	const char *behavior = json_string_value(json_object_get(o, "behavior"));
	static const char *const names[] = {
		[ZR_SPLIT_ISOLATED] = "Isolated",
		[ZR_SPLIT_REMOVED] = "Removed",
		[ZR_SPLIT_CONTIGUOUS] = "Contiguous",
		[ZR_SPLIT_WITH_PREVIOUS] = "MergedWithPrevious",
		[ZR_SPLIT_WITH_NEXT] = "MergedWithNext",
	};
	int known = sizeof names / sizeof *names;

	while (s->behavior < known && strcmp(behavior ? behavior : "", names[s->behavior]))
		s->behavior++;
	if (s->behavior >= known)
		return zr_load_fail(
			l, ZR_ENOTSUP, place,
			"behavior %.60s is not supported; Isolated, Removed, Contiguous, "
			"MergedWithPrevious "
			"and MergedWithNext are",
			behavior ? behavior : "none");

	return 0;
}

static int load_split(struct zr_tokenizer_loading *l, const json_t *o, const char *place,
		      struct zr_split *s)
{
	const json_t *pattern = json_object_get(o, "pattern");
	const char *regex = json_string_value(json_object_get(pattern, "Regex")),
		   *text = json_string_value(json_object_get(pattern, "String"));
	int rc = zr_load_flag(l, o, place, "invert", 0, &s->invert);

	if (!rc)
		rc = load_behavior(l, o, place, s);
	if (rc)
		return rc;
	if (!regex == !text || !*(regex ? regex : text))
		return zr_load_found(l, place, "a pattern that is a Regex or a String", pattern);
	if (l->t->spaces == ZR_SPACES_NORMALIZED && (regex || strcmp(text, " ")))
		return zr_load_fail(l, ZR_ENOTSUP, place,
				    "Split is not supported where the normalizer writes spaces "
				    "as U+2581, but for one at spaces");
	if (l->t->spaces == ZR_SPACES_NORMALIZED) { /* of which it has left none */
		s->behavior = ZR_SPLIT_ISOLATED;
		s->invert = 0;
		return 0;
	}

	return zr_load_regex(l, place, regex ? regex : text, !regex, &s->regex);
}

static int load_byte_level(struct zr_tokenizer_loading *l, const json_t *o, const char *place,
			   struct zr_split *s, int last)
{
	int use_regex;

	if (l->byte_level++)
		return zr_load_fail(l, ZR_ENOTSUP, place, "a second ByteLevel is not supported");

	int rc = zr_load_flag(l, o, place, "add_prefix_space", 1, &s->prefix);
	s->prefix *= ZR_PREFIX_ALL;
	s->alphabet = !last;
	if (!rc)
		rc = zr_load_flag(l, o, place, "use_regex", 1, &use_regex);
	if (rc || !use_regex)
		return rc;

	return zr_load_regex(l, place, ZR_PATTERN_GPT2, 0, &s->regex);
}

static int load_digits(struct zr_tokenizer_loading *l, const json_t *o, const char *place,
		       struct zr_split *s)
{
	int each;
	int rc = zr_load_flag(l, o, place, "individual_digits", 0, &each);

	s->behavior = each ? ZR_SPLIT_ISOLATED : ZR_SPLIT_CONTIGUOUS;
	if (rc)
		return rc;

	return zr_load_regex(l, place, ZR_PATTERN_DIGIT, 0, &s->regex);
}

static int load_punctuation(struct zr_tokenizer_loading *l, const json_t *o, const char *place,
			    struct zr_split *s)
{
	int rc = 0;

	if (json_object_get(o, "behavior"))
		rc = load_behavior(l, o, place, s);
	if (rc)
		return rc;

	return zr_load_regex(l, place, ZR_PATTERN_PUNCTUATION, 0, &s->regex);
}

/* What matches is a piece, the rest is removed. */
static int load_words(struct zr_tokenizer_loading *l, const char *pattern, const char *place,
		      struct zr_split *s)
{
	s->behavior = ZR_SPLIT_REMOVED;
	s->invert = 1;
	return zr_load_regex(l, place, pattern, 0, &s->regex);
}

static int load_delimiter(struct zr_tokenizer_loading *l, const json_t *o, const char *place,
			  struct zr_split *s)
{
	const char *text = json_string_value(json_object_get(o, "delimiter"));
	s->behavior = ZR_SPLIT_REMOVED;
	if (!text || !*text)
		return zr_load_found(l, place, "a delimiter", json_object_get(o, "delimiter"));

	return zr_load_regex(l, place, text, 1, &s->regex);
}

/* Steps of which what a pattern matches are the pieces. */
static const struct {
	const char *type, *pattern;
} of_words[] = {
	{ "BertPreTokenizer", ZR_PATTERN_BERT },
	{ "Whitespace", ZR_PATTERN_WORDS },
	{ "WhitespaceSplit", ZR_PATTERN_NO_SPACES },
};

static int load_step(struct zr_tokenizer_loading *l, const json_t *o, const char *place, int last)
{
	struct zr_split *s = &l->t->split[l->t->n_splits++];
	const char *type = zr_load_type(o), *name = *type ? type : "one without a type";
	int metaspace = !strcmp(type, "Metaspace"), byte_level = !strcmp(type, "ByteLevel");

	if (metaspace && l->t->spaced)
		return zr_load_metaspace(l, o, place, s, last);
	if (!strcmp(type, "Split"))
		return load_split(l, o, place, s);
	if (l->t->spaces == ZR_SPACES_NORMALIZED)
		return zr_load_fail(l, ZR_ENOTSUP, place,
				    "%.60s is not supported where the normalizer writes spaces "
				    "as U+2581",
				    name);
	if (byte_level && l->t->model == ZR_MODEL_BPE)
		return load_byte_level(l, o, place, s, last);
	if (!strcmp(type, "Digits"))
		return load_digits(l, o, place, s);
	if (!strcmp(type, "Punctuation"))
		return load_punctuation(l, o, place, s);
	if (!strcmp(type, "CharDelimiterSplit"))
		return load_delimiter(l, o, place, s);

	for (size_t i = 0; i < sizeof of_words / sizeof *of_words; i++)
		if (!strcmp(type, of_words[i].type))
			return load_words(l, of_words[i].pattern, place, s);

	return zr_load_fail(l, ZR_ENOTSUP, place,
			    "%.60s is not supported%s; BertPreTokenizer, ByteLevel, "
			    "CharDelimiterSplit, Digits, "
			    "Metaspace, Punctuation, Split, Whitespace and WhitespaceSplit are",
			    name, metaspace || byte_level ? " with this model" : "");
}

static int load_no_step(struct zr_tokenizer_loading *l)
{
	const struct zr_tokenizer *t = l->t;
	int words = t->spaces == ZR_SPACES_NORMALIZED && zr_load_takes_words(l);
	if (words)
		return zr_load_regex(l, "pre_tokenizer", ZR_PATTERN_SPACED_WORDS, 0,
				     &t->split->regex);

	return 0;
}

int zr_load_splits(struct zr_tokenizer_loading *l, const json_t *o)
{
	const json_t *one;
	size_t n = 0;
	int rc = 0;

	while (zr_load_step(o, "pretokenizers", n))
		n++;
	l->t->split = calloc(n + 1, sizeof *l->t->split);
	if (!l->t->split)
		return zr_no_memory(l->err);

	for (size_t i = 0; !rc && (one = zr_load_step(o, "pretokenizers", i)); i++) {
		char place[64] = "pre_tokenizer";
		if (one != o)
			snprintf(place, sizeof place, "pre_tokenizer.pretokenizers[%zu]", i);
		rc = load_step(l, one, place, i + 1 == n);
	}

	if (!n)
		l->t->n_splits = 1;
	int whole = l->t->n_splits == 1 && !l->t->split->regex && !l->byte_level &&
		    strcmp(zr_load_type(zr_load_step(o, "pretokenizers", 0)), "Metaspace");
	if (rc || !whole)
		return rc;

	return load_no_step(l);
}

/* ---- gaps ---- */

/* Whether text is changed character by character, and then what the first step of the
 * pre-tokenizer matches is split further, wherever it stands. */
static int may_have_gaps(const struct zr_tokenizer *t)
{
	const struct zr_split *s = t->split;
	int good = t->normalizer.n && !t->spaces && !t->apart && s->regex && s->invert &&
		   s->behavior == ZR_SPLIT_REMOVED && zr_regex_is_by_class(s->regex);

	for (int i = 0; i < t->normalizer.n; i++)
		good &= t->normalizer.step[i].kind == ZR_STEP_CHARACTERS;
	for (int i = 0; i < t->n_splits; i++)
		good &= s[i].prefix == ZR_PREFIX_NONE;

	return good;
}

static int is_removed(const struct zr_tokenizer *t, struct zr_match *m, char c)
{
	size_t start, stop;
	return !(c & 0x80) && !zr_regex_find(t->split->regex, m, &c, 1, 0, 0, &start, &stop, NULL);
}

/* What the normalizer makes of a character is one that the first step removes. */
static int is_gap(const struct zr_tokenizer *t, struct zr_match *m, int c)
{
	for (int i = 0; i < t->normalizer.n && c >= 0; i++) {
		if (c < 128)
			c = t->normalizer.step[i].ascii[c];
		else
			c = -1;
	}

	return c >= 0 && is_removed(t, m, (char)c);
}

/* Whether an added token may be on both sides of a gap. */
static int added_across(const struct zr_tokenizer *t, struct zr_match *m)
{
	const struct zr_added *a = &t->added[1];
	int across = 0;

	for (int32_t i = 0; i < a->n; i++)
		for (const char *p = a->token[i].content; *p; p++)
			across |= is_removed(t, m, *p);

	return across;
}

int zr_load_gaps(struct zr_tokenizer_loading *l)
{
	struct zr_match *m = NULL;

	if (!may_have_gaps(l->t))
		return 0;

	int rc = zr_match_open(&m, l->err);
	int across = 0;
	if (!rc)
		across = added_across(l->t, m);
	for (int c = 0; !rc && !across && c <= ' '; c++)
		l->t->gap[c] = (char)is_gap(l->t, m, c);
	zr_match_close(m);
	return rc;
}

/* ---- post-processor ---- */

static int put_ids(struct zr_tokenizer_loading *l, int after, const json_t *ids)
{
	int32_t **list = &l->t->template[after], *n = &l->t->n_template[after];
	size_t count = json_array_size(ids);
	int32_t *more = realloc(*list, ((size_t)*n + count + 1) * sizeof **list);
	if (!more)
		return zr_no_memory(l->err);

	*list = more;
	for (size_t i = 0; i < count; i++) {
		const json_t *id = json_array_get(ids, i);
		size_t bytes;
		if (!json_is_integer(id) ||
		    !zr_tokenizer_bytes(l->t, json_integer_value(id), &bytes))
			return zr_load_found(l, "post_processor.special_tokens",
					     "the id of a token", id);

		more[(*n)++] = (int32_t)json_integer_value(id);
	}

	if (!count)
		return zr_load_found(l, "post_processor.special_tokens", "ids", ids);

	return 0;
}

/* What is before the text and what is after it, in a template of one text. */
static int template(struct zr_tokenizer_loading *l, const json_t *o)
{
	const json_t *special = json_object_get(o, "special_tokens"), *v;
	const json_t *single = json_object_get(o, "single");
	int texts = 0, rc = 0;

	for (size_t i = 0; !rc && i < json_array_size(single); i++) {
		v = json_array_get(single, i);
		const char *name = json_string_value(
			json_object_get(json_object_get(v, "SpecialToken"), "id"));
		if (name)
			rc = put_ids(l, texts,
				     json_object_get(json_object_get(special, name), "ids"));
		else if (json_object_get(v, "Sequence") && !texts)
			texts = 1;
		else
			rc = zr_load_found(l, "post_processor.single",
					   "special tokens around one text", v);
	}

	if (!rc && !texts)
		return zr_load_found(l, "post_processor.single", "a list with one text", single);

	return rc;
}

/* BERT's and RoBERTa's: ["[CLS]", 101] before, ["[SEP]", 102] after. */
static int first_and_last(struct zr_tokenizer_loading *l, const json_t *o)
{
	static const char *const keys[2] = { "cls", "sep" };
	int rc = 0;

	for (int after = 0; !rc && after < 2; after++) {
		json_t *ids = json_array();
		if (!ids ||
		    json_array_append(ids, json_array_get(json_object_get(o, keys[after]), 1)))
			rc = zr_load_found(l, "post_processor",
					   "cls and sep, each a token and its id", o);
		if (!rc)
			rc = put_ids(l, after, ids);
		json_decref(ids);
	}

	return rc;
}

int zr_load_template(struct zr_tokenizer_loading *l, const json_t *o)
{
	const json_t *list = json_object_get(o, "processors");
	int rc = 0;

	if (!o || json_is_null(o) || !strcmp(zr_load_type(o), "ByteLevel"))
		return 0;
	if (!strcmp(zr_load_type(o), "TemplateProcessing") && !l->t->template[0] &&
	    !l->t->template[1])
		return template(l, o);

	int pair = !strcmp(zr_load_type(o), "BertProcessing") ||
		   !strcmp(zr_load_type(o), "RobertaProcessing");
	if (pair && !l->t->template[0] && !l->t->template[1])
		return first_and_last(l, o);
	if (strcmp(zr_load_type(o), "Sequence") || !json_is_array(list)) {
		snprintf(l->t->processor, sizeof l->t->processor, "%s",
			 *zr_load_type(o) ? zr_load_type(o) : "one without a type");
		return 0;
	}

	for (size_t i = 0; !rc && i < json_array_size(list); i++)
		rc = zr_load_template(l, json_array_get(list, i));

	return rc;
}
