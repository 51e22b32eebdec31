/* SPDX-License-Identifier: Apache-2.0
 *
 * update.c - the optimizer on home blocks, piece by piece.
 */
#include "core/replay.h"

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

int zr_run_update(struct zr_session *s, const struct zr_pop *op)
{
	const struct zr_setup *p = s->setup;
	int rc = 0;
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		int whole = p->groups[u].state == ZR_GROUP_SELF;
		int64_t lo = whole ? 0 : m->first, blocks = whole ? p->layout.unit[u].blocks : m->n;
		int64_t step = op->piece > 0 ? (op->piece + ZR_BLOCK - 1) / ZR_BLOCK : blocks;
		for (int64_t at = 0; !rc && at < blocks; at += step)
			rc = update_piece(s, u, lo + at, blocks - at < step ? blocks - at : step, lo);
	}
	return rc;
}
