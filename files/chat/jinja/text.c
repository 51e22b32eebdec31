/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - see parts.h: what Python's str does.
 */
#include <string.h>
#ifdef HAVE_UTF8PROC
#include <utf8proc.h>
#endif

#include "files/chat/jinja/parts.h"
#include "files/tokenizer/utf8.h"

int zj_is_space(uint32_t c)
{
	if (c < 0x80)
		return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20);

	return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	       c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Whether the character at p, of len bytes, goes. */
static int is_stripped(const char *p, size_t len, const struct zj_text *set)
{
	size_t n;

	if (!set)
		return zj_is_space(zr_utf8_read(p, &n));

	for (size_t at = 0; at < set->n; at += n) {
		zr_utf8_read(set->p + at, &n);
		if (n == len && !memcmp(set->p + at, p, n))
			return 1;
	}

	return 0;
}

int zj_strip(struct zj_run *r, const struct zj_value *of, const struct zj_text *set, int sides,
	     struct zj_value *out)
{
	const struct zj_text *t = of->text;
	size_t from = 0, to = t->n, len;

	while ((sides & 1) && from < to) {
		zr_utf8_read(t->p + from, &len);
		if (!is_stripped(t->p + from, len, set))
			break;
		from += len;
	}

	while ((sides & 2) && to > from) {
		const size_t at = zr_utf8_previous(t->p, to);
		if (!is_stripped(t->p + at, to - at, set))
			break;
		to = at;
	}

	if (from == 0 && to == t->n) {
		*out = *of;
		return 0;
	}

	struct zj_text *cut;
	int rc = zj_get(r, sizeof *cut, &cut);
	if (!rc)
		rc = zj_spend(r, (t->n - (to - from)) / 16);
	if (rc)
		return rc;

	*cut = (struct zj_text){
		.p = t->p + from, .n = to - from, .is_ascii = t->is_ascii, .is_safe = t->is_safe
	};
	*out = (struct zj_value){ .kind = ZJ_TEXT, .text = cut };
	return 0;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
}

/* Whether the letter behind `before` begins a word of title(). */
static int begins(char before)
{
	return lower(before) < 'a' || lower(before) > 'z';
}

#ifdef HAVE_UTF8PROC

/* lower() of letters beyond ASCII. Two are no letter for a letter: refused. */
static int lower_any(struct zj_run *r, const struct zj_text *t, struct zj_value *out)
{
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;
	size_t len;
	int rc = 0;

	for (size_t at = 0; !rc && at < t->n; at += len) {
		char c[4];
		const uint32_t is = zr_utf8_read(t->p + at, &len);
		if (is == 0x130 || is == 0x3a3)
			return zj_fail(r, "lower of U+%04X: not in the subset", is);
		rc = zj_add(r, b, c, (size_t)(zr_utf8_put(c, utf8proc_tolower((int32_t)is)) - c));
	}

	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}

#else

static int lower_any(struct zj_run *r, const struct zj_text *t, struct zj_value *out)
{
	(void)t, (void)out;
	return zj_fail(r, "lower of letters that are not ASCII needs utf8proc, which this build "
			  "has not");
}

#endif

int zj_letters(struct zj_run *r, const struct zj_value *of, enum zj_letters how,
	       struct zj_value *out)
{
	const struct zj_text *t = of->text;
	char *p;

	if (!t->is_ascii && how == ZJ_LOWER)
		return lower_any(r, t, out);
	if (!t->is_ascii)
		return zj_fail(r, "upper, capitalize or title of letters that are not ASCII: not "
				  "in the subset");
	int rc = zj_get(r, t->n + 1, &p);
	if (rc)
		return rc;

	for (size_t i = 0; i < t->n; i++) {
		int up = how == ZJ_UPPER || (how == ZJ_CAPITAL && !i);
		if (how == ZJ_TITLE)
			up = !i || begins(t->p[i - 1]);
		p[i] = up ? upper(t->p[i]) : lower(t->p[i]);
	}

	return zj_borrow(r, p, t->n, out);
}

/* `with` before each character and at the end. */
static int replace_nothing(struct zj_run *r, const struct zj_text *t, const struct zj_text *with,
			   int64_t most, struct zj_value *out)
{
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;
	size_t len;
	int rc = 0;

	for (size_t at = 0; !rc && at <= t->n; at += len) {
		len = 1;
		if (most-- > 0)
			rc = zj_add(r, b, with->p, with->n);
		if (!rc && at < t->n) {
			zr_utf8_read(t->p + at, &len);
			rc = zj_add(r, b, t->p + at, len);
		}
	}

	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}

int zj_replace(struct zj_run *r, const struct zj_text *t, const struct zj_text *old,
	       const struct zj_text *with, int64_t most, struct zj_value *out)
{
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;
	size_t at = 0;
	int64_t found;
	int rc = zj_spend(r, t->n / 64);

	if (most < 0)
		most = INT64_MAX;
	if (!old->n)
		return replace_nothing(r, t, with, most, out);

	while (!rc && most-- > 0 && (found = zj_search(t, at, old)) >= 0) {
		rc = zj_add(r, b, t->p + at, (size_t)found - at);
		if (!rc)
			rc = zj_add(r, b, with->p, with->n);
		if (!rc)
			rc = zj_spend(r, 1);
		at = (size_t)found + old->n;
	}

	if (!rc)
		rc = zj_add(r, b, t->p + at, t->n - at);

	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}

/* Whether a character ends a line of splitlines(). */
static int ends_line(uint32_t c)
{
	return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
	       c == 0x2029;
}

size_t zj_line(const struct zj_text *t, size_t at, size_t *next)
{
	size_t len;

	for (; at < t->n; at += len) {
		if (!ends_line(zr_utf8_read(t->p + at, &len)))
			continue;
		*next = at + len;
		if (t->p[at] == '\r' && *next < t->n && t->p[*next] == '\n')
			++*next;
		return at;
	}

	*next = at;
	return at;
}

int zj_join(struct zj_run *r, const struct zj_text *between, const struct zj_value *list, int any,
	    struct zj_value *out)
{
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;
	struct zj_list *l;
	int rc = zj_iterate(r, list, &l);

	for (size_t i = 0; !rc && i < l->n; i++) {
		if (!any && l->v[i].kind != ZJ_TEXT)
			return zj_fail(r, "sequence item %zu: expected str instance, %s found", i,
				       zj_type(&l->v[i]));
		if (i)
			rc = zj_add(r, b, between->p, between->n);
		if (!rc)
			rc = zj_print(r, &l->v[i], b);
	}

	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}
