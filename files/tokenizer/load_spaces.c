/* SPDX-License-Identifier: Apache-2.0
 *
 * load_spaces.c - which steps of tokenizer.json write a space as U+2581, and the Metaspace.
 */
#include <string.h>

#include "files/tokenizer/parts.h"

int zr_load_is_space_step(const json_t *o)
{
	const char *pattern =
		json_string_value(json_object_get(json_object_get(o, "pattern"), "String"));
	const char *content = json_string_value(json_object_get(o, "content"));
	return !strcmp(zr_load_type(o), "Replace") && pattern && !strcmp(pattern, " ") && content &&
	       !strcmp(content, ZR_SPACE);
}

int zr_load_is_spaced(const json_t *root)
{
	const json_t *normalizer = json_object_get(root, "normalizer"), *o;
	const json_t *pre = json_object_get(root, "pre_tokenizer");
	int spaced = 0;

	for (size_t i = 0; (o = zr_load_step(normalizer, "normalizers", i)); i++)
		spaced |= zr_load_is_space_step(o);
	for (size_t i = 0; (o = zr_load_step(pre, "pretokenizers", i)); i++)
		spaced |= !strcmp(zr_load_type(o), "Metaspace");

	return spaced;
}

int zr_load_takes_words(const struct zr_tokenizer_loading *l)
{
	const struct zr_tokenizer *t = l->t;
	const struct zr_bpe *b = &t->bpe;
	int bytes = 0;

	if (t->model != ZR_MODEL_BPE || l->joins_words || b->ignore_merges)
		return 0;

	for (int i = 0; i < 256; i++)
		bytes += t->byte[i] >= 0;
	/* a space without a token vanishes, or becomes one unknown token with what is before it:
	 * two words are one then */
	return bytes == 256 || (t->unknown >= 0 && b->character[' '] >= 0);
}

/* prepend_scheme, or what older files have for it. */
static int load_prefix(struct zr_tokenizer_loading *l, const json_t *o, struct zr_split *s)
{
	static const char *const names[] = { "never", "first", "always" };
	const json_t *scheme = json_object_get(o, "prepend_scheme");
	int add;

	if (!scheme) {
		int rc = zr_load_flag(l, o, "pre_tokenizer", "add_prefix_space", 1, &add);
		s->prefix = add ? ZR_PREFIX_ALL : ZR_PREFIX_NONE;
		return rc;
	}

	for (s->prefix = 0; s->prefix < 3; s->prefix++)
		if (json_is_string(scheme) && !strcmp(json_string_value(scheme), names[s->prefix]))
			return 0;

	return zr_load_found(l, "pre_tokenizer.prepend_scheme", "never, first or always", scheme);
}

int zr_load_metaspace(struct zr_tokenizer_loading *l, const json_t *o, const char *place,
		      struct zr_split *s, int last)
{
	const char *mark = json_string_value(json_object_get(o, "replacement"));
	int each;

	if (l->metaspaces++)
		return zr_load_fail(l, ZR_ENOTSUP, place, "a second Metaspace is not supported");
	if (!mark || strcmp(mark, ZR_SPACE))
		return zr_load_found(l, place, "the replacement U+2581",
				     json_object_get(o, "replacement"));

	int rc = zr_load_flag(l, o, place, "split", 1, &each);
	if (!rc)
		rc = load_prefix(l, o, s);
	if (s != l->t->split)
		s->spaces = 1;
	else if (!l->t->spaces)
		l->t->spaces = ZR_SPACES_SPLIT;
	s->marks = !last;
	if (rc)
		return rc;

	if (each)
		return zr_load_regex(l, place, ZR_PATTERN_SPACES_BEGIN, 0, &s->regex);

	/* what is not split is one piece, unless no token goes on behind a space */
	if (last && zr_load_takes_words(l))
		return zr_load_regex(l, place, ZR_PATTERN_SPACED_WORDS, 0, &s->regex);

	return 0;
}
