/* SPDX-License-Identifier: Apache-2.0
 *
 * values.c - see parts.h: values as Python has them.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"
#include "files/tokenizer/utf8.h"

#define WORK 64 /* bytes that are looked at in a step */

struct zj_value zj_none(void)
{
	return (struct zj_value){ .kind = ZJ_NONE };
}

struct zj_value zj_bool(int is)
{
	return (struct zj_value){ .kind = ZJ_BOOL, .i = is != 0 };
}

struct zj_value zj_int(int64_t i)
{
	return (struct zj_value){ .kind = ZJ_INT, .i = i };
}

struct zj_value zj_float(double f)
{
	return (struct zj_value){ .kind = ZJ_FLOAT, .f = f };
}

struct zj_value zj_undefined(const char *what)
{
	return (struct zj_value){ .kind = ZJ_UNDEFINED, .what = what };
}

/* ---- texts ---- */

static int is_ascii(const char *p, size_t n)
{
	uint64_t word, all = 0;
	size_t i = 0;

	for (; i + sizeof word <= n; i += sizeof word) {
		memcpy(&word, p + i, sizeof word);
		all |= word;
	}

	for (; i < n; i++)
		all |= (uint64_t)(unsigned char)p[i];

	return !(all & UINT64_C(0x8080808080808080));
}

int zj_borrow(struct zj_run *r, const char *p, size_t n, struct zj_value *out)
{
	struct zj_text *t;
	int rc = zj_get(r, sizeof *t, &t);

	if (!rc)
		rc = zj_spend(r, n / WORK);
	if (rc)
		return rc;

	*t = (struct zj_text){ .p = p, .n = n, .is_ascii = is_ascii(p, n) };
	*out = (struct zj_value){ .kind = ZJ_TEXT, .text = t };
	return 0;
}

int zj_text(struct zj_run *r, const char *p, size_t n, struct zj_value *out)
{
	char *copy;
	int rc = zj_get(r, n + 1, &copy);
	if (rc)
		return rc;

	if (n)
		memcpy(copy, p, n);
	return zj_borrow(r, copy, n, out);
}

int zj_word(struct zj_run *r, const char *text, struct zj_value *out)
{
	return zj_borrow(r, text, strlen(text), out);
}

int zj_is(const struct zj_value *v, const char *word)
{
	return v->kind == ZJ_TEXT && v->text->n == strlen(word) &&
	       !memcmp(v->text->p, word, v->text->n);
}

size_t zj_characters(const struct zj_text *t)
{
	size_t n = 0;

	if (t->is_ascii)
		return t->n;

	for (size_t i = 0; i < t->n; i++)
		n += ((unsigned char)t->p[i] & 0xc0) != 0x80;

	return n;
}

int64_t zj_search(const struct zj_text *t, size_t from, const struct zj_text *what)
{
	if (!what->n)
		return from <= t->n ? (int64_t)from : -1;
	if (from >= t->n)
		return -1;

	const char *at = memmem(t->p + from, t->n - from, what->p, what->n);
	return at ? at - t->p : -1;
}

/* ---- lists ---- */

int zj_list(struct zj_run *r, enum zj_flavour flavour, size_t room, struct zj_value *out)
{
	struct zj_list *l;
	int rc = zj_get(r, sizeof *l, &l);
	if (rc)
		return rc;

	l->flavour = flavour;
	l->room = room;
	*out = (struct zj_value){ .kind = ZJ_LIST, .list = l };
	if (!room)
		return 0;

	return zj_get(r, room * sizeof *l->v, &l->v);
}

int zj_append(struct zj_run *r, struct zj_list *to, struct zj_value v)
{
	if (to->n == to->room) {
		struct zj_value *more;
		const size_t room = 2 * to->room + 4;
		int rc = zj_get(r, room * sizeof *more, &more);
		if (rc)
			return rc;
		if (to->n)
			memcpy(more, to->v, to->n * sizeof *more);
		to->v = more;
		to->room = room;
	}

	to->v[to->n++] = v;
	return 0;
}

/* ---- dicts ---- */

int zj_dict(struct zj_run *r, size_t room, struct zj_value *out)
{
	struct zj_dict *d;
	int rc = zj_get(r, sizeof *d, &d);
	if (rc)
		return rc;

	d->room = room;
	*out = (struct zj_value){ .kind = ZJ_DICT, .dict = d };
	if (!room)
		return 0;

	return zj_get(r, room * sizeof *d->pair, &d->pair);
}

int zj_add_pair(struct zj_run *r, struct zj_dict *d, struct zj_value key, struct zj_value v)
{
	if (d->n == d->room) {
		struct zj_pair *more;
		const size_t room = 2 * d->room + 4;
		int rc = zj_get(r, room * sizeof *more, &more);
		if (rc)
			return rc;
		if (d->n)
			memcpy(more, d->pair, d->n * sizeof *more);
		d->pair = more;
		d->room = room;
	}

	d->pair[d->n++] = (struct zj_pair){ key, v };
	return 0;
}

int zj_find_word(struct zj_run *r, const struct zj_dict *d, const char *p, size_t n,
		 struct zj_value *out)
{
	*out = (struct zj_value){ .kind = ZJ_MISSING };
	for (size_t i = 0; i < d->n; i++) {
		const struct zj_value *key = &d->pair[i].key;
		if (key->kind != ZJ_TEXT || key->text->n != n || memcmp(key->text->p, p, n))
			continue;
		*out = d->pair[i].v;
		break;
	}

	return zj_spend(r, d->n / 8);
}

/* ---- JSON ---- */

static int from_object(struct zj_run *r, const json_t *j, struct zj_value *out)
{
	const char *name;
	json_t *member;
	int rc = zj_dict(r, json_object_size(j), out);

	json_object_foreach((json_t *)j, name, member)
	{
		struct zj_value key, v;
		if (!rc)
			rc = zj_word(r, name, &key);
		if (!rc)
			rc = zj_from_json(r, member, &v);
		if (!rc)
			rc = zj_add_pair(r, out->dict, key, v); /* keys of JSON are unique */
		if (rc)
			return rc;
	}

	return rc;
}

static int from_array(struct zj_run *r, const json_t *j, struct zj_value *out)
{
	const size_t n = json_array_size(j);
	int rc = zj_list(r, ZJ_A_LIST, n, out);

	for (size_t i = 0; !rc && i < n; i++) {
		struct zj_value v;
		rc = zj_from_json(r, json_array_get(j, i), &v);
		if (!rc)
			rc = zj_append(r, out->list, v);
	}

	return rc;
}

int zj_from_json(struct zj_run *r, const json_t *j, struct zj_value *out)
{
	int rc = zj_spend(r, 1);

	if (rc)
		return rc;

	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return from_object(r, j, out);
	case JSON_ARRAY:
		return from_array(r, j, out);
	case JSON_STRING:
		return zj_borrow(r, json_string_value(j), json_string_length(j), out);
	case JSON_INTEGER:
		*out = zj_int(json_integer_value(j));
		return 0;
	case JSON_REAL:
		*out = zj_float(json_real_value(j));
		return 0;
	case JSON_NULL:
		*out = zj_none();
		return 0;
	default:
		*out = zj_bool(json_is_true(j));
		return 0;
	}
}

/* ---- what all values have ---- */

int zj_is_true(const struct zj_value *v)
{
	switch (v->kind) {
	case ZJ_MISSING:
	case ZJ_UNDEFINED:
	case ZJ_NONE:
		return 0;
	case ZJ_BOOL:
	case ZJ_INT:
		return v->i != 0;
	case ZJ_FLOAT:
		return v->f != 0;
	case ZJ_TEXT:
		return v->text->n != 0;
	case ZJ_LIST:
		return v->list->n || v->list->flavour == ZJ_A_STREAM;
	case ZJ_DICT:
		return v->dict->n != 0;
	default:
		return 1;
	}
}

static const char *type_of_list(const struct zj_list *l)
{
	static const char *const names[] = { [ZJ_A_LIST] = "list",
					     [ZJ_A_TUPLE] = "tuple",
					     [ZJ_A_RANGE] = "range",
					     [ZJ_A_VIEW] = "dict_view",
					     [ZJ_A_STREAM] = "generator" };
	return names[l->flavour];
}

const char *zj_type(const struct zj_value *v)
{
	static const char *const names[] = {
		[ZJ_MISSING] = "nothing",
		[ZJ_UNDEFINED] = "Undefined",
		[ZJ_NONE] = "NoneType",
		[ZJ_BOOL] = "bool",
		[ZJ_INT] = "int",
		[ZJ_FLOAT] = "float",
		[ZJ_TEXT] = "str",
		[ZJ_DICT] = "dict",
		[ZJ_NAMESPACE] = "Namespace",
		[ZJ_MACRO] = "Macro",
		[ZJ_FUNCTION] = "function",
		[ZJ_METHOD] = "method",
		[ZJ_LOOP] = "LoopContext",
	};

	if (v->kind == ZJ_LIST)
		return type_of_list(v->list);

	return names[v->kind];
}

int zj_length(struct zj_run *r, const struct zj_value *v, int64_t *n)
{
	switch (v->kind) {
	case ZJ_UNDEFINED:
		*n = 0;
		return 0;
	case ZJ_TEXT:
		*n = (int64_t)zj_characters(v->text);
		return zj_spend(r, v->text->n / WORK);
	case ZJ_DICT:
		*n = (int64_t)v->dict->n;
		return 0;
	case ZJ_LIST:
		if (v->list->flavour == ZJ_A_STREAM)
			break;
		*n = (int64_t)v->list->n;
		return 0;
	case ZJ_LOOP:
		*n = (int64_t)v->loop->list->n;
		return 0;
	default:
		break;
	}

	return zj_fail(r, "object of type '%s' has no len()", zj_type(v));
}

static int list_characters(struct zj_run *r, const struct zj_text *t, struct zj_value *out)
{
	int rc = zj_list(r, ZJ_A_LIST, zj_characters(t), out);
	size_t len;

	for (size_t at = 0; !rc && at < t->n; at += len) {
		struct zj_value c;
		zr_utf8_read(t->p + at, &len);
		rc = zj_borrow(r, t->p + at, len, &c);
		if (!rc)
			rc = zj_append(r, out->list, c);
	}

	return rc;
}

static int list_keys(struct zj_run *r, const struct zj_dict *d, struct zj_value *out)
{
	int rc = zj_list(r, ZJ_A_LIST, d->n, out);

	for (size_t i = 0; !rc && i < d->n; i++)
		rc = zj_append(r, out->list, d->pair[i].key);

	return rc;
}

int zj_iterate(struct zj_run *r, const struct zj_value *v, struct zj_list **out)
{
	struct zj_value made;
	int rc = 0;

	switch (v->kind) {
	case ZJ_UNDEFINED:
		rc = zj_list(r, ZJ_A_LIST, 0, &made);
		break;
	case ZJ_TEXT:
		rc = list_characters(r, v->text, &made);
		break;
	case ZJ_DICT:
		rc = list_keys(r, v->dict, &made);
		break;
	case ZJ_LIST:
		made = *v;
		if (v->list->flavour != ZJ_A_STREAM)
			break;
		rc = zj_list(r, ZJ_A_LIST, 0, &made);
		if (!rc) {
			*made.list = (struct zj_list){ .v = v->list->v,
						       .n = v->list->n,
						       .room = v->list->n };
			*v->list = (struct zj_list){ .flavour = ZJ_A_STREAM };
		}
		break;
	default:
		return zj_fail(r, "'%s' object is not iterable", zj_type(v));
	}

	if (rc)
		return rc;

	*out = made.list;
	return 0;
}
