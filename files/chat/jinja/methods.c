/* SPDX-License-Identifier: Apache-2.0
 *
 * methods.c - see parts.h: methods of texts, lists and dicts, as Python has them. Those that change
 * a list or a dict are here to be refused, as jinja2's immutable sandbox does.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"
#include "files/tokenizer/utf8.h"

#define METHOD(name)                                                                               \
	static int name(struct zj_run *r, const struct zj_value *of, const struct zj_value *arg,   \
			struct zj_value *out)

static int wants_text(struct zj_run *r, const struct zj_value *v)
{
	return zj_fail(r, "expected a text, found %s", zj_type(v));
}

/* The text that an argument is; NULL where it is None or not given. */
static int text_or_none(struct zj_run *r, const struct zj_value *v, const struct zj_text **to)
{
	*to = NULL;
	if (v->kind == ZJ_TEXT)
		*to = v->text;
	else if (v->kind != ZJ_MISSING && v->kind != ZJ_NONE)
		return wants_text(r, v);

	return 0;
}

/* ---- letters and ends ---- */

static int strip(struct zj_run *r, const struct zj_value *of, const struct zj_value *arg, int sides,
		 struct zj_value *out)
{
	const struct zj_text *set;
	int rc = text_or_none(r, &arg[0], &set);

	if (rc)
		return rc;

	return zj_strip(r, of, set, sides, out);
}

METHOD(text_strip)
{
	return strip(r, of, arg, 3, out);
}

METHOD(text_lstrip)
{
	return strip(r, of, arg, 1, out);
}

METHOD(text_rstrip)
{
	return strip(r, of, arg, 2, out);
}

METHOD(text_lower)
{
	(void)arg;
	return zj_letters(r, of, ZJ_LOWER, out);
}

METHOD(text_upper)
{
	(void)arg;
	return zj_letters(r, of, ZJ_UPPER, out);
}

METHOD(text_capitalize)
{
	(void)arg;
	return zj_letters(r, of, ZJ_CAPITAL, out);
}

METHOD(text_title)
{
	(void)arg;
	return zj_letters(r, of, ZJ_TITLE, out);
}

static int has_end(const struct zj_text *t, const struct zj_text *end, int at_start)
{
	if (end->n > t->n)
		return 0;

	return !memcmp(at_start ? t->p : t->p + t->n - end->n, end->p, end->n);
}

/* One text, or one of a tuple of them. */
static int ends(struct zj_run *r, const struct zj_value *of, const struct zj_value *arg,
		int at_start, struct zj_value *out)
{
	int is = 0;

	if (arg->kind == ZJ_TEXT) {
		*out = zj_bool(has_end(of->text, arg->text, at_start));
		return 0;
	}

	if (arg->kind != ZJ_LIST || arg->list->flavour != ZJ_A_TUPLE)
		return wants_text(r, arg);
	for (size_t i = 0; i < arg->list->n; i++) {
		if (arg->list->v[i].kind != ZJ_TEXT)
			return wants_text(r, &arg->list->v[i]);
		is |= has_end(of->text, arg->list->v[i].text, at_start);
	}

	*out = zj_bool(is);
	return 0;
}

METHOD(text_startswith)
{
	return ends(r, of, arg, 1, out);
}

METHOD(text_endswith)
{
	return ends(r, of, arg, 0, out);
}

static int without_end(struct zj_run *r, const struct zj_value *of, const struct zj_value *arg,
		       int at_start, struct zj_value *out)
{
	const struct zj_text *t = of->text;

	if (arg->kind != ZJ_TEXT)
		return wants_text(r, arg);

	*out = *of;
	if (!has_end(t, arg->text, at_start) || !arg->text->n)
		return 0;

	return zj_borrow(r, at_start ? t->p + arg->text->n : t->p, t->n - arg->text->n, out);
}

METHOD(text_removeprefix)
{
	return without_end(r, of, arg, 1, out);
}

METHOD(text_removesuffix)
{
	return without_end(r, of, arg, 0, out);
}

/* ---- places ---- */

/* The number of the character that begins at a byte. */
static int64_t character_of(const struct zj_text *t, size_t at)
{
	const struct zj_text before = { .p = t->p, .n = at, .is_ascii = t->is_ascii };
	return (int64_t)zj_characters(&before);
}

METHOD(text_find)
{
	if (arg[0].kind != ZJ_TEXT)
		return wants_text(r, &arg[0]);

	const int64_t at = zj_search(of->text, 0, arg[0].text);
	*out = zj_int(at < 0 ? -1 : character_of(of->text, (size_t)at));
	return zj_spend(r, of->text->n / 64);
}

METHOD(text_rfind)
{
	int64_t last = -1, at = -1;

	if (arg[0].kind != ZJ_TEXT)
		return wants_text(r, &arg[0]);

	while ((at = zj_search(of->text, (size_t)(at + 1), arg[0].text)) >= 0)
		last = at;
	*out = zj_int(last < 0 ? -1 : character_of(of->text, (size_t)last));
	return zj_spend(r, of->text->n / 8);
}

METHOD(text_count)
{
	int64_t n = 0, at = 0;

	if (arg[0].kind != ZJ_TEXT)
		return wants_text(r, &arg[0]);
	if (!arg[0].text->n) {
		*out = zj_int((int64_t)zj_characters(of->text) + 1);
		return 0;
	}

	while ((at = zj_search(of->text, (size_t)at, arg[0].text)) >= 0) {
		n++;
		at += (int64_t)arg[0].text->n;
	}

	*out = zj_int(n);
	return zj_spend(r, of->text->n / 8);
}

METHOD(text_replace)
{
	int64_t most = -1;

	if (arg[0].kind != ZJ_TEXT || arg[1].kind != ZJ_TEXT)
		return wants_text(r, arg[0].kind == ZJ_TEXT ? &arg[1] : &arg[0]);
	if (of->text->is_safe)
		return zj_fail(r, "replace in a text of the filter safe: not in the subset");
	if (arg[2].kind == ZJ_INT)
		most = arg[2].i;

	return zj_replace(r, of->text, arg[0].text, arg[1].text, most, out);
}

METHOD(text_join)
{
	return zj_join(r, of->text, &arg[0], 0, out);
}

/* ---- split ---- */

static int add_piece(struct zj_run *r, struct zj_list *to, const char *p, size_t n)
{
	struct zj_value piece;
	int rc = zj_borrow(r, p, n, &piece);

	if (rc)
		return rc;

	return zj_append(r, to, piece);
}

static size_t behind_spaces(const struct zj_text *t, size_t at, int wanted)
{
	size_t len;

	while (at < t->n && zj_is_space(zr_utf8_read(t->p + at, &len)) == wanted)
		at += len;

	return at;
}

/* At runs of white space, without empty pieces. */
static int split_spaces(struct zj_run *r, const struct zj_text *t, int64_t most, struct zj_list *to)
{
	size_t at = behind_spaces(t, 0, 1);
	int rc = 0;

	while (!rc && at < t->n) {
		size_t end = behind_spaces(t, at, 0);
		if (most-- == 0)
			return add_piece(r, to, t->p + at, t->n - at);

		rc = add_piece(r, to, t->p + at, end - at);
		at = behind_spaces(t, end, 1);
	}

	return rc;
}

static int split_at(struct zj_run *r, const struct zj_text *t, const struct zj_text *between,
		    int64_t most, struct zj_list *to)
{
	size_t at = 0;
	int64_t found;
	int rc = 0;

	while (!rc && most-- != 0 && (found = zj_search(t, at, between)) >= 0) {
		rc = add_piece(r, to, t->p + at, (size_t)found - at);
		at = (size_t)found + between->n;
	}

	if (rc)
		return rc;

	return add_piece(r, to, t->p + at, t->n - at);
}

METHOD(text_split)
{
	const struct zj_text *between;
	int64_t most = -1;
	int rc = text_or_none(r, &arg[0], &between);

	if (!rc)
		rc = zj_list(r, ZJ_A_LIST, 0, out);
	if (rc)
		return rc;
	if (arg[1].kind == ZJ_INT && arg[1].i >= 0)
		most = arg[1].i;
	if (between && !between->n)
		return zj_fail(r, "split: empty separator");
	if (!between)
		return split_spaces(r, of->text, most, out->list);

	return split_at(r, of->text, between, most, out->list);
}

METHOD(text_rsplit)
{
	struct zj_list *l;
	struct zj_value all;

	if (arg[0].kind != ZJ_TEXT || arg[1].kind != ZJ_INT || arg[1].i != 1)
		return zj_fail(r, "rsplit of anything but a text and 1: not in the subset");

	/* the pieces but the last are one */
	int rc = text_split(r, of, (const struct zj_value[4]){ arg[0] }, &all);
	if (rc)
		return rc;

	l = all.list;
	if (l->n > 2) {
		const char *end = l->v[l->n - 2].text->p + l->v[l->n - 2].text->n;
		rc = zj_borrow(r, of->text->p, (size_t)(end - of->text->p), &l->v[0]);
		l->v[1] = l->v[l->n - 1];
		l->n = 2;
	}

	*out = all;
	return rc;
}

METHOD(text_splitlines)
{
	const struct zj_text *t = of->text;
	int rc = zj_list(r, ZJ_A_LIST, 0, out);

	(void)arg;
	for (size_t at = 0, next; !rc && at < t->n; at = next) {
		const size_t end = zj_line(t, at, &next);
		rc = add_piece(r, out->list, t->p + at, end - at);
	}

	return rc;
}

/* ---- what a text is ---- */

static int all_are(const struct zj_text *t, const char *first, const char *last)
{
	for (size_t i = 0; i < t->n; i++) {
		int is = 0;
		for (size_t k = 0; first[k]; k++)
			is |= t->p[i] >= first[k] && t->p[i] <= last[k];
		if (!is)
			return 0;
	}

	return t->n > 0;
}

#define ASCII_TEST(name, first, last)                                                              \
	METHOD(name)                                                                               \
	{                                                                                          \
		(void)arg;                                                                         \
		if (!of->text->is_ascii)                                                           \
			return zj_fail(r, "%s of what is not ASCII: not in the subset", #name);    \
		*out = zj_bool(all_are(of->text, first, last));                                    \
		return 0;                                                                          \
	}

ASCII_TEST(text_isdigit, "0", "9")
ASCII_TEST(text_isalpha, "aA", "zZ")
ASCII_TEST(text_isalnum, "aA0", "zZ9")

METHOD(text_isspace)
{
	(void)r, (void)arg;
	*out = zj_bool(of->text->n && behind_spaces(of->text, 0, 1) == of->text->n);
	return 0;
}

static const struct zj_function of_text[] = {
	{ .name = "capitalize", .fn = text_capitalize },
	{ .name = "count", .fn = text_count, .least = 1, .parameter = { "sub" } },
	{ .name = "endswith", .fn = text_endswith, .least = 1, .parameter = { "suffix" } },
	{ .name = "find", .fn = text_find, .least = 1, .parameter = { "sub" } },
	{ .name = "isalnum", .fn = text_isalnum },
	{ .name = "isalpha", .fn = text_isalpha },
	{ .name = "isdigit", .fn = text_isdigit },
	{ .name = "isspace", .fn = text_isspace },
	{ .name = "join", .fn = text_join, .least = 1, .parameter = { "iterable" } },
	{ .name = "lower", .fn = text_lower },
	{ .name = "lstrip", .fn = text_lstrip, .parameter = { "chars" } },
	{ .name = "removeprefix", .fn = text_removeprefix, .least = 1, .parameter = { "prefix" } },
	{ .name = "removesuffix", .fn = text_removesuffix, .least = 1, .parameter = { "suffix" } },
	{ .name = "replace",
	  .fn = text_replace,
	  .least = 2,
	  .parameter = { "old", "new", "count" } },
	{ .name = "rfind", .fn = text_rfind, .least = 1, .parameter = { "sub" } },
	{ .name = "rsplit", .fn = text_rsplit, .parameter = { "sep", "maxsplit" } },
	{ .name = "rstrip", .fn = text_rstrip, .parameter = { "chars" } },
	{ .name = "split", .fn = text_split, .parameter = { "sep", "maxsplit" } },
	{ .name = "splitlines", .fn = text_splitlines },
	{ .name = "startswith", .fn = text_startswith, .least = 1, .parameter = { "prefix" } },
	{ .name = "strip", .fn = text_strip, .parameter = { "chars" } },
	{ .name = "title", .fn = text_title },
	{ .name = "upper", .fn = text_upper },
	{ .name = NULL },
};

/* ---- dicts and lists ---- */

METHOD(dict_get)
{
	int rc = zj_find(r, of->dict, &arg[0], out);
	if (rc || out->kind != ZJ_MISSING)
		return rc;

	*out = arg[1].kind == ZJ_MISSING ? zj_none() : arg[1];
	return 0;
}

static int view(struct zj_run *r, const struct zj_dict *d, int keys, int values,
		struct zj_value *out)
{
	int rc = zj_list(r, ZJ_A_VIEW, d->n, out);

	for (size_t i = 0; !rc && i < d->n; i++) {
		struct zj_value v = keys ? d->pair[i].key : d->pair[i].v;
		if (keys && values) {
			rc = zj_list(r, ZJ_A_TUPLE, 2, &v);
			if (!rc)
				rc = zj_append(r, v.list, d->pair[i].key);
			if (!rc)
				rc = zj_append(r, v.list, d->pair[i].v);
		}
		if (!rc)
			rc = zj_append(r, out->list, v);
	}

	return rc;
}

METHOD(dict_items)
{
	(void)arg;
	return view(r, of->dict, 1, 1, out);
}

METHOD(dict_keys)
{
	(void)arg;
	return view(r, of->dict, 1, 0, out);
}

METHOD(dict_values)
{
	(void)arg;
	return view(r, of->dict, 0, 1, out);
}

METHOD(list_count)
{
	int64_t n = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i < of->list->n; i++) {
		int is;
		rc = zj_equal(r, &of->list->v[i], &arg[0], &is);
		n += is;
	}

	*out = zj_int(n);
	return rc;
}

METHOD(list_index)
{
	for (size_t i = 0; i < of->list->n; i++) {
		int is, rc = zj_equal(r, &of->list->v[i], &arg[0], &is);
		*out = zj_int((int64_t)i);
		if (rc || is)
			return rc;
	}

	return zj_fail(r, "index: the value is not in the list");
}

static int changes(struct zj_run *r, const struct zj_value *of, const struct zj_arguments *given,
		   struct zj_value *out)
{
	(void)given, (void)out;
	return zj_fail(r, "a method that changes a %s, which the sandbox of templates forbids",
		       zj_type(of));
}

static const struct zj_function of_dict[] = {
	{ .name = "get", .fn = dict_get, .least = 1, .parameter = { "key", "default" } },
	{ .name = "items", .fn = dict_items },
	{ .name = "keys", .fn = dict_keys },
	{ .name = "values", .fn = dict_values },
	{ .name = "clear", .all = changes },
	{ .name = "pop", .all = changes },
	{ .name = "popitem", .all = changes },
	{ .name = "setdefault", .all = changes },
	{ .name = "update", .all = changes },
	{ .name = NULL },
};

static const struct zj_function of_list[] = {
	{ .name = "count", .fn = list_count, .least = 1, .parameter = { "value" } },
	{ .name = "index", .fn = list_index, .least = 1, .parameter = { "value" } },
	{ .name = "append", .all = changes },
	{ .name = "clear", .all = changes },
	{ .name = "extend", .all = changes },
	{ .name = "insert", .all = changes },
	{ .name = "pop", .all = changes },
	{ .name = "remove", .all = changes },
	{ .name = "reverse", .all = changes },
	{ .name = "sort", .all = changes },
	{ .name = NULL },
};

const struct zj_function *zj_find_method(const struct zj_value *of, const char *p, size_t n)
{
	if (of->kind == ZJ_TEXT)
		return zj_find_in(of_text, p, n);
	if (of->kind == ZJ_DICT)
		return zj_find_in(of_dict, p, n);
	if (of->kind == ZJ_LIST && of->list->flavour <= ZJ_A_TUPLE)
		return zj_find_in(of_list, p, n);

	return NULL;
}

int zj_is_method(const char *p, size_t n)
{
	return zj_find_in(of_text, p, n) || zj_find_in(of_dict, p, n) || zj_find_in(of_list, p, n);
}
