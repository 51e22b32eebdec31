/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - see json.h. As RFC 8259 has it: a text is UTF-8, control characters and halves of
 * surrogate pairs are refused.
 */
#include "files/chat/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "files/tokenizer/utf8.h"

#define DEPTH 64
#define NOWHERE UINT32_MAX

struct reader {
	struct zr_json_line *l;
	char *begin, *p, *end;
	int rc;
};

static int wrong(struct reader *r, const char *what)
{
	if (!r->rc)
		snprintf(r->l->why, sizeof r->l->why, "byte %zu: %s", (size_t)(r->p - r->begin) + 1,
			 what);
	return r->rc = r->rc ? r->rc : ZR_EINVAL;
}

static int look(struct reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\r' || *r->p == '\n'))
		r->p++;
	return r->p < r->end ? (unsigned char)*r->p : -1;
}

static uint32_t add(struct reader *r, int type)
{
	struct zr_json_line *l = r->l;
	if (l->n == l->room) {
		uint32_t room = l->room ? 2 * l->room : 64;
		struct zr_json_value *more =
			room > l->room ? realloc(l->v, room * sizeof *more) : NULL;
		if (!more) {
			r->rc = ZR_ENOMEM;
			return NOWHERE;
		}
		l->v = more;
		l->room = room;
	}
	l->v[l->n] = (struct zr_json_value){ .type = type };
	return l->n++;
}

/* ---- texts ---- */

static int hex4(struct reader *r, const char *p)
{
	int v = 0;
	for (int i = 0; i < 4; i++) {
		const char *digits = "0123456789abcdef";
		int c = p + i < r->end ? p[i] : 0;
		const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
		if (!at)
			return wrong(r, "\\u without four hexadecimal digits"), -1;
		v = v << 4 | (int)(at - digits);
	}
	return v;
}

static char *put_utf8(char *to, int32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	*to++ = (char)((0xf0 << (3 - more) & 0xff) | c >> 6 * more);
	while (more--)
		*to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
	return to;
}

/* At the u of \u. */
static char *put_unicode(struct reader *r, char *to)
{
	int32_t c = hex4(r, r->p + 1), low;
	if (c < 0)
		return to;
	if (c >= 0xd800 && c < 0xe000) {
		int pair = c < 0xdc00 && r->end - r->p > 6 && r->p[5] == '\\' && r->p[6] == 'u';
		low = pair ? hex4(r, r->p + 7) : 0;
		if (low < 0xdc00 || low > 0xdfff) {
			wrong(r, "half of a surrogate pair; \\ud83d\\ude00 is a whole one");
			return to;
		}
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		r->p += 6;
	}
	r->p += 5;
	return put_utf8(to, c);
}

static char *put_escape(struct reader *r, char *to)
{
	static const char from[] = "\"\\/bfnrt", as[] = "\"\\/\b\f\n\r\t";
	const char *at = ++r->p < r->end && *r->p ? strchr(from, *r->p) : NULL;
	if (r->p < r->end && *r->p == 'u')
		return put_unicode(r, to);
	if (!at) {
		wrong(r, "an escape that JSON does not have");
		return to;
	}
	*to++ = as[at - from];
	r->p++;
	return to;
}

/* Bytes of p[0..n) that stand for themselves. */
static size_t plain(const char *p, size_t n)
{
	size_t i = 0;
	while (i < n && (unsigned char)p[i] >= ' ' && (unsigned char)p[i] < 0x80 && p[i] != '"' &&
	       p[i] != '\\')
		i++;
	return i;
}

/* At the opening quote. */
static int text(struct reader *r, const char **p, size_t *n)
{
	char *to = ++r->p;
	*p = to;
	while (!r->rc && r->p < r->end && *r->p != '"') {
		size_t len = plain(r->p, (size_t)(r->end - r->p));
		int more = len ? 0 : zr_utf8_at(r->p, (size_t)(r->end - r->p));
		if (!len && (unsigned char)*r->p < ' ')
			return wrong(r, "a control character in a text; JSON writes it as an "
					"escape");
		if (!len && more <= 0)
			return wrong(r, "not UTF-8");
		if (*r->p == '\\') {
			to = put_escape(r, to);
			continue;
		}
		len += (size_t)more;
		if (to != r->p)
			memmove(to, r->p, len);
		to += len;
		r->p += len;
	}
	*n = (size_t)(to - *p);
	return r->rc ? r->rc : r->p++ < r->end ? 0 : (r->p--, wrong(r, "a text without its end"));
}

/* ---- values ---- */

static int digits(struct reader *r, int *truth)
{
	const char *from = r->p;
	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
		*truth |= *r->p != '0';
	return r->p > from ? 0 : wrong(r, "not a value");
}

static int number(struct reader *r, struct zr_json_value *v)
{
	int ignored = 0;
	r->p += *r->p == '-';
	int zero = r->p < r->end && *r->p == '0';
	const char *from = r->p;
	int rc = digits(r, &v->truth);
	if (!rc && zero && r->p - from > 1)
		return wrong(r, "a number that begins with 0");
	if (!rc && r->p < r->end && *r->p == '.') {
		r->p++;
		rc = digits(r, &v->truth);
	}
	if (!rc && r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
		r->p++;
		r->p += r->p < r->end && (*r->p == '+' || *r->p == '-');
		rc = digits(r, &ignored);
	}
	return rc;
}

static int word(struct reader *r, const char *w)
{
	size_t n = strlen(w);
	if ((size_t)(r->end - r->p) < n || memcmp(r->p, w, n))
		return wrong(r, "not a value");
	r->p += n;
	return 0;
}

static uint32_t value(struct reader *r, int depth);

static int member(struct reader *r, int depth, int object, uint32_t *out)
{
	const char *key = NULL;
	size_t key_n = 0;
	if (object && look(r) != '"')
		return wrong(r, "a key was expected");
	if (object && text(r, &key, &key_n))
		return r->rc;
	if (object && look(r) != ':')
		return wrong(r, "a colon was expected");
	r->p += object;
	*out = value(r, depth + 1);
	if (!r->rc) {
		r->l->v[*out].key = key;
		r->l->v[*out].key_n = key_n;
	}
	return r->rc;
}

/* At the opening bracket; at: its value. */
static int members(struct reader *r, int depth, uint32_t at)
{
	int object = *r->p++ == '{', close = object ? '}' : ']';
	uint32_t last = 0, one = 0;
	if (depth == DEPTH)
		return wrong(r, "nested too deeply");
	if (look(r) == close)
		return r->p++, 0;
	for (;;) {
		if (member(r, depth, object, &one))
			return r->rc;
		*(last ? &r->l->v[last].next : &r->l->v[at].child) = one;
		last = one;
		int c = look(r);
		if (c != ',' && c != close)
			return wrong(r, object ? "a comma or } was expected" :
						 "a comma or ] was expected");
		r->p++;
		if (c == close)
			return 0;
	}
}

static uint32_t value(struct reader *r, int depth)
{
	int c = look(r);
	int type = c == '"' ? ZR_JSON_TEXT : c == '{' ? ZR_JSON_OBJECT : c == '[' ? ZR_JSON_LIST :
		   c == 't' || c == 'f' ? ZR_JSON_BOOL : c == 'n' ? ZR_JSON_NULL : ZR_JSON_NUMBER;
	uint32_t at = add(r, type);
	if (at == NOWHERE)
		return at;
	struct zr_json_value *v = &r->l->v[at];
	if (type == ZR_JSON_TEXT)
		text(r, &v->p, &v->n);
	else if (type == ZR_JSON_OBJECT || type == ZR_JSON_LIST)
		members(r, depth, at);
	else if (type == ZR_JSON_BOOL)
		v->truth = c == 't', word(r, c == 't' ? "true" : "false");
	else if (type == ZR_JSON_NULL)
		word(r, "null");
	else if (c < 0)
		wrong(r, "the line ends too early");
	else
		number(r, v);
	return at;
}

int zr_json_line(struct zr_json_line *l, char *p, size_t n)
{
	struct reader r = { .l = l, .begin = p, .p = p, .end = p + n };
	l->n = 0;
	value(&r, 0);
	if (!r.rc && look(&r) >= 0)
		wrong(&r, "more than one value in a line");
	return r.rc;
}

void zr_json_line_free(struct zr_json_line *l)
{
	free(l->v);
	*l = (struct zr_json_line){ 0 };
}

const struct zr_json_value *zr_json_child(const struct zr_json_line *l,
					  const struct zr_json_value *v)
{
	return v->child ? &l->v[v->child] : NULL;
}

const struct zr_json_value *zr_json_next(const struct zr_json_line *l,
					 const struct zr_json_value *v)
{
	return v->next ? &l->v[v->next] : NULL;
}

const char *zr_json_type(const struct zr_json_value *v)
{
	static const char *const names[] = { "null",   "true or false", "a number",
					     "a text", "a list",	"an object" };
	return names[v->type];
}
