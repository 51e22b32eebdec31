/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c - what each instruction waits for. It follows from the bytes that instructions touch, walked in issue order;
 * what is known to be over by then is not waited for again.
 *
 * Two numbers per instruction and queue that runs in order say nearly all of that: how many of that queue are over once the
 * instruction is, and which one of that queue is the first to wait for the instruction. Only between instructions of other
 * queues, without one of those on the way, dependencies are searched.
 */
#include <limits.h>
#include <stdlib.h>

#include "core/lower/spans.h"
#include "core/setup.h"

#define NONE INT32_MAX

struct node {
	int32_t position;            /* on its queue, if that runs in order */
	int32_t over[ZR_Q_IN_ORDER]; /* so many of that queue are over once this one is, with itself */
	int32_t next[ZR_Q_IN_ORDER]; /* position of the first one that waits for this one, or NONE */
	int32_t seen;                /* the last search that came here */
	int32_t waited;              /* a request: something waits for it */
};

struct requests {
	uint32_t under_way;
	int32_t oldest; /* no request before this instruction is under way */
};

struct order {
	const struct zr_setup *setup;
	struct zr_lowered *p;
	struct zr_spans spans;
	struct node *node;
	int32_t *stack;
	int32_t count[ZR_Q_IN_ORDER], last[ZR_Q_IN_ORDER], searches;
	struct requests requests[ZR_OFFLOADS];
};

static int in_order(const struct order *o, int32_t i)
{
	return o->p->instr[i].queue < ZR_Q_IN_ORDER;
}

/* ---- what is known to be over ---- */

/* The n-th dependency of an instruction, or -1 if it runs in order: searches end there. */
static int32_t loose(const struct order *o, const struct zr_instr *in, int32_t n)
{
	int32_t d = o->p->dep[in->after + n];
	return in_order(o, d) ? -1 : d;
}

/* Whether j waits for i by way of instructions that do not run in order. */
static int searched(struct order *o, int32_t i, int32_t j)
{
	int32_t n = 0, search = ++o->searches;
	o->stack[n++] = j;
	while (n > 0) {
		const struct zr_instr *in = &o->p->instr[o->stack[--n]];
		for (int32_t k = 0; k < in->n_after; k++) {
			int32_t d = loose(o, in, k);
			if (d == i)
				return 1;
			if (d < i || o->node[d].seen == search)
				continue;
			o->node[d].seen = search;
			o->stack[n++] = d;
		}
	}
	return 0;
}

/* Whether i is over before j starts, by what j waits for so far. */
static int before(struct order *o, int32_t i, int32_t j)
{
	const struct node *x = &o->node[i], *y = &o->node[j];
	if (in_order(o, i))
		return x->position < y->over[o->p->instr[i].queue];
	for (int q = 0; q < ZR_Q_IN_ORDER; q++)
		if (x->next[q] < y->over[q])
			return 1;
	return !in_order(o, j) && searched(o, i, j);
}

/* What does not run in order and is over before d is, and d itself: the one at `position` of a queue waits for it. */
static void followed(struct order *o, int32_t d, int queue, int32_t position)
{
	int32_t n = 0;
	if (in_order(o, d) || o->node[d].next[queue] != NONE)
		return;
	o->stack[n++] = d;
	o->node[d].next[queue] = position;
	while (n > 0) {
		const struct zr_instr *in = &o->p->instr[o->stack[--n]];
		for (int32_t k = 0; k < in->n_after; k++) {
			d = loose(o, in, k);
			if (d < 0 || o->node[d].next[queue] != NONE)
				continue;
			o->node[d].next[queue] = position;
			o->stack[n++] = d;
		}
	}
}

/* ---- requests to stores ---- */

/* The store of a request that is under way; -1: another one. */
static int under_way(const struct order *o, int32_t i)
{
	return o->node[i].waited ? -1 : zr_instr_store(o->setup, o->p, i);
}

/* Where a store takes no more requests, and nothing that j waits for anyway is one, its oldest one ends before j starts. */
static int limit(struct order *o, int32_t j)
{
	int store = zr_instr_store(o->setup, o->p, j);
	struct requests *r = &o->requests[store < 0 ? 0 : store];
	uint32_t most = store < 0 ? 0 : o->setup->offload[store].info.max_inflight;
	if (!most || r->under_way < most)
		return 0;
	for (int32_t k = 0; k < o->spans.n_found; k++)
		if (o->spans.found[k].instr >= 0 && under_way(o, o->spans.found[k].instr) == store)
			return 0;
	while (under_way(o, r->oldest) != store)
		r->oldest++;
	struct zr_conflict *list = zr_list_grow(o->spans.found, o->spans.n_found + 1, &o->spans.cap_found, sizeof *list);
	if (!list)
		return ZR_ENOMEM;
	o->spans.found = list;
	list[o->spans.n_found++].instr = r->oldest;
	return 0;
}

static void count_requests(struct order *o, int32_t j)
{
	const struct zr_instr *in = &o->p->instr[j];
	for (int32_t k = 0; k < in->n_after; k++) {
		int32_t d = o->p->dep[in->after + k];
		int store = under_way(o, d);
		if (store >= 0)
			o->requests[store].under_way--;
		o->node[d].waited = 1;
	}
	int store = zr_instr_store(o->setup, o->p, j);
	if (store >= 0)
		o->requests[store].under_way++;
}

/* ---- the walk ---- */

static void enter(struct order *o, int32_t j)
{
	struct node *y = &o->node[j];
	int q = o->p->instr[j].queue;
	*y = (struct node){ .next = { NONE, NONE } };
	if (q >= ZR_Q_IN_ORDER)
		return;
	for (int k = 0; o->count[q] && k < ZR_Q_IN_ORDER; k++)
		y->over[k] = o->node[o->last[q]].over[k];
	y->position = o->count[q]++;
	y->over[q] = y->position + 1;
	o->last[q] = j;
}

static int depend(struct order *o, int32_t j, int32_t i)
{
	struct zr_lowered *p = o->p;
	int32_t *dep = zr_list_grow(p->dep, p->n_dep + 1, &p->cap_dep, sizeof *dep);
	struct node *y = &o->node[j];
	if (!dep)
		return ZR_ENOMEM;
	p->dep = dep;
	p->dep[p->n_dep++] = i;
	p->instr[j].n_after++;
	for (int q = 0; q < ZR_Q_IN_ORDER; q++)
		y->over[q] = o->node[i].over[q] > y->over[q] ? o->node[i].over[q] : y->over[q];
	if (in_order(o, j))
		followed(o, i, p->instr[j].queue, y->position);
	return 0;
}

static int latest_first(const void *a, const void *b)
{
	const struct zr_conflict *x = a, *y = b;
	return (x->instr < y->instr) - (x->instr > y->instr);
}

static int visit(struct order *o, int32_t j)
{
	struct zr_instr *in = &o->p->instr[j];
	struct zr_spans *t = &o->spans;
	int rc = 0;
	enter(o, j);
	in->after = o->p->n_dep;
	in->n_after = t->n_found = 0;
	for (int32_t k = 0; !rc && k < in->n; k++)
		rc = zr_spans_find(t, &o->p->operand[in->first + k]);
	rc = rc ? rc : limit(o, j);
	if (t->n_found > 1)
		qsort(t->found, (size_t)t->n_found, sizeof *t->found, latest_first);
	for (int32_t k = 0; !rc && k < t->n_found && t->found[k].instr >= 0; k++)
		if (!before(o, t->found[k].instr, j))
			rc = depend(o, j, t->found[k].instr);
	count_requests(o, j);
	return rc ? rc : zr_spans_add(t, o->p, j);
}

int zr_order(const struct zr_setup *s, struct zr_lowered *p, struct zr_error *err)
{
	struct order o = { .setup = s, .p = p, .spans.setup = s };
	o.node = calloc((size_t)p->n + 1, sizeof *o.node);
	o.stack = calloc((size_t)p->n + 1, sizeof *o.stack);
	int rc = o.node && o.stack ? 0 : ZR_ENOMEM;
	p->n_dep = 0;
	for (int32_t j = 0; !rc && j < p->n; j++)
		rc = visit(&o, j);
	zr_spans_free(&o.spans);
	free(o.node);
	free(o.stack);
	return rc ? zr_err(err, rc, "out of memory while ordering %d instructions", p->n) : 0;
}
