/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern.c - a pattern of Oniguruma's Ruby syntax as one of PCRE2's with PCRE2_UTF | PCRE2_UCP.
 * What differs:
 *
 *   \s      PCRE2 adds U+180E: written out as the characters of White_Space
 *   \d      the same as \p{Nd}
 *   \v \h   one vertical tab, a hexadecimal digit; classes in PCRE2: refused, like all escapes that
 *           are not listed here
 *   \w \b   Oniguruma knows more letters: refused
 *   \p{..}  general categories are the same, as far as the versions of Unicode are; scripts and
 *           other properties: refused
 *   {2}+    possessive in PCRE2 only: refused
 *   [a[b]]  a set in a set, in Oniguruma only: both as one, but a negated one is refused
 *   [a&&b]  what is in both, in Oniguruma only: refused
 *   $ .     the end of any line, and what is in one: the first written out, the second the same
 *   ^       the start of any line: refused, as it looks behind
 *
 * Looking behind is refused because the text before a piece is not kept.
 */
#include <string.h>

#include "files/tokenizer/parts.h"

#define WHITE                                                                                      \
	"\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"         \
	"\\x{202f}\\x{205f}\\x{3000}"

struct scan {
	const char *pattern, *p; /* where we are */
	struct zr_buf out;
	struct zr_error *err;
	int in_class; /* how many classes deep */
};

static int refuse(const struct scan *s, size_t n, const char *why)
{
	return zr_err(s->err, ZR_ENOTSUP, "%.*s at byte %zu of the pattern: %s", (int)n, s->p,
		      (size_t)(s->p - s->pattern) + 1, why);
}

static int put_text(struct scan *s, const char *text, size_t n)
{
	if (zr_buf_add(&s->out, text, n))
		return zr_no_memory(s->err);

	return 0;
}

/* Copies n bytes of the pattern as they are. */
static int copy(struct scan *s, size_t n)
{
	int rc = put_text(s, s->p, n);
	s->p += n;
	return rc;
}

static int instead(struct scan *s, size_t n, const char *text)
{
	s->p += n;
	return put_text(s, text, strlen(text));
}

/* \p{L}, \p{Lu}, \P{N}, \p{^N} */
static int property(struct scan *s)
{
	static const char major[] = "LMNPSZC";
	const char *q = s->p + 2;
	if (*q++ != '{')
		return refuse(s, 2, "{ must follow");

	q += *q == '^';
	size_t n = strcspn(q, "}");
	int known = *q && strchr(major, *q) && (n == 1 || (n == 2 && q[1] >= 'a' && q[1] <= 'z'));
	size_t all = (size_t)(q - s->p) + n + (q[n] == '}');
	if (!known || !q[n])
		return refuse(s, all,
			      "of the properties only general categories are supported, "
			      "like \\p{L}");

	return copy(s, all);
}

static int escape(struct scan *s)
{
	unsigned char c = (unsigned char)s->p[1];
	if (c == 'p' || c == 'P')
		return property(s);
	if (c == 's')
		return instead(s, 2, s->in_class ? WHITE : "[" WHITE "]");
	if (c == 'S' && !s->in_class)
		return instead(s, 2, "[^" WHITE "]");
	if (c == 'd')
		return instead(s, 2, "\\p{Nd}");
	if (c == 'v')
		return instead(s, 2, "\\x{b}");
	if ((c && strchr("rntf", c)) ||
	    (c < 0x80 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ", c) && c))
		return copy(s, 2);

	return refuse(s, c ? 2 : 1,
		      c ? "this escape is not supported here" : "an escape without a character");
}

static int group(struct scan *s)
{
	static const char *const known[] = { "(?:", "(?=", "(?!", "(?>", "(?i:" };

	if (s->p[1] != '?') {
		if (s->p[1] == '*')
			return refuse(s, 2, "verbs are not supported");

		return copy(s, 1);
	}

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strncmp(s->p, known[i], strlen(known[i])))
			return copy(s, strlen(known[i]));

	return refuse(s, strnlen(s->p, 4),
		      "of the groups only (?: (?= (?! (?> and (?i: are supported");
}

/* An interval with what follows it. */
static int interval(struct scan *s)
{
	size_t n = strspn(s->p + 1, "0123456789,") + 1;
	if (s->p[n] != '}' || n == 1 || s->p[1] == ',')
		return refuse(s, n, "expected an interval like {1,3}");
	if (s->p[n + 1] == '+')
		return refuse(s, n + 2, "intervals cannot be possessive");

	return copy(s, n + 1);
}

static int class_open(struct scan *s)
{
	int negated = s->p[1] == '^';
	if (s->p[1 + negated] == ']')
		return refuse(s, 2, "an empty class");

	s->in_class = 1;
	return copy(s, (size_t)(1 + negated));
}

static int in_class(struct scan *s)
{
	if (*s->p == '[' && (strchr("^]:", s->p[1]) || s->p[-1] == '-'))
		return refuse(s, 1, "such a class inside a class is not supported");
	if (s->p[0] == '&' && s->p[1] == '&')
		return refuse(s, 2, "intersections are not supported");

	s->in_class += (*s->p == '[') - (*s->p == ']');
	if (*s->p == '[' || (*s->p == ']' && s->in_class))
		return instead(s, 1, "");

	return copy(s, 1);
}

static int one(struct scan *s)
{
	if (*s->p == '\\')
		return escape(s);
	if (s->in_class)
		return in_class(s);

	switch (*s->p) {
	case '[':
		return class_open(s);
	case '(':
		return group(s);
	case '{':
		return interval(s);
	case '$':
		return instead(s, 1, "(?m:$)");
	case '^':
		return refuse(s, 1, "the start of a line looks behind, which is not supported");
	default:
		return copy(s, 1);
	}
}

static int literal_text(struct scan *s)
{
	int rc = 0;
	while (!rc && *s->p) {
		if ((unsigned char)*s->p < 0x80 && strchr("\\^$.[]|()?*+{}-#&~", *s->p))
			rc = put_text(s, "\\", 1);
		if (!rc)
			rc = copy(s, 1);
	}

	return rc;
}

int zr_pattern_translate(const char *pattern, int literal, char **out, struct zr_error *err)
{
	struct scan s = { .pattern = pattern, .p = pattern, .err = err };
	int rc = 0;

	if (literal)
		rc = literal_text(&s);
	while (!rc && *s.p)
		rc = one(&s);
	if (!rc && s.in_class)
		rc = zr_err(err, ZR_EINVAL, "a class without ] in the pattern");
	if (!rc)
		rc = put_text(&s, "", 1);
	if (rc)
		zr_buf_free(&s.out);
	*out = s.out.p;
	return rc;
}
