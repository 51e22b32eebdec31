/* SPDX-License-Identifier: Apache-2.0
 *
 * walk.c - one program of a step: core walks the schedule, tells the stage each point and does what its verbs
 * ask. A layer runs only if all its units are gathered; a unit must be reduced exactly where its gradient is
 * complete and updated once per update: a stage that forgets is refused with point and unit.
 */
#include <string.h>

#include "core/session.h"

static struct zr_session *session_of(const struct zr_stage *st)
{
	return st->impl;
}

static const char *unit_name(const struct zr_session *s, int32_t u)
{
	return s->setup->layout.unit[u].name;
}

/* A verb at the wrong place or on a unit that does not exist is the stage's defect. */
static int check_units(struct zr_session *s, const char *verb, const int32_t *units, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if (units[i] < 0 || units[i] >= s->setup->layout.n_units)
			return zr_err(s->err, ZR_ESTATE, "stage %s: %s of unit %d, but there are %d",
				      s->setup->zero.section->plugin->desc->id, verb, units[i], s->setup->layout.n_units);
	return 0;
}

static int refuse(struct zr_session *s, const char *what, int32_t unit, int32_t use)
{
	static const char *const phase[] = { "forward", "recompute", "backward" };
	if (use < 0)
		return zr_err(s->err, ZR_ESTATE, "stage %s: %s: unit %s", s->setup->zero.section->plugin->desc->id, what,
			      unit_name(s, unit));
	return zr_err(s->err, ZR_ESTATE, "stage %s: %s: unit %s at the %s of layer %s",
		      s->setup->zero.section->plugin->desc->id, what, unit_name(s, unit), phase[s->uses->use[use].phase],
		      zr_layer_at(&s->setup->decl, s->uses->use[use].layer)->name);
}

/* ---- verbs ---- */

static int verb_gather(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct zr_session *s = session_of(st);
	int rc = check_units(s, "gather", units, n);
	for (int32_t i = 0; !rc && i < n; i++)
		s->full[units[i]] = 1;
	return rc;
}

static int verb_drop(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct zr_session *s = session_of(st);
	int rc = check_units(s, "drop", units, n);
	for (int32_t i = 0; !rc && i < n; i++)
		s->full[units[i]] = 0;
	return rc;
}

/* Adds a unit's micro-batch gradient to its sum; the last one also measures it per block. */
static int fold_unit(struct zr_session *s, int32_t unit)
{
	struct zr_setup *p = s->setup;
	const struct zr_unit_place *u = &p->layout.unit[unit];
	int last = s->program == ZR_PROG_LAST_MICRO;
	char *batch = s->region[ZR_R_BATCH];
	for (int32_t i = u->first; i < u->first + u->count; i++) {
		const struct zr_place *t = &p->layout.tensor[i];
		float *sum = (float *)s->region[ZR_R_GRAD] + t->block * ZR_BLOCK;
		struct zr_op_fold op = {
			.size = sizeof op,
			.flags = s->slot_index > 0 ? ZR_OP_ACCUMULATE : 0,
			.comm_dtype = p->types.comm_dtype,
			.n = t->elements,
			.g = p->plan.direct ? sum :
					      (float *)(s->region[ZR_R_GRAD_BUFFER] + p->plan.grad_buffer[unit]) + t->offset,
			.acc = sum,
			.sumsq = last ? (double *)(batch + p->plan.sumsq) + t->block : NULL,
			.nonfinite = last ? (uint32_t *)(batch + p->plan.nonfinite) + t->block : NULL,
		};
		int rc = p->ops->fold(p->ops, NULL, &op);
		if (rc)
			return zr_instance_failed(&p->device, rc, "fold", s->err);
	}
	return 0;
}

static int verb_reduce(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct zr_session *s = session_of(st);
	int rc = check_units(s, "reduce", units, n);
	for (int32_t i = 0; !rc && i < n; i++) {
		if (s->done[units[i]] != 1)
			return refuse(s, s->done[units[i]] ? "reduced twice" : "reduced before its gradient is complete", units[i], -1);
		s->done[units[i]] = 2;
		rc = fold_unit(s, units[i]);
	}
	return rc;
}

/* Segments of blocks [first, first + n) of a unit: its tensors clipped to that range. */
static uint64_t cut_segments(struct zr_session *s, const struct zr_unit_place *u, int64_t first, int64_t n)
{
	const struct zr_layout *l = &s->setup->layout;
	int64_t lo = first * ZR_BLOCK, hi = lo + n * ZR_BLOCK;
	uint64_t count = 0;
	for (int32_t i = u->first; i < u->first + u->count; i++) {
		const struct zr_place *t = &l->tensor[i];
		int64_t from = t->offset > lo ? t->offset : lo;
		int64_t to = t->offset + t->elements < hi ? t->offset + t->elements : hi;
		if (from >= to)
			continue;
		s->seg[count++] = (struct zr_seg){ .off = from - lo, .n = to - from, .param_off = from - t->offset, .param = i,
						   .ndim = t->decl->ndim, .dims = t->decl->dims, .name = t->decl->name };
	}
	return count;
}

static struct zr_buf buffer(void *base, int64_t at, int64_t count, int32_t dtype)
{
	return (struct zr_buf){ .data = base ? (char *)base + at : NULL, .count = (uint64_t)count, .dtype = dtype,
				.mem = ZR_MEM_HOST };
}

static int update_piece(struct zr_session *s, const struct zr_unit_place *u, int64_t first, int64_t n)
{
	struct zr_setup *p = s->setup;
	const struct zr_optimizer_v1 *opt = p->optimizer.vtbl;
	int64_t block = u->block + first, count = n * ZR_BLOCK;
	struct zr_scalars scalars = { .step = s->applied + 1, .grad_mult = (float)s->grad_mult, .lr = (float)s->lr };
	for (uint32_t i = 0; i < p->n_states; i++) {
		const struct zr_state *st =
			(const struct zr_state *)((const char *)p->states + (size_t)i * opt->state_stride);
		s->state_buf[i] = buffer(s->region[ZR_R_STATE] + p->plan.state[i], block * p->plan.state_bytes[i], count, st->dtype);
	}
	struct zr_opt_step o = {
		.size = sizeof o,
		.n_state = p->n_states,
		.step = s->applied + 1,
		.lr = s->lr,
		.grad_mult = s->grad_mult,
		.opts = p->optimizer.section->opts,
		.master = buffer(s->region[ZR_R_MASTER], block * ZR_BLOCK * 4, count, ZR_F32),
		.grad = buffer(s->region[ZR_R_GRAD], block * ZR_BLOCK * 4, count, ZR_F32),
		.state = s->state_buf,
		.seg = s->seg,
		.n_seg = cut_segments(s, u, first, n),
		.seed = (uint64_t)p->train->seed,
		.ops = p->ops,
		.scalars = &scalars,
	};
	if (p->types.dtype != ZR_F32)
		o.lowp = buffer(s->region[ZR_R_PARAM], block * ZR_BLOCK * 2, count, p->types.dtype);
	int rc = opt->step(p->optimizer.inst, &o);
	return rc ? zr_instance_failed(&p->optimizer, rc, "step", s->err) : 0;
}

static int verb_update(const struct zr_stage *st, const int32_t *units, int32_t n, int64_t piece)
{
	struct zr_session *s = session_of(st);
	int rc = check_units(s, "update", units, n);
	if (!rc && s->program != ZR_PROG_UPDATE)
		return refuse(s, "update outside of the update program", units[0], -1);
	for (int32_t i = 0; !rc && i < n; i++) {
		const struct zr_unit_place *u = &s->setup->layout.unit[units[i]];
		int64_t step = piece > 0 ? (piece + ZR_BLOCK - 1) / ZR_BLOCK : u->blocks;
		if (s->done[units[i]])
			return refuse(s, "updated twice", units[i], -1);
		s->done[units[i]] = 1;
		for (int64_t at = 0; !rc && at < u->blocks; at += step)
			rc = update_piece(s, u, at, u->blocks - at < step ? u->blocks - at : step);
	}
	return rc;
}

/* The optimizer wrote the compute copy in its sweep; on one rank that is the whole of publishing. */
static int verb_publish(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct zr_session *s = session_of(st);
	int rc = check_units(s, "publish", units, n);
	for (int32_t i = 0; !rc && i < n; i++) {
		if (s->program == ZR_PROG_UPDATE && s->done[units[i]] != 1)
			return refuse(s, s->done[units[i]] ? "published twice" : "published before its update", units[i], -1);
		s->done[units[i]] = 2;
	}
	return rc;
}

static int verb_move(const struct zr_stage *st, const int32_t *units, int32_t n, int32_t what, int32_t tier)
{
	struct zr_session *s = session_of(st);
	(void)units, (void)n, (void)what;
	return zr_err(s->err, ZR_ENOTSUP, "stage %s moves data to or from tier %d, but no [offload] section gives it one",
		      s->setup->zero.section->plugin->desc->id, tier);
}

/* ---- queries ---- */

static int64_t ask_elements(const struct zr_stage *st, int32_t unit)
{
	return session_of(st)->setup->layout.unit[unit].elements;
}

static const struct zr_use *ask_use(const struct zr_stage *st, int32_t use)
{
	const struct zr_session *s = session_of(st);
	return use >= 0 && use < st->n_uses ? &s->uses->use[use] : NULL;
}

static int32_t ask_next_use(const struct zr_stage *st, int32_t unit, int32_t after)
{
	return st->n_uses ? zr_schedule_next(session_of(st)->uses, unit, after) : -1;
}

static int64_t ask_live(const struct zr_stage *st)
{
	const struct zr_session *s = session_of(st);
	int64_t sum = 0;
	for (int32_t u = 0; u < s->setup->layout.n_units; u++)
		if (s->full[u] && s->groups[u].param != ZR_GROUP_SELF)
			sum += s->setup->layout.unit[u].elements;
	return sum;
}

static int ask_scalars(const struct zr_stage *st)
{
	const struct zr_session *s = session_of(st);
	return s->setup->train->gradient_clipping > 0 || s->scale.scale != 1;
}

void zr_walk_init(struct zr_session *s)
{
	s->stage = (struct zr_stage){
		.size = sizeof s->stage, .n_units = s->setup->layout.n_units, .world = s->setup->process.world, .impl = s,
		.gather = verb_gather, .drop = verb_drop, .reduce = verb_reduce, .update = verb_update,
		.publish = verb_publish, .fetch = verb_move, .spill = verb_move, .elements = ask_elements, .use = ask_use,
		.next_use = ask_next_use, .live_elements = ask_live, .needs_scalars = ask_scalars,
	};
}

/* ---- the walk ---- */

static int tell(struct zr_session *s, int32_t at, int32_t use, const int32_t *units, int32_t n)
{
	const struct zr_zero_v1 *zero = s->setup->zero.vtbl;
	struct zr_point point = { .size = sizeof point, .program = s->program, .at = at, .use = use, .units = units,
				  .n_units = (uint32_t)n };
	int rc = zero->at(s->setup->zero.inst, &point, &s->stage);
	if (!rc)
		return 0;
	return s->err->code ? s->err->code : zr_instance_failed(&s->setup->zero, rc, "at", s->err);
}

static int run_layer(struct zr_session *s, const struct zr_use *use)
{
	struct zr_setup *p = s->setup;
	const struct zr_model_v1 *model = p->model.vtbl;
	const struct zr_layer_place *place = s->program == ZR_PROG_EVAL ? p->plan.eval : p->plan.train;
	char *act = s->region[ZR_R_ACT];
	struct zr_layer_call *c = &s->call;
	int32_t l = use->layer;
	c->layer = l;
	c->in = l > 0 ? act + place[l - 1].out : NULL;
	c->out = act + place[l].out;
	c->saved = act + place[l].saved;
	c->work = s->region[ZR_R_WORK];
	c->grad = s->region[ZR_R_WORK] + p->plan.work_bytes;
	c->param = s->layer[l].param;
	c->dparam = s->layer[l].dparam;
	c->accumulate = s->layer[l].accumulate;
	int rc = use->phase == ZR_FORWARD ? model->forward(p->model.inst, c) : model->backward(p->model.inst, c);
	if (!rc)
		return 0;
	return p->device.failed.code ? zr_instance_failed(&p->device, rc, "operation", s->err) :
				       zr_instance_failed(&p->model, rc, "layer", s->err);
}

static int walk_use(struct zr_session *s, int32_t i)
{
	const struct zr_use *use = &s->uses->use[i];
	int rc = tell(s, ZR_AT_BEFORE, i, use->units, (int32_t)use->n_units);
	for (uint32_t k = 0; !rc && k < use->n_units; k++)
		if (!s->full[use->units[k]])
			rc = refuse(s, "not gathered", use->units[k], i);
	if (!rc)
		rc = run_layer(s, use);
	if (!rc)
		rc = tell(s, ZR_AT_AFTER, i, use->units, (int32_t)use->n_units);
	int32_t lo = s->uses->grad_first[i], hi = s->uses->grad_first[i + 1];
	for (int32_t k = lo; k < hi; k++)
		s->done[s->uses->grad_unit[k]] = 1;
	if (!rc && hi > lo)
		rc = tell(s, ZR_AT_GRAD, i, s->uses->grad_unit + lo, hi - lo);
	for (int32_t k = lo; !rc && k < hi; k++)
		if (s->done[s->uses->grad_unit[k]] != 2)
			rc = refuse(s, "gradient complete but not reduced", s->uses->grad_unit[k], i);
	return rc;
}

int zr_walk(struct zr_session *s, int32_t program, struct zr_error *err)
{
	static const struct zr_schedule none;
	s->err = err;
	s->program = program;
	s->uses = program == ZR_PROG_UPDATE ? &none : program == ZR_PROG_EVAL ? &s->setup->eval_uses : &s->setup->train_uses;
	s->stage.n_uses = s->uses->n;
	memset(s->done, 0, (size_t)s->setup->layout.n_units);
	int rc = tell(s, ZR_AT_BEGIN, -1, s->all_units, s->setup->layout.n_units);
	for (int32_t i = 0; !rc && i < s->uses->n; i++)
		rc = walk_use(s, i);
	if (!rc && program == ZR_PROG_UPDATE) {
		rc = tell(s, ZR_AT_UPDATE, -1, s->all_units, s->setup->layout.n_units);
		for (int32_t u = 0; !rc && u < s->setup->layout.n_units; u++)
			if (s->done[u] != 2)
				rc = refuse(s, s->done[u] ? "updated but not published" : "not updated", u, -1);
	}
	return rc ? rc : tell(s, ZR_AT_END, -1, s->all_units, s->setup->layout.n_units);
}
