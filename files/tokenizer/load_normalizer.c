/* SPDX-License-Identifier: Apache-2.0
 *
 * load_normalizer.c - the normalizer of tokenizer.json.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

#define KNOWN                                                                                      \
	"BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, "    \
	"Strip and StripAccents are"

static int form_of(const char *type)
{
	static const char *const names[] = { [ZR_FORM_C] = "NFC",
					     [ZR_FORM_D] = "NFD",
					     [ZR_FORM_KC] = "NFKC",
					     [ZR_FORM_KD] = "NFKD" };

	for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
		if (!strcmp(type, names[i]))
			return i;

	return -1;
}

static int need_unicode(const struct zr_tokenizer_loading *l, const json_t *o)
{
	struct zr_error why = { 0 };
	if (zr_unicode_there(&why))
		return zr_load_fail(l, ZR_ENOTSUP, "normalizer", "%s %s", zr_load_type(o),
				    why.text);

	return 0;
}

static int load_bert(struct zr_tokenizer_loading *l, const json_t *o, struct zr_step *s)
{
	const json_t *accents = json_object_get(o, "strip_accents");
	int strip;
	int rc = zr_load_flag(l, o, "normalizer", "clean_text", 1, &s->clean);
	if (!rc)
		rc = zr_load_flag(l, o, "normalizer", "handle_chinese_chars", 1,
				  &s->spaced_chinese);
	if (!rc)
		rc = zr_load_flag(l, o, "normalizer", "lowercase", 1, &s->lower);
	strip = s->lower;
	if (!rc && !json_is_null(accents))
		rc = zr_load_flag(l, o, "normalizer", "strip_accents", s->lower, &strip);
	s->kind = ZR_STEP_CHARACTERS;
	s->decompose = strip;
	s->unmark = strip ? ZR_UNMARK_NONSPACING : ZR_UNMARK_NONE;
	if (rc)
		return rc;

	return need_unicode(l, o);
}

/* Steps that change each character by itself; 0: it is none of them. */
static int is_by_character(const char *type, struct zr_step *s)
{
	s->lower = !strcmp(type, "Lowercase");
	s->unmark = !strcmp(type, "StripAccents") ? ZR_UNMARK_ALL : ZR_UNMARK_NONE;
	s->nmt = !strcmp(type, "Nmt");
	s->kind = ZR_STEP_CHARACTERS;
	return s->lower || s->unmark || s->nmt;
}

/* Whether where text is cut between two letters or digits changes what a replacement finds. */
static int finds_letters(const char *pattern, int literal)
{
	static const char *const spaces[] = { " {2,}",   " +",   "\\s+", "[\\s]+",
					      "\\s{2,}", "\\n+", "\\n" };

	for (size_t i = 0; !literal && i < sizeof spaces / sizeof *spaces; i++)
		if (!strcmp(pattern, spaces[i]))
			return 0;

	for (const unsigned char *p = (const unsigned char *)pattern; *p; p++)
		literal &= *p < 0x80 && !(*p >= '0' && *p <= '9') &&
			   !((*p | 32) >= 'a' && (*p | 32) <= 'z');

	return !literal;
}

static int load_replace(struct zr_tokenizer_loading *l, const json_t *o, struct zr_step *s)
{
	const json_t *pattern = json_object_get(o, "pattern");
	const char *regex = json_string_value(json_object_get(pattern, "Regex"));
	const char *text = json_string_value(json_object_get(pattern, "String"));
	const char *content = json_string_value(json_object_get(o, "content"));

	s->kind = ZR_STEP_REPLACE;
	if (l->t->spaced && zr_load_is_space_step(o)) {
		s->kind = ZR_STEP_SPACES;
		l->t->spaces = ZR_SPACES_NORMALIZED;
		return 0;
	}

	if (!regex == !text || !*(regex ? regex : text))
		return zr_load_found(l, "normalizer", "a pattern that is a Regex or a String",
				     pattern);
	if (!content)
		return zr_load_found(l, "normalizer", "content, a text",
				     json_object_get(o, "content"));

	l->t->normalizer.whole |= finds_letters(regex ? regex : text, !regex);
	s->text = strdup(content);
	if (!s->text)
		return zr_no_memory(l->err);

	return zr_load_regex(l, "normalizer", regex ? regex : text, !regex, &s->regex);
}

static int load_prepend(struct zr_tokenizer_loading *l, const json_t *o, struct zr_step *s)
{
	const char *text = json_string_value(json_object_get(o, "prepend"));

	s->kind = ZR_STEP_PREPEND;
	if (!text)
		return zr_load_found(l, "normalizer", "prepend, a text",
				     json_object_get(o, "prepend"));

	/* behind the step that writes spaces as U+2581 both are the same here */
	if (l->t->spaces && strcmp(text, ZR_SPACE))
		return zr_load_fail(l, ZR_ENOTSUP, "normalizer",
				    "Prepend of other than U+2581 after a Replace by "
				    "it is not supported");

	s->text = strdup(l->t->spaces ? " " : text);
	if (s->text)
		return 0;

	return zr_no_memory(l->err);
}

/* White space beside a letter or a digit that text is cut at, which Strip would take. */
static int may_make_spaces(const struct zr_step *s)
{
	return s->kind == ZR_STEP_CHARSMAP || s->spaced_chinese;
}

static int load_strip(struct zr_tokenizer_loading *l, const json_t *o, struct zr_step *s)
{
	int rc = zr_load_flag(l, o, "normalizer", "strip_left", 1, &s->left);

	s->kind = ZR_STEP_STRIP;
	for (const struct zr_step *before = l->t->normalizer.step; before < s; before++)
		l->t->normalizer.whole |= may_make_spaces(before);
	if (rc)
		return rc;

	return zr_load_flag(l, o, "normalizer", "strip_right", 1, &s->right);
}

static int load_charsmap(struct zr_tokenizer_loading *l, const json_t *o, struct zr_step *s)
{
	const char *map = json_string_value(json_object_get(o, "precompiled_charsmap"));
	struct zr_error why = { 0 };

	s->kind = ZR_STEP_CHARSMAP;
	int rc = zr_charsmap_open(map ? map : "", &s->map, &why);
	if (rc)
		return zr_load_fail(l, rc, "normalizer", "Precompiled %s", why.text);

	return 0;
}

static int load_one(struct zr_tokenizer_loading *l, const json_t *o, struct zr_step *s)
{
	const char *type = zr_load_type(o);
	if (l->t->spaces && strcmp(type, "Prepend"))
		return zr_load_fail(l, ZR_ENOTSUP, "normalizer",
				    "%.60s after a Replace of a space by "
				    "U+2581 is not supported",
				    type);
	if (form_of(type) >= 0) {
		s->kind = ZR_STEP_FORM;
		s->form = form_of(type);
		return need_unicode(l, o);
	}

	if (!strcmp(type, "BertNormalizer"))
		return load_bert(l, o, s);
	if (!strcmp(type, "Replace"))
		return load_replace(l, o, s);
	if (!strcmp(type, "Prepend"))
		return load_prepend(l, o, s);
	if (!strcmp(type, "Strip"))
		return load_strip(l, o, s);
	if (!strcmp(type, "Precompiled"))
		return load_charsmap(l, o, s);
	if (is_by_character(type, s))
		return need_unicode(l, o);

	return zr_load_fail(l, ZR_ENOTSUP, "normalizer", "%.60s is not supported; " KNOWN,
			    *type ? type : "one without a type");
}

/* What needs no steps: form C alone, or spaces alone with one before the text. */
static void simplify(struct zr_tokenizer *t)
{
	struct zr_normalizer *z = &t->normalizer;
	int forms = 0, spaces = 0, prepends = 0;

	for (int i = 0; i < z->n; i++) {
		const struct zr_step *s = &z->step[i];
		forms += s->kind == ZR_STEP_FORM && s->form == ZR_FORM_C;
		spaces += s->kind == ZR_STEP_SPACES;
		prepends += s->kind == ZR_STEP_PREPEND &&
			    (!strcmp(s->text, ZR_SPACE) || !strcmp(s->text, " "));
	}

	t->nfc = z->n && forms == z->n;
	int simple = z->n && spaces == 1 && prepends <= 1 && spaces + prepends == z->n;
	t->prepend = simple && prepends;
	if (!t->nfc && !simple)
		return;

	zr_normalizer_free(z);
	*z = (struct zr_normalizer){ 0 };
}

int zr_load_normalizer(struct zr_tokenizer_loading *l, const json_t *o)
{
	struct zr_normalizer *z = &l->t->normalizer;
	const json_t *one;
	size_t n = 0;
	int rc = 0;

	while (zr_load_step(o, "normalizers", n))
		n++;
	z->step = calloc(n + 1, sizeof *z->step);
	if (!z->step)
		return zr_no_memory(l->err);

	for (size_t i = 0; !rc && (one = zr_load_step(o, "normalizers", i)); i++) {
		struct zr_step *s = &z->step[z->n++];
		rc = load_one(l, one, s);
		if (!rc && s->kind == ZR_STEP_CHARACTERS)
			zr_characters_ready(s);
	}

	if (!rc)
		simplify(l->t);

	return rc;
}
