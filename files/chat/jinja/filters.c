/* SPDX-License-Identifier: Apache-2.0
 *
 * filters.c - see parts.h: x | name, as jinja2/filters.py has them, and transformers' tojson.
 */
#include <stdlib.h>
#include <string.h>

#include "files/chat/jinja/parts.h"

#define FILTER(name)                                                                               \
	static int name(struct zj_run *r, const struct zj_value *of, const struct zj_value *arg,   \
			struct zj_value *out)

/* A text, as soft_str() makes one. */
static int text_of(struct zj_run *r, const struct zj_value *v, struct zj_value *out)
{
	return zj_string(r, v, out);
}

/* ---- texts ---- */

FILTER(filter_string)
{
	(void)arg;
	return text_of(r, of, out);
}

FILTER(filter_safe)
{
	struct zj_text *t;
	struct zj_value text;
	int rc = text_of(r, of, &text);

	(void)arg;
	if (!rc)
		rc = zj_get(r, sizeof *t, &t);
	if (rc)
		return rc;

	*t = *text.text;
	t->is_safe = 1;
	*out = (struct zj_value){ .kind = ZJ_TEXT, .text = t };
	return 0;
}

FILTER(filter_escape)
{
	struct zj_value text;

	if (of->kind == ZJ_TEXT && of->text->is_safe) {
		*out = *of;
		return 0;
	}

	int rc = zj_escape(r, of, &text);
	if (rc)
		return rc;

	return filter_safe(r, &text, arg, out);
}

FILTER(filter_trim)
{
	struct zj_value text;
	int rc = text_of(r, of, &text);
	if (rc)
		return rc;
	if (arg[0].kind != ZJ_MISSING && arg[0].kind != ZJ_NONE && arg[0].kind != ZJ_TEXT)
		return zj_fail(r, "filter trim: expected a text, found %s", zj_type(&arg[0]));

	return zj_strip(r, &text, arg[0].kind == ZJ_TEXT ? arg[0].text : NULL, 3, out);
}

static int change_letters(struct zj_run *r, const struct zj_value *of, enum zj_letters how,
			  struct zj_value *out)
{
	struct zj_value text;
	int rc = text_of(r, of, &text);

	if (rc)
		return rc;

	return zj_letters(r, &text, how, out);
}

FILTER(filter_lower)
{
	(void)arg;
	return change_letters(r, of, ZJ_LOWER, out);
}

FILTER(filter_upper)
{
	(void)arg;
	return change_letters(r, of, ZJ_UPPER, out);
}

FILTER(filter_capitalize)
{
	(void)arg;
	return change_letters(r, of, ZJ_CAPITAL, out);
}

/* The first letter of each word is large; a word ends at white space, - ( { [ and <. */
FILTER(filter_title)
{
	struct zj_value text;
	char *p;
	int rc = change_letters(r, of, ZJ_LOWER, &text);

	(void)arg;
	if (!rc && !text.text->is_ascii)
		return zj_fail(r, "filter title: of letters that are not ASCII: not in the subset");
	if (!rc)
		rc = zj_get(r, text.text->n + 1, &p);
	if (rc)
		return rc;

	for (size_t i = 0; i < text.text->n; i++) {
		const char c = text.text->p[i];
		const int begins = !i || zj_is_space((unsigned char)p[i - 1]) ||
				   (p[i - 1] && strchr("-({[<", p[i - 1]));
		p[i] = c;
		if (begins && c >= 'a' && c <= 'z')
			p[i] = (char)(c - 32);
	}

	return zj_borrow(r, p, text.text->n, out);
}

FILTER(filter_replace)
{
	struct zj_value text, old, with;
	int64_t most = -1;
	int rc = text_of(r, of, &text);
	if (!rc)
		rc = text_of(r, &arg[0], &old);
	if (!rc)
		rc = text_of(r, &arg[1], &with);
	if (rc)
		return rc;
	if (arg[2].kind == ZJ_INT)
		most = arg[2].i;

	return zj_replace(r, text.text, old.text, with.text, most, out);
}

/* Spaces, or a text, that stand before lines. */
static int width_of(struct zj_run *r, const struct zj_value *v, struct zj_value *out)
{
	const struct zj_value width = v->kind == ZJ_MISSING ? zj_int(4) : *v;
	struct zj_value space;

	*out = width;
	if (width.kind == ZJ_TEXT)
		return 0;

	int rc = zj_word(r, " ", &space);
	if (rc)
		return rc;

	return zj_binary(r, ZJ_MUL, &space, &width, out);
}

FILTER(filter_indent)
{
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;
	struct zj_value width;
	int rc = width_of(r, &arg[0], &width);

	if (!rc && (of->kind != ZJ_TEXT || of->text->is_safe))
		return zj_fail(r, "filter indent: expected a text, found %s", zj_type(of));

	for (size_t at = 0, next; !rc && at <= of->text->n; at = next) {
		const size_t end = zj_line(of->text, at, &next);
		const int is_first = at == 0;
		const int has_width = is_first ? zj_is_true(&arg[1]) :
						 end > at || zj_is_true(&arg[2]);
		if (!is_first)
			rc = zj_add(r, b, "\n", 1);
		if (!rc && has_width)
			rc = zj_add(r, b, width.text->p, width.text->n);
		if (!rc)
			rc = zj_add(r, b, of->text->p + at, end - at);
		if (next == end)
			break;
	}

	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}

/* ---- JSON ---- */

static int indent_of(struct zj_run *r, const struct zj_value *v, struct zj_json *how)
{
	static const char spaces[] = "                                ";

	if (v->kind == ZJ_TEXT) {
		how->indent = v->text->p;
		how->indent_n = v->text->n;
		return 0;
	}

	if (v->kind != ZJ_INT || v->i < 0 || v->i >= (int64_t)sizeof spaces)
		return zj_fail(r, "filter tojson: indent: expected a text, or a number up to %zu",
			       sizeof spaces - 1);

	how->indent = spaces;
	how->indent_n = (size_t)v->i;
	return 0;
}

static int separators_of(struct zj_run *r, const struct zj_value *v, struct zj_json *how)
{
	if (v->kind != ZJ_LIST || v->list->n != 2 || v->list->v[0].kind != ZJ_TEXT ||
	    v->list->v[1].kind != ZJ_TEXT)
		return zj_fail(r, "filter tojson: separators: expected two texts");

	const struct zj_text *item = v->list->v[0].text, *key = v->list->v[1].text;
	how->item = item->p;
	how->item_n = item->n;
	how->key = key->p;
	how->key_n = key->n;
	return 0;
}

static int is_given(const struct zj_value *v)
{
	return v->kind != ZJ_MISSING && v->kind != ZJ_NONE;
}

FILTER(filter_tojson)
{
	struct zj_json how = { .item = ", ", .item_n = 2, .key = ": ", .key_n = 2 };
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;
	int rc = 0;

	how.ascii = zj_is_true(&arg[0]);
	how.sorted = zj_is_true(&arg[3]);
	if (is_given(&arg[1])) {
		rc = indent_of(r, &arg[1], &how);
		how.item_n = 1;
	}

	if (!rc && is_given(&arg[2]))
		rc = separators_of(r, &arg[2], &how);
	if (!rc)
		rc = zj_dump(r, of, &how, b);

	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}

/* ---- what any value has ---- */

FILTER(filter_default)
{
	const int is_missing = of->kind == ZJ_UNDEFINED || (zj_is_true(&arg[1]) && !zj_is_true(of));

	if (!is_missing)
		*out = *of;
	else if (arg[0].kind != ZJ_MISSING)
		*out = arg[0];
	else
		return zj_word(r, "", out);
	return 0;
}

FILTER(filter_length)
{
	int64_t n = 0;
	int rc = zj_length(r, of, &n);

	(void)arg;
	*out = zj_int(n);
	return rc;
}

/* ---- numbers ---- */

FILTER(filter_int)
{
	char *end;
	char text[32];

	*out = is_given(&arg[0]) ? arg[0] : zj_int(0);
	if (of->kind == ZJ_INT || of->kind == ZJ_BOOL)
		*out = zj_int(of->i);
	if (of->kind == ZJ_FLOAT && of->f > -9e18 && of->f < 9e18)
		*out = zj_int((int64_t)of->f);
	if (of->kind == ZJ_UNDEFINED)
		return zj_fail(r, "'%s' is undefined", of->what);
	if (of->kind != ZJ_TEXT || !of->text->n || of->text->n >= sizeof text)
		return 0;

	memcpy(text, of->text->p, of->text->n);
	text[of->text->n] = 0;
	const long long n = strtoll(text, &end, 10);
	if (*end || end == text)
		return zj_fail(r, "filter int: of texts that are no whole number: not in the "
				  "subset");

	*out = zj_int(n);
	return 0;
}

FILTER(filter_abs)
{
	const struct zj_value zero = zj_int(0);
	int is_negative = 0, rc = zj_order(r, ZJ_LT, of, &zero, &is_negative);

	(void)arg;
	*out = *of;
	if (rc || !is_negative)
		return rc;

	return zj_unary(r, ZJ_NEG, of, out);
}

/* ---- lists ---- */

FILTER(filter_list)
{
	struct zj_list *l;
	int rc = zj_iterate(r, of, &l);

	(void)arg;
	if (!rc)
		rc = zj_list(r, ZJ_A_LIST, l->n, out);
	for (size_t i = 0; !rc && i < l->n; i++)
		rc = zj_append(r, out->list, l->v[i]);

	return rc;
}

FILTER(filter_first)
{
	struct zj_list *l;

	(void)arg;
	*out = zj_undefined("the first of nothing");
	if (of->kind == ZJ_LIST && of->list->flavour == ZJ_A_STREAM && of->list->n) {
		*out = *of->list->v++;
		of->list->n--;
		of->list->room = of->list->n;
		return 0;
	}

	int rc = zj_iterate(r, of, &l);
	if (!rc && l->n)
		*out = l->v[0];

	return rc;
}

static int is_stream(const struct zj_value *v)
{
	return v->kind == ZJ_LIST && v->list->flavour == ZJ_A_STREAM;
}

FILTER(filter_last)
{
	struct zj_list *l;

	(void)arg;
	if (is_stream(of))
		return zj_fail(r, "'generator' object is not reversible");

	int rc = zj_iterate(r, of, &l);
	*out = zj_undefined("the last of nothing");
	if (!rc && l->n)
		*out = l->v[l->n - 1];

	return rc;
}

FILTER(filter_reverse)
{
	const struct zj_value none = zj_none(), back = zj_int(-1);
	struct zj_list *l;

	(void)arg;
	if (of->kind == ZJ_TEXT)
		return zj_slice(r, of, &none, &none, &back, out);

	int rc = zj_iterate(r, of, &l);
	if (!rc)
		rc = zj_list(r, ZJ_A_STREAM, l->n, out);
	if (rc)
		return rc;

	for (size_t i = l->n; !rc && i; i--)
		rc = zj_append(r, out->list, l->v[i - 1]);

	return rc;
}

/* ---- attributes ---- */

/* "a.b.0" of v, as make_attrgetter() has it. */
static int path_of(struct zj_run *r, const struct zj_value *v, const struct zj_value *path,
		   struct zj_value *out)
{
	*out = *v;
	if (path->kind == ZJ_INT)
		return zj_item(r, v, path, out);
	if (path->kind != ZJ_TEXT)
		return zj_fail(r, "an attribute is a text, not a %s", zj_type(path));

	const char *p = path->text->p, *end = p + path->text->n;
	for (int rc = 0; p <= end;) {
		const char *dot = memchr(p, '.', (size_t)(end - p));
		const size_t n = (size_t)((dot ? dot : end) - p);
		const struct zj_value of = *out;
		struct zj_value key;

		if (n && n < 10 && strspn(p, "0123456789") >= n)
			key = zj_int(strtoll(p, NULL, 10));
		else
			rc = zj_text(r, p, n, &key);
		if (!rc)
			rc = zj_item(r, &of, &key, out);
		if (rc)
			return rc;
		p += n + 1;
	}

	return 0;
}

FILTER(filter_join)
{
	struct zj_value list = *of, between;
	struct zj_list *l;
	int rc = 0;

	if (is_given(&arg[1])) {
		rc = zj_iterate(r, of, &l);
		if (!rc)
			rc = zj_list(r, ZJ_A_LIST, l->n, &list);
		for (size_t i = 0; !rc && i < l->n; i++) {
			struct zj_value v;
			rc = path_of(r, &l->v[i], &arg[1], &v);
			if (!rc)
				rc = zj_append(r, list.list, v);
		}
	}

	if (!rc && arg[0].kind == ZJ_MISSING)
		rc = zj_word(r, "", &between);
	else if (!rc)
		rc = text_of(r, &arg[0], &between);

	if (rc)
		return rc;

	return zj_join(r, between.text, &list, 1, out);
}

/* ---- dicts ---- */

static int pair_of(struct zj_run *r, const struct zj_pair *p, struct zj_value *out)
{
	int rc = zj_list(r, ZJ_A_TUPLE, 2, out);
	if (!rc)
		rc = zj_append(r, out->list, p->key);

	if (rc)
		return rc;

	return zj_append(r, out->list, p->v);
}

static int list_pairs(struct zj_run *r, const struct zj_dict *d, enum zj_flavour flavour,
		      struct zj_value *out)
{
	int rc = zj_list(r, flavour, d->n, out);

	for (size_t i = 0; !rc && i < d->n; i++) {
		struct zj_value pair;
		rc = pair_of(r, &d->pair[i], &pair);
		if (!rc)
			rc = zj_append(r, out->list, pair);
	}

	return rc;
}

FILTER(filter_items)
{
	(void)arg;
	if (of->kind == ZJ_UNDEFINED)
		return zj_list(r, ZJ_A_STREAM, 0, out);
	if (of->kind != ZJ_DICT)
		return zj_fail(r, "filter items: expected a mapping, found %s", zj_type(of));

	return list_pairs(r, of->dict, ZJ_A_STREAM, out);
}

/* What a key or value is sorted by: a text in lower case, if letters do not count. */
static int sort_key(struct zj_run *r, const struct zj_value *v, int letters, struct zj_value *out)
{
	*out = *v;
	if (v->kind != ZJ_TEXT || letters)
		return 0;

	return zj_letters(r, v, ZJ_LOWER, out);
}

/* Sorts, in place and stable, by the element of each pair, or by what is not a pair itself. */
static int sort_list(struct zj_run *r, struct zj_list *l, int letters, int reverse, int element)
{
	struct zj_value *keys;
	int rc = zj_get(r, (l->n + 1) * sizeof *keys, &keys);

	for (size_t i = 0; !rc && i < l->n; i++) {
		const struct zj_value v = l->v[i];
		struct zj_value key;
		size_t at = i;

		rc = sort_key(r, element < 0 ? &v : &v.list->v[element], letters, &key);
		while (!rc && at) {
			const struct zj_value *before = &keys[at - 1];
			int less = 0;
			if (reverse)
				rc = zj_order(r, ZJ_LT, before, &key, &less);
			else
				rc = zj_order(r, ZJ_LT, &key, before, &less);
			if (rc || !less)
				break;
			keys[at] = keys[at - 1];
			l->v[at] = l->v[at - 1];
			at--;
			rc = zj_spend(r, 1);
		}

		keys[at] = key;
		l->v[at] = v;
	}

	return rc;
}

FILTER(filter_dictsort)
{
	int by = 0;

	if (of->kind == ZJ_UNDEFINED)
		return zj_fail(r, "'%s' is undefined", of->what);
	if (of->kind != ZJ_DICT)
		return zj_fail(r, "filter dictsort: expected a mapping, found %s", zj_type(of));
	if (is_given(&arg[1]))
		by = zj_is(&arg[1], "value");
	if (is_given(&arg[1]) && !by && !zj_is(&arg[1], "key"))
		return zj_fail(r, "filter dictsort: by: expected key or value");

	int rc = list_pairs(r, of->dict, ZJ_A_LIST, out);
	if (rc)
		return rc;

	return sort_list(r, out->list, zj_is_true(&arg[0]), zj_is_true(&arg[2]), by);
}

/* Pairs of an attribute and its element, of each element. */
static int pair_attributes(struct zj_run *r, const struct zj_list *l, const struct zj_value *path,
			   struct zj_value *out)
{
	int rc = zj_list(r, ZJ_A_LIST, l->n, out);

	for (size_t i = 0; !rc && i < l->n; i++) {
		struct zj_pair pair = { .v = l->v[i] };
		struct zj_value both;
		rc = path_of(r, &l->v[i], path, &pair.key);
		if (!rc)
			rc = pair_of(r, &pair, &both);
		if (!rc)
			rc = zj_append(r, out->list, both);
	}

	return rc;
}

static int sort_by_attribute(struct zj_run *r, const struct zj_value *arg, struct zj_value *out)
{
	const struct zj_value *path = &arg[2];
	struct zj_value pairs;

	if (path->kind == ZJ_TEXT && memchr(path->text->p, ',', path->text->n))
		return zj_fail(r, "filter sort: several attributes: not in the subset");

	int rc = pair_attributes(r, out->list, path, &pairs);
	if (!rc)
		rc = sort_list(r, pairs.list, zj_is_true(&arg[1]), zj_is_true(&arg[0]), 0);
	for (size_t i = 0; !rc && i < out->list->n; i++)
		out->list->v[i] = pairs.list->v[i].list->v[1];

	return rc;
}

/* The least element, or the greatest. */
static int extreme(struct zj_run *r, const struct zj_value *of, const struct zj_value *arg,
		   enum zj_op op, struct zj_value *out)
{
	struct zj_value best, key;
	struct zj_list *l;
	int rc = zj_iterate(r, of, &l);

	*out = zj_undefined("the least or greatest of nothing");
	for (size_t i = 0; !rc && i < l->n; i++) {
		int is = 1;
		rc = sort_key(r, &l->v[i], zj_is_true(&arg[0]), &key);
		if (!rc && i)
			rc = zj_order(r, op, &key, &best, &is);
		if (rc || !is)
			continue;
		best = key;
		*out = l->v[i];
	}

	return rc;
}

FILTER(filter_min)
{
	return extreme(r, of, arg, ZJ_LT, out);
}

FILTER(filter_max)
{
	return extreme(r, of, arg, ZJ_GT, out);
}

FILTER(filter_sort)
{
	int rc = filter_list(r, of, arg, out);
	if (rc)
		return rc;
	if (is_given(&arg[2]))
		return sort_by_attribute(r, arg, out);

	return sort_list(r, out->list, zj_is_true(&arg[1]), zj_is_true(&arg[0]), -1);
}

/* ---- filters and tests over lists ---- */

static int no_name(struct zj_run *r, const char *filter)
{
	return zj_fail(r, "filter %s: expected the name of a filter or test that is in the subset",
		       filter);
}

/* What is left of the arguments behind the first n. */
static void behind(const struct zj_arguments *given, size_t n, struct zj_arguments *to)
{
	*to = *given;
	to->n = given->n - n;
	for (size_t i = 0; i < to->n; i++)
		to->v[i] = given->v[i + n];
}

static const struct zj_value *keyword(const struct zj_arguments *given, const char *name)
{
	for (size_t i = 0; i < given->n_keywords; i++) {
		const struct zj_text *is = given->keyword[i].name;
		if (is->n == strlen(name) && !memcmp(is->p, name, is->n))
			return &given->keyword[i].v;
	}

	return NULL;
}

static int map_one(struct zj_run *r, const struct zj_value *v, const struct zj_function *f,
		   const struct zj_arguments *given, struct zj_value *out)
{
	const struct zj_value *path = keyword(given, "attribute");
	const struct zj_value *otherwise = keyword(given, "default");
	struct zj_arguments rest;

	if (f) {
		behind(given, 1, &rest);
		return zj_apply(r, "filter", f, v, &rest, out);
	}

	int rc = path_of(r, v, path, out);
	if (!rc && otherwise && out->kind == ZJ_UNDEFINED)
		*out = *otherwise;

	return rc;
}

/* What a filter goes through, and the list that it makes. Values that are false have no elements:
 * Jinja takes None and False here, too. */
static int begin_stream(struct zj_run *r, const struct zj_value *of, struct zj_list **from,
			struct zj_value *out)
{
	const int has_elements = zj_is_true(of);
	int rc = 0;

	if (has_elements)
		rc = zj_iterate(r, of, from);
	if (!rc)
		rc = zj_list(r, ZJ_A_STREAM, 0, out);
	if (!rc && !has_elements)
		*from = out->list; /* it is empty */
	return rc;
}

static int filter_map(struct zj_run *r, const struct zj_value *of, const struct zj_arguments *given,
		      struct zj_value *out)
{
	const struct zj_function *f = NULL;
	struct zj_list *l = NULL;

	if (given->n && given->v[0].kind == ZJ_TEXT)
		f = zj_find_filter(given->v[0].text->p, given->v[0].text->n);
	if (!f && (given->n || !keyword(given, "attribute")))
		return no_name(r, "map");

	int rc = begin_stream(r, of, &l, out);
	for (size_t i = 0; !rc && i < l->n; i++) {
		struct zj_value v;
		rc = map_one(r, &l->v[i], f, given, &v);
		if (!rc)
			rc = zj_append(r, out->list, v);
	}

	return rc;
}

/* select, reject, selectattr, rejectattr: those of which a test says `wanted`. */
struct choice {
	const char *name;
	int has_path, wanted;
};

static int chosen(struct zj_run *r, const struct choice *c, const struct zj_value *v,
		  const struct zj_function *test, const struct zj_arguments *given, int *is)
{
	const size_t names = (size_t)c->has_path + (test != NULL);
	struct zj_arguments rest;
	struct zj_value of = *v, said;
	int rc = 0;

	if (c->has_path)
		rc = path_of(r, v, &given->v[0], &of);
	said = zj_bool(zj_is_true(&of));
	if (!rc && test) {
		behind(given, names, &rest);
		rc = zj_apply(r, "test", test, &of, &rest, &said);
	}

	*is = zj_is_true(&said) == c->wanted;
	return rc;
}

static int choose(struct zj_run *r, const struct choice *c, const struct zj_value *of,
		  const struct zj_arguments *given, struct zj_value *out)
{
	const struct zj_function *test = NULL;
	struct zj_list *l = NULL;

	if (given->n < (size_t)c->has_path || given->n_keywords)
		return no_name(r, c->name);
	if (given->n > (size_t)c->has_path) {
		const struct zj_value *name = &given->v[c->has_path];
		if (name->kind == ZJ_TEXT)
			test = zj_find_test(name->text->p, name->text->n);
		if (!test)
			return no_name(r, c->name);
	}

	int rc = begin_stream(r, of, &l, out);
	for (size_t i = 0; !rc && i < l->n; i++) {
		int is = 0;
		rc = chosen(r, c, &l->v[i], test, given, &is);
		if (!rc && is)
			rc = zj_append(r, out->list, l->v[i]);
	}

	return rc;
}

#define CHOICE(name, path, wanted)                                                                 \
	static int filter_##name(struct zj_run *r, const struct zj_value *of,                      \
				 const struct zj_arguments *given, struct zj_value *out)           \
	{                                                                                          \
		return choose(r, &(const struct choice){ #name, path, wanted }, of, given, out);   \
	}

CHOICE(select, 0, 1)
CHOICE(reject, 0, 0)
CHOICE(selectattr, 1, 1)
CHOICE(rejectattr, 1, 0)

FILTER(filter_unique)
{
	struct zj_list *l;
	int is = 0, rc = zj_iterate(r, of, &l);
	struct zj_value seen;

	(void)arg;
	if (!rc)
		rc = zj_list(r, ZJ_A_STREAM, 0, out);
	if (!rc)
		rc = zj_list(r, ZJ_A_LIST, 0, &seen);
	for (size_t i = 0; !rc && i < l->n; i++) {
		struct zj_value key;
		rc = sort_key(r, &l->v[i], 0, &key);
		if (!rc)
			rc = zj_contains(r, &seen, &key, &is);
		if (rc || is)
			continue;
		rc = zj_append(r, seen.list, key);
		if (!rc)
			rc = zj_append(r, out->list, l->v[i]);
	}

	return rc;
}

static const struct zj_function filters[] = {
	{ .name = "abs", .fn = filter_abs },
	{ .name = "capitalize", .fn = filter_capitalize },
	{ .name = "count", .fn = filter_length },
	{ .name = "d", .fn = filter_default, .parameter = { "default_value", "boolean" } },
	{ .name = "default", .fn = filter_default, .parameter = { "default_value", "boolean" } },
	{ .name = "dictsort",
	  .fn = filter_dictsort,
	  .parameter = { "case_sensitive", "by", "reverse" } },
	{ .name = "e", .fn = filter_escape },
	{ .name = "escape", .fn = filter_escape },
	{ .name = "first", .fn = filter_first },
	{ .name = "indent", .fn = filter_indent, .parameter = { "width", "first", "blank" } },
	{ .name = "int", .fn = filter_int, .parameter = { "default" } },
	{ .name = "items", .fn = filter_items },
	{ .name = "join", .fn = filter_join, .parameter = { "d", "attribute" } },
	{ .name = "last", .fn = filter_last },
	{ .name = "length", .fn = filter_length },
	{ .name = "list", .fn = filter_list },
	{ .name = "lower", .fn = filter_lower },
	{ .name = "map", .all = filter_map },
	{ .name = "max", .fn = filter_max, .parameter = { "case_sensitive" } },
	{ .name = "min", .fn = filter_min, .parameter = { "case_sensitive" } },
	{ .name = "reject", .all = filter_reject },
	{ .name = "rejectattr", .all = filter_rejectattr },
	{ .name = "replace",
	  .fn = filter_replace,
	  .least = 2,
	  .parameter = { "old", "new", "count" } },
	{ .name = "reverse", .fn = filter_reverse },
	{ .name = "safe", .fn = filter_safe },
	{ .name = "select", .all = filter_select },
	{ .name = "selectattr", .all = filter_selectattr },
	{ .name = "sort",
	  .fn = filter_sort,
	  .parameter = { "reverse", "case_sensitive", "attribute" } },
	{ .name = "string", .fn = filter_string },
	{ .name = "title", .fn = filter_title },
	{ .name = "tojson",
	  .fn = filter_tojson,
	  .parameter = { "ensure_ascii", "indent", "separators", "sort_keys" } },
	{ .name = "trim", .fn = filter_trim, .parameter = { "chars" } },
	{ .name = "unique", .fn = filter_unique },
	{ .name = "upper", .fn = filter_upper },
	{ .name = NULL },
};

const struct zj_function *zj_find_filter(const char *p, size_t n)
{
	return zj_find_in(filters, p, n);
}
