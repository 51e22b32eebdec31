/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see parts.h: statements. What a loop, a macro, a generation block or a block of set
 * assigns stays inside, as in jinja2.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"

/* ---- assignments ---- */

static int set_field(struct zj_run *r, const struct zj_node *to, struct zj_value v)
{
	struct zj_value of, key = { .kind = ZJ_TEXT, .text = to->text };
	int rc = zj_lookup(r, to->name, &of);
	if (rc)
		return rc;
	if (of.kind != ZJ_NAMESPACE)
		return zj_fail(r, "cannot assign attribute on non-namespace object");

	return zj_put(r, of.dict, key, v);
}

static int unpack(struct zj_run *r, const struct zj_node *to, struct zj_scope *s, struct zj_value v)
{
	const struct zj_node *k = to->kids;
	struct zj_list *l;
	size_t i = 0;
	int rc = zj_iterate(r, &v, &l);

	for (; !rc && k && i < l->n; k = k->next, i++)
		rc = zj_assign(r, s, k->name, l->v[i]);
	if (!rc && (k || i < l->n))
		return zj_fail(r, "%zu values do not fit the names to which they are assigned",
			       l->n);

	return rc;
}

static int assign(struct zj_run *r, const struct zj_node *to, struct zj_scope *s, struct zj_value v)
{
	r->line = to->line;
	if (to->kind == ZJ_SET_FIELD)
		return set_field(r, to, v);
	if (to->kind == ZJ_TUPLE_OF)
		return unpack(r, to, s, v);

	return zj_assign(r, s, to->name, v);
}

/* ---- macros ---- */

/* Runs statements whose output is a value. *ended: as zj_execute says. */
static int capture(struct zj_run *r, const struct zj_node *kids, struct zj_value *out, int *ended)
{
	const size_t from = r->w->text.n;

	r->captures++;
	*ended = zj_execute(r, kids);
	r->captures--;
	if (*ended < 0)
		return *ended;

	return zj_cut(r, &r->w->text, from, out);
}

/* The value of a parameter that was not given by its place. */
static int by_name(struct zj_run *r, const struct zj_node *p, const struct zj_arguments *given,
		   size_t *used, struct zj_value *out)
{
	const char *name = r->t->names[p->name];

	for (size_t i = 0; i < given->n_keywords; i++)
		if (given->keyword[i].name->n == strlen(name) &&
		    !memcmp(given->keyword[i].name->p, name, strlen(name))) {
			*out = given->keyword[i].v;
			++*used;
			return 0;
		}

	if (p->a)
		return zj_evaluate(r, p->a, out);

	*out = zj_undefined(name);
	return 0;
}

static int bind(struct zj_run *r, const struct zj_node *macro, const struct zj_arguments *given)
{
	size_t i = 0, used = 0;
	int rc = 0;

	for (const struct zj_node *p = macro->b->kids; !rc && p; p = p->next, i++) {
		struct zj_value v;
		if (i < given->n)
			v = given->v[i];
		else
			rc = by_name(r, p, given, &used, &v);
		if (!rc)
			rc = zj_assign(r, r->scope, p->name, v);
	}

	if (!rc && (i < given->n || used < given->n_keywords))
		return zj_fail(r, "macro %s: more arguments, or others, than it has",
			       r->t->names[macro->name]);

	return rc;
}

static int call_macro(struct zj_run *r, const struct zj_macro *m, const struct zj_arguments *given,
		      struct zj_value *out)
{
	struct zj_scope *const caller = r->scope, *s;
	int ended = 0, rc = zj_scope(r, m->scope, &s);
	if (rc)
		return rc;

	r->scope = s;
	rc = bind(r, m->node, given);
	if (!rc)
		rc = capture(r, m->node->kids, out, &ended);
	r->scope = caller;
	return rc;
}

/* ---- statements ---- */

static int write_value(struct zj_run *r, const struct zj_node *n)
{
	struct zj_value v;
	int rc = zj_evaluate(r, n->a, &v);
	if (rc)
		return rc;

	r->line = n->line;
	return zj_print(r, &v, &r->w->text);
}

static int run_if(struct zj_run *r, const struct zj_node *n)
{
	for (; n && n->kind == ZJ_IF; n = n->b) {
		struct zj_value is;
		int rc = zj_evaluate(r, n->a, &is);
		if (rc)
			return rc;
		if (zj_is_true(&is))
			return zj_execute(r, n->kids);
	}

	return n ? zj_execute(r, n->kids) : 0;
}

/* Those elements for which the condition of a loop holds. */
static int choose(struct zj_run *r, const struct zj_node *n, struct zj_list **l)
{
	struct zj_scope *const outer = r->scope, *s;
	struct zj_value kept, is;
	int rc = zj_list(r, ZJ_A_LIST, 0, &kept);

	for (size_t i = 0; !rc && i < (*l)->n; i++) {
		rc = zj_scope(r, outer, &s);
		if (rc)
			break;
		r->scope = s;
		rc = assign(r, n->b, s, (*l)->v[i]);
		if (!rc)
			rc = zj_evaluate(r, n->c, &is);
		if (!rc && zj_is_true(&is))
			rc = zj_append(r, kept.list, (*l)->v[i]);
	}

	r->scope = outer;
	if (rc)
		return rc;

	*l = kept.list;
	return 0;
}

/* An iteration: ZJ_*, or a negative code. */
static int iterate(struct zj_run *r, const struct zj_node *n, struct zj_loop *loop, int loop_name)
{
	const struct zj_value of_loop = { .kind = ZJ_LOOP, .loop = loop };
	int rc = zj_spend(r, 1);

	if (!rc && loop_name >= 0)
		rc = zj_assign(r, r->scope, loop_name, of_loop);
	if (!rc)
		rc = assign(r, n->b, r->scope, loop->list->v[loop->at]);
	if (rc)
		return rc;

	return zj_execute(r, n->kids);
}

static int name_of_loop(const struct zr_jinja *t)
{
	for (int i = 0; i < t->n_names; i++)
		if (!strcmp(t->names[i], "loop"))
			return i;

	return -1;
}

static int run_loop(struct zj_run *r, const struct zj_node *n, struct zj_loop *loop, int *whole)
{
	struct zj_scope *const outer = r->scope, *s = NULL;
	const int loop_name = name_of_loop(r->t);
	int rc = 0;

	for (; rc != ZJ_BROKE && loop->at < loop->list->n; loop->at++) {
		if (!s || s->is_kept)
			rc = zj_scope(r, outer, &s);
		if (rc < 0)
			break;
		s->n = 0;
		r->scope = s;
		rc = iterate(r, n, loop, loop_name);
		r->scope = outer;
		if (rc < 0)
			break;
		*whole |= rc == ZJ_DONE;
	}

	return rc < 0 ? rc : 0;
}

static int run_for(struct zj_run *r, const struct zj_node *n)
{
	struct zj_loop *loop;
	struct zj_list *list;
	struct zj_value of;
	int whole = 0, rc = zj_evaluate(r, n->a, &of);

	r->line = n->line;
	if (!rc)
		rc = zj_iterate(r, &of, &list);
	if (!rc && n->c)
		rc = choose(r, n, &list);
	if (!rc)
		rc = zj_get(r, sizeof *loop, &loop);
	if (rc)
		return rc;

	loop->list = list;
	rc = run_loop(r, n, loop, &whole);
	if (rc || !n->d || whole) /* jinja2 takes else unless an iteration came to its end */
		return rc;

	return zj_execute(r, n->d->kids);
}

static int run_set(struct zj_run *r, const struct zj_node *n)
{
	struct zj_value v;
	int rc = zj_evaluate(r, n->a, &v);
	if (rc)
		return rc;

	return assign(r, n->b, r->scope, v);
}

/* What filters make of the text of a block. *ended: as zj_execute says. */
static int filtered(struct zj_run *r, const struct zj_node *n, struct zj_value *v, int *ended)
{
	struct zj_scope *const outer = r->scope, *s;
	const struct zj_value before = r->hole;
	int rc = zj_scope(r, outer, &s);
	if (rc)
		return rc;

	r->scope = s;
	rc = capture(r, n->kids, v, ended);
	r->scope = outer;
	if (rc || *ended)
		return rc;

	r->hole = *v;
	rc = zj_evaluate(r, n->a, v);
	r->hole = before;
	return rc;
}

static int run_set_block(struct zj_run *r, const struct zj_node *n)
{
	struct zj_value v;
	int ended = 0, rc = filtered(r, n, &v, &ended);
	if (rc)
		return rc;
	if (ended)
		return ended;

	return assign(r, n->b, r->scope, v);
}

static int run_filtered(struct zj_run *r, const struct zj_node *n)
{
	struct zj_value v;
	int ended = 0, rc = filtered(r, n, &v, &ended);
	if (rc)
		return rc;
	if (ended)
		return ended;

	return zj_print(r, &v, &r->w->text);
}

static int define_macro(struct zj_run *r, const struct zj_node *n)
{
	struct zj_macro *m;
	int rc = zj_get(r, sizeof *m, &m);
	if (rc)
		return rc;

	*m = (struct zj_macro){ .node = n, .scope = r->scope, .call = call_macro };
	for (struct zj_scope *s = r->scope; s; s = s->outer)
		s->is_kept = 1;
	return zj_assign(r, r->scope, n->name, (struct zj_value){ .kind = ZJ_MACRO, .macro = m });
}

static int run_generation(struct zj_run *r, const struct zj_node *n)
{
	struct zj_scope *const outer = r->scope, *s;
	struct zr_jinja_span span = { .from = r->w->text.n };
	int rc = zj_scope(r, outer, &s);
	if (rc)
		return rc;

	r->scope = s;
	rc = zj_execute(r, n->kids);
	r->scope = outer;
	if (rc)
		return rc;

	span.to = r->w->text.n;
	if (r->captures) {
		r->w->lost = 1;
		return 0;
	}

	if (span.to > span.from && zr_buf_add(&r->w->spans, &span, sizeof span))
		return zr_no_memory(r->err);

	return 0;
}

static int run_one(struct zj_run *r, const struct zj_node *n)
{
	switch (n->kind) {
	case ZJ_WRITE_TEXT:
		return zj_add(r, &r->w->text, n->text->p, n->text->n);
	case ZJ_WRITE:
		return write_value(r, n);
	case ZJ_IF:
		return run_if(r, n);
	case ZJ_FOR:
		return run_for(r, n);
	case ZJ_SET:
		return run_set(r, n);
	case ZJ_SET_BLOCK:
		return run_set_block(r, n);
	case ZJ_FILTERED:
		return run_filtered(r, n);
	case ZJ_MACRO_OF:
		return define_macro(r, n);
	case ZJ_GENERATION:
		return run_generation(r, n);
	case ZJ_BREAK:
		return ZJ_BROKE;
	default:
		return ZJ_CONTINUED;
	}
}

int zj_execute(struct zj_run *r, const struct zj_node *kids)
{
	int rc = 0;

	if (++r->depth > 2 * ZR_JINJA_DEPTH)
		return zj_fail(r, "more than %d calls and expressions in one another",
			       2 * ZR_JINJA_DEPTH);
	for (; !rc && kids; kids = kids->next) {
		r->line = kids->line;
		rc = zj_spend(r, 1);
		if (!rc)
			rc = run_one(r, kids);
	}

	r->depth--;
	return rc;
}
