/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - runs a recorded program: one function per kind of operation. Nothing here decides anything.
 *
 * A reduce brings each contribution to its home and folds there in rank order, which with ascending micro-batches is
 * slot order. Where ranks can read each other's memory the home reads the contributions in place, between two fences;
 * elsewhere an all-to-all brings them.
 */
#include <string.h>

#include "core/session.h"

/* ---- collectives ---- */

static const struct zr_comm_v1 *comm_of(const struct zr_session *s)
{
	return s->setup->comm.vtbl;
}

int zr_collective(struct zr_session *s, int32_t kind, int32_t group, int32_t dtype, const struct zr_comm_seg *seg, int32_t n,
		  int32_t op, int32_t unit, zr_ticket *ticket)
{
	struct zr_comm_op o = { .size = sizeof o, .kind = kind, .group = group, .dtype = dtype, .n_seg = n, .seg = seg,
				.tag = { .step = s->step, .op = op, .unit = unit } };
	int rc = comm_of(s)->post(s->setup->comm.inst, &o, ticket);
	return rc ? zr_instance_failed(&s->setup->comm, rc, "post", s->err) : 0;
}

int zr_complete(struct zr_session *s, zr_ticket ticket)
{
	int rc = ticket ? comm_of(s)->wait(s->setup->comm.inst, ticket) : 0;
	return rc ? zr_instance_failed(&s->setup->comm, rc, "wait", s->err) : 0;
}

static int alone(const struct zr_session *s)
{
	return s->setup->process.world == 1;
}

static int32_t number_of(const struct zr_session *s, const struct zr_pop *op)
{
	return (int32_t)(op - s->program->op);
}

static const int32_t *units_of(const struct zr_session *s, const struct zr_pop *op)
{
	return s->program->unit + op->first;
}

/* The segments of an operation stay until its wait: each has its own stretch of the table, as of the list of units. */
static struct zr_comm_seg *segments_of(const struct zr_session *s, const struct zr_pop *op)
{
	return s->comm_seg + op->first;
}

static int post(struct zr_session *s, const struct zr_pop *op, int32_t kind, int32_t group, int32_t dtype, int32_t n)
{
	int32_t at = number_of(s, op);
	return zr_collective(s, kind, group, dtype, segments_of(s, op), n, at, units_of(s, op)[0], &s->posted[at]);
}

/* ---- layers ---- */

static void point_layer(struct zr_session *s, int32_t layer)
{
	const struct zr_setup *p = s->setup;
	struct zr_layer_tensors *t = &s->layer[layer];
	for (int32_t i = 0; i < t->n; i++) {
		const struct zr_place *place = &p->layout.tensor[t->tensor[i]];
		t->param[i] = s->full[place->unit] + place->offset * zr_dtype_bytes(p->types.dtype);
		if (p->mode == ZR_SETUP_SAMPLE)
			continue;
		t->dparam[i] = (float *)(p->plan.direct ? zr_at(s, p->plan.unit[place->unit].grad) :
							  s->region[ZR_R_GRAD_BUFFER] + s->program->grad_buffer[place->unit]) +
			       place->offset;
	}
}

static int run_layer(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	const struct zr_model_v1 *model = p->model.vtbl;
	int eval = s->program->id == ZR_PROG_EVAL;
	const struct zr_use *use = &(eval ? &p->eval_uses : &p->train_uses)->use[op->use];
	const struct zr_layer_place *place = eval ? p->plan.eval : p->plan.train;
	char *act = s->region[ZR_R_ACT];
	struct zr_layer_call *c = &s->call;
	int32_t l = use->layer;
	point_layer(s, l);
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

/* ---- parameters ---- */

static int run_gather(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	struct zr_comm_seg *seg = segments_of(s, op);
	int32_t group = p->groups[units_of(s, op)[0]].param;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		if (zr_group_ranks(p, p->groups[u].param) == 1) {
			s->full[u] = zr_at(s, m->param);
			continue;
		}
		s->full[u] = s->region[ZR_R_GATHER] + s->program->place[op->first + i];
		seg[i] = (struct zr_comm_seg){ .send = zr_at(s, m->param), .recv = s->full[u], .count = m->param_per * ZR_BLOCK };
	}
	if (zr_group_ranks(p, group) == 1)
		return 0;
	return post(s, op, ZR_COMM_ALL_GATHER, group, p->types.dtype, op->n);
}

static int run_drop(struct zr_session *s, const struct zr_pop *op)
{
	for (int32_t i = 0; i < op->n; i++)
		s->full[units_of(s, op)[i]] = NULL;
	return 0;
}

/* Home -> param group. Whole parameters over split state: all-gather in place. Split by node over world: the whole unit
 * is gathered, and the node's share of it kept (wait_publish). Otherwise the update wrote where it belongs. */
static int run_publish(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	struct zr_comm_seg *seg = segments_of(s, op);
	int32_t n = 0;
	s->posted[number_of(s, op)] = 0;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		const struct zr_groups *g = &p->groups[u];
		if (g->param == g->state)
			continue;
		char *whole = g->param == ZR_GROUP_SELF ? zr_at(s, m->param) : s->region[ZR_R_GATHER] + s->program->place[op->first + i];
		seg[n++] = (struct zr_comm_seg){ .send = zr_at(s, m->home), .recv = whole, .count = m->per * ZR_BLOCK };
	}
	return !n || alone(s) ? 0 : post(s, op, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, p->types.dtype, n);
}

static int wait_publish(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	int64_t size = zr_dtype_bytes(p->types.dtype) * ZR_BLOCK;
	int rc = zr_complete(s, s->posted[number_of(s, op)]);
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		if (p->groups[u].param != ZR_GROUP_NODE)
			continue;
		const char *whole = alone(s) ? zr_at(s, m->home) : s->region[ZR_R_GATHER] + s->program->place[op->first + i];
		int64_t first = p->process.local_rank * m->param_per, have = p->layout.unit[u].blocks - first;
		if (have > m->param_per)
			have = m->param_per;
		if (have > 0)
			memcpy(zr_at(s, m->param), whole + first * size, (size_t)(have * size));
	}
	return rc;
}

/* ---- gradients ---- */

/* Folds one contribution (blocks of a unit, from wherever they lie) into a sum of the same blocks. */
static int fold(struct zr_session *s, int32_t unit, const float *contribution, float *sum, int64_t first, int64_t blocks,
		int store, int measure, int32_t type)
{
	struct zr_setup *p = s->setup;
	const struct zr_unit_place *u = &p->layout.unit[unit];
	char *batch = s->region[ZR_R_BATCH];
	int64_t lo = first * ZR_BLOCK, hi = lo + blocks * ZR_BLOCK;
	for (int32_t i = u->first; i < u->first + u->count; i++) {
		const struct zr_place *t = &p->layout.tensor[i];
		int64_t from = t->offset > lo ? t->offset : lo;
		int64_t to = t->offset + t->elements < hi ? t->offset + t->elements : hi;
		int64_t block = t->block + (from - t->offset) / ZR_BLOCK;
		if (from >= to)
			continue;
		struct zr_op_fold op = {
			.size = sizeof op,
			.flags = store ? 0 : ZR_OP_ACCUMULATE,
			.comm_dtype = type,
			.n = to - from,
			.g = contribution + (from - lo),
			.acc = sum + (from - lo),
			.sumsq = measure ? (double *)(batch + p->plan.sumsq) + block : NULL,
			.nonfinite = measure ? (uint32_t *)(batch + p->plan.nonfinite) + block : NULL,
		};
		int rc = p->ops->fold(p->ops, NULL, &op);
		if (rc)
			return zr_instance_failed(&p->device, rc, "fold", s->err);
	}
	return 0;
}

static float *grad_buffer(const struct zr_session *s, int32_t unit)
{
	return (float *)(s->region[ZR_R_GRAD_BUFFER] + s->program->grad_buffer[unit]);
}

/* The sum of a unit's home blocks. */
static float *home_sum(const struct zr_session *s, int32_t unit)
{
	const struct zr_unit_memory *m = &s->setup->plan.unit[unit];
	int whole = s->setup->groups[unit].state == ZR_GROUP_SELF;
	return (float *)zr_at(s, m->grad) + (whole ? m->first * ZR_BLOCK : 0);
}

static int fold_alone(struct zr_session *s, int32_t unit)
{
	struct zr_setup *p = s->setup;
	float *sum = (float *)zr_at(s, p->plan.unit[unit].grad);
	return fold(s, unit, p->plan.direct ? sum : grad_buffer(s, unit), sum, 0, p->layout.unit[unit].blocks, s->slot_index == 0,
		    s->program->id == ZR_PROG_LAST_MICRO, p->types.comm_dtype);
}

/* reduction = local: a micro-batch's gradient joins this rank's own sum, which the last one sends. */
static int fold_locally(struct zr_session *s, int32_t unit)
{
	return fold(s, unit, grad_buffer(s, unit), (float *)zr_at(s, s->setup->plan.unit[unit].local), 0,
		    s->setup->layout.unit[unit].blocks, s->slot_index == 0, 0, ZR_F32);
}

/* What this rank sends of a unit: its gradients, in place or rounded into *staging; room to receive behind. */
static int fill_segment(struct zr_session *s, int32_t u, char **staging, struct zr_comm_seg *seg)
{
	struct zr_setup *p = s->setup;
	int64_t bytes = zr_unit_padded_elements(p, u) * zr_dtype_bytes(p->types.comm_dtype);
	const void *send = zr_sums_locally(p) ? zr_at(s, p->plan.unit[u].local) : (char *)grad_buffer(s, u);
	*seg = (struct zr_comm_seg){ .send = send, .count = p->plan.unit[u].per * ZR_BLOCK };
	if (p->plan.peers)
		return 0;
	if (p->types.comm_dtype != ZR_F32) {
		struct zr_op_cast op = { .size = sizeof op, .dst_dtype = p->types.comm_dtype, .src_dtype = ZR_F32,
					 .n = p->layout.unit[u].elements, .src = send, .dst = *staging };
		int rc = p->ops->cast(p->ops, NULL, &op);
		if (rc)
			return zr_instance_failed(&p->device, rc, "cast", s->err);
		seg->send = *staging;
		*staging += bytes;
	}
	seg->recv = *staging;
	*staging += bytes;
	return 0;
}

static int sends(const struct zr_session *s)
{
	return !alone(s) && (s->program->id == ZR_PROG_LAST_MICRO || !zr_sums_locally(s->setup));
}

static int run_reduce(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	char *staging = s->region[ZR_R_COMM];
	int rc = 0;
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = units_of(s, op)[i];
		if (alone(s))
			rc = fold_alone(s, u);
		else if (zr_sums_locally(p))
			rc = fold_locally(s, u);
		if (!rc && sends(s))
			rc = fill_segment(s, u, &staging, &segments_of(s, op)[i]);
	}
	if (rc || !sends(s))
		return rc;
	return p->plan.peers ? post(s, op, ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, op->n) :
			       post(s, op, ZR_COMM_ALL_TO_ALL, ZR_GROUP_WORLD, p->types.comm_dtype, op->n);
}

/* My home blocks in rank r's gradients, or what it sent; 16 bits are widened behind the staging of the operation. */
static int contribution(struct zr_session *s, const struct zr_comm_seg *seg, int32_t r, float *wide, const float **out)
{
	struct zr_setup *p = s->setup;
	int64_t size = zr_dtype_bytes(p->types.comm_dtype);
	if (p->plan.peers) {
		const float *theirs = comm_of(s)->mem_peer(p->comm.inst, seg->send, ZR_GROUP_WORLD, r);
		*out = theirs + p->process.rank * seg->count;
		return 0;
	}
	*out = (const float *)((const char *)seg->recv + r * seg->count * size);
	if (p->types.comm_dtype == ZR_F32)
		return 0;
	struct zr_op_cast op = { .size = sizeof op, .dst_dtype = ZR_F32, .src_dtype = p->types.comm_dtype, .n = seg->count,
				 .src = *out, .dst = wide };
	int rc = p->ops->cast(p->ops, NULL, &op);
	*out = wide;
	return rc ? zr_instance_failed(&p->device, rc, "cast", s->err) : 0;
}

static int fold_all_ranks(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	const struct zr_comm_seg *seg = segments_of(s, op);
	int last = s->program->id == ZR_PROG_LAST_MICRO, first = s->slot_index == 0 || zr_sums_locally(p);
	float *wide = (float *)(s->region[ZR_R_COMM]);
	for (int32_t i = 0; i < op->n; i++)
		wide += zr_unit_padded_elements(p, units_of(s, op)[i]);
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		for (int32_t r = 0; r < p->process.world; r++) {
			const float *from;
			s->in_place += p->plan.peers && r != p->process.rank ? (uint64_t)(m->n * ZR_BLOCK * 4) : 0;
			int rc = contribution(s, &seg[i], r, wide, &from);
			if (!rc)
				rc = fold(s, u, from, home_sum(s, u), m->first, m->n, first && r == 0, last && r == p->process.world - 1,
					  p->types.comm_dtype);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* After the last fold a stage that updates everything everywhere needs all sums. */
static int share_sums(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	struct zr_comm_seg *seg = segments_of(s, op);
	zr_ticket ticket;
	int32_t n = 0;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		if (p->groups[u].state != ZR_GROUP_SELF)
			continue;
		float *sums = (float *)zr_at(s, m->grad);
		seg[n++] = (struct zr_comm_seg){ .send = sums + p->process.rank * m->per * ZR_BLOCK, .recv = sums, .count = m->per * ZR_BLOCK };
	}
	if (!n)
		return 0;
	int rc = zr_collective(s, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_F32, seg, n, number_of(s, op), units_of(s, op)[0], &ticket);
	return rc ? rc : zr_complete(s, ticket);
}

static int wait_reduce(struct zr_session *s, const struct zr_pop *op)
{
	zr_ticket ticket;
	if (!sends(s))
		return 0;
	int rc = zr_complete(s, s->posted[number_of(s, op)]);
	if (!rc)
		rc = fold_all_ranks(s, op);
	if (!rc && s->setup->plan.peers) { /* nobody writes into a buffer that a home still reads */
		rc = zr_collective(s, ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, NULL, 0, number_of(s, op), units_of(s, op)[0], &ticket);
		if (!rc)
			rc = zr_complete(s, ticket);
	}
	return rc || s->program->id != ZR_PROG_LAST_MICRO ? rc : share_sums(s, op);
}

/* ---- update ---- */

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

static struct zr_buf buffer(char *base, int64_t at, int64_t count, int32_t dtype)
{
	return (struct zr_buf){ .data = base + at, .count = (uint64_t)count, .dtype = dtype, .mem = ZR_MEM_HOST };
}

/* Blocks [first, first + n) of a unit; `held` is where what this rank holds of it starts. */
static int update_piece(struct zr_session *s, int32_t unit, int64_t first, int64_t n, int64_t held)
{
	struct zr_setup *p = s->setup;
	const struct zr_optimizer_v1 *opt = p->optimizer.vtbl;
	const struct zr_unit_memory *m = &p->plan.unit[unit];
	int64_t at = first - held, count = n * ZR_BLOCK;
	struct zr_scalars scalars = { .step = s->applied + 1, .grad_mult = (float)s->grad_mult, .lr = (float)s->lr };
	for (uint32_t i = 0; i < p->n_states; i++) {
		const struct zr_state *st = zr_setup_state(p, i);
		s->state_buf[i] = buffer(s->region[ZR_R_STATE] + p->plan.state[i], (m->state_block + at) * p->plan.state_bytes[i], count,
					 st->dtype);
	}
	struct zr_opt_step o = {
		.size = sizeof o,
		.n_state = p->n_states,
		.step = s->applied + 1,
		.lr = s->lr,
		.grad_mult = s->grad_mult,
		.opts = p->optimizer.section->opts,
		.master = buffer(zr_at(s, m->master), at * ZR_BLOCK * 4, count, ZR_F32),
		.grad = buffer(zr_at(s, m->grad), at * ZR_BLOCK * 4, count, ZR_F32),
		.state = s->state_buf,
		.seg = s->seg,
		.n_seg = cut_segments(s, &p->layout.unit[unit], first, n),
		.seed = (uint64_t)p->train->seed,
		.ops = p->ops,
		.scalars = &scalars,
	};
	if (p->types.dtype != ZR_F32)
		o.lowp = buffer(zr_at(s, p->groups[unit].state == ZR_GROUP_SELF ? m->param : m->home), at * ZR_BLOCK * 2, count,
				p->types.dtype);
	int rc = opt->step(p->optimizer.inst, &o);
	return rc ? zr_instance_failed(&p->optimizer, rc, "step", s->err) : 0;
}

static int run_update(struct zr_session *s, const struct zr_pop *op)
{
	const struct zr_setup *p = s->setup;
	int rc = 0;
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		int whole = p->groups[u].state == ZR_GROUP_SELF;
		int64_t lo = whole ? 0 : m->first, blocks = whole ? p->layout.unit[u].blocks : m->n;
		int64_t step = op->piece > 0 ? (op->piece + ZR_BLOCK - 1) / ZR_BLOCK : blocks;
		for (int64_t at = 0; !rc && at < blocks; at += step)
			rc = update_piece(s, u, lo + at, blocks - at < step ? blocks - at : step, lo);
	}
	return rc;
}

/* ---- the program ---- */

static int run_wait(struct zr_session *s, const struct zr_pop *op)
{
	const struct zr_pop *target = &s->program->op[op->target];
	if (target->kind == ZR_P_REDUCE)
		return wait_reduce(s, target);
	if (target->kind == ZR_P_PUBLISH)
		return wait_publish(s, target);
	if (zr_group_ranks(s->setup, s->setup->groups[units_of(s, target)[0]].param) == 1)
		return 0;
	return zr_complete(s, s->posted[op->target]);
}

static int run_op(struct zr_session *s, const struct zr_pop *op)
{
	switch (op->kind) {
	case ZR_P_LAYER:
		return run_layer(s, op);
	case ZR_P_GATHER:
		return run_gather(s, op);
	case ZR_P_DROP:
		return run_drop(s, op);
	case ZR_P_REDUCE:
		return run_reduce(s, op);
	case ZR_P_UPDATE:
		return run_update(s, op);
	case ZR_P_PUBLISH:
		return run_publish(s, op);
	default:
		return run_wait(s, op);
	}
}

int zr_replay(struct zr_session *s, int32_t program, struct zr_error *err)
{
	int rc = 0;
	s->err = err;
	s->program = &s->setup->program[program];
	for (int32_t i = 0; !rc && i < s->program->n; i++)
		rc = run_op(s, &s->program->op[i]);
	return rc;
}

int zr_replay_publish(struct zr_session *s, struct zr_error *err)
{
	int rc = 0;
	s->err = err;
	s->program = &s->setup->program[ZR_PROG_UPDATE];
	for (int32_t i = 0; !rc && i < s->program->n; i++) {
		const struct zr_pop *op = &s->program->op[i];
		if (op->kind == ZR_P_PUBLISH || (op->kind == ZR_P_WAIT && s->program->op[op->target].kind == ZR_P_PUBLISH))
			rc = run_op(s, op);
	}
	return rc;
}
