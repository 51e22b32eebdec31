/* SPDX-License-Identifier: Apache-2.0
 *
 * spaces.c - vocabularies of SentencePiece as Hugging Face's tokenizer.json has them. They differ
 * from byte-level ones in that a space is written U+2581, and that a character without a token may
 * become tokens of its bytes, <0x00> to <0xFF>.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

/* The first U+2581 in whole characters; NULL: there is none. */
static const char *find_space(const char *p, size_t n)
{
	const char *end = p + n;
	while ((p = memchr(p, ZR_SPACE[0], (size_t)(end - p))) && memcmp(p, ZR_SPACE, 3))
		p++;
	return p;
}

int zr_spaces(const char *p, size_t n, struct zr_buf *out)
{
	while (n) {
		const char *mark = find_space(p, n);
		size_t before = mark ? (size_t)(mark - p) : n;
		if (zr_buf_add(out, p, before) || (mark && zr_buf_add(out, " ", 1)))
			return ZR_ENOMEM;
		n -= mark ? before + 3 : n;
		p = mark ? mark + 3 : p;
	}
	return 0;
}

size_t zr_spaces_place(const void *unused, const char *p, size_t n, size_t at)
{
	size_t less = 0;
	(void)unused;
	for (const char *q = p, *mark; (mark = memmem(q, n - (size_t)(q - p), ZR_SPACE, 3));
	     q = mark + 3) {
		size_t m = (size_t)(mark - p);
		if (m >= at)
			break;
		less += at >= m + 3 ? 2 : at - m;
	}
	return at - less;
}

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

static int hex(char c)
{
	const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

int zr_spaced_token(const struct zr_tokenizer *t, const char *text, char *out, size_t *n)
{
	struct zr_buf to = { .p = out, .room = SIZE_MAX }; /* out has the room; nothing grows */
	if (t->byte_fallback && strlen(text) == 6 && !memcmp(text, "<0x", 3) && text[5] == '>' &&
	    hex(text[3]) >= 0 && hex(text[4]) >= 0) {
		*out = (char)(hex(text[3]) << 4 | hex(text[4]));
		*n = 1;
		return ZR_TOKEN_BYTE;
	}
	if (t->spaced)
		zr_spaces(text, strlen(text), &to);
	else
		memcpy(out, text, to.n = strlen(text));
	*n = to.n;
	return t->spaced && strchr(text, ' ') ? ZR_TOKEN_OTHER : ZR_TOKEN_MADE;
}

int zr_spaced_joins(const char *text)
{
	while (!strncmp(text, ZR_SPACE, 3))
		text += 3;
	return strstr(text, ZR_SPACE) != NULL;
}

/* prepend_scheme, or what older files have for it. */
static int load_prefix(struct zr_load *l, const json_t *o, struct zr_split *s)
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

int zr_load_metaspace(struct zr_load *l, const json_t *o, const char *place, struct zr_split *s)
{
	const char *mark = json_string_value(json_object_get(o, "replacement"));
	int each;
	if (!mark || strcmp(mark, ZR_SPACE))
		return zr_load_found(l, place, "the replacement U+2581",
				     json_object_get(o, "replacement"));
	int rc = zr_load_flag(l, o, place, "split", 1, &each);
	rc = rc ? rc : load_prefix(l, o, s);
	if (s != l->t->split)
		s->spaces = 1;
	else if (!l->t->spaces)
		l->t->spaces = ZR_SPACES_SPLIT;
	/* what is not split is one piece, unless no token goes on behind a space */
	int words = l->t->model == ZR_MODEL_BPE && !l->joins_words;
	return rc || (!each && !words) ?
		       rc :
		       zr_load_regex(l, place,
				     each ? ZR_PATTERN_SPACES_BEGIN : ZR_PATTERN_SPACED_WORDS, 0,
				     &s->regex);
}
