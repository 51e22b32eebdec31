/* SPDX-License-Identifier: Apache-2.0
 *
 * characters.c - steps of the normalizer that change each character by itself; see parts.h.
 */
#include "files/tokenizer/parts.h"

#define GROWS 4 /* bytes that one byte becomes at most: U+0390, of 2, has 6 in form D */

/* The normalizer Nmt: no control characters, and what it takes for white space as a space. */
static int32_t nmt(int32_t c)
{
	if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
	    c == 0x9f)
		return -1;
	if (c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
	    (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
	    c == 0xfeff || c == 0xfffd)
		return ' ';

	return c;
}

/* Ideographs as BERT has them, which are written between spaces. */
static int is_chinese(int32_t c)
{
	return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
	       (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
	       (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
	       (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

#ifdef HAVE_UTF8PROC

#include <utf8proc.h>

#define DECOMPOSED 8 /* characters that one has in form D, at most 4 */

/* The library's tables are of Unicode 8, and those of StripAccents of Unicode 9: of what utf8proc
 * takes for one of these, the characters in the ranges are none of them
 * (tests/golden/make_categories.py). */
struct range {
	int32_t from, to;
};
static const struct range later_other[] = { { 0x890, 0x8e2 }, { 0x110cd, 0x1343f }, { 0 } };
static const struct range later_nonspacing[] = {
	{ 0x5c8, 0x5c9 },
	{ 0x7fd, 0x7fd },
	{ 0x897, 0x8e1 },
	{ 0x9fe, 0x9fe },
	{ 0xafa, 0xaff },
	{ 0xb53, 0xb55 },
	{ 0xc04, 0xc3c },
	{ 0xd00, 0xd00 },
	{ 0xd3b, 0xd3c },
	{ 0xd81, 0xd81 },
	{ 0xeba, 0xeba },
	{ 0xece, 0xece },
	{ 0x180f, 0x1886 },
	{ 0x1abf, 0x1af0 },
	{ 0x1df6, 0x1dfb },
	{ 0xa82c, 0xa82c },
	{ 0xa8c5, 0xa8c5 },
	{ 0xa8ff, 0xa8ff },
	{ 0xa9bd, 0xa9bd },
	{ 0x10d24, 0x10f85 },
	{ 0x11070, 0x11074 },
	{ 0x110c2, 0x110c2 },
	{ 0x111c9, 0x111c9 },
	{ 0x111cf, 0x111cf },
	{ 0x1123e, 0x11241 },
	{ 0x1133b, 0x1133b },
	{ 0x113bb, 0x1145e },
	{ 0x1182f, 0x1612f },
	{ 0x16f4f, 0x16f4f },
	{ 0x16fe4, 0x16fe4 },
	{ 0x1cf00, 0x1d128 },
	{ 0x1d25b, 0x1d25c },
	{ 0x1e000, 0x1e6f5 },
	{ 0x1e944, 0x1e94a },
	{ 0 },
};
static const struct range later_mark[] = {
	{ 0x5c8, 0x5c9 },     { 0x7fd, 0x7fd },
	{ 0x897, 0x8d3 },     { 0x9fe, 0x9fe },
	{ 0xafa, 0xaff },     { 0xb53, 0xb55 },
	{ 0xc04, 0xc3c },     { 0xcf3, 0xd00 },
	{ 0xd3b, 0xd3c },     { 0xd81, 0xd81 },
	{ 0xeba, 0xeba },     { 0xece, 0xece },
	{ 0x1715, 0x1715 },   { 0x180f, 0x180f },
	{ 0x1abf, 0x1af0 },   { 0x1cf7, 0x1cf7 },
	{ 0x1df6, 0x1dfa },   { 0xa82c, 0xa82c },
	{ 0xa8ff, 0xa8ff },   { 0x10d24, 0x10f85 },
	{ 0x11070, 0x11074 }, { 0x110c2, 0x110c2 },
	{ 0x11145, 0x11146 }, { 0x111c9, 0x111c9 },
	{ 0x111ce, 0x111cf }, { 0x11241, 0x11241 },
	{ 0x1133b, 0x1133b }, { 0x113b8, 0x113e2 },
	{ 0x1145e, 0x1145e }, { 0x1182c, 0x11b67 },
	{ 0x11d31, 0x1612f }, { 0x16f4f, 0x16f4f },
	{ 0x16f7f, 0x16f87 }, { 0x16fe4, 0x16ff1 },
	{ 0x1cf00, 0x1d128 }, { 0x1d250, 0x1d281 },
	{ 0x1e08f, 0x1e6f5 }, { 0 },
};

static int is_in(const struct range *r, int32_t c)
{
	while (r->to && c > r->to)
		r++;
	return r->to && c >= r->from;
}

/* Control and format characters, and those for private use. */
static int is_other(int32_t c)
{
	utf8proc_category_t k = utf8proc_category(c);
	int other = k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF ||
		    k == UTF8PROC_CATEGORY_CO;
	return other && !is_in(later_other, c);
}

static int is_mark(int32_t c, int kind)
{
	utf8proc_category_t k = utf8proc_category(c);

	if (kind == ZR_UNMARK_NONSPACING)
		return (k == UTF8PROC_CATEGORY_MN && !is_in(later_nonspacing, c)) || c == 0x1734 ||
		       c == 0x1171e;

	int mark = k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC ||
		   k == UTF8PROC_CATEGORY_ME;

	return (mark && !is_in(later_mark, c)) || c == 0x1cf2 || c == 0x1cf3;
}

static char *put_lower(const struct zr_step *s, int32_t c, char *to)
{
	if (s->lower && c == 0x130) /* the one that becomes two */
		return zr_utf8_put(zr_utf8_put(to, 'i'), 0x307);
	return zr_utf8_put(to, s->lower ? utf8proc_tolower(c) : c);
}

static char *put_marked(const struct zr_step *s, int32_t c, char *to)
{
	utf8proc_int32_t d[DECOMPOSED] = { c };
	utf8proc_ssize_t n = 1;

	if (s->decompose)
		n = utf8proc_decompose_char(c, d, DECOMPOSED, UTF8PROC_DECOMPOSE, NULL);
	for (utf8proc_ssize_t i = 0; i < n && i < DECOMPOSED; i++)
		if (!s->unmark || !is_mark(d[i], s->unmark))
			to = put_lower(s, d[i], to);

	return to;
}

static char *put_changed(const struct zr_step *s, int32_t c, char *to)
{
	if (s->nmt && (c = nmt(c)) < 0)
		return to;
	if (s->clean && c != '\t' && c != '\n' && c != '\r' && (!c || c == 0xfffd || is_other(c)))
		return to;
	if (s->clean && zr_utf8_is_space(c))
		c = ' ';
	int apart = s->spaced_chinese && is_chinese(c);
	if (apart)
		*to++ = ' ';
	to = put_marked(s, c, to);
	if (apart)
		*to++ = ' ';

	return to;
}

/* A letter or a digit that joins with no neighbour, in no form. */
static int is_apart(int32_t c)
{
	utf8proc_int32_t d[32];

	if (c < 0x80)
		return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');

	utf8proc_option_t compat = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
	utf8proc_ssize_t n = utf8proc_decompose_char(c, d, 32, compat, NULL);
	const utf8proc_property_t *is = utf8proc_get_property(c), *first;
	if (n > 0)
		first = utf8proc_get_property(d[0]);
	else
		first = is;

	return is->boundclass == UTF8PROC_BOUNDCLASS_OTHER &&
	       first->boundclass == UTF8PROC_BOUNDCLASS_OTHER && !is->combining_class &&
	       !first->combining_class && is->category >= UTF8PROC_CATEGORY_LU &&
	       is->category <= UTF8PROC_CATEGORY_LO && first->category >= UTF8PROC_CATEGORY_LU &&
	       first->category <= UTF8PROC_CATEGORY_LO;
}

#else

/* Without utf8proc there are only steps that need no more than this. */
static char *put_changed(const struct zr_step *s, int32_t c, char *to)
{
	if (s->nmt && (c = nmt(c)) < 0)
		return to;
	if (is_chinese(c) && s->spaced_chinese)
		return to;

	return zr_utf8_put(to, c);
}

static int is_apart(int32_t c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

#endif

void zr_characters_ready(struct zr_step *s)
{
	for (int32_t c = 0; c < 128; c++) {
		char to[GROWS];
		if (put_changed(s, c, to) == to)
			s->ascii[c] = -1;
		else
			s->ascii[c] = to[0];
	}
}

int zr_characters(const struct zr_step *s, const char *p, size_t n, struct zr_buf *out)
{
	if (zr_buf_reserve(out, GROWS * n))
		return ZR_ENOMEM;

	char *to = out->p + out->n;
	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char)p[i];
		if (c < 0x80) {
			*to = (char)s->ascii[c];
			to += s->ascii[c] >= 0;
			i++;
			continue;
		}

		to = put_changed(s, zr_utf8_value(p + i), to);
		i += (size_t)zr_utf8_at(p + i, n - i);
	}

	out->n = (size_t)(to - out->p);
	return 0;
}

size_t zr_characters_cut(const char *p, size_t n)
{
	int after = 0; /* whether text may be cut before the character that starts at `end` */

	for (size_t end = n, at; end; end = at) {
		for (at = end - 1; at && ((unsigned char)p[at] & 0xc0) == 0x80; at--)
			;
		int apart = is_apart(zr_utf8_value(p + at));
		if (apart && after)
			return end;

		after = apart;
	}

	return 0;
}
