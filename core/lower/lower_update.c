/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_update.c - the optimizer on what this rank holds, sub-group by sub-group: where data is
 * out of reach of what updates it, the next sub-groups are read into sets of buffers while one
 * is computed, and the last one is written. Before that come the sums over whole parameters,
 * where an optimizer asks for them.
 */
#include "core/base/numbers.h"
#include "core/lower/lower.h"

/* ---- sub-groups ---- */

static struct zr_operand kept(const struct zr_lowering *l, const struct zr_subgroup *p, int d)
{
	return zr_of_spot(zr_datum_spot(l->s, p, d), (uint64_t)p->n * zr_block_bytes(l->s, p, d));
}

struct zr_operand zr_low_datum(const struct zr_lowering *l, const struct zr_subgroup *p, int d)
{
	uint64_t at = (uint64_t)p->set * l->plan->staging.set_bytes;
	if (!zr_subgroup_has(l->s, p, d))
		return zr_none();
	if (!zr_datum_staged(l->s, p->unit, d))
		return kept(l, p, d);
	return zr_operand_part(l->staging, at + zr_staged_at(l->s, p, d), kept(l, p, d).bytes);
}

/* An update changes no gradient, and reads no copy of masters in fp32. */
void zr_low_pass(struct zr_lowering *l, const struct zr_subgroup *p, int out)
{
	int stays = -1;
	if (out)
		stays = ZR_D_GRAD;
	else if (l->f->types.master == ZR_MASTER_FP32)
		stays = ZR_D_LOWP;

	l->unit = p->unit;
	for (int d = 0; d < l->plan->staging.n_data; d++) {
		struct zr_operand here = zr_low_datum(l, p, d);
		if (here.region != ZR_R_STAGING || d == stays)
			continue;
		if (out)
			zr_low_move(l, here, kept(l, p, d));
		else
			zr_low_move(l, kept(l, p, d), here);
	}
}

static void list_run(struct zr_lowering *l, const struct zr_block_run *r, int64_t elements)
{
	int64_t step = r->n;
	if (elements > 0)
		step = 1 + (elements - 1) / ZR_BLOCK;
	if (zr_is_whole(&l->s->roles.optimizer[r->optimizer]))
		return;

	for (int64_t at = 0; at < r->n; at += step) {
		struct zr_subgroup p =
			zr_subgroup_in(l->plan, r, r->first + at, zr_fewer(r->n - at, step));
		p.set = l->p->n_subgroup % l->plan->staging.sets;
		zr_low_add_subgroup(l, &p);
	}
}

static void list_op(struct zr_lowering *l, const struct zr_pop *op)
{
	const struct zr_plan *p = l->plan;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = zr_low_units(l, op)[i];
		for (int32_t r = p->first_run[u]; r < p->first_run[u + 1]; r++)
			list_run(l, &p->run[r], op->subgroup);
	}
}

static void list_subgroups(struct zr_lowering *l)
{
	for (int32_t i = 0; i < l->record->n; i++) {
		if (l->record->op[i].kind != ZR_P_UPDATE)
			continue;
		list_op(l, &l->record->op[i]);
		l->end[i] = l->p->n_subgroup;
	}

	l->subgroups = l->p->n_subgroup;
	l->subgroup_read = (int32_t)zr_fewer(l->plan->staging.early, l->subgroups);
}

/* Those that are read in the backward for the update of this step, which has other programs. */
static void list_early(struct zr_lowering *l)
{
	const struct zr_program *record = l->record;
	l->record = &l->s->programs.recorded[ZR_PROG_ONWARD];
	for (int32_t i = 0; i < l->record->n && l->p->n_subgroup < l->plan->staging.early; i++)
		if (l->record->op[i].kind == ZR_P_UPDATE)
			list_op(l, &l->record->op[i]);
	l->record = record;
}

/* ---- the optimizer ---- */

/* A table of the host, or room for it where who computes on a region reads it. */
static struct zr_operand table(struct zr_lowering *l, int region, uint64_t at, uint64_t bytes)
{
	int apart = zr_low_queue(l, region) == ZR_Q_COMPUTE && !l->f->device_info.host_ops;
	struct zr_operand host = zr_mine(ZR_R_HOST, at, bytes);
	if (apart)
		return zr_operand_part(zr_low_whole_life(l, ZR_R_WORK, bytes), 0, bytes);
	return host;
}

struct zr_operand zr_low_scalars(struct zr_lowering *l, int region)
{
	uint64_t bytes = l->plan->scalars_bytes;
	struct zr_operand host = zr_mine(ZR_R_HOST, l->plan->scalars, bytes),
			  near = table(l, region, host.at, bytes);
	if (near.buffer)
		zr_low_move(l, host, near);
	return near;
}

/* Within a forward it lives to the end of the update, on all ranks: see zr_low_updated(). */
static struct zr_operand staging_of_update(struct zr_lowering *l)
{
	struct zr_operand o = zr_low_buffer(l, ZR_R_STAGING, l->plan->staging.bytes, ZR_PAGE);
	zr_low_keep(l, &o);
	return o;
}

void zr_low_updated(struct zr_lowering *l)
{
	zr_low_keep(l, &l->staging);
}

void zr_low_subgroups(struct zr_lowering *l)
{
	const struct zr_partial_plan *sums = &l->plan->partial;
	const struct zr_program *last = &l->s->programs.recorded[ZR_PROG_LAST_MICRO];
	int narrow = l->f->types.master != ZR_MASTER_FP32, updates = l->record->updates;
	if (l->plan->staging.early)
		l->staging = zr_mine(ZR_R_STAGING, 0, l->plan->staging.bytes);
	else if (l->record->updated && l->plan->staging.bytes)
		l->staging = staging_of_update(l);
	else if (updates || (l->p->id == ZR_S_FIRST && last->updates))
		l->staging = zr_low_whole_life(l, ZR_R_STAGING, l->plan->staging.bytes);
	if (!updates && l->last)
		list_early(l);
	if (!updates)
		return;

	zr_low_make_codes(l);
	l->chunk = zr_low_whole_life(l, ZR_R_CHUNK, narrow ? ZR_CHUNK * ZR_BLOCK * 4 : 0);
	l->scalars = zr_low_scalars(l, ZR_R_MASTER);
	l->sums = table(l, ZR_R_MASTER, sums->call, sums->arrived - sums->call); /* of one call */
	list_subgroups(l);
}

static void subgroup_call(struct zr_lowering *l, int32_t kind, int32_t number)
{
	const struct zr_setup *s = l->s;
	const struct zr_subgroup *p = &l->p->subgroup[number];
	int optimize = kind == ZR_I_OPTIMIZE;
	uint32_t change = ZR_READS;
	if (optimize)
		change |= ZR_WRITES;

	l->unit = p->unit;
	zr_low_emit(l, (struct zr_instr){ .kind = (uint8_t)kind,
					  .number = number,
					  .queue = zr_low_queue(l, ZR_R_MASTER) });
	uint32_t copy = change;
	if (s->facts.types.master == ZR_MASTER_FP32)
		copy = optimize ? ZR_WRITES : 0;

	zr_low_operand(l, ZR_O_OPTIMIZE_MASTER, zr_low_datum(l, p, ZR_D_MASTER), change);
	zr_low_operand(l, ZR_O_OPTIMIZE_GRAD, zr_low_datum(l, p, ZR_D_GRAD), ZR_READS);
	zr_low_operand(l, ZR_O_OPTIMIZE_COPY, zr_low_datum(l, p, ZR_D_LOWP), copy);
	zr_low_operand(l, ZR_O_OPTIMIZE_CHUNK, l->chunk, ZR_WRITES);
	zr_low_operand(l, ZR_O_OPTIMIZE_SCALARS, l->scalars, ZR_READS);
	zr_low_operand(l, ZR_O_OPTIMIZE_SUMS, l->sums, ZR_WRITES);
	for (int d = ZR_D_STATE; d < s->plan.staging.n_data; d++)
		if (zr_subgroup_has(s, p, d))
			zr_low_arg(l, zr_low_datum(l, p, d), change);
}

/* A save that is under way may still need what is about to change. */
void zr_low_secure(struct zr_lowering *l, int32_t number)
{
	if (l->rc) /* there may be no sub-group */
		return;
	const struct zr_subgroup *p = &l->p->subgroup[number];
	l->unit = p->unit;
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_SECURE, .number = number });
	for (int d = 0; d < l->plan->staging.n_data; d++)
		if (d != ZR_D_GRAD && zr_subgroup_has(l->s, p, d) && kept(l, p, d).bytes)
			zr_low_arg(l, kept(l, p, d), ZR_READS);
}

static int counts(const struct zr_lowering *l, const struct zr_subgroup *p)
{
	int64_t from, end;
	return zr_optimizer_calls(&l->s->roles.optimizer[p->optimizer])->n_partial &&
	       zr_counted(l->plan, p, &from, &end);
}

static void read_until(struct zr_lowering *l, int32_t last, int partial)
{
	for (; l->subgroup_read <= last; l->subgroup_read++) {
		const struct zr_subgroup *p = &l->p->subgroup[l->subgroup_read];
		if (!partial || counts(l, p))
			zr_low_pass(l, p, 0);
	}
}

/* In the backward a sub-group can be read ahead if its gradient is not among what is read. */
static int32_t readable(const struct zr_lowering *l, int32_t unit, int32_t end)
{
	if (l->record->id != ZR_PROG_LAST_MICRO || !zr_datum_staged(l->s, unit, ZR_D_GRAD))
		return l->subgroups;
	return end;
}

static int32_t ahead(const struct zr_lowering *l, int32_t most)
{
	int64_t last = l->subgroup_next + l->plan->staging.ahead;
	return (int32_t)zr_fewer(last, most);
}

/* For an update that begins when all gradients are complete: evenly over the first three quarters
 * of the backward, so that all is there at its end. */
static void read_early(struct zr_lowering *l, int32_t use)
{
	const struct zr_schedule *uses = &l->s->programs.train_uses;
	int64_t most = zr_fewer(l->plan->staging.early, l->p->n_subgroup), first = 0;
	while (first < uses->n && uses->use[first].phase == ZR_FORWARD)
		first++;
	if (!l->last || use < first)
		return;

	int64_t due = zr_fewer(most, most * 4 * (use - first + 1) / (3 * (uses->n - first)));
	for (; l->subgroup_early < due; l->subgroup_early++)
		zr_low_pass(l, &l->p->subgroup[l->subgroup_early], 0);
}

/* Of an update in the backward, in the forward as late as it goes, one per layer: writes of the
 * step before leave the sets. Where reads need not wait for that, all at once. */
void zr_low_ahead(struct zr_lowering *l, const struct zr_pop *op)
{
	const struct zr_schedule *uses = &l->s->programs.train_uses;
	const struct zr_staging *g = &l->plan->staging;
	int32_t last = l->subgroup_next + g->ahead, i = op->use + 1;
	int late = g->ahead + 1 < g->sets && !l->work_grad.buffer && !l->record->updated;
	for (; late && last >= 0 && i < uses->n && uses->use[i].phase == ZR_FORWARD; i++)
		last--;
	read_early(l, op->use);
	if (!l->record->updates || l->subgroup_next == l->subgroups)
		return;

	int32_t end = readable(l, l->p->subgroup[l->subgroup_next].unit, 0);
	read_until(l, (int32_t)zr_fewer(last, end - 1), 0);
}

/* What was updated goes where it is kept; its compute copy as ranks may send it. */
static void leave(struct zr_lowering *l, const struct zr_subgroup *p)
{
	zr_low_round(l, p, zr_low_datum(l, p, ZR_D_LOWP));
	zr_low_pass(l, p, 1);
}

void zr_low_update(struct zr_lowering *l, const struct zr_pop *op)
{
	int32_t end = l->end[op - l->record->op];
	int32_t most = readable(l, zr_low_units(l, op)[0], end) - 1;
	for (int32_t i = 0; i < op->n; i++) {
		struct zr_operand sum = zr_of_spot(l->plan->unit[zr_low_units(l, op)[i]].grad, 0);
		zr_low_keep(l, &sum); /* also on a rank that owns nothing of it */
	}
	for (; !l->rc && l->subgroup_next < end; l->subgroup_next++) {
		read_until(l, ahead(l, most), 0);
		zr_low_secure(l, l->subgroup_next);
		subgroup_call(l, ZR_I_OPTIMIZE, l->subgroup_next);
		leave(l, &l->p->subgroup[l->subgroup_next]);
	}
}

/* ---- sums over whole parameters ---- */

void zr_low_partial(struct zr_lowering *l)
{
	const struct zr_partial_plan *p = &l->plan->partial;
	int64_t n = (int64_t)l->f->layout.n_tensors * p->width;
	const uint64_t one = sizeof(struct zr_exact);
	struct zr_operand sums = zr_mine(ZR_R_HOST, p->sums, (uint64_t)n * one);
	if (!n)
		return;

	for (; !l->rc && l->subgroup_next < l->subgroups; l->subgroup_next++) {
		const struct zr_subgroup *subgroup = &l->p->subgroup[l->subgroup_next];
		read_until(l, ahead(l, l->subgroups - 1), 1);
		if (!counts(l, subgroup))
			continue;
		subgroup_call(l, ZR_I_PARTIAL, l->subgroup_next);
		zr_low_arg(l, sums, ZR_READS | ZR_WRITES);
	}

	l->subgroup_next = l->subgroup_read = 0;
	l->unit = -1;
	for (int64_t i = 0, some; i < n; i += some) {
		some = zr_fewer(n - i, ZR_SUMS_AT_ONCE);
		zr_low_merge(l, zr_operand_part(sums, (uint64_t)i * one, (uint64_t)some * one),
			     p->arrived, ZR_H_ADD, some);
	}
	zr_low_host(l, ZR_H_TOTALS);
	zr_low_operand(l, ZR_O_TOTALS_SUMS, sums, ZR_READS | ZR_WRITES);
	zr_low_operand(l, ZR_O_TOTALS_TOTALS, zr_mine(ZR_R_HOST, p->totals, p->call - p->totals),
		       ZR_WRITES);
}
