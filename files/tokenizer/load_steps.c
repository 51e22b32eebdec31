/* SPDX-License-Identifier: Apache-2.0
 *
 * load_steps.c - normalizer, pre-tokenizer and post-processor of tokenizer.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

static const char *type_of(const json_t *o)
{
	const char *type = json_string_value(json_object_get(o, "type"));
	return type ? type : "";
}

/* ---- normalizer ---- */

static int load_normalizer(struct zr_load *l, const json_t *o, int depth)
{
	const json_t *list = json_object_get(o, "normalizers");
	json_t *v;
	size_t i;
	int rc = 0;
	if (!o || json_is_null(o))
		return 0;
	if (!strcmp(type_of(o), "NFC")) {
		l->t->nfc = 1;
		struct zr_error why = { 0 };
		return zr_nfc_there(&why) ? zr_load_fail(l, ZR_ENOTSUP, "normalizer", "%s", why.text) : 0;
	}
	if (strcmp(type_of(o), "Sequence") || !json_is_array(list) || depth)
		return zr_load_fail(l, ZR_ENOTSUP, "normalizer", "%.60s is not supported; NFC is", *type_of(o) ? type_of(o) : "one without a type");
	json_array_foreach (list, i, v)
		rc = rc ? rc : load_normalizer(l, v, depth + 1);
	return rc;
}

int zr_load_normalizer(struct zr_load *l, const json_t *o)
{
	return l->t->bpe.characters ? zr_load_spaced_normalizer(l, o) : load_normalizer(l, o, 0);
}

/* ---- pre-tokenizer ---- */

static int set_regex(struct zr_load *l, struct zr_split *s, const char *place, const char *pattern, int literal)
{
	struct zr_error why = { 0 };
	int rc = zr_regex_compile(pattern, literal, &s->regex, &why);
	return rc ? zr_load_fail(l, rc, place, "%s", why.text) : 0;
}

static int load_split(struct zr_load *l, const json_t *o, const char *place, struct zr_split *s)
{
	const json_t *pattern = json_object_get(o, "pattern");
	const char *regex = json_string_value(json_object_get(pattern, "Regex")), *text = json_string_value(json_object_get(pattern, "String"));
	const char *behavior = json_string_value(json_object_get(o, "behavior"));
	static const char *const names[] = {
		[ZR_SPLIT_ISOLATED] = "Isolated", [ZR_SPLIT_REMOVED] = "Removed", [ZR_SPLIT_CONTIGUOUS] = "Contiguous",
		[ZR_SPLIT_WITH_PREVIOUS] = "MergedWithPrevious", [ZR_SPLIT_WITH_NEXT] = "MergedWithNext",
	};
	int known = sizeof names / sizeof *names, rc = zr_load_flag(l, o, place, "invert", 0, &s->invert);
	if (rc)
		return rc;
	if (!regex == !text || !*(regex ? regex : text))
		return zr_load_found(l, place, "a pattern that is a Regex or a String", pattern);
	while (s->behavior < known && strcmp(behavior ? behavior : "", names[s->behavior]))
		s->behavior++;
	if (s->behavior == known)
		return zr_load_fail(l, ZR_ENOTSUP, place, "behavior %.60s is not supported; Isolated, Removed, Contiguous, MergedWithPrevious "
				    "and MergedWithNext are", behavior ? behavior : "none");
	return set_regex(l, s, place, regex ? regex : text, !regex);
}

static int load_byte_level(struct zr_load *l, const json_t *o, const char *place, struct zr_split *s)
{
	int use_regex;
	int rc = zr_load_flag(l, o, place, "add_prefix_space", 1, &s->prefix);
	s->prefix *= ZR_PREFIX_ALL;
	rc = rc ? rc : zr_load_flag(l, o, place, "use_regex", 1, &use_regex);
	return rc || !use_regex ? rc : set_regex(l, s, place, ZR_PATTERN_GPT2, 0);
}

static int load_step(struct zr_load *l, const json_t *o, const char *place, int last)
{
	struct zr_split *s = &l->t->split[l->t->n_splits++];
	int byte_level = !strcmp(type_of(o), "ByteLevel");
	if (byte_level != last)
		return zr_load_fail(l, ZR_ENOTSUP, place, last ? "the last pre-tokenizer must be ByteLevel" : "after ByteLevel nothing is supported");
	if (byte_level)
		return load_byte_level(l, o, place, s);
	if (!strcmp(type_of(o), "Split"))
		return load_split(l, o, place, s);
	return zr_load_fail(l, ZR_ENOTSUP, place, "%.60s is not supported; Split and ByteLevel are", *type_of(o) ? type_of(o) : "one without a type");
}

int zr_load_splits(struct zr_load *l, const json_t *o)
{
	const json_t *list = strcmp(type_of(o), "Sequence") ? NULL : json_object_get(o, "pretokenizers");
	size_t n = list ? json_array_size(list) : 1;
	char place[64];
	int rc = 0;
	if (l->t->bpe.characters)
		return zr_load_spaced_splits(l, o);
	l->t->split = calloc(n + 1, sizeof *l->t->split);
	if (!l->t->split)
		return zr_err(l->err, ZR_ENOMEM, "out of memory");
	if (!list || !n)
		return load_step(l, o, "pre_tokenizer", 1);
	for (size_t i = 0; !rc && i < n; i++) {
		snprintf(place, sizeof place, "pre_tokenizer.pretokenizers[%zu]", i);
		rc = load_step(l, json_array_get(list, i), place, i + 1 == n);
	}
	return rc;
}

/* ---- post-processor ---- */

static int put_ids(struct zr_load *l, int after, const json_t *ids)
{
	int32_t **list = &l->t->template[after], *n = &l->t->n_template[after];
	size_t count = json_array_size(ids);
	int32_t *more = realloc(*list, ((size_t)*n + count + 1) * sizeof **list);
	if (!more)
		return zr_err(l->err, ZR_ENOMEM, "out of memory");
	*list = more;
	for (size_t i = 0; i < count; i++) {
		const json_t *id = json_array_get(ids, i);
		size_t bytes;
		if (!json_is_integer(id) || !zr_tokenizer_bytes(l->t, json_integer_value(id), &bytes))
			return zr_load_found(l, "post_processor.special_tokens", "the id of a token", id);
		more[(*n)++] = (int32_t)json_integer_value(id);
	}
	return count ? 0 : zr_load_found(l, "post_processor.special_tokens", "ids", ids);
}

/* What is before the text and what is after it, in a template of one text. */
static int template(struct zr_load *l, const json_t *o)
{
	const json_t *special = json_object_get(o, "special_tokens"), *v;
	const json_t *single = json_object_get(o, "single");
	int texts = 0, rc = 0;
	for (size_t i = 0; !rc && i < json_array_size(single); i++) {
		v = json_array_get(single, i);
		const char *name = json_string_value(json_object_get(json_object_get(v, "SpecialToken"), "id"));
		if (name)
			rc = put_ids(l, texts, json_object_get(json_object_get(special, name), "ids"));
		else if (json_object_get(v, "Sequence") && !texts)
			texts = 1;
		else
			rc = zr_load_found(l, "post_processor.single", "special tokens around one text", v);
	}
	return rc || texts ? rc : zr_load_found(l, "post_processor.single", "a list with one text", single);
}

int zr_load_template(struct zr_load *l, const json_t *o)
{
	const json_t *list = json_object_get(o, "processors");
	int rc = 0;
	if (!o || json_is_null(o) || !strcmp(type_of(o), "ByteLevel"))
		return 0;
	if (!strcmp(type_of(o), "TemplateProcessing") && !l->t->template[0] && !l->t->template[1])
		return template(l, o);
	if (strcmp(type_of(o), "Sequence") || !json_is_array(list)) {
		snprintf(l->t->unknown, sizeof l->t->unknown, "%s", *type_of(o) ? type_of(o) : "one without a type");
		return 0;
	}
	for (size_t i = 0; !rc && i < json_array_size(list); i++)
		rc = zr_load_template(l, json_array_get(list, i));
	return rc;
}
