/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate.c - see parts.h: expressions.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"

typedef int evaluate(struct zj_run *r, const struct zj_node *n, struct zj_value *out);

static int constant(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	(void)r;
	*out = n->value;
	return 0;
}

static int name(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	return zj_lookup(r, n->name, out);
}

static int attribute(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	struct zj_value of;
	int rc = zj_evaluate(r, n->a, &of);
	if (rc)
		return rc;

	r->line = n->line;
	return zj_attribute(r, &of, n->text, out);
}

static int item(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	struct zj_value of, key;
	int rc = zj_evaluate(r, n->a, &of);
	if (!rc)
		rc = zj_evaluate(r, n->b, &key);
	if (rc)
		return rc;

	r->line = n->line;
	return zj_item(r, &of, &key, out);
}

static int bound(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	*out = zj_none();
	return n ? zj_evaluate(r, n, out) : 0;
}

static int slice(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	struct zj_value of, from, to, step;
	int rc = zj_evaluate(r, n->a, &of);
	if (!rc)
		rc = bound(r, n->b, &from);
	if (!rc)
		rc = bound(r, n->c, &to);
	if (!rc)
		rc = bound(r, n->d, &step);
	if (rc)
		return rc;

	r->line = n->line;
	return zj_slice(r, &of, &from, &to, &step, out);
}

/* The values of a list, each an argument. */
static int spread(struct zj_run *r, const struct zj_value *v, struct zj_arguments *to)
{
	struct zj_list *l;
	int rc = zj_iterate(r, v, &l);
	if (rc)
		return rc;

	if (l->n > ZJ_ARGUMENTS - to->n)
		return zj_fail(r, "a call with more than %d arguments", ZJ_ARGUMENTS);
	for (size_t i = 0; i < l->n; i++)
		to->v[to->n++] = l->v[i];

	return 0;
}

static int take_argument(struct zj_run *r, const struct zj_node *n, struct zj_arguments *to)
{
	const int is_plain = n->kind != ZJ_KEYWORD && n->kind != ZJ_SPREAD;
	struct zj_value v;
	int rc = zj_evaluate(r, is_plain ? n : n->a, &v);
	if (rc)
		return rc;
	if (n->kind == ZJ_SPREAD)
		return spread(r, &v, to);

	if (n->kind == ZJ_KEYWORD) {
		to->keyword[to->n_keywords].name = n->text;
		to->keyword[to->n_keywords++].v = v;
		return 0;
	}

	if (to->n == ZJ_ARGUMENTS)
		return zj_fail(r, "a call with more than %d arguments", ZJ_ARGUMENTS);

	to->v[to->n++] = v;
	return 0;
}

static int arguments(struct zj_run *r, const struct zj_node *kids, struct zj_arguments *to)
{
	int rc = 0;

	to->n = to->n_keywords = 0;
	for (; !rc && kids; kids = kids->next)
		rc = take_argument(r, kids, to);

	return rc;
}

static int call(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	struct zj_arguments given;
	struct zj_value callee;
	int rc = zj_evaluate(r, n->a, &callee);
	if (!rc)
		rc = arguments(r, n->kids, &given);
	if (rc)
		return rc;

	r->line = n->line;
	return zj_call(r, &callee, &given, out);
}

static int filter_or_test(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	static const char *const kinds[] = { "filter", "test" };
	struct zj_arguments given;
	struct zj_value of;
	int rc = zj_evaluate(r, n->a, &of);
	if (!rc)
		rc = arguments(r, n->kids, &given);
	if (rc)
		return rc;

	r->line = n->line;
	rc = zj_apply(r, kinds[n->kind == ZJ_TEST], n->function, &of, &given, out);
	if (!rc && n->kind == ZJ_TEST && n->op == ZJ_NOT)
		out->i = !out->i;

	return rc;
}

static int unary(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	struct zj_value a;
	int rc = zj_evaluate(r, n->a, &a);
	if (rc)
		return rc;

	r->line = n->line;
	return zj_unary(r, n->op, &a, out);
}

static int binary(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	struct zj_value a, b;
	int rc = zj_evaluate(r, n->a, &a);
	if (!rc)
		rc = zj_evaluate(r, n->b, &b);
	if (rc)
		return rc;

	r->line = n->line;
	return zj_binary(r, n->op, &a, &b, out);
}

static int joined(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;
	int rc = 0;

	for (const struct zj_node *k = n->kids; !rc && k; k = k->next) {
		struct zj_value v;
		rc = zj_evaluate(r, k, &v);
		if (!rc)
			rc = zj_print(r, &v, b);
	}

	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}

/* a < b < c: as long as it holds. */
static int compared(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	struct zj_value left, right;
	int is = 1, rc = zj_evaluate(r, n->a, &left);

	for (const struct zj_node *k = n->kids; !rc && is && k; k = k->next) {
		rc = zj_evaluate(r, k->a, &right);
		r->line = n->line;
		if (!rc)
			rc = zj_compare(r, k->op, &left, &right, &is);
		left = right;
	}

	*out = zj_bool(is);
	return rc;
}

static int and_or(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	int rc = zj_evaluate(r, n->a, out);
	if (rc || zj_is_true(out) == (n->kind == ZJ_OR))
		return rc;

	return zj_evaluate(r, n->b, out);
}

static int condition(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	struct zj_value is;
	int rc = zj_evaluate(r, n->b, &is);
	if (rc)
		return rc;
	if (zj_is_true(&is))
		return zj_evaluate(r, n->a, out);
	if (n->c)
		return zj_evaluate(r, n->c, out);

	*out = zj_undefined("the inline if-expression that has no else");
	return 0;
}

static int list_of(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	int rc = zj_list(r, n->kind == ZJ_LIST_OF ? ZJ_A_LIST : ZJ_A_TUPLE, 0, out);

	for (const struct zj_node *k = n->kids; !rc && k; k = k->next) {
		struct zj_value v;
		rc = zj_evaluate(r, k, &v);
		if (!rc)
			rc = zj_append(r, out->list, v);
	}

	return rc;
}

static int dict_of(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	int rc = zj_dict(r, 0, out);

	for (const struct zj_node *k = n->kids; !rc && k; k = k->next->next) {
		struct zj_value key, v;
		rc = zj_evaluate(r, k, &key);
		if (!rc)
			rc = zj_evaluate(r, k->next, &v);
		if (!rc)
			rc = zj_put(r, out->dict, key, v);
	}

	return rc;
}

static int hole(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	(void)n;
	*out = r->hole;
	return 0;
}

int zj_evaluate(struct zj_run *r, const struct zj_node *n, struct zj_value *out)
{
	static evaluate *const of[] = {
		[ZJ_CONST] = constant,
		[ZJ_NAME] = name,
		[ZJ_ATTRIBUTE] = attribute,
		[ZJ_ITEM] = item,
		[ZJ_SLICE] = slice,
		[ZJ_CALL] = call,
		[ZJ_FILTER] = filter_or_test,
		[ZJ_TEST] = filter_or_test,
		[ZJ_UNARY] = unary,
		[ZJ_BINARY] = binary,
		[ZJ_JOINED] = joined,
		[ZJ_COMPARED] = compared,
		[ZJ_AND] = and_or,
		[ZJ_OR] = and_or,
		[ZJ_CONDITION] = condition,
		[ZJ_LIST_OF] = list_of,
		[ZJ_TUPLE_OF] = list_of,
		[ZJ_DICT_OF] = dict_of,
		[ZJ_HOLE] = hole,
	};
	int rc = zj_spend(r, 1);

	if (rc)
		return rc;
	if (++r->depth > 2 * ZR_JINJA_DEPTH)
		return zj_fail(r, "more than %d calls and expressions in one another",
			       2 * ZR_JINJA_DEPTH);

	r->line = n->line;
	rc = of[n->kind](r, n, out);
	r->depth--;
	return rc;
}
