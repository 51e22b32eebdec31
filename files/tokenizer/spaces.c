/* SPDX-License-Identifier: Apache-2.0
 *
 * spaces.c - tokenizers of SentencePiece as Hugging Face's tokenizer.json describes them: Llama 2,
 * Mistral, Gemma, Phi-3. They differ from byte-level ones in that a space is written U+2581, merges
 * begin with characters, and a character without a token becomes tokens of its bytes, <0x00> to
 * <0xFF>.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

#define MARK "\u2581" /* what a space is written as; 3 bytes */

/* Pieces that no merge crosses: where no token has a space behind another character, and where
 * each space begins a piece. */
#define WORDS " *[^ ]+| +"
#define EACH " [^ ]*|[^ ]+"

int zr_spaces(const char *p, size_t n, struct zr_buf *out)
{
	while (n) {
		const char *mark = memmem(p, n, MARK, 3);
		size_t before = mark ? (size_t)(mark - p) : n;
		if (zr_buf_add(out, p, before) || (mark && zr_buf_add(out, " ", 1)))
			return ZR_ENOMEM;
		n -= mark ? before + 3 : n;
		p = mark ? mark + 3 : p;
	}
	return 0;
}

size_t zr_spaces_place(const char *p, size_t n, size_t at)
{
	size_t less = 0;
	for (const char *q = p, *mark; (mark = memmem(q, n - (size_t)(q - p), MARK, 3)); q = mark + 3) {
		size_t m = (size_t)(mark - p);
		if (m >= at)
			break;
		less += at >= m + 3 ? 2 : at - m;
	}
	return at - less;
}

static const char *type_of(const json_t *o)
{
	const char *type = json_string_value(json_object_get(o, "type"));
	return type ? type : "";
}

/* The steps of a normalizer or pre-tokenizer: those of a sequence, or itself; NULL behind the
 * last. */
static const json_t *step(const json_t *o, const char *list, size_t i)
{
	if (!strcmp(type_of(o), "Sequence"))
		return json_array_get(json_object_get(o, list), i);
	return i || json_is_null(o) ? NULL : o;
}

int zr_load_is_spaced(const json_t *root)
{
	const json_t *pre = json_object_get(root, "pre_tokenizer"), *o;
	int bytes = 0;
	for (size_t i = 0; (o = step(pre, "pretokenizers", i)); i++)
		bytes |= !strcmp(type_of(o), "ByteLevel");
	return !bytes && json_is_true(json_object_get(json_object_get(root, "model"),
						      "byte_fallback"));
}

static int hex(char c)
{
	const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

int zr_spaced_token(const char *text, char *out, size_t *n)
{
	struct zr_buf to = { .p = out, .room = SIZE_MAX }; /* out has the room; nothing grows */
	if (strlen(text) == 6 && !memcmp(text, "<0x", 3) && text[5] == '>' && hex(text[3]) >= 0 &&
	    hex(text[4]) >= 0) {
		*out = (char)(hex(text[3]) << 4 | hex(text[4]));
		*n = 1;
		return ZR_TOKEN_BYTE;
	}
	zr_spaces(text, strlen(text), &to);
	*n = to.n;
	return strchr(text, ' ') ? ZR_TOKEN_OTHER : ZR_TOKEN_MADE;
}

int zr_spaced_joins(const char *text)
{
	while (!strncmp(text, MARK, 3))
		text += 3;
	return strstr(text, MARK) != NULL;
}

/* ---- normalizer ---- */

static int load_normalizer(struct zr_load *l, const json_t *o)
{
	const char *pattern = json_string_value(json_object_get(json_object_get(o, "pattern"),
								"String"));
	const char *content = json_string_value(json_object_get(o, "content"));
	const char *prepend = json_string_value(json_object_get(o, "prepend"));
	if (!strcmp(type_of(o), "Prepend") && prepend && !strcmp(prepend, MARK)) {
		l->t->prepend = 1;
		return 0;
	}
	if (!strcmp(type_of(o), "Replace") && pattern && !strcmp(pattern, " ") && content &&
	    !strcmp(content, MARK)) {
		l->t->spaces = ZR_SPACES_NORMALIZED;
		return 0;
	}
	return zr_load_fail(l, ZR_ENOTSUP, "normalizer",
			    "%.60s is not supported with byte_fallback; Prepend of U+2581 and "
			    "Replace of a space by U+2581 are", *type_of(o) ? type_of(o) : "one without a type");
}

int zr_load_spaced_normalizer(struct zr_load *l, const json_t *o)
{
	const json_t *one;
	int rc = 0;
	for (size_t i = 0; !rc && (one = step(o, "normalizers", i)); i++)
		rc = load_normalizer(l, one);
	if (!rc && l->t->prepend && !l->t->spaces)
		rc = zr_load_fail(l, ZR_ENOTSUP, "normalizer",
				  "Prepend without Replace is not supported");
	return rc;
}

/* ---- pre-tokenizer ---- */

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

static int load_split(struct zr_load *l, const json_t *o, struct zr_split *s, int *each)
{
	const json_t *pattern = json_object_get(o, "pattern");
	const char *text = json_string_value(json_object_get(pattern, "String"));
	const char *mark = json_string_value(json_object_get(o, "replacement"));
	if (!strcmp(type_of(o), "Metaspace") && mark && !strcmp(mark, MARK)) {
		if (!l->t->spaces)
			l->t->spaces = ZR_SPACES_SPLIT;
		int rc = zr_load_flag(l, o, "pre_tokenizer", "split", 1, each);
		return rc ? rc : load_prefix(l, o, s);
	}
	/* Gemma splits at spaces, of which its normalizer has left none. */
	if (!strcmp(type_of(o), "Split") && text && !strcmp(text, " ") &&
	    l->t->spaces == ZR_SPACES_NORMALIZED)
		return 0;
	return zr_load_fail(l, ZR_ENOTSUP, "pre_tokenizer",
			    "%.60s is not supported with byte_fallback; Metaspace is",
			    *type_of(o) ? type_of(o) : "one without a type");
}

int zr_load_spaced_splits(struct zr_load *l, const json_t *o)
{
	const json_t *one;
	int each = 0, rc = 0;
	struct zr_split *s = l->t->split = calloc(1, sizeof *s);
	if (!s)
		return zr_err(l->err, ZR_ENOMEM, "out of memory");
	l->t->n_splits = 1;
	for (size_t i = 0; !rc && (one = step(o, "pretokenizers", i)); i++)
		rc = load_split(l, one, s, &each);
	if (!rc && !l->t->spaces)
		rc = zr_load_fail(l, ZR_ENOTSUP, "pre_tokenizer",
				  "byte_fallback is not supported without Metaspace here or Replace "
				  "in the normalizer");
	if (rc || (l->joins_words && !each))
		return rc; /* what is not split is one piece */
	return zr_regex_compile(each ? EACH : WORDS, 0, &s->regex, l->err);
}
