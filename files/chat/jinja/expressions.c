/* SPDX-License-Identifier: Apache-2.0
 *
 * expressions.c - see parts.h: expressions as trees, as jinja2/parser.py 3.1 reads them. The
 * loosest binds first: if else, or, and, not, comparisons, + -, ~, * / // %, **, signs, then
 * attributes, calls, filters and tests.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"

#define MOST_NAMES 4096

static int sign(const struct zj_parser *ps, const char *text)
{
	return zj_is_sign(&ps->token, text);
}

static int word(const struct zj_parser *ps, const char *text)
{
	return zj_is_name(&ps->token, text);
}

static int take_sign(struct zj_parser *ps, const char *text)
{
	if (ps->failed || !sign(ps, text))
		return 0;

	zj_next(ps);
	return 1;
}

static int take_word(struct zj_parser *ps, const char *text)
{
	if (ps->failed || !word(ps, text))
		return 0;

	zj_next(ps);
	return 1;
}

/* What the current token is, for people. */
static void found(const struct zj_parser *ps, char *out, size_t room)
{
	static const char *const names[] = {
		[ZJ_T_END] = "the end of the template",
		[ZJ_T_DATA] = "text",
		[ZJ_T_BLOCK_BEGIN] = "{%",
		[ZJ_T_BLOCK_END] = "%}",
		[ZJ_T_VARIABLE_BEGIN] = "{{",
		[ZJ_T_VARIABLE_END] = "}}",
	};
	const struct zj_token *t = &ps->token;

	if (t->kind < ZJ_T_NAME)
		snprintf(out, room, "%s", names[t->kind]);
	else
		snprintf(out, room, "%.*s", t->n < 40 ? (int)t->n : 40, t->p);
}

static int expect_sign(struct zj_parser *ps, const char *text)
{
	char what[64];

	if (ps->failed)
		return ZR_EINVAL;
	if (sign(ps, text))
		return zj_next(ps);

	found(ps, what, sizeof what);
	return zj_refuse(ps, ZR_EINVAL, "expected %s, found %s", text, what);
}

struct zj_node *zj_node(struct zj_parser *ps, enum zj_node_kind kind)
{
	struct zj_node *n = NULL;

	if (!ps->failed)
		n = zj_take(&ps->t->memory, sizeof *n);
	if (!n) {
		zj_refuse(ps, ZR_ENOMEM, "out of memory");
		return NULL;
	}

	n->kind = kind;
	n->line = ps->token.line;
	return n;
}

struct zj_node *zj_whole(const struct zj_parser *ps, struct zj_node *n)
{
	if (ps->failed)
		return NULL;

	return n;
}

/* A node over others; NULL where one of them has failed. */
static struct zj_node *over(struct zj_parser *ps, enum zj_node_kind kind, enum zj_op op,
			    struct zj_node *a, struct zj_node *b)
{
	struct zj_node *n = zj_node(ps, kind);

	if (!n)
		return NULL;

	n->op = op;
	n->a = a;
	n->b = b;
	if (a)
		n->line = a->line;
	return n;
}

/* ---- names ---- */

static int add_name(struct zj_parser *ps, const char *p, size_t n)
{
	struct zr_jinja *t = ps->t;

	if (t->n_names == t->room) {
		const int room = t->room ? 4 * t->room : 64;
		const char **more = NULL;
		if (room <= MOST_NAMES)
			more = zj_take(&t->memory, (size_t)room * sizeof *more);
		if (!more)
			return -1;
		if (t->n_names)
			memcpy(more, t->names, (size_t)t->n_names * sizeof *more);
		t->names = more;
		t->room = room;
	}

	char *copy = zj_take(&t->memory, n + 1);
	if (!copy)
		return -1;

	memcpy(copy, p, n);
	t->names[t->n_names] = copy;
	return t->n_names++;
}

int zj_name(struct zj_parser *ps, const char *p, size_t n)
{
	for (int i = 0; i < ps->t->n_names; i++)
		if (strlen(ps->t->names[i]) == n && !memcmp(ps->t->names[i], p, n))
			return i;

	const int name = add_name(ps, p, n);
	if (name < 0)
		zj_refuse(ps, ZR_ENOTSUP, "more than %d variables, or no memory", MOST_NAMES);

	return name;
}

/* The current token, a name, as a text. */
static const struct zj_text *name_text(struct zj_parser *ps)
{
	struct zj_text *t = NULL;

	if (!ps->failed)
		zj_unescape(ps, &ps->token, &t);

	return t;
}

/* ---- calls ---- */

static struct zj_node *argument(struct zj_parser *ps)
{
	const struct zj_text *name;
	struct zj_node *n = NULL;

	if (sign(ps, "**")) {
		zj_refuse(ps, ZR_ENOTSUP, "arguments that are spread out by **: not in the subset");
		return NULL;
	}

	if (take_sign(ps, "*")) {
		n = zj_node(ps, ZJ_SPREAD);
		if (n)
			n->a = zj_expression(ps);
		return zj_whole(ps, n);
	}

	/* a name and = before a value: one token ahead is enough */
	if (ps->token.kind == ZJ_T_NAME) {
		const struct zj_parser before = *ps;
		name = name_text(ps);
		zj_next(ps);
		if (take_sign(ps, "=")) {
			n = zj_node(ps, ZJ_KEYWORD);
			if (!n)
				return NULL;
			n->text = name;
			n->a = zj_expression(ps);
			return n;
		}

		if (ps->failed)
			return NULL;
		*ps = before;
	}

	return zj_expression(ps);
}

/* Arguments up to the ) behind them, whose ( was taken. */
static struct zj_node *arguments(struct zj_parser *ps)
{
	struct zj_node *first = NULL, **to = &first;
	int n = 0, keywords = 0;

	while (!ps->failed && !sign(ps, ")")) {
		if (n && expect_sign(ps, ","))
			break;
		if (sign(ps, ")"))
			break;

		struct zj_node *a = argument(ps);
		if (!a)
			break;

		const int is_keyword = a->kind == ZJ_KEYWORD;
		keywords += is_keyword;
		if (++n > ZJ_ARGUMENTS || (keywords && !is_keyword)) {
			zj_refuse(ps, ZR_ENOTSUP,
				  "a call with more than %d arguments, or with "
				  "one behind a named one",
				  ZJ_ARGUMENTS);
			break;
		}

		*to = a;
		to = &a->next;
	}

	expect_sign(ps, ")");
	return first;
}

/* Names of a filter's or a test's arguments, and their number, are told when it is read. */
static void check_arguments(struct zj_parser *ps, const char *kind, const struct zj_function *f,
			    const struct zj_node *kids)
{
	int n = 0, most = 0;

	if (ps->failed || f->all)
		return;

	while (most < ZJ_PARAMETERS && f->parameter[most])
		most++;
	for (; kids; kids = kids->next, n++) {
		int is = kids->kind != ZJ_KEYWORD;
		if (kids->kind == ZJ_SPREAD) /* how many is known when it runs */
			return;
		for (int i = 0; i < most && !is; i++)
			is = strlen(f->parameter[i]) == kids->text->n &&
			     !memcmp(f->parameter[i], kids->text->p, kids->text->n);
		if (!is) {
			zj_refuse(ps, ZR_ENOTSUP, "%s %s: its argument %.*s is not in the subset",
				  kind, f->name, (int)kids->text->n, kids->text->p);
			return;
		}
	}

	if (n > most || n < f->least)
		zj_refuse(ps, ZR_EINVAL, "%s %s: %d arguments; it takes %d to %d", kind, f->name, n,
			  f->least, most);
}

/* ---- filters and tests ---- */

static struct zj_node *read_filter(struct zj_parser *ps, struct zj_node *of)
{
	struct zj_node *n = over(ps, ZJ_FILTER, 0, of, NULL);
	const struct zj_token name = ps->token;

	if (!n)
		return NULL;
	if (name.kind != ZJ_T_NAME) {
		zj_refuse(ps, ZR_EINVAL, "expected the name of a filter behind |");
		return NULL;
	}

	n->line = name.line;
	n->function = zj_find_filter(name.p, name.n);
	if (!n->function) {
		zj_refuse(ps, ZR_ENOTSUP, "filter %.*s: not in the subset of Jinja that Zeroth has",
			  (int)name.n, name.p);
		return NULL;
	}

	zj_next(ps);
	if (take_sign(ps, "("))
		n->kids = arguments(ps);
	check_arguments(ps, "filter", n->function, n->kids);
	return zj_whole(ps, n);
}

struct zj_node *zj_filters(struct zj_parser *ps, struct zj_node *of)
{
	while (of && take_sign(ps, "|"))
		of = read_filter(ps, of);

	return zj_whole(ps, of);
}

struct zj_node *zj_block_filters(struct zj_parser *ps, struct zj_node *of)
{
	if (!of)
		return NULL;

	return zj_filters(ps, read_filter(ps, of));
}

static struct zj_node *primary(struct zj_parser *ps);
static struct zj_node *postfix(struct zj_parser *ps, struct zj_node *of);

/* Whether an argument without ( follows a test. */
static int has_bare_argument(const struct zj_parser *ps)
{
	if (word(ps, "else") || word(ps, "or") || word(ps, "and") || word(ps, "is"))
		return 0;

	return ps->token.kind == ZJ_T_NAME || ps->token.kind == ZJ_T_STRING ||
	       ps->token.kind == ZJ_T_INT || ps->token.kind == ZJ_T_FLOAT || sign(ps, "[") ||
	       sign(ps, "{");
}

static struct zj_node *read_test(struct zj_parser *ps, struct zj_node *of)
{
	struct zj_node *n = over(ps, ZJ_TEST, 0, of, NULL);
	const int is_not = take_word(ps, "not");
	const struct zj_token name = ps->token;

	if (!n || ps->failed)
		return NULL;
	if (name.kind != ZJ_T_NAME) {
		zj_refuse(ps, ZR_EINVAL, "expected the name of a test behind is");
		return NULL;
	}

	n->line = name.line;
	n->op = is_not ? ZJ_NOT : 0;
	n->function = zj_find_test(name.p, name.n);
	if (!n->function) {
		zj_refuse(ps, ZR_ENOTSUP, "test %.*s: not in the subset of Jinja that Zeroth has",
			  (int)name.n, name.p);
		return NULL;
	}

	zj_next(ps);
	if (take_sign(ps, "("))
		n->kids = arguments(ps);
	else if (!ps->failed && has_bare_argument(ps))
		n->kids = postfix(ps, primary(ps));
	check_arguments(ps, "test", n->function, n->kids);
	return zj_whole(ps, n);
}

/* ---- what stands alone ---- */

static struct zj_node *constant(struct zj_parser *ps, struct zj_value v)
{
	struct zj_node *n = zj_node(ps, ZJ_CONST);

	if (!n)
		return NULL;

	n->value = v;
	zj_next(ps);
	return zj_whole(ps, n);
}

/* Strings in a row are one. */
static struct zj_node *strings(struct zj_parser *ps)
{
	struct zj_text *all, *more;

	if (zj_unescape(ps, &ps->token, &all))
		return NULL;

	struct zj_node *n = constant(ps, (struct zj_value){ .kind = ZJ_TEXT, .text = all });
	while (n && ps->token.kind == ZJ_T_STRING) {
		if (zj_unescape(ps, &ps->token, &more))
			return NULL;

		char *p = zj_take(&ps->t->memory, all->n + more->n + 1);
		if (!p) {
			zj_refuse(ps, ZR_ENOMEM, "out of memory");
			return NULL;
		}

		memcpy(p, all->p, all->n);
		memcpy(p + all->n, more->p, more->n);
		all->p = p;
		all->n += more->n;
		all->is_ascii &= more->is_ascii;
		if (zj_next(ps))
			return NULL;
	}

	return n;
}

/* Functions of Jinja that no template of a model needs. */
static int is_refused_name(const struct zj_parser *ps)
{
	static const char *const names[] = { "lipsum", "cycler",  "joiner", "caller",
					     "super",  "varargs", "kwargs", "self" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (word(ps, names[i]))
			return 1;

	return 0;
}

static struct zj_node *named(struct zj_parser *ps)
{
	if (word(ps, "true") || word(ps, "True"))
		return constant(ps, zj_bool(1));
	if (word(ps, "false") || word(ps, "False"))
		return constant(ps, zj_bool(0));
	if (word(ps, "none") || word(ps, "None"))
		return constant(ps, zj_none());
	if (is_refused_name(ps)) {
		zj_refuse(ps, ZR_ENOTSUP, "%.*s: not in the subset of Jinja that Zeroth has",
			  (int)ps->token.n, ps->token.p);
		return NULL;
	}

	struct zj_node *n = zj_node(ps, ZJ_NAME);
	if (!n)
		return NULL;

	n->name = zj_name(ps, ps->token.p, ps->token.n);
	zj_next(ps);
	return zj_whole(ps, n);
}

/* Values up to `end`, whose bracket is the current token. pairs: key: value. */
static struct zj_node *bracketed(struct zj_parser *ps, enum zj_node_kind kind, const char *end)
{
	struct zj_node *n = zj_node(ps, kind), **to;
	int count = 0;

	if (!n || zj_next(ps))
		return NULL;

	to = &n->kids;
	while (!ps->failed && !sign(ps, end)) {
		if (count++ && expect_sign(ps, ","))
			return NULL;
		if (sign(ps, end))
			break;

		*to = zj_expression(ps);
		if (*to && kind == ZJ_DICT_OF) {
			to = &(*to)->next;
			if (expect_sign(ps, ":"))
				return NULL;
			*to = zj_expression(ps);
		}

		if (!*to)
			return NULL;
		to = &(*to)->next;
	}

	return expect_sign(ps, end) ? NULL : n;
}

/* One value in brackets is that value; with a comma, or none, it is a tuple. */
static struct zj_node *in_brackets(struct zj_parser *ps)
{
	struct zj_node *n;

	if (zj_next(ps))
		return NULL;

	if (sign(ps, ")"))
		n = zj_node(ps, ZJ_TUPLE_OF);
	else
		n = zj_tuple(ps, 1);
	if (expect_sign(ps, ")"))
		return NULL;

	return n;
}

static struct zj_node *primary(struct zj_parser *ps)
{
	char what[64];

	if (ps->failed)
		return NULL;

	switch (ps->token.kind) {
	case ZJ_T_NAME:
		return named(ps);
	case ZJ_T_STRING:
		return strings(ps);
	case ZJ_T_INT:
		return constant(ps, zj_int(ps->token.i));
	case ZJ_T_FLOAT:
		return constant(ps, zj_float(ps->token.f));
	default:
		break;
	}

	if (sign(ps, "("))
		return in_brackets(ps);
	if (sign(ps, "["))
		return bracketed(ps, ZJ_LIST_OF, "]");
	if (sign(ps, "{"))
		return bracketed(ps, ZJ_DICT_OF, "}");

	found(ps, what, sizeof what);
	zj_refuse(ps, ZR_EINVAL, "expected a value, found %s", what);
	return NULL;
}

/* ---- attributes, places, calls ---- */

static struct zj_node *attribute(struct zj_parser *ps, struct zj_node *of)
{
	struct zj_node *n = over(ps, ZJ_ATTRIBUTE, 0, of, NULL);

	if (!n)
		return NULL;

	n->line = ps->token.line;
	if (ps->token.kind == ZJ_T_INT) {
		n->kind = ZJ_ITEM;
		n->b = constant(ps, zj_int(ps->token.i));
		return n->b ? n : NULL;
	}

	if (ps->token.kind != ZJ_T_NAME) {
		zj_refuse(ps, ZR_EINVAL, "expected a name behind .");
		return NULL;
	}

	n->text = name_text(ps);
	zj_next(ps);
	return zj_whole(ps, n);
}

/* A bound of a slice; NULL where there is none, or ps has failed. */
static struct zj_node *bound(struct zj_parser *ps)
{
	if (ps->failed || sign(ps, ":") || sign(ps, "]"))
		return NULL;

	return zj_expression(ps);
}

static struct zj_node *place(struct zj_parser *ps, struct zj_node *of)
{
	struct zj_node *n = over(ps, ZJ_ITEM, 0, of, NULL);

	if (!n)
		return NULL;

	n->b = bound(ps);
	if (take_sign(ps, ":")) {
		n->kind = ZJ_SLICE;
		n->c = bound(ps);
		if (take_sign(ps, ":"))
			n->d = bound(ps);
	} else if (!n->b && !ps->failed) {
		zj_refuse(ps, ZR_EINVAL, "[] has no value in it");
	} else if (sign(ps, ",")) {
		zj_refuse(ps, ZR_ENOTSUP, "several values in []: not in the subset");
	}

	return expect_sign(ps, "]") ? NULL : n;
}

/* What is called must be something that can be: refused here, by name, else. */
static void check_call(struct zj_parser *ps, const struct zj_node *call)
{
	const struct zj_node *of = call->a;

	if (of->kind == ZJ_ATTRIBUTE && !zj_is_method(of->text->p, of->text->n))
		zj_refuse(ps, ZR_ENOTSUP, "method %.*s: not in the subset of Jinja that Zeroth has",
			  (int)of->text->n, of->text->p);
}

static struct zj_node *call(struct zj_parser *ps, struct zj_node *of)
{
	struct zj_node *n = over(ps, ZJ_CALL, 0, of, NULL);

	if (!n)
		return NULL;

	n->kids = arguments(ps);
	if (!ps->failed)
		check_call(ps, n);
	return zj_whole(ps, n);
}

static struct zj_node *postfix(struct zj_parser *ps, struct zj_node *of)
{
	while (of && !ps->failed) {
		if (take_sign(ps, "."))
			of = attribute(ps, of);
		else if (take_sign(ps, "["))
			of = place(ps, of);
		else if (take_sign(ps, "("))
			of = call(ps, of);
		else
			return of;
	}

	return NULL;
}

static struct zj_node *filters_and_tests(struct zj_parser *ps, struct zj_node *of)
{
	while (of && !ps->failed) {
		if (take_sign(ps, "|"))
			of = read_filter(ps, of);
		else if (take_word(ps, "is"))
			of = read_test(ps, of);
		else if (take_sign(ps, "("))
			of = call(ps, of);
		else
			return of;
	}

	return NULL;
}

/* ---- operators ---- */

static struct zj_node *unary(struct zj_parser *ps, int with_filters)
{
	struct zj_node *n;

	if (++ps->depth > ZR_JINJA_DEPTH) {
		zj_refuse(ps, ZR_ENOTSUP, "more than %d expressions in one another",
			  ZR_JINJA_DEPTH);
		return NULL;
	}

	if (take_sign(ps, "-"))
		n = over(ps, ZJ_UNARY, ZJ_NEG, unary(ps, 0), NULL);
	else if (take_sign(ps, "+"))
		n = over(ps, ZJ_UNARY, ZJ_POS, unary(ps, 0), NULL);
	else
		n = primary(ps);

	n = postfix(ps, n);
	if (with_filters)
		n = filters_and_tests(ps, n);
	ps->depth--;
	return n;
}

static struct zj_node *power(struct zj_parser *ps)
{
	struct zj_node *n = unary(ps, 1);

	while (n && take_sign(ps, "**"))
		n = over(ps, ZJ_BINARY, ZJ_POW, n, unary(ps, 1));

	return n;
}

static const struct {
	const char *sign;
	enum zj_op op;
} products[] = { { "*", ZJ_MUL }, { "/", ZJ_DIV }, { "//", ZJ_FLOOR_DIV }, { "%", ZJ_MOD } },
  comparisons[] = { { "==", ZJ_EQ }, { "!=", ZJ_NE }, { "<=", ZJ_LE },
		    { "<", ZJ_LT },  { ">=", ZJ_GE }, { ">", ZJ_GT } };

static int take_product(struct zj_parser *ps, enum zj_op *op)
{
	for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
		*op = products[i].op;
		if (take_sign(ps, products[i].sign))
			return 1;
	}

	return 0;
}

static struct zj_node *product(struct zj_parser *ps)
{
	struct zj_node *n = power(ps);
	enum zj_op op;

	while (n && take_product(ps, &op))
		n = over(ps, ZJ_BINARY, op, n, power(ps));

	return n;
}

static struct zj_node *joined(struct zj_parser *ps)
{
	struct zj_node *n = product(ps), *last = n;

	if (!n || !sign(ps, "~"))
		return n;

	struct zj_node *all = over(ps, ZJ_JOINED, 0, n, NULL);
	if (!all)
		return NULL;

	all->kids = n;
	while (last && take_sign(ps, "~")) {
		last->next = product(ps);
		last = last->next;
	}

	if (!last)
		return NULL;

	return all;
}

static struct zj_node *sum(struct zj_parser *ps)
{
	struct zj_node *n = joined(ps);

	while (n && !ps->failed) {
		if (take_sign(ps, "+"))
			n = over(ps, ZJ_BINARY, ZJ_ADD, n, joined(ps));
		else if (take_sign(ps, "-"))
			n = over(ps, ZJ_BINARY, ZJ_SUB, n, joined(ps));
		else
			break;
	}

	return n;
}

/* Whether the next word is `in`, behind a `not` that is the current token. */
static int take_not_in(struct zj_parser *ps)
{
	const struct zj_parser before = *ps;

	if (take_word(ps, "not") && take_word(ps, "in"))
		return 1;
	if (!ps->failed)
		*ps = before;

	return 0;
}

static int take_comparison(struct zj_parser *ps, enum zj_op *op)
{
	for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
		*op = comparisons[i].op;
		if (take_sign(ps, comparisons[i].sign))
			return 1;
	}

	*op = ZJ_IN;
	if (take_word(ps, "in"))
		return 1;

	*op = ZJ_NOT_IN;
	return word(ps, "not") && take_not_in(ps);
}

static struct zj_node *comparison(struct zj_parser *ps)
{
	struct zj_node *n = sum(ps), *all = NULL, **to = NULL;
	enum zj_op op;

	while (n && !ps->failed && take_comparison(ps, &op)) {
		if (!all) {
			all = over(ps, ZJ_COMPARED, 0, n, NULL);
			if (!all)
				return NULL;
			to = &all->kids;
		}

		*to = over(ps, ZJ_COMPARED, op, sum(ps), NULL);
		if (!*to || !(*to)->a)
			return NULL;
		to = &(*to)->next;
	}

	if (all)
		n = all;
	return zj_whole(ps, n);
}

static struct zj_node *negation(struct zj_parser *ps)
{
	if (!take_word(ps, "not"))
		return comparison(ps);

	if (++ps->depth > ZR_JINJA_DEPTH) {
		zj_refuse(ps, ZR_ENOTSUP, "more than %d expressions in one another",
			  ZR_JINJA_DEPTH);
		return NULL;
	}

	struct zj_node *n = over(ps, ZJ_UNARY, ZJ_NOT, negation(ps), NULL);
	ps->depth--;
	return n;
}

static struct zj_node *conjunction(struct zj_parser *ps)
{
	struct zj_node *n = negation(ps);

	while (n && take_word(ps, "and"))
		n = over(ps, ZJ_AND, 0, n, negation(ps));

	return n;
}

struct zj_node *zj_plain_expression(struct zj_parser *ps)
{
	struct zj_node *n = conjunction(ps);

	while (n && take_word(ps, "or"))
		n = over(ps, ZJ_OR, 0, n, conjunction(ps));

	return zj_whole(ps, n);
}

static struct zj_node *condition(struct zj_parser *ps)
{
	struct zj_node *n = zj_plain_expression(ps);

	while (n && take_word(ps, "if")) {
		n = over(ps, ZJ_CONDITION, 0, n, zj_plain_expression(ps));
		if (n && take_word(ps, "else"))
			n->c = zj_expression(ps);
	}

	return zj_whole(ps, n);
}

struct zj_node *zj_expression(struct zj_parser *ps)
{
	if (++ps->depth > ZR_JINJA_DEPTH) {
		zj_refuse(ps, ZR_ENOTSUP, "more than %d expressions in one another",
			  ZR_JINJA_DEPTH);
		return NULL;
	}

	struct zj_node *n = condition(ps);
	ps->depth--;
	return n;
}

/* Whether a tuple ends here. */
static int ends_tuple(const struct zj_parser *ps)
{
	return ps->token.kind == ZJ_T_BLOCK_END || ps->token.kind == ZJ_T_VARIABLE_END ||
	       sign(ps, ")") || word(ps, "in") || sign(ps, "=");
}

struct zj_node *zj_tuple(struct zj_parser *ps, int conditions)
{
	struct zj_node *first, *last;

	if (conditions)
		first = zj_expression(ps);
	else
		first = zj_plain_expression(ps);
	if (!first || !sign(ps, ","))
		return first;

	struct zj_node *n = over(ps, ZJ_TUPLE_OF, 0, NULL, NULL);
	if (!n)
		return NULL;

	n->kids = last = first;
	while (take_sign(ps, ",") && !ends_tuple(ps)) {
		last->next = conditions ? zj_expression(ps) : zj_plain_expression(ps);
		last = last->next;
		if (!last)
			return NULL;
	}

	return zj_whole(ps, n);
}
