/* SPDX-License-Identifier: Apache-2.0
 *
 * print.c - see parts.h: values as text: str() and repr() of Python, and its json.dumps().
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/chat/jinja/parts.h"
#include "files/tokenizer/utf8.h"

#define DEEPEST 1000 /* lists and dicts in one another that are written */

int zj_add(struct zj_run *r, struct zr_buf *b, const char *p, size_t n)
{
	int rc = zj_spend(r, n / 64);

	if (rc)
		return rc;
	if (n > ZR_JINJA_OUTPUT || b->n > ZR_JINJA_OUTPUT - n)
		return zj_fail(r, "more than %u MiB are written", ZR_JINJA_OUTPUT >> 20);
	if (zr_buf_add(b, p, n))
		return zr_no_memory(r->err);

	return 0;
}

static int add_word(struct zj_run *r, struct zr_buf *b, const char *text)
{
	return zj_add(r, b, text, strlen(text));
}

/* ---- numbers ---- */

/* The shortest digits that mean f, as Python's repr writes them. */
static void write_float(double f, char *out, size_t room)
{
	char digits[40];
	int precision = 0;

	do
		snprintf(digits, sizeof digits, "%.*e", precision, f);
	while (strtod(digits, NULL) != f && ++precision < 17);

	const char *e = strchr(digits, 'e');
	const int exponent = atoi(e + 1);
	if (exponent >= -4 && exponent < 16) {
		const int places = precision > exponent ? precision - exponent : 1;
		snprintf(out, room, "%.*f", places, f);
		return;
	}

	snprintf(out, room, "%.*se%c%02d", (int)(e - digits), digits, exponent < 0 ? '-' : '+',
		 abs(exponent));
}

static int print_float(struct zj_run *r, double f, int is_json, struct zr_buf *out)
{
	static const char *const names[2][3] = { { "nan", "inf", "-inf" },
						 { "NaN", "Infinity", "-Infinity" } };
	char text[400];

	if (isnan(f))
		return add_word(r, out, names[is_json][0]);
	if (isinf(f))
		return add_word(r, out, names[is_json][1 + (f < 0)]);

	write_float(f, text, sizeof text);
	return add_word(r, out, text);
}

static int print_int(struct zj_run *r, int64_t i, struct zr_buf *out)
{
	char text[32];

	snprintf(text, sizeof text, "%lld", (long long)i);
	return add_word(r, out, text);
}

/* ---- repr ---- */

/* Whether repr() writes a character by its number: controls, formats, separators, what is private
 * and what is no character, of Unicode's tables. */
static int is_hidden(uint32_t c)
{
	static const struct {
		uint32_t from, to;
	} hidden[] = {
		{ 0x00, 0x1f },       { 0x7f, 0xa0 },       { 0xad, 0xad },
		{ 0x600, 0x605 },     { 0x61c, 0x61c },     { 0x6dd, 0x6dd },
		{ 0x70f, 0x70f },     { 0x890, 0x891 },     { 0x8e2, 0x8e2 },
		{ 0x1680, 0x1680 },   { 0x180e, 0x180e },   { 0x2000, 0x200f },
		{ 0x2028, 0x202f },   { 0x205f, 0x206f },   { 0x3000, 0x3000 },
		{ 0xd800, 0xf8ff },   { 0xfdd0, 0xfdef },   { 0xfeff, 0xfeff },
		{ 0xfff0, 0xfffb },   { 0xfffe, 0xffff },   { 0x110bd, 0x110bd },
		{ 0x110cd, 0x110cd }, { 0x13430, 0x1343f }, { 0x1bca0, 0x1bca3 },
		{ 0x1d173, 0x1d17a }, { 0xe0000, 0xe007f }, { 0xf0000, 0x10ffff },
	};

	for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
		if (c <= hidden[i].to)
			return c >= hidden[i].from;

	return (c & 0xfffe) == 0xfffe;
}

static int add_hidden(struct zj_run *r, struct zr_buf *out, uint32_t c)
{
	char text[16];
	const char *form = "\\U%08x";

	if (c < 0x100)
		form = "\\x%02x";
	else if (c < 0x10000)
		form = "\\u%04x";
	snprintf(text, sizeof text, form, c);
	return add_word(r, out, text);
}

static int add_shown(struct zj_run *r, struct zr_buf *out, const char *p, size_t n, char quote)
{
	const char pair[] = { '\\', *p };
	const char c = *p;

	if (c == '\n')
		return add_word(r, out, "\\n");
	if (c == '\r')
		return add_word(r, out, "\\r");
	if (c == '\t')
		return add_word(r, out, "\\t");
	if (c == '\\' || c == quote)
		return zj_add(r, out, pair, 2);

	const uint32_t character = zr_utf8_read(p, &n);
	if (is_hidden(character))
		return add_hidden(r, out, character);

	return zj_add(r, out, p, n);
}

static int print_quoted(struct zj_run *r, const struct zj_text *t, struct zr_buf *out)
{
	const int has_single = memchr(t->p, '\'', t->n) != NULL;
	const int has_double = memchr(t->p, '"', t->n) != NULL;
	const char quote = has_single && !has_double ? '"' : '\'';
	size_t len;
	int rc = zj_add(r, out, &quote, 1);

	for (size_t at = 0; !rc && at < t->n; at += len) {
		zr_utf8_read(t->p + at, &len);
		rc = add_shown(r, out, t->p + at, len, quote);
	}

	if (!rc)
		rc = zj_add(r, out, &quote, 1);

	return rc;
}

static int print_inside(struct zj_run *r, const struct zj_value *v, struct zr_buf *out);

static int print_list(struct zj_run *r, const struct zj_list *l, struct zr_buf *out)
{
	static const char *const brackets[2][2] = { { "[", "]" }, { "(", ")" } };
	const int is_tuple = l->flavour == ZJ_A_TUPLE;
	int rc = add_word(r, out, brackets[is_tuple][0]);

	for (size_t i = 0; !rc && i < l->n; i++) {
		if (i)
			rc = add_word(r, out, ", ");
		if (!rc)
			rc = print_inside(r, &l->v[i], out);
	}

	if (!rc && is_tuple && l->n == 1)
		rc = add_word(r, out, ",");
	if (rc)
		return rc;

	return add_word(r, out, brackets[is_tuple][1]);
}

static int print_dict(struct zj_run *r, const struct zj_dict *d, struct zr_buf *out)
{
	int rc = add_word(r, out, "{");

	for (size_t i = 0; !rc && i < d->n; i++) {
		if (i)
			rc = add_word(r, out, ", ");
		if (!rc)
			rc = print_inside(r, &d->pair[i].key, out);
		if (!rc)
			rc = add_word(r, out, ": ");
		if (!rc)
			rc = print_inside(r, &d->pair[i].v, out);
	}

	if (rc)
		return rc;

	return add_word(r, out, "}");
}

static int print_shared(struct zj_run *r, const struct zj_value *v, struct zr_buf *out)
{
	static const char *const booleans[] = { "False", "True" };

	switch (v->kind) {
	case ZJ_NONE:
		return add_word(r, out, "None");
	case ZJ_BOOL:
		return add_word(r, out, booleans[v->i]);
	case ZJ_INT:
		return print_int(r, v->i, out);
	case ZJ_FLOAT:
		return print_float(r, v->f, 0, out);
	case ZJ_DICT:
		return print_dict(r, v->dict, out);
	case ZJ_LIST:
		if (v->list->flavour <= ZJ_A_TUPLE)
			return print_list(r, v->list, out);
		break;
	default:
		break;
	}

	return zj_fail(r, "a %s is written as text, which says nothing of what is in it",
		       zj_type(v));
}

static int print_inside(struct zj_run *r, const struct zj_value *v, struct zr_buf *out)
{
	int rc = zj_spend(r, 1);

	if (rc)
		return rc;
	if (v->kind == ZJ_TEXT && v->text->is_safe)
		return zj_fail(r, "a text of the filter safe in a list that is written");
	if (v->kind == ZJ_TEXT)
		return print_quoted(r, v->text, out);
	if (v->kind == ZJ_UNDEFINED)
		return add_word(r, out, "Undefined");
	if (++r->depth > DEEPEST)
		return zj_fail(r, "values of more than %d levels are written", DEEPEST);

	rc = print_shared(r, v, out);
	r->depth--;
	return rc;
}

int zj_print(struct zj_run *r, const struct zj_value *v, struct zr_buf *out)
{
	if (v->kind == ZJ_TEXT)
		return zj_add(r, out, v->text->p, v->text->n);
	if (v->kind == ZJ_UNDEFINED)
		return 0;

	return print_shared(r, v, out);
}

int zj_cut(struct zj_run *r, struct zr_buf *b, size_t from, struct zj_value *out)
{
	int rc = zj_text(r, b->p ? b->p + from : "", b->n - from, out);

	b->n = from;
	return rc;
}

int zj_string(struct zj_run *r, const struct zj_value *v, struct zj_value *out)
{
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;

	if (v->kind == ZJ_TEXT) {
		*out = *v;
		return 0;
	}

	int rc = zj_print(r, v, b);
	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}

/* ---- JSON ---- */

struct dump {
	struct zj_run *r;
	const struct zj_json *how;
	struct zr_buf *out;
	int level;
};

static int put(struct dump *d, const char *p, size_t n)
{
	return zj_add(d->r, d->out, p, n);
}

static int put_number(struct dump *d, uint32_t c)
{
	char text[16];

	if (c >= 0x10000) {
		snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
			 0xdc00 + ((c - 0x10000) & 0x3ff));
		return put(d, text, 12);
	}

	snprintf(text, sizeof text, "\\u%04x", c);
	return put(d, text, 6);
}

static int put_escape(struct dump *d, uint32_t c)
{
	static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
	const char *at = c && c < 0x80 ? strchr(from, (int)c) : NULL;

	if (!at)
		return put_number(d, c);

	const char pair[] = { '\\', to[at - from] };
	return put(d, pair, 2);
}

static int dump_text(struct dump *d, const struct zj_text *t)
{
	size_t shown = 0, len;
	int rc = put(d, "\"", 1);

	for (size_t at = 0; !rc && at < t->n; at += len) {
		const uint32_t c = zr_utf8_read(t->p + at, &len);
		const int is_plain = c >= 0x20 && c != '"' && c != '\\';
		if (is_plain && (c < 0x7f || !d->how->ascii))
			continue;

		rc = put(d, t->p + shown, at - shown);
		if (!rc)
			rc = put_escape(d, c);
		shown = at + len;
	}

	if (!rc)
		rc = put(d, t->p + shown, t->n - shown);
	if (rc)
		return rc;

	return put(d, "\"", 1);
}

static int dump_value(struct dump *d, const struct zj_value *v);

/* A line end and the indent of the level. */
static int put_line(struct dump *d)
{
	int rc = 0;

	if (!d->how->indent)
		return 0;

	rc = put(d, "\n", 1);
	for (int i = 0; !rc && i < d->level; i++)
		rc = put(d, d->how->indent, d->how->indent_n);

	return rc;
}

static int put_between(struct dump *d, size_t i)
{
	int rc = 0;

	if (i)
		rc = put(d, d->how->item, d->how->item_n);
	if (rc)
		return rc;

	return put_line(d);
}

static int dump_list(struct dump *d, const struct zj_list *l)
{
	int rc = put(d, "[", 1);

	d->level++;
	for (size_t i = 0; !rc && i < l->n; i++) {
		rc = put_between(d, i);
		if (!rc)
			rc = dump_value(d, &l->v[i]);
	}

	d->level--;
	if (!rc && l->n)
		rc = put_line(d);
	if (rc)
		return rc;

	return put(d, "]", 1);
}

static int dump_key(struct dump *d, const struct zj_value *key)
{
	if (key->kind == ZJ_TEXT)
		return dump_text(d, key->text);
	if (key->kind != ZJ_INT && key->kind != ZJ_FLOAT && key->kind != ZJ_BOOL &&
	    key->kind != ZJ_NONE)
		return zj_fail(d->r, "tojson: keys must be str, int, float, bool or None, not %s",
			       zj_type(key));

	int rc = put(d, "\"", 1);
	if (!rc)
		rc = dump_value(d, key);
	if (rc)
		return rc;

	return put(d, "\"", 1);
}

/* The pairs in the order of their keys. */
static int sort_pairs(struct dump *d, const struct zj_dict *from, struct zj_pair **out)
{
	struct zj_pair *p;
	int rc = zj_get(d->r, (from->n + 1) * sizeof *p, &p);

	for (size_t i = 0; !rc && i < from->n; i++) {
		size_t at = i;
		int less = 1;
		while (!rc && at) {
			rc = zj_order(d->r, ZJ_LT, &from->pair[i].key, &p[at - 1].key, &less);
			if (!less)
				break;
			p[at] = p[at - 1];
			at--;
			if (!rc)
				rc = zj_spend(d->r, 1);
		}
		p[at] = from->pair[i];
	}

	*out = p;
	return rc;
}

static int dump_dict(struct dump *d, const struct zj_dict *v)
{
	struct zj_pair *pair = v->pair;
	int rc = put(d, "{", 1);

	if (!rc && d->how->sorted)
		rc = sort_pairs(d, v, &pair);
	d->level++;
	for (size_t i = 0; !rc && i < v->n; i++) {
		rc = put_between(d, i);
		if (!rc)
			rc = dump_key(d, &pair[i].key);
		if (!rc)
			rc = put(d, d->how->key, d->how->key_n);
		if (!rc)
			rc = dump_value(d, &pair[i].v);
	}

	d->level--;
	if (!rc && v->n)
		rc = put_line(d);
	if (rc)
		return rc;

	return put(d, "}", 1);
}

static int dump_value(struct dump *d, const struct zj_value *v)
{
	static const char *const booleans[] = { "false", "true" };
	int rc = zj_spend(d->r, 1);

	if (rc)
		return rc;
	if (d->level > DEEPEST)
		return zj_fail(d->r, "tojson: more than %d levels", DEEPEST);

	switch (v->kind) {
	case ZJ_NONE:
		return put(d, "null", 4);
	case ZJ_BOOL:
		return add_word(d->r, d->out, booleans[v->i]);
	case ZJ_INT:
		return print_int(d->r, v->i, d->out);
	case ZJ_FLOAT:
		return print_float(d->r, v->f, 1, d->out);
	case ZJ_TEXT:
		return dump_text(d, v->text);
	case ZJ_DICT:
		return dump_dict(d, v->dict);
	case ZJ_LIST:
		if (v->list->flavour <= ZJ_A_TUPLE)
			return dump_list(d, v->list);
		break;
	default:
		break;
	}

	return zj_fail(d->r, "Object of type %s is not JSON serializable", zj_type(v));
}

int zj_dump(struct zj_run *r, const struct zj_value *v, const struct zj_json *how,
	    struct zr_buf *out)
{
	struct dump d = { .r = r, .how = how, .out = out };
	return dump_value(&d, v);
}
