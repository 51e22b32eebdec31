/* SPDX-License-Identifier: Apache-2.0
 *
 * order.c - what each instruction waits for. It follows from the bytes that instructions touch,
 * walked in issue order. What is known to be over by then is not waited for again.
 */
#include <stdlib.h>

#include "core/lower/before.h"
#include "core/lower/spans.h"
#include "core/setup.h"

struct order {
	struct zr_lowered *p;
	struct zr_spans spans;
	struct zr_before before;
	int32_t oldest[ZR_OFFLOADS]; /* no request before this instruction is under way */
};

/* Where a store takes no more requests, j waits for the oldest, unless it waits for one anyway. */
static int limit(struct order *o, int32_t j)
{
	struct zr_spans *t = &o->spans;
	int store = zr_before_request(&o->before, j);
	if (store < 0)
		return 0;

	uint32_t most = t->setup->facts.tier[store].max_inflight;
	if (!most || o->before.requests[store] < most)
		return 0;

	for (int32_t k = 0; k < t->n_found; k++) {
		int32_t i = t->found[k].instr;
		if (i >= 0 && zr_before_request(&o->before, i) == store)
			return 0;
	}
	while (zr_before_request(&o->before, o->oldest[store]) != store)
		o->oldest[store]++;
	return zr_spans_found(t, 0, o->oldest[store]);
}

int zr_kept_behind(const struct zr_setup *s, const struct zr_lowered *p, int32_t i,
		   const struct zr_lowered *q, int32_t j)
{
	int store = zr_store_of(&s->plan, q, j);
	return store >= 0 && s->facts.tier[store].in_order && q->instr[j].kind == ZR_I_READ &&
	       p->instr[i].kind == ZR_I_WRITE && zr_store_of(&s->plan, p, i) == store;
}

int zr_starts_after_mark(const struct zr_lowered *p, int32_t i, int32_t j)
{
	return p->instr[i].queue == ZR_Q_COMPUTE && p->instr[j].kind == ZR_I_COPY;
}

/* Writes that the store keeps j behind come last in its list. */
static int depend(struct order *o, int32_t j, int32_t i)
{
	struct zr_lowered *p = o->p;
	struct zr_instr *in = &p->instr[j];
	if (zr_list_room(&p->dep, p->n_dep + 1, &p->cap_dep, sizeof *p->dep))
		return ZR_ENOMEM;

	int behind = zr_kept_behind(o->spans.setup, p, i, p, j);
	int32_t *end = &p->dep[p->n_dep++], *at = end;
	if (!behind)
		at -= in->n_behind;
	*end = *at;
	*at = i;
	in->n_behind += behind;
	in->n_after++;
	p->instr[i].flags &= (uint16_t)~ZR_F_LATE;
	if (zr_starts_after_mark(p, i, j))
		p->instr[i].flags |= ZR_F_MARK;
	zr_before_wait(&o->before, j, i);
	return 0;
}

static int latest_first(const void *a, const void *b)
{
	const struct zr_conflict *x = a, *y = b;
	return (x->instr < y->instr) - (x->instr > y->instr);
}

/* The latest ones imply most of the others. */
static int visit(struct order *o, int32_t j)
{
	struct zr_instr *in = &o->p->instr[j];
	struct zr_spans *t = &o->spans;
	int rc = 0;
	in->after = o->p->n_dep;
	in->n_after = in->n_behind = t->n_found = 0;
	for (int32_t k = 0; !rc && k < in->n; k++)
		rc = zr_spans_find(t, &o->p->operand[in->first + k]);
	for (int32_t i = zr_before_switch(&o->before, j); !rc && i < j; i++) {
		if (o->p->instr[i].kind == ZR_I_COLLECTIVE)
			rc = zr_spans_found(t, 0, i);
	}
	if (!rc)
		rc = limit(o, j);
	if (t->n_found > 1)
		qsort(t->found, (size_t)t->n_found, sizeof *t->found, latest_first);
	zr_before_enter(&o->before, j);
	for (int32_t k = 0; !rc && k < t->n_found && t->found[k].instr >= 0; k++)
		if (!zr_is_before(&o->before, t->found[k].instr, j))
			rc = depend(o, j, t->found[k].instr);
	zr_before_leave(&o->before, j);
	if (rc)
		return rc;
	return zr_spans_add(t, o->p, j);
}

int zr_order(const struct zr_setup *s, struct zr_lowered *p, struct zr_error *err)
{
	struct order o = { .p = p, .spans.setup = s };
	int rc = zr_before_new(&o.before, s, p);
	p->n_dep = 0;
	for (int32_t j = 0; !rc && j < p->n; j++)
		rc = visit(&o, j);
	zr_spans_free(&o.spans);
	zr_before_free(&o.before);
	if (rc)
		return zr_err(err, rc, "out of memory while ordering %d instructions", p->n);
	return 0;
}
