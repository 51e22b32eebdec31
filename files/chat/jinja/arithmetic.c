/* SPDX-License-Identifier: Apache-2.0
 *
 * arithmetic.c - see parts.h: + - * / // % ** and the signs, of whole numbers of 64 bits (more is
 * refused), floats, texts and lists.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"

static const char *const signs[] = {
	[ZJ_ADD] = "+",        [ZJ_SUB] = "-", [ZJ_MUL] = "*", [ZJ_DIV] = "/",
	[ZJ_FLOOR_DIV] = "//", [ZJ_MOD] = "%", [ZJ_POW] = "**"
};

static int is_whole(const struct zj_value *v)
{
	return v->kind == ZJ_BOOL || v->kind == ZJ_INT;
}

static int is_number(const struct zj_value *v)
{
	return is_whole(v) || v->kind == ZJ_FLOAT;
}

static double number(const struct zj_value *v)
{
	return v->kind == ZJ_FLOAT ? v->f : (double)v->i;
}

static int too_large(struct zj_run *r)
{
	return zj_fail(r, "a whole number of more than 64 bits");
}

/* ---- numbers ---- */

static int power(struct zj_run *r, int64_t base, int64_t exponent, struct zj_value *out)
{
	int64_t n = 1;

	if (exponent < 0)
		return zj_fail(r, "** of a negative number: not in the subset");

	for (; exponent; exponent--) {
		if (__builtin_mul_overflow(n, base, &n))
			return too_large(r);
		if (n == 0 || n == 1)
			break;
		if (n == -1 && base == -1) {
			n = exponent % 2 ? -1 : 1;
			break;
		}
	}

	*out = zj_int(n);
	return 0;
}

/* Towards the lower number, as Python divides. */
static int64_t floor_div(int64_t a, int64_t b)
{
	const int64_t q = a / b;
	return q - (a % b && (a < 0) != (b < 0));
}

static int divide(struct zj_run *r, enum zj_op op, int64_t a, int64_t b, struct zj_value *out)
{
	if (!b)
		return zj_fail(r, "division by zero");
	if (a == INT64_MIN && b == -1)
		return too_large(r);

	if (op == ZJ_DIV)
		*out = zj_float((double)a / (double)b);
	else if (op == ZJ_FLOOR_DIV)
		*out = zj_int(floor_div(a, b));
	else
		*out = zj_int(a - floor_div(a, b) * b);
	return 0;
}

static int of_wholes(struct zj_run *r, enum zj_op op, int64_t a, int64_t b, struct zj_value *out)
{
	int64_t n;
	int is_large;

	switch (op) {
	case ZJ_ADD:
		is_large = __builtin_add_overflow(a, b, &n);
		break;
	case ZJ_SUB:
		is_large = __builtin_sub_overflow(a, b, &n);
		break;
	case ZJ_MUL:
		is_large = __builtin_mul_overflow(a, b, &n);
		break;
	case ZJ_POW:
		return power(r, a, b, out);
	default:
		return divide(r, op, a, b, out);
	}

	if (is_large)
		return too_large(r);

	*out = zj_int(n);
	return 0;
}

static int of_floats(struct zj_run *r, enum zj_op op, double a, double b, struct zj_value *out)
{
	switch (op) {
	case ZJ_ADD:
		*out = zj_float(a + b);
		return 0;
	case ZJ_SUB:
		*out = zj_float(a - b);
		return 0;
	case ZJ_MUL:
		*out = zj_float(a * b);
		return 0;
	case ZJ_DIV:
		if (b == 0)
			return zj_fail(r, "float division by zero");
		*out = zj_float(a / b);
		return 0;
	default:
		return zj_fail(r, "%s of floats: not in the subset", signs[op]);
	}
}

/* ---- texts and lists ---- */

int zj_escape(struct zj_run *r, const struct zj_value *v, struct zj_value *out)
{
	static const char from[] = "&<>'\"";
	static const char *const to[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
	struct zr_buf *b = &r->w->text;
	const size_t start = b->n;
	int rc = zj_print(r, v, b);

	if (rc)
		return rc;

	struct zj_value text;
	rc = zj_cut(r, b, start, &text);
	for (size_t i = 0; !rc && i < text.text->n; i++) {
		const char c = text.text->p[i], *at = c ? strchr(from, c) : NULL;
		if (at)
			rc = zj_add(r, b, to[at - from], strlen(to[at - from]));
		else
			rc = zj_add(r, b, &c, 1);
	}

	if (rc)
		return rc;

	return zj_cut(r, b, start, out);
}

/* With Markup on one side the other one is escaped, and the sum is Markup. */
static int add_safe(struct zj_run *r, struct zj_value a, struct zj_value b, struct zj_value *out)
{
	struct zr_buf *to = &r->w->text;
	const size_t from = to->n;
	struct zj_text *t;
	int rc = 0;

	if (!a.text->is_safe)
		rc = zj_escape(r, &a, &a);
	if (!rc && !b.text->is_safe)
		rc = zj_escape(r, &b, &b);
	if (!rc)
		rc = zj_print(r, &a, to);
	if (!rc)
		rc = zj_print(r, &b, to);
	if (!rc)
		rc = zj_cut(r, to, from, out);
	if (!rc)
		rc = zj_get(r, sizeof *t, &t);
	if (rc)
		return rc;

	*t = *out->text;
	t->is_safe = 1;
	out->text = t;
	return 0;
}

static int add_texts(struct zj_run *r, const struct zj_text *a, const struct zj_text *b,
		     struct zj_value *out)
{
	char *p;
	int rc = zj_get(r, a->n + b->n + 1, &p);
	if (rc)
		return rc;

	if (a->n)
		memcpy(p, a->p, a->n);
	if (b->n)
		memcpy(p + a->n, b->p, b->n);
	return zj_borrow(r, p, a->n + b->n, out);
}

static int repeat_text(struct zj_run *r, const struct zj_text *t, int64_t times,
		       struct zj_value *out)
{
	char *p;

	if (times < 0)
		times = 0;
	if (t->n && (uint64_t)times > ZR_JINJA_MEMORY / t->n)
		return zj_fail(r, "a text that is repeated to more than %u MiB",
			       ZR_JINJA_MEMORY >> 20);
	int rc = zj_get(r, t->n * (size_t)times + 1, &p);
	for (int64_t i = 0; !rc && t->n && i < times; i++)
		memcpy(p + (size_t)i * t->n, t->p, t->n);

	if (rc)
		return rc;

	return zj_borrow(r, p, t->n * (size_t)times, out);
}

static int add_lists(struct zj_run *r, const struct zj_list *a, const struct zj_list *b,
		     struct zj_value *out)
{
	int rc = zj_list(r, a->flavour, a->n + b->n, out);

	for (size_t i = 0; !rc && i < a->n; i++)
		rc = zj_append(r, out->list, a->v[i]);
	for (size_t i = 0; !rc && i < b->n; i++)
		rc = zj_append(r, out->list, b->v[i]);

	if (rc)
		return rc;

	return zj_spend(r, a->n + b->n);
}

static int cannot(struct zj_run *r, enum zj_op op, const struct zj_value *a,
		  const struct zj_value *b)
{
	const struct zj_value *undefined = NULL;

	if (a->kind == ZJ_UNDEFINED)
		undefined = a;
	else if (b->kind == ZJ_UNDEFINED)
		undefined = b;
	if (undefined)
		return zj_fail(r, "'%s' is undefined", undefined->what);
	if (op == ZJ_MOD && a->kind == ZJ_TEXT)
		return zj_fail(r, "%% that formats a text: not in the subset");

	return zj_fail(r, "unsupported operand types for %s: '%s' and '%s'", signs[op], zj_type(a),
		       zj_type(b));
}

int zj_binary(struct zj_run *r, enum zj_op op, const struct zj_value *a, const struct zj_value *b,
	      struct zj_value *out)
{
	if (is_whole(a) && is_whole(b))
		return of_wholes(r, op, a->i, b->i, out);
	if (is_number(a) && is_number(b))
		return of_floats(r, op, number(a), number(b), out);

	const int adds = op == ZJ_ADD;
	if (adds && a->kind == ZJ_TEXT && b->kind == ZJ_TEXT) {
		if (a->text->is_safe || b->text->is_safe)
			return add_safe(r, *a, *b, out);
		return add_texts(r, a->text, b->text, out);
	}

	if (adds && a->kind == ZJ_LIST && b->kind == ZJ_LIST &&
	    a->list->flavour == b->list->flavour && a->list->flavour <= ZJ_A_TUPLE)
		return add_lists(r, a->list, b->list, out);
	if (op == ZJ_MUL && a->kind == ZJ_TEXT && is_whole(b))
		return repeat_text(r, a->text, b->i, out);
	if (op == ZJ_MUL && b->kind == ZJ_TEXT && is_whole(a))
		return repeat_text(r, b->text, a->i, out);

	return cannot(r, op, a, b);
}

int zj_unary(struct zj_run *r, enum zj_op op, const struct zj_value *a, struct zj_value *out)
{
	if (op == ZJ_NOT) {
		*out = zj_bool(!zj_is_true(a));
		return 0;
	}

	if (a->kind == ZJ_UNDEFINED)
		return zj_fail(r, "'%s' is undefined", a->what);
	if (!is_number(a))
		return zj_fail(r, "a sign before a %s", zj_type(a));
	if (is_whole(a) && op == ZJ_NEG && a->i == INT64_MIN)
		return too_large(r);

	*out = *a;
	if (a->kind == ZJ_FLOAT && op == ZJ_NEG)
		out->f = -a->f;
	if (a->kind != ZJ_FLOAT)
		*out = zj_int(op == ZJ_NEG ? -a->i : a->i);
	return 0;
}
