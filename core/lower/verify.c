/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c - the proof that a program computes the same in whatever order its instructions run, as long as each waits for
 * what it says. It knows what instructions touch, their queues and their dependencies, and not how these were found.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "core/lower/spans.h"
#include "core/setup.h"

#define NONE INT32_MAX
#define NAME 160

struct point {
	int32_t position;             /* on its queue, if that runs in order */
	int32_t over[ZR_Q_IN_ORDER];  /* so many of that queue are over once this one is, with itself */
	int32_t first[ZR_Q_IN_ORDER]; /* the first position of all that wait for it, or NONE */
	int32_t seen;                 /* the last search that came here */
	int32_t waited;               /* a request: something issued waits for it */
};

struct proof {
	const struct zr_setup *setup;
	const struct zr_lowered *p;
	struct zr_error *err;
	struct zr_spans spans;
	struct point *point;
	int32_t *stack, searches;
	uint32_t under_way[ZR_OFFLOADS];
};

/* "copy of unit h.0 (instruction 7)" */
static const char *name(const struct proof *v, int32_t i, char *buf)
{
	char text[NAME - 32];
	if (i < 0 || i >= v->p->n)
		snprintf(buf, NAME, "an instruction that is not there (%d)", i);
	else
		snprintf(buf, NAME, "%s (instruction %d)", zr_instr_text(v->setup, v->p, i, text, sizeof text), i);
	return buf;
}

/* ---- each instruction by itself ---- */

static int check_operand(struct proof *v, int32_t i, const struct zr_operand *o)
{
	char a[NAME];
	if (o->region < 0)
		return 0;
	if (o->region >= ZR_R_COUNT)
		return zr_err(v->err, ZR_ESTATE, "%s has an operand in region %d, which is not there", name(v, i, a), o->region);
	const struct zr_region *r = &v->setup->plan.region[o->region];
	if (o->at <= r->bytes && o->bytes <= r->bytes - o->at)
		return 0;
	return zr_err(v->err, ZR_ESTATE, "%s touches %" PRIu64 " bytes of %s from byte %" PRIu64 " on, which has %" PRIu64,
		      name(v, i, a), o->bytes, r->what, o->at, r->bytes);
}

static int check_instr(struct proof *v, int32_t i)
{
	const struct zr_lowered *p = v->p;
	const struct zr_instr *in = &p->instr[i];
	char a[NAME], b[NAME];
	int rc = 0;
	if (in->queue >= ZR_QUEUES || (in->kind == ZR_I_COLLECTIVE && in->queue != ZR_Q_COMM))
		return zr_err(v->err, ZR_ESTATE, "%s is in queue %d, which does not run it", name(v, i, a), in->queue);
	if (in->first < 0 || in->n < 0 || in->n > p->n_operand - in->first || in->after < 0 || in->n_after < 0 ||
	    in->n_after > p->n_dep - in->after)
		return zr_err(v->err, ZR_ESTATE, "%s has operands or dependencies that are not there", name(v, i, a));
	for (int32_t k = 0; k < in->n_after; k++) {
		int32_t d = p->dep[in->after + k];
		if (d < 0 || d >= i)
			return zr_err(v->err, ZR_ESTATE, "%s waits for %s, which does not come before it", name(v, i, a),
				      name(v, d, b));
	}
	for (int32_t k = 0; !rc && k < in->n; k++)
		rc = check_operand(v, i, &p->operand[in->first + k]);
	return rc;
}

/* ---- what happens before what ---- */

static void least(int32_t *a, int32_t b)
{
	*a = b < *a ? b : *a;
}

static void most(int32_t *a, int32_t b)
{
	*a = b > *a ? b : *a;
}

/* Forwards: what is over. */
static void count_over(struct proof *v)
{
	int32_t last[ZR_Q_IN_ORDER] = { -1, -1 }, count[ZR_Q_IN_ORDER] = { 0 };
	for (int32_t i = 0; i < v->p->n; i++) {
		const struct zr_instr *in = &v->p->instr[i];
		struct point *x = &v->point[i];
		int q = in->queue;
		for (int k = 0; k < ZR_Q_IN_ORDER; k++) {
			x->first[k] = NONE;
			x->over[k] = q < ZR_Q_IN_ORDER && last[q] >= 0 ? v->point[last[q]].over[k] : 0;
			for (int32_t d = 0; d < in->n_after; d++)
				most(&x->over[k], v->point[v->p->dep[in->after + d]].over[k]);
		}
		if (q < ZR_Q_IN_ORDER) {
			x->position = count[q]++;
			x->over[q] = x->position + 1;
			last[q] = i;
		}
	}
}

/* Backwards: what waits. */
static void find_first(struct proof *v)
{
	for (int32_t i = v->p->n - 1; i >= 0; i--) {
		const struct zr_instr *in = &v->p->instr[i];
		const struct point *x = &v->point[i];
		for (int32_t k = 0; k < in->n_after; k++) {
			struct point *d = &v->point[v->p->dep[in->after + k]];
			for (int q = 0; q < ZR_Q_IN_ORDER; q++)
				least(&d->first[q], in->queue == q ? x->position : x->first[q]);
		}
	}
}

static int push(struct proof *v, int32_t d, int32_t i, int32_t n)
{
	if (d < i || v->point[d].seen == v->searches || v->p->instr[d].queue < ZR_Q_IN_ORDER)
		return n;
	v->point[d].seen = v->searches;
	v->stack[n++] = d;
	return n;
}

/* Whether j waits for i, both on queues without order, and nothing on the way runs in order either. */
static int reaches(struct proof *v, int32_t i, int32_t j)
{
	int32_t n = 0;
	v->searches++;
	for (n = push(v, j, i, n); n > 0;) {
		int32_t at = v->stack[--n];
		const struct zr_instr *in = &v->p->instr[at];
		if (at == i)
			return 1;
		for (int32_t k = 0; k < in->n_after; k++)
			n = push(v, v->p->dep[in->after + k], i, n);
	}
	return 0;
}

static int before(struct proof *v, int32_t i, int32_t j)
{
	const struct point *x = &v->point[i], *y = &v->point[j];
	int q = v->p->instr[i].queue;
	if (q < ZR_Q_IN_ORDER)
		return x->position < y->over[q];
	for (int k = 0; k < ZR_Q_IN_ORDER; k++)
		if (x->first[k] < y->over[k])
			return 1;
	return reaches(v, i, j);
}

/* ---- what each instruction touches ---- */

/* Whether what an operand reads has to be written by the program itself. */
static int transient(const struct proof *v, const struct zr_operand *o)
{
	static const uint8_t is[ZR_R_COUNT] = { [ZR_R_GRAD_BUFFER] = 1, [ZR_R_GATHER] = 1, [ZR_R_ACT] = 1,
						[ZR_R_ACT_FAR] = 1, [ZR_R_WORK] = 1, [ZR_R_COMM] = 1,
						[ZR_R_BATCH] = 1, [ZR_R_STAGING] = 1, [ZR_R_CHUNK] = 1,
						[ZR_R_FOLD] = 1, [ZR_R_SLOT] = 1, [ZR_R_WIRE] = 1,
						[ZR_R_WHOLE] = 1 };
	if (zr_operand_others(v->setup, o))
		return 0;
	return is[o->region];
}

static int refuse(struct proof *v, int32_t j, const struct zr_operand *o, const struct zr_conflict *c)
{
	const char *what = v->setup->plan.region[o->region].what;
	const char *whose = zr_operand_others(v->setup, o) ? " of other ranks" : "";
	char a[NAME], b[NAME];
	if (c->instr < 0)
		return zr_err(v->err, ZR_ESTATE, "%s reads byte %" PRIu64 " of %s, which nothing in the program has written",
			      name(v, j, a), c->at, what);
	return zr_err(v->err, ZR_ESTATE, "%s and %s touch byte %" PRIu64 " of %s%s, one of them writes it, and nothing orders them",
		      name(v, c->instr, a), name(v, j, b), c->at, what, whose);
}

static int check_touched(struct proof *v, int32_t j, const struct zr_operand *o)
{
	struct zr_spans *t = &v->spans;
	t->n_found = 0;
	int rc = zr_spans_find(t, o);
	for (int32_t k = 0; !rc && k < t->n_found; k++) {
		int32_t i = t->found[k].instr;
		if (i < 0 ? transient(v, o) : !before(v, i, j))
			rc = refuse(v, j, o, &t->found[k]);
	}
	return rc;
}

/* ---- requests to stores ---- */

static int refuse_request(struct proof *v, int32_t j, int store)
{
	int32_t i = 0;
	char a[NAME], b[NAME];
	while (v->point[i].waited || zr_instr_store(v->setup, v->p, i) != store)
		i++;
	return zr_err(v->err, ZR_ESTATE, "%s is request number %" PRIu32 " under way to a store that takes %" PRIu32
		      ": nothing waits for %s before", name(v, j, a), v->under_way[store],
		      v->setup->offload[store].info.max_inflight, name(v, i, b));
}

static int check_requests(struct proof *v, int32_t j)
{
	const struct zr_instr *in = &v->p->instr[j];
	for (int32_t k = 0; k < in->n_after; k++) {
		int32_t d = v->p->dep[in->after + k];
		int store = v->point[d].waited ? -1 : zr_instr_store(v->setup, v->p, d);
		if (store >= 0)
			v->under_way[store]--;
		v->point[d].waited = 1;
	}
	int store = zr_instr_store(v->setup, v->p, j);
	if (store < 0)
		return 0;
	uint32_t most = v->setup->offload[store].info.max_inflight;
	return ++v->under_way[store] > most && most ? refuse_request(v, j, store) : 0;
}

static int check_all(struct proof *v)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < v->p->n; i++)
		rc = check_instr(v, i);
	if (rc)
		return rc;
	count_over(v);
	find_first(v);
	for (int32_t i = 0; !rc && i < v->p->n; i++) {
		const struct zr_instr *in = &v->p->instr[i];
		for (int32_t k = 0; !rc && k < in->n; k++)
			rc = check_touched(v, i, &v->p->operand[in->first + k]);
		rc = rc ? rc : check_requests(v, i);
		rc = rc ? rc : zr_spans_add(&v->spans, v->p, i);
	}
	return rc;
}

int zr_verify(const struct zr_setup *s, const struct zr_lowered *p, struct zr_error *err)
{
	struct proof v = { .setup = s, .p = p, .err = err, .spans.setup = s };
	v.point = calloc((size_t)p->n + 1, sizeof *v.point);
	v.stack = calloc((size_t)p->n + 1, sizeof *v.stack);
	int rc = v.point && v.stack ? check_all(&v) : ZR_ENOMEM;
	zr_spans_free(&v.spans);
	free(v.point);
	free(v.stack);
	return rc == ZR_ENOMEM ? zr_err(err, rc, "out of memory while verifying %d instructions", p->n) : rc;
}
