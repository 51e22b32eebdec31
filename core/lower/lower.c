/* SPDX-License-Identifier: Apache-2.0
 *
 * lower.c - see lower.h: the programs of a step around what was recorded.
 */
#include "core/lower/lower.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/numbers.h"
#include "core/exec/boundary.h"

/* ---- the batch ---- */

static struct zr_operand host_batch(const struct zr_lowering *l, uint64_t at, uint64_t bytes)
{
	if (l->f->device_info.host_access)
		return zr_operand_part(l->batch, at, bytes);
	return zr_mine(ZR_R_HOST, l->plan->host_batch + at, bytes);
}

static void load_batch(struct zr_lowering *l)
{
	const struct zr_plan *p = l->plan;
	uint64_t at = p->tokens, bytes = p->loss_rows - p->tokens;
	l->batch = zr_low_whole_life(l, ZR_R_BATCH, p->loss_sum + p->loss_bytes);
	zr_low_host(l, l->f->mode == ZR_MODE_SAMPLE ? ZR_H_GIVEN : ZR_H_BATCH);
	zr_low_operand(l, ZR_O_BATCH_TOKENS, host_batch(l, at, bytes), ZR_WRITES);
	if (!l->f->device_info.host_access)
		zr_low_move(l, host_batch(l, at, bytes), zr_operand_part(l->batch, at, bytes));
}

static void fetch_loss(struct zr_lowering *l, uint64_t at) /* and all behind it */
{
	uint64_t bytes = l->plan->loss_sum + l->plan->loss_bytes - at;
	if (!l->f->device_info.host_access)
		zr_low_move(l, zr_operand_part(l->batch, at, bytes), host_batch(l, at, bytes));
}

/* What this rank says at the boundary, and afterwards all. */
static struct zr_operand said(const struct zr_lowering *l)
{
	return zr_mine(ZR_R_HOST, l->plan->decided, sizeof(struct zr_boundary));
}

/* Calls what decides, by what was said among others. */
static void decide(struct zr_lowering *l, int32_t call)
{
	const struct zr_plan *p = l->plan;
	zr_low_host(l, call);
	zr_low_operand(l, ZR_O_DECIDE_DECIDED,
		       zr_mine(ZR_R_HOST, p->decided, p->scalars + p->scalars_bytes - p->decided),
		       ZR_READS | ZR_WRITES);
	if (p->clip.layer && call == ZR_H_DECIDE)
		zr_low_arg(l, zr_low_host_scores(l), ZR_READS);
}

/* The largest scores go to the device, or come back, where it cannot write to host memory. */
static void move_scores(struct zr_lowering *l, int back)
{
	const struct zr_operand host = zr_low_host_scores(l), device = zr_low_scores(l);

	if (!l->plan->clip.layer || device.region == host.region)
		return;
	if (back)
		zr_low_move(l, device, host);
	else
		zr_low_move(l, host, device);
}

/* Before the first forward of a step. */
static void begin_scores(struct zr_lowering *l)
{
	if (!l->plan->clip.layer)
		return;

	zr_low_host(l, ZR_H_UNSEEN);
	zr_low_operand(l, ZR_O_UNSEEN_SCORES, zr_low_host_scores(l), ZR_WRITES);
	move_scores(l, 0);
}

/* Those of all ranks. */
static void meet_scores(struct zr_lowering *l)
{
	const struct zr_clip_plan *p = &l->plan->clip;

	move_scores(l, 1);
	if (p->layer)
		zr_low_merge(l, zr_low_host_scores(l), p->arrived, ZR_H_SCORES, p->scores);
}

static void add_loss(struct zr_lowering *l)
{
	fetch_loss(l, l->plan->loss_sum);
	zr_low_host(l, ZR_H_LOSS);
	zr_low_operand(l, ZR_O_LOSS_LOSS, host_batch(l, l->plan->loss_sum, l->plan->loss_bytes),
		       ZR_READS);
	zr_low_operand(l, ZR_O_LOSS_SAID, said(l), ZR_READS | ZR_WRITES);
}

/* ---- programs ---- */

static void lower_op(struct zr_lowering *l, const struct zr_pop *op)
{
	static zr_low_fn *const begin[ZR_P_HOP + 1] = {
		/* a drop moves nothing, and a wait has the next table */
		[ZR_P_LAYER] = zr_low_layer,     [ZR_P_GATHER] = zr_low_gather,
		[ZR_P_REDUCE] = zr_low_reduce,   [ZR_P_UPDATE] = zr_low_update,
		[ZR_P_PUBLISH] = zr_low_publish, [ZR_P_SPILL] = zr_low_next,
		[ZR_P_FETCH] = zr_low_next,      [ZR_P_HOP] = zr_low_next,
	};
	static zr_low_fn *const complete[] = {
		[ZR_P_GATHER] = zr_low_rest,       [ZR_P_SPILL] = zr_low_rest,
		[ZR_P_FETCH] = zr_low_rest,        [ZR_P_REDUCE] = zr_low_reduced,
		[ZR_P_PUBLISH] = zr_low_published,
	};
	const struct zr_pop *target = &l->record->op[op->target];
	zr_low_fn *lower = begin[op->kind];
	if (op->kind == ZR_P_WAIT)
		lower = complete[target->kind];

	l->now++;
	if (op->kind == ZR_P_UPDATE || op->kind == ZR_P_PUBLISH) { /* perhaps of what is late */
		zr_low_pending(l);
		l->updates = l->last || l->record->updated;
	}
	if (lower && (op->kind == ZR_P_WAIT || op->kind == ZR_P_HOP))
		lower(l, target);
	else if (lower)
		lower(l, op);
	l->updates = 0;
	l->unit = -1;
}

/* Nothing of the step before is needed any more: this one begins. */
static void begin_step(struct zr_lowering *l)
{
	const int32_t op = l->op;

	l->op = l->unit = -1;
	decide(l, ZR_H_BEGIN);
	decide(l, ZR_H_RATES);
	l->op = op;
}

/* Within the forward, what is published is seen before others look at it, unit by unit. */
static void go_onward(struct zr_lowering *l)
{
	const struct zr_pop *op = &l->record->op[l->op], *before = op - 1;
	if (!l->record->updated || !l->op)
		return;

	int published = before->kind == ZR_P_WAIT &&
			l->record->op[before->target].kind == ZR_P_PUBLISH;
	if (published && l->op <= l->record->updated && op->kind != ZR_P_UPDATE)
		zr_low_fence(l);
	if (l->op != l->record->updated)
		return;

	zr_low_updated(l);
	begin_step(l);
}

static void lower_ops(struct zr_lowering *l)
{
	for (int32_t i = 0; !l->rc && i < l->record->n; i++) {
		l->op = i;
		go_onward(l);
		if (!l->record->op[i].once)
			lower_op(l, &l->record->op[i]);
	}
	zr_low_pending(l);
	l->op = l->unit = -1;
}

/* Sums that begin and end in this program. */
static void make_sums(struct zr_lowering *l)
{
	const struct zr_setup *s = l->s;
	uint32_t align = s->plan.region[ZR_R_GRAD].tier == ZR_TIER_DISK ? ZR_PAGE : 64;
	for (int32_t u = 0; u < s->facts.layout.n_units; u++) {
		uint64_t bytes = (uint64_t)(s->plan.unit[u].held.per * ZR_BLOCK) * 4;
		if (!s->facts.frozen_unit[u])
			s->plan.unit[u].grad.buffer =
				zr_low_buffer(l, ZR_R_GRAD, bytes, align).buffer;
	}
}

static void micro(struct zr_lowering *l)
{
	if (l->last && l->record->own_sums)
		make_sums(l);
	if (l->store) {
		begin_step(l);
		begin_scores(l);
	}
	load_batch(l);
	zr_low_subgroups(l);
	lower_ops(l);
	add_loss(l);
}

static void onward(struct zr_lowering *l)
{
	if (!l->record->n)
		return;

	begin_scores(l);
	load_batch(l);
	zr_low_subgroups(l);
	l->updates = 1;
	zr_low_partial(l);
	zr_low_whole(l);
	l->updates = 0;
	lower_ops(l);
	add_loss(l);
}

static void exchange_boundary(struct zr_lowering *l)
{
	zr_low_merge(l, said(l), l->plan->exchange, ZR_H_MERGE, 1);
}

static void boundary(struct zr_lowering *l)
{
	const struct zr_plan *p = l->plan;
	uint64_t n = (uint64_t)l->f->layout.blocks;
	struct zr_operand squares = zr_mine(ZR_R_HOST, p->sumsq, n * 8),
			  counts = zr_mine(ZR_R_HOST, p->nonfinite, n * 4);
	if (!l->f->device_info.host_ops && p->region[ZR_R_GRAD].store == ZR_STORE_DEVICE) {
		zr_low_move(l, zr_mine(ZR_R_MEASURE, p->sumsq, n * 8), squares);
		zr_low_move(l, zr_mine(ZR_R_MEASURE, p->nonfinite, n * 4), counts);
	}
	zr_low_host(l, ZR_H_MEASURE);
	zr_low_operand(l, ZR_O_MEASURE_SQUARES, squares, ZR_READS);
	zr_low_operand(l, ZR_O_MEASURE_COUNTS, counts, ZR_READS);
	zr_low_operand(l, ZR_O_MEASURE_SAID, said(l), ZR_READS | ZR_WRITES);
	exchange_boundary(l);
	meet_scores(l);
	decide(l, ZR_H_DECIDE);
}

static void update(struct zr_lowering *l)
{
	zr_low_subgroups(l);
	if (!l->s->programs.recorded[ZR_PROG_LAST_MICRO].updates) {
		zr_low_partial(l);
		zr_low_whole(l);
	}
	lower_ops(l);
	zr_low_fence(l);
}

static void values(struct zr_lowering *l)
{
	for (int32_t id = ZR_PROG_LAST_MICRO; id <= ZR_PROG_UPDATE; id++) {
		l->record = &l->s->programs.recorded[id];
		for (int32_t i = 0; !l->rc && i < l->record->n; i++) {
			const struct zr_pop *op = &l->record->op[i], *what = op;
			if (op->kind == ZR_P_WAIT)
				what = &l->record->op[op->target];
			if (what->kind == ZR_P_PUBLISH)
				lower_op(l, op);
		}
	}

	zr_low_fence(l);
}

static void eval(struct zr_lowering *l)
{
	load_batch(l);
	lower_ops(l);
	fetch_loss(l, l->plan->loss_rows);
}

static void lower(struct zr_lowering *l, int32_t id)
{
	static zr_low_part_fn *const make[ZR_LOWERED] = {
		[ZR_S_FIRST] = micro,
		[ZR_S_MICRO] = micro,
		[ZR_S_LAST] = micro,
		[ZR_S_BOUNDARY] = boundary,
		[ZR_S_MEET] = exchange_boundary,
		[ZR_S_UPDATE] = update,
		[ZR_S_ONWARD] = onward,
		[ZR_S_EVAL] = eval,
		[ZR_S_VALUES] = values,
	};
	int64_t before = l->f->batch.accumulation - 1; /* micro-batches before the last one */

	l->last = id == ZR_S_LAST || (id == ZR_S_ONWARD && !before);
	l->store = id == ZR_S_FIRST || id == ZR_S_ONWARD || (l->last && !before);
	if ((id != ZR_S_FIRST || before > 0) && (id != ZR_S_MICRO || before > 1))
		make[id](l);
}

static int make_tables(struct zr_lowering *l)
{
	size_t units = (size_t)l->f->layout.n_units + 1, ops = 1, listed = 1;
	size_t lives =
		(size_t)(l->s->programs.train_act.n_lives + l->s->programs.eval_act.n_lives) + 1;
	for (int i = 0; i < ZR_RECORDS; i++) {
		ops = zr_max(ops, (size_t)l->s->programs.recorded[i].n);
		listed = zr_max(listed, (size_t)l->s->programs.recorded[i].n_unit);
	}
	l->hop = calloc(2 * ops, sizeof *l->hop);
	l->gathered = calloc(5 * units + lives + 2 * ops + 2 * listed, sizeof *l->gathered);
	/* of each unit one of each node, at most */
	size_t parts = units * (size_t)zr_group_ranks(l->f, ZR_GROUP_CROSS);
	l->part = calloc(parts + 2 * listed, sizeof *l->part);
	if (!l->hop || !l->gathered || !l->part)
		return zr_err(l->err, ZR_ENOMEM, "out of memory while lowering a program");

	l->end = l->hop + ops;
	l->param = l->gathered + units;
	l->grad = l->param + units;
	l->shared = l->grad + units;
	l->there = l->shared + units;
	l->life = l->there + units;
	l->bounce = l->life + lives;
	l->source = l->bounce + ops;
	l->whole = l->source + ops;
	l->from = l->whole + listed;
	l->reduce = l->part + parts;
	l->coded = l->reduce + listed;
	for (int32_t u = 0; u < l->f->layout.n_units; u++)
		l->gathered[u] = zr_low_share(l, u);
	return 0;
}

static uint64_t hash(const struct zr_lowered *p)
{
	uint64_t h = 0;
	for (int32_t i = 0; i < p->n; i++) /* what ranks do together */
		if (p->instr[i].kind == ZR_I_COLLECTIVE) {
			const int32_t what[] = { p->instr[i].number, p->instr[i].group,
						 p->instr[i].dtype, p->instr[i].op, p->instr[i].n };
			h = XXH3_64bits_withSeed(what, sizeof what, h);
		}
	for (int32_t i = 0; i < p->n_buffer; i++) { /* what others may read where it lies */
		const struct zr_buffer *b = &p->buffer[i];
		const uint64_t what[] = { b->bytes, b->offset, (uint64_t)b->region };
		h = XXH3_64bits_withSeed(what, sizeof what, h);
	}
	return h;
}

static int lower_one(struct zr_setup *s, int32_t id, struct zr_error *err)
{
	struct zr_lowering l = { .s = s,
				 .f = &s->facts,
				 .plan = &s->plan,
				 .record = zr_record_of(&s->programs, id),
				 .p = &s->programs.lowered[id],
				 .act = &s->programs.train_act,
				 .err = err,
				 .op = -1,
				 .unit = -1,
				 .pending = -1 };
	if (id == ZR_S_EVAL)
		l.act = &s->programs.eval_act;

	zr_lowered_free(l.p);
	l.p->id = id;
	l.rc = make_tables(&l);
	if (!l.rc)
		lower(&l, id);
	free(l.hop);
	free(l.gathered);
	free(l.part);
	return l.rc;
}

/* Whether a program runs at all. */
static int runs(const struct zr_setup_facts *f, int32_t id)
{
	if (id == ZR_S_EVAL || f->mode == ZR_MODE_TRAIN)
		return 1;
	return f->mode == ZR_MODE_EVAL && (id == ZR_S_MEET || id == ZR_S_VALUES);
}

/* What no machine holds gets no programs: they would have millions of sub-groups. */
int zr_lower_all(struct zr_setup *s, struct zr_error *err)
{
	uint64_t held = 0;
	int rc = 0;
	for (int i = 0; i < ZR_R_COUNT; i++)
		held += s->plan.region[i].bytes;
	for (int32_t id = 0; !rc && held >> 44 == 0 && id < ZR_LOWERED; id++)
		if (runs(&s->facts, id))
			rc = lower_one(s, id, err);
	if (!rc)
		rc = zr_place_all(s, err);
	for (int32_t id = 0; !rc && id < ZR_LOWERED; id++)
		s->programs.lowered[id].hash = hash(&s->programs.lowered[id]);
	return rc;
}

int zr_prove_all(struct zr_setup *s, struct zr_error *err)
{
	int rc = 0;
	if (!s->programs.lowered[ZR_S_EVAL].n)
		return zr_err(err, ZR_ENOMEM,
			      "a rank would hold more than 16 TiB: take more ranks");

	for (int32_t id = 0; !rc && id < ZR_LOWERED; id++)
		rc = zr_order(s, &s->programs.lowered[id], err);
	for (int32_t id = 0; !rc && id < ZR_LOWERED; id++) {
		rc = zr_late_waits(s, &s->programs.lowered[id], err);
		if (!rc)
			rc = zr_verify(s, &s->programs.lowered[id], err);
	}
	return rc;
}

void zr_lowered_free(struct zr_lowered *p)
{
	free(p->instr);
	free(p->operand);
	free(p->dep);
	free(p->wait);
	free(p->buffer);
	free(p->subgroup);
	free(p->count);
	memset(p, 0, sizeof *p);
}
