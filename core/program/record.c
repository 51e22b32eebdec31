/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - the recorder: core walks the schedule on nothing, tells the stage each point and
 * writes its verbs down.
 *
 * Waits are inferred. A gather is waited for before the first layer that needs one of its units, or
 * before a drop. At most one reduce is outstanding: it is waited for before the next one is posted,
 * so gradient buffers live for two buckets. Activations on their way to or from another tier are
 * waited for after the use beside which they move. Publishes, and whatever is left, are waited for
 * at the end of the program.
 *
 * What moves in several hops (route.h) takes the next one after each layer, or, if it returns,
 * before it: so every hop has a layer to hide behind, and collectives are posted in the same order
 * on all ranks. A wait takes those that are left.
 */
#include <stdlib.h>
#include <xxhash.h>

#include "core/program/recorder.h"
#include "core/program/route.h"

/* ---- the walk ---- */

static int tell(struct recorder *r, int32_t at, int32_t use, const int32_t *units, int32_t n)
{
	const struct zr_zero_v1 *zero = r->setup->roles.zero.vtbl;
	r->at = (struct zr_point){ .size = sizeof r->at,
				   .program = r->p->id,
				   .at = at,
				   .use = use,
				   .units = units,
				   .n_units = (uint32_t)n };
	if (!zero)
		return 0; /* sampling: everything is whole */
	int rc = zero->at(r->setup->roles.zero.inst, &r->at, &r->stage);
	if (r->err->code) /* a verb was refused, whatever the stage makes of it */
		return r->err->code;
	return zr_instance_failed(&r->setup->roles.zero, rc, "at", r->err);
}

/* What is to return may not have left to its end. */
static int wait_left(struct recorder *r, const struct zr_act_move *m)
{
	int rc = 0;
	for (int32_t i = r->first; !rc && (i = zr_rec_under_way(r, i)) < r->p->n; i++) {
		const struct zr_pop *op = &r->p->op[i];
		if (op->kind == ZR_P_SPILL &&
		    r->setup->programs.train_act.move[op->use].offloaded == m->offloaded)
			rc = zr_rec_wait(r, i);
	}
	return rc;
}

/* Activations on their way to the other tier, or back. */
static int post_moves(struct recorder *r, int32_t use, int32_t back)
{
	const struct zr_activations *a = &r->setup->programs.train_act;
	int rc = 0;
	for (; !rc && r->uses == &r->setup->programs.train_uses && r->move < a->n_moves;
	     r->move++) {
		const struct zr_act_move *m = &a->move[r->move];
		struct zr_pop op = { .kind = back ? ZR_P_FETCH : ZR_P_SPILL,
				     .use = r->move,
				     .bytes = m->bytes,
				     .hops = zr_route_move(r->f, back).n };
		if (m->use != use || m->back != back)
			break;
		if (back)
			rc = wait_left(r, m);
		if (!rc)
			rc = zr_rec_emit(r, op, NULL, 0);
	}
	return rc;
}

/* A use between the moves beside it: what it reads has returned, what the next one reads begins to;
 * what the last one left is gone, what nobody reads for a while begins to. */
static int emit_use(struct recorder *r, int32_t i)
{
	int rc = zr_rec_advance(r, ZR_P_FETCH);
	if (!rc)
		rc = post_moves(r, i, 1);
	if (!rc)
		rc = zr_rec_emit(r, (struct zr_pop){ .kind = ZR_P_LAYER, .use = i }, NULL, 0);
	if (!rc)
		rc = zr_rec_advance(r, ZR_P_GATHER);
	if (!rc)
		rc = zr_rec_advance(r, ZR_P_SPILL);
	if (rc)
		return rc;
	return post_moves(r, i, 0);
}

static int record_use(struct recorder *r, int32_t i)
{
	const struct zr_use *use = &r->uses->use[i];
	int rc = tell(r, ZR_AT_BEFORE, i, use->units, (int32_t)use->n_units);
	for (uint32_t k = 0; !rc && k < use->n_units; k++) {
		if (r->gathered[use->units[k]])
			rc = zr_rec_wait_gather(r, use->units[k]);
		else
			rc = zr_rec_refuse(r, "is needed, but not gathered", use->units[k]);
	}

	if (!rc)
		rc = emit_use(r, i);
	if (!rc)
		rc = tell(r, ZR_AT_AFTER, i, use->units, (int32_t)use->n_units);
	int32_t lo = r->uses->grad_first[i], hi = r->uses->grad_first[i + 1];
	for (int32_t k = lo; k < hi; k++)
		r->state[r->uses->grad_unit[k]] = COMPLETE;
	if (rc || hi == lo)
		return rc;
	return tell(r, ZR_AT_GRAD, i, r->uses->grad_unit + lo, hi - lo);
}

static int check_end(struct recorder *r)
{
	int training = r->p->id == ZR_PROG_MICRO || r->p->id == ZR_PROG_LAST_MICRO, rc = 0;
	for (int32_t u = 0; !rc && u < r->stage.n_units; u++) {
		int split = r->f->groups[u].param != ZR_GROUP_SELF;
		int reduces = training && !r->f->frozen_unit[u];
		int missed = r->p->id == ZR_PROG_UPDATE && r->values[u] == OLD;
		zr_rec_must(r, &rc, !split || !r->gathered[u],
			    "is still full at the end of the "
			    "program: a drop is missing",
			    u);
		zr_rec_must(r, &rc, !reduces || r->state[u] == REDUCED,
			    "has a complete gradient "
			    "that was not reduced by the end of the program",
			    u);
		zr_rec_must(r, &rc, r->values[u] != UPDATED, "is updated but not published", u);
		zr_rec_must(r, &rc, !missed, "is not updated", u);
	}
	return rc;
}

/* Of what no program before has updated. */
static int tell_update(struct recorder *r)
{
	int32_t n = 0;
	for (int32_t u = 0; u < r->stage.n_units; u++)
		if (r->values[u] == OLD)
			r->left[n++] = u;
	if (n)
		return tell(r, ZR_AT_UPDATE, -1, r->left, n);
	return 0;
}

static int walk(struct recorder *r)
{
	int32_t n = r->stage.n_units;
	int rc = tell(r, ZR_AT_BEGIN, -1, r->all, n);
	for (int32_t i = 0; !rc && i < r->uses->n; i++)
		rc = record_use(r, i);
	if (!rc && r->p->id == ZR_PROG_UPDATE)
		rc = tell_update(r);
	if (!rc)
		rc = tell(r, ZR_AT_END, -1, r->all, n);
	for (int32_t u = 0; !rc && u < n; u++)
		rc = zr_rec_wait_gather(r, u);
	if (!rc)
		rc = zr_rec_wait_reduce(r);
	if (rc)
		return rc;
	return check_end(r);
}

/* ---- the whole ---- */

/* Whether sums begin and end in this program, as those of all units do or of none. */
static int has_own_sums(const struct recorder *r)
{
	const struct zr_setup_facts *f = r->f;
	if (r->p->id != ZR_PROG_LAST_MICRO || f->batch.accumulation > 1)
		return 0;
	for (int32_t u = 0; u < r->stage.n_units; u++)
		if (!f->frozen_unit[u] && r->values[u] != PUBLISHED)
			return 0;
	return 1;
}

static uint64_t hash(const struct recorder *r)
{
	const struct zr_program *p = r->p;
	uint64_t h = XXH3_64bits(p->op, (size_t)p->n * sizeof *p->op);
	return XXH3_64bits_withSeed(p->unit, (size_t)p->n_unit * sizeof *p->unit, h);
}

static int make_tables(struct recorder *r, const struct zr_setup *s)
{
	size_t n = (size_t)s->facts.layout.n_units + 1, layers = 2 * s->facts.decl.n_layers;
	r->all = calloc(5 * n + 3 * layers, sizeof *r->all);
	r->gathered = calloc(3 * n, 1);
	if (!r->all || !r->gathered)
		return zr_err(r->err, ZR_ENOMEM, "out of memory while recording a program");

	r->some = r->all + n;
	r->left = r->some + n;
	r->gather = r->left + n;
	r->together = r->gather + n;
	r->experts_gathered = r->together + n;
	r->experts_reduced = r->experts_gathered + layers;
	r->experts_there = r->experts_reduced + layers;
	r->state = r->gathered + n;
	r->values = r->state + n;
	for (int32_t u = 0; u < s->facts.layout.n_units; u++) {
		r->all[u] = u;
		r->gathered[u] = s->facts.groups[u].param == ZR_GROUP_SELF;
		r->gather[u] = -1;
	}
	const struct zr_program *before = &s->programs.recorded[ZR_PROG_LAST_MICRO];
	for (int32_t i = 0; r->p->id == ZR_PROG_UPDATE && i < before->n; i++)
		for (int32_t k = 0; before->op[i].kind == ZR_P_PUBLISH && k < before->op[i].n; k++)
			r->values[before->unit[before->op[i].first + k]] = PUBLISHED;
	return 0;
}

int zr_program_record(struct zr_setup *s, int32_t id, struct zr_program *out, struct zr_error *err)
{
	static const struct zr_schedule none;
	struct zr_program p = { .id = id };
	struct recorder r = { .setup = s,
			      .f = &s->facts,
			      .p = &p,
			      .err = err,
			      .reducing = -1,
			      .uses = &s->programs.train_uses };
	if (id == ZR_PROG_UPDATE)
		r.uses = &none;
	else if (id == ZR_PROG_EVAL)
		r.uses = &s->programs.eval_uses;

	*err = (struct zr_error){ 0 };
	zr_rec_offer(&r);
	int rc = make_tables(&r, s);
	if (!rc)
		rc = walk(&r);
	if (!rc) {
		p.own_sums = has_own_sums(&r);
		p.hash = hash(&r);
		*out = p;
	} else {
		zr_program_free(&p);
	}
	free(r.all);
	free(r.gathered);
	return rc;
}
