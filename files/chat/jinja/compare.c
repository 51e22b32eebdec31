/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c - see parts.h: ==, < and in, as Python has them, and keys of dicts.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"

#define DEEPEST 1000 /* lists and dicts in one another that are compared */

static int is_number(const struct zj_value *v)
{
	return v->kind == ZJ_BOOL || v->kind == ZJ_INT || v->kind == ZJ_FLOAT;
}

static int is_whole(const struct zj_value *v)
{
	return v->kind == ZJ_BOOL || v->kind == ZJ_INT;
}

static double number(const struct zj_value *v)
{
	return v->kind == ZJ_FLOAT ? v->f : (double)v->i;
}

static int same_text(const struct zj_text *a, const struct zj_text *b)
{
	return a->n == b->n && !memcmp(a->p, b->p, a->n);
}

static int compare_texts(const struct zj_text *a, const struct zj_text *b)
{
	const size_t n = a->n < b->n ? a->n : b->n;
	const int first = n ? memcmp(a->p, b->p, n) : 0;

	if (first)
		return first;

	return (a->n > b->n) - (a->n < b->n);
}

static int equal_lists(struct zj_run *r, const struct zj_list *a, const struct zj_list *b, int *is)
{
	int rc = 0;

	*is = a->flavour == b->flavour && a->n == b->n && a->flavour < ZJ_A_VIEW;
	for (size_t i = 0; !rc && *is && i < a->n; i++)
		rc = zj_equal(r, &a->v[i], &b->v[i], is);

	return rc;
}

static int equal_dicts(struct zj_run *r, const struct zj_dict *a, const struct zj_dict *b, int *is)
{
	int rc = 0;

	*is = a->n == b->n;
	for (size_t i = 0; !rc && *is && i < a->n; i++) {
		struct zj_value other;
		rc = zj_find(r, b, &a->pair[i].key, &other);
		if (!rc)
			rc = zj_equal(r, &a->pair[i].v, &other, is);
	}

	return rc;
}

static int equal_inside(struct zj_run *r, const struct zj_value *a, const struct zj_value *b,
			int *is)
{
	switch (a->kind) {
	case ZJ_UNDEFINED:
	case ZJ_NONE:
		*is = 1;
		return 0;
	case ZJ_TEXT:
		*is = same_text(a->text, b->text);
		return zj_spend(r, a->text->n / 64);
	case ZJ_LIST:
		return equal_lists(r, a->list, b->list, is);
	case ZJ_DICT:
		return equal_dicts(r, a->dict, b->dict, is);
	default:
		*is = a->dict == b->dict; /* the same one */
		return 0;
	}
}

int zj_equal(struct zj_run *r, const struct zj_value *a, const struct zj_value *b, int *is)
{
	int rc = zj_spend(r, 1);

	*is = 0;
	if (rc)
		return rc;
	if (is_whole(a) && is_whole(b)) {
		*is = a->i == b->i;
		return 0;
	}

	if (is_number(a) && is_number(b)) {
		*is = number(a) == number(b);
		return 0;
	}

	if (a->kind != b->kind || a->kind == ZJ_MISSING)
		return 0;
	if (++r->depth > DEEPEST)
		return zj_fail(r, "values of more than %d levels are compared", DEEPEST);

	rc = equal_inside(r, a, b, is);
	r->depth--;
	return rc;
}

/* ---- keys ---- */

/* The place of a key; d->n: there is none. */
static int place_of(struct zj_run *r, const struct zj_dict *d, const struct zj_value *key,
		    size_t *at)
{
	int is = 0, rc = zj_spend(r, d->n / 8);

	if (!rc && (key->kind == ZJ_LIST || key->kind == ZJ_DICT) &&
	    !(key->kind == ZJ_LIST && key->list->flavour == ZJ_A_TUPLE))
		return zj_fail(r, "unhashable type: '%s'", zj_type(key));
	for (*at = 0; !rc && *at < d->n; ++*at) {
		rc = zj_equal(r, &d->pair[*at].key, key, &is);
		if (is)
			break;
	}

	return rc;
}

int zj_put(struct zj_run *r, struct zj_dict *d, struct zj_value key, struct zj_value v)
{
	size_t at;
	int rc = place_of(r, d, &key, &at);
	if (rc)
		return rc;

	if (at == d->n)
		return zj_add_pair(r, d, key, v);

	d->pair[at].v = v;
	return 0;
}

int zj_find(struct zj_run *r, const struct zj_dict *d, const struct zj_value *key,
	    struct zj_value *out)
{
	size_t at;
	int rc = place_of(r, d, key, &at);
	if (rc)
		return rc;

	*out = at < d->n ? d->pair[at].v : (struct zj_value){ .kind = ZJ_MISSING };
	return 0;
}

/* ---- order ---- */

static int holds(enum zj_op op, int sign)
{
	switch (op) {
	case ZJ_LT:
		return sign < 0;
	case ZJ_LE:
		return sign <= 0;
	case ZJ_GT:
		return sign > 0;
	default:
		return sign >= 0;
	}
}

static int order_floats(enum zj_op op, double a, double b)
{
	if (a != a || b != b)
		return 0; /* not a number */

	return holds(op, (a > b) - (a < b));
}

static int cannot_order(struct zj_run *r, const struct zj_value *a, const struct zj_value *b)
{
	if (a->kind == ZJ_UNDEFINED || b->kind == ZJ_UNDEFINED)
		return zj_fail(r, "'%s' is undefined", a->kind == ZJ_UNDEFINED ? a->what : b->what);

	return zj_fail(r, "'%s' and '%s' are compared, which have no order", zj_type(a),
		       zj_type(b));
}

static int order_lists(struct zj_run *r, enum zj_op op, const struct zj_list *a,
		       const struct zj_list *b, int *is)
{
	int same = 1, rc = 0;
	size_t i = 0;

	for (; !rc && i < a->n && i < b->n; i++) {
		rc = zj_equal(r, &a->v[i], &b->v[i], &same);
		if (!rc && !same)
			return zj_order(r, op, &a->v[i], &b->v[i], is);
	}

	*is = holds(op, (a->n > b->n) - (a->n < b->n));
	return rc;
}

int zj_order(struct zj_run *r, enum zj_op op, const struct zj_value *a, const struct zj_value *b,
	     int *is)
{
	if (is_whole(a) && is_whole(b)) {
		*is = holds(op, (a->i > b->i) - (a->i < b->i));
		return 0;
	}

	if (is_number(a) && is_number(b)) {
		*is = order_floats(op, number(a), number(b));
		return 0;
	}

	if (a->kind == ZJ_TEXT && b->kind == ZJ_TEXT) {
		*is = holds(op, compare_texts(a->text, b->text));
		return zj_spend(r, a->text->n / 64);
	}

	if (a->kind != ZJ_LIST || b->kind != ZJ_LIST || a->list->flavour != b->list->flavour ||
	    a->list->flavour > ZJ_A_TUPLE)
		return cannot_order(r, a, b);
	if (++r->depth > DEEPEST)
		return zj_fail(r, "values of more than %d levels are compared", DEEPEST);

	int rc = order_lists(r, op, a->list, b->list, is);
	r->depth--;
	return rc;
}

/* ---- in ---- */

static int in_list(struct zj_run *r, struct zj_list *l, const struct zj_value *v, int *is)
{
	size_t at = 0;
	int rc = 0;

	*is = 0;
	while (!rc && !*is && at < l->n)
		rc = zj_equal(r, &l->v[at++], v, is);
	if (l->flavour == ZJ_A_STREAM) { /* what was looked at is gone */
		l->v += at;
		l->n -= at;
		l->room = l->n;
	}

	return rc;
}

int zj_contains(struct zj_run *r, const struct zj_value *in, const struct zj_value *v, int *is)
{
	struct zj_value found;
	int rc = 0;

	*is = 0;
	switch (in->kind) {
	case ZJ_UNDEFINED:
		return 0;
	case ZJ_TEXT:
		if (v->kind != ZJ_TEXT)
			return zj_fail(r, "'in <string>' requires string as left operand, not %s",
				       zj_type(v));
		*is = zj_search(in->text, 0, v->text) >= 0;
		return zj_spend(r, in->text->n / 64);
	case ZJ_LIST:
		return in_list(r, in->list, v, is);
	case ZJ_DICT:
		rc = zj_find(r, in->dict, v, &found);
		*is = !rc && found.kind != ZJ_MISSING;
		return rc;
	default:
		return zj_fail(r, "argument of type '%s' is not iterable", zj_type(in));
	}
}

int zj_compare(struct zj_run *r, enum zj_op op, const struct zj_value *a, const struct zj_value *b,
	       int *is)
{
	int rc;

	switch (op) {
	case ZJ_EQ:
		return zj_equal(r, a, b, is);
	case ZJ_NE:
		rc = zj_equal(r, a, b, is);
		*is = !*is;
		return rc;
	case ZJ_IN:
		return zj_contains(r, b, a, is);
	case ZJ_NOT_IN:
		rc = zj_contains(r, b, a, is);
		*is = !*is;
		return rc;
	default:
		return zj_order(r, op, a, b, is);
	}
}
