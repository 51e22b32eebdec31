/* SPDX-License-Identifier: Apache-2.0
 *
 * lists.c - the vocabulary and the merges of a tokenizer.json, a hundred thousand entries and more,
 * read where they stand in the file's text; see parts.h. jansson reads the rest of the file, and
 * the whole of one that is not JSON, to say where.
 */
#define _DEFAULT_SOURCE
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

static const char *behind_space(const char *p)
{
	while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
		p++;
	return p;
}

/* ---- values ---- */

static int hex_of(const char *p)
{
	int value = 0;

	for (int i = 0; i < 4; i++) {
		int c = p[i] | 32, digit = c >= 'a' ? c - 'a' + 10 : c - '0';
		if (!strchr("0123456789abcdefABCDEF", p[i]) || !p[i])
			return -1;

		value = value << 4 | digit;
	}

	return value;
}

/* \u and four digits, or two of these for a character behind U+FFFF; NULL: not JSON. */
static const char *read_unicode(const char *p, struct zr_buf *to)
{
	char text[4];
	int c = hex_of(p + 2), low = 0;

	p += 6;
	if (c >= 0xd800 && c < 0xdc00) {
		if (p[0] == '\\' && p[1] == 'u')
			low = hex_of(p + 2);
		else
			low = 0;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		p += 6;
	}

	if (c <= 0 || (c >= 0xd800 && c < 0xe000) || (low && (low < 0xdc00 || low > 0xdfff)) ||
	    (c > 0xffff && !low))
		return NULL;
	if (zr_buf_add(to, text, (size_t)(zr_utf8_put(text, c) - text)))
		return NULL;

	return p;
}

static const char *read_escape(const char *p, struct zr_buf *to)
{
	static const char from[] = "\"\\/bfnrt", becomes[] = "\"\\/\b\f\n\r\t";

	if (p[1] == 'u')
		return read_unicode(p, to);

	const char *at = NULL;
	if (p[1])
		at = strchr(from, p[1]);
	if (at && !zr_buf_add(to, &becomes[at - from], 1))
		return p + 2;

	return NULL;
}

const char *zr_list_string(const char *p, struct zr_buf *to)
{
	if (!p || *(p = behind_space(p)) != '"')
		return NULL;

	p++;
	while (p && *p != '"') {
		const char *from = p;
		while ((unsigned char)*p >= ' ' && *p != '"' && *p != '\\')
			p++;
		if (zr_buf_add(to, from, (size_t)(p - from)) || (unsigned char)*p < ' ')
			return NULL;
		if (*p == '\\')
			p = read_escape(p, to);
	}

	return p ? p + 1 : NULL;
}

const char *zr_list_mark(const char *p, char mark)
{
	if (p)
		p = behind_space(p);
	if (p && *p == mark)
		return p + 1;

	return NULL;
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Where digits end that start at p. NULL: there are none. */
static const char *behind_more_digits(const char *p)
{
	if (!is_digit(*p))
		return NULL;

	while (is_digit(*p))
		p++;

	return p;
}

/* The same of digits that do not start with a 0, but for 0 itself. */
static const char *behind_digits(const char *p)
{
	if (*p == '0' && is_digit(p[1]))
		return NULL;

	return behind_more_digits(p);
}

/* Where the sign and the digits of a number end that starts at *from, behind white space. NULL:
 * there is none, or p is NULL. */
static const char *behind_integer(const char *p, const char **from)
{
	if (!p)
		return NULL;

	*from = behind_space(p);
	return behind_digits(*from + (**from == '-'));
}

const char *zr_list_integer(const char *p, int64_t *value)
{
	const char *from, *end = behind_integer(p, &from);
	if (!end || end - from > 18 || *end == '.' || (*end | 32) == 'e')
		return NULL;

	*value = strtoll(from, NULL, 10);
	return end;
}

/* As the library reads it: the digits, as many as 64 bits hold, an integer, times or by a power of
 * ten, each rounded to a double: not always the double that is nearest. */
static double as_read(const char *p, const char *end)
{
	const char *start = p + (*p == '-');
	uint64_t digits = 0;
	long exponent = 0, ignored = 0, behind = 0;

	for (p = start; p < end && (*p | 32) != 'e'; p++) {
		unsigned d = (unsigned)(*p - '0');
		behind |= *p == '.';
		if (*p == '.')
			continue;

		ignored |= digits > (UINT64_MAX - d) / 10;
		if (!ignored)
			digits = digits * 10 + d;
		exponent += (ignored && !behind) - (!ignored && behind);
	}

	if (p < end)
		exponent += strtol(p + 1, NULL, 10);
	double value = (double)digits, power = 1;
	if (labs(exponent) > 22) /* powers up to here are exact */
		return strtod(start, NULL);

	for (long i = 0; i < labs(exponent); i++)
		power *= 10;

	return exponent < 0 ? value / power : value * power;
}

const char *zr_list_number(const char *p, double *value)
{
	const char *from, *end = behind_integer(p, &from);
	if (end && *end == '.')
		end = behind_more_digits(end + 1);
	if (end && (*end | 32) == 'e')
		end = behind_more_digits(end + 1 + (end[1] == '+' || end[1] == '-'));
	if (!end)
		return NULL;

	*value = as_read(from, end);
	if (*from == '-')
		*value = -*value;

	return end;
}

/* ---- lists ---- */

int zr_list_next(struct zr_list *l)
{
	int first = l->p == l->text;
	const char *p = behind_space(l->p + first);
	int ends = *p == (*l->text == '{' ? '}' : ']');
	if (ends || (!first && *p != ','))
		return ends ? 0 : -1;
	if (first)
		l->p = p;
	else
		l->p = behind_space(p + 1);

	return 1;
}

/* ---- what is passed over ---- */

#define ONES UINT64_C(0x0101010101010101)
#define DEEP 100 /* arrays and objects, which are counted in bytes */

/* 1 in each of 8 bytes that is c. */
static inline uint64_t equal(uint64_t x, char c)
{
	x ^= ONES * (unsigned char)c;
	return ~(((x & ONES * 0x7f) + ONES * 0x7f) | x) >> 7 & ONES;
}

/* A value that is passed over. */
struct passed {
	int in_string;
	size_t depth;  /* of arrays and objects */
	size_t commas; /* of the outermost */
};

/* 8 bytes; 0: there is an end of the value or a backslash among them. */
static inline int pass_eight(struct passed *v, const char *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof x);
	x = le64toh(x);
	uint64_t braces = x | ONES * 0x20; /* of [ and ] too */
	/* in each byte how many there are up to it, and how deep it is */
	uint64_t quotes = equal(x, '"') * ONES + (v->in_string ? ONES : 0);
	uint64_t opened = (equal(braces, '{') & ~quotes) * ONES;
	uint64_t closed = (equal(braces, '}') & ~quotes) * ONES;
	uint64_t depth = v->depth * ONES + opened - closed;
	if (equal(x, '\\') || equal(depth, 0) || v->depth > DEEP)
		return 0;

	v->commas += (equal(x, ',') & ~quotes & equal(depth, 1)) * ONES >> 56;
	v->depth = depth >> 56;
	v->in_string = quotes >> 56 & 1;
	return 1;
}

/* One byte, or two of a string. */
static inline size_t pass_one(struct passed *v, const char *p)
{
	if (v->in_string) {
		v->in_string = *p != '"';
		if (*p == '\\')
			return 2;

		return 1;
	}

	v->in_string = *p == '"';
	v->depth += *p == '{' || *p == '[';
	v->depth -= *p == '}' || *p == ']';
	v->commas += *p == ',' && v->depth == 1;
	return 1;
}

/* Behind a string, an array or an object; NULL: the text ends in it. */
static const char *pass(struct passed *v, const char *p, const char *end)
{
	p += pass_one(v, p);
	while (p < end && (v->depth || v->in_string)) {
		const char *next = p + 8;
		if (end - p >= 8 && v->depth && pass_eight(v, p)) {
			p = next;
			continue;
		}

		while (p < end && p < next && (v->depth || v->in_string))
			p += pass_one(v, p);
	}

	if (v->depth || v->in_string || p > end)
		return NULL;

	return p;
}

static const char *behind_value(struct zr_list *l, const char *end)
{
	struct passed v = { 0 };
	const char *p = l->text;
	if (*p == '{' || *p == '[' || *p == '"')
		p = pass(&v, p, end);
	else
		p += strcspn(p, ",]} \n\r\t");
	l->entries = v.commas + 1;
	if (p)
		l->bytes = (size_t)(p - l->text);
	else
		l->bytes = 0;

	return p;
}

/* The next key of an object, and its value, which pass_value passes over; 0: there is none, or no
 * JSON. */
static int next_key(struct zr_list *o, struct zr_buf *key, struct zr_list *value)
{
	key->n = 0;
	if (zr_list_next(o) != 1)
		return 0;

	const char *p = zr_list_mark(zr_list_string(o->p, key), ':');
	if (!p || zr_buf_add(key, "", 1))
		return 0;

	*value = (struct zr_list){ .text = behind_space(p) };
	value->p = value->text;
	return 1;
}

static int pass_value(struct zr_list *o, struct zr_list *value, const char *end)
{
	o->p = behind_value(value, end);
	return o->p != NULL;
}

/* Appends the file's text up to a list, and null for that. */
static int leave_out(struct zr_buf *rest, const struct zr_list *l, const char **from)
{
	if (!l->text || (*l->text != '{' && *l->text != '['))
		return 0;

	int rc = zr_buf_add(rest, *from, (size_t)(l->text - *from));
	*from = l->text + l->bytes;
	if (rc)
		return rc;

	return zr_buf_add(rest, "null", 4);
}

/* The model of a file's object; one without a text: it has none, or is no JSON. */
static struct zr_list find_model(const char *text, const char *end, struct zr_buf *key)
{
	struct zr_list root = { .text = text, .p = text }, v;

	while (next_key(&root, key, &v)) {
		if (!strcmp(key->p, "model") && *v.text == '{')
			return v;
		if (!pass_value(&root, &v, end))
			break;
	}

	return (struct zr_list){ 0 };
}

/* Notes the lists of a model. Returns whether it is a BPE, as far as it says. */
static int find_lists(struct zr_lists *s, struct zr_list model, const char *end, struct zr_buf *key)
{
	struct zr_list v;
	int bpe = 1;

	while (next_key(&model, key, &v) && pass_value(&model, &v, end)) {
		if (!strcmp(key->p, "vocab") && !s->vocab.text)
			s->vocab = v;
		else if (!strcmp(key->p, "merges") && !s->merges.text)
			s->merges = v;
		else if (!strcmp(key->p, "type"))
			bpe = !strncmp(v.text, "\"BPE\"", 5);
	}

	return bpe;
}

int zr_lists_find(struct zr_lists *s, const char *text, size_t n)
{
	const char *start = behind_space(text), *end = text + n;
	struct zr_buf key = { 0 };
	struct zr_list model = { 0 };
	int bpe = 1;

	if (*start == '{' && zr_utf8_well_formed(text, n) == n)
		model = find_model(start, end, &key);
	if (model.text)
		bpe = find_lists(s, model, end, &key);
	zr_buf_free(&key);

	/* what is not read here has to be looked at by jansson */
	const struct zr_list none = { 0 }, *merges = bpe ? &s->merges : &none;
	const struct zr_list *first = &s->vocab, *second = merges;
	if (merges->text && merges->text < s->vocab.text) {
		first = merges;
		second = &s->vocab;
	}

	int rc = leave_out(&s->rest, first, &text);
	if (!rc)
		rc = leave_out(&s->rest, second, &text);
	if (!rc)
		rc = zr_buf_add(&s->rest, text, (size_t)(end - text));

	return rc;
}
