/* SPDX-License-Identifier: Apache-2.0
 *
 * update.c - the optimizer on what this rank holds, piece by piece: while one is computed the next ones are read and the
 * last is written, where they are staged. The pieces of all updates of a step are one list, so reads run ahead of
 * the operation that will need them.
 */
#include "core/piece.h"
#include "core/replay.h"

int64_t zr_update_pieces(const struct zr_session *s, const struct zr_program *prog, const struct zr_pop *op, struct zr_piece *out,
			 int64_t have)
{
	const struct zr_plan *p = &s->setup->plan;
	int64_t count = 0;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t unit = prog->unit[op->first + i];
		for (const struct zr_run *r = &p->run[p->first_run[unit]]; r < &p->run[p->first_run[unit + 1]]; r++) {
			int64_t step = op->piece > 0 ? (op->piece + ZR_BLOCK - 1) / ZR_BLOCK : r->n;
			int64_t end = zr_is_whole(&s->setup->optimizer[r->optimizer]) ? 0 : r->n;
			for (int64_t at = 0; at < end; at += step, count++) {
				if (!out)
					continue;
				out[count] = zr_piece_of_run(s, r, r->first + at, r->n - at < step ? r->n - at : step);
				out[count].set = (int32_t)((have + count) % p->staging.sets);
			}
		}
	}
	return count;
}

struct zr_buf zr_opt_buffer(const struct zr_session *s, char *base, int64_t blocks, int32_t dtype)
{
	int far = s->setup->plan.region[ZR_R_MASTER].store == ZR_STORE_DEVICE && !s->setup->device_info.host_access;
	return (struct zr_buf){ .data = base, .count = base ? (uint64_t)(blocks * ZR_BLOCK) : 0, .dtype = dtype,
				.mem = far ? ZR_MEM_DEVICE : ZR_MEM_HOST };
}

/* The scalars of all groups, where the operations read them. */
static int set_scalars(struct zr_session *s)
{
	const struct zr_setup *p = s->setup;
	size_t n = (size_t)p->n_param_groups;
	for (size_t g = 0; g < n; g++)
		s->scalars[g] = (struct zr_scalars){ .step = s->applied + 1, .grad_mult = (float)s->grad_mult, .lr = (float)s->lr[g] };
	return zr_updates_blind(s) ? zr_copy(s, s->region[ZR_R_MEASURE] + p->plan.measure.scalars, s->scalars, n * sizeof *s->scalars) : 0;
}

struct zr_opt_step zr_opt_step_of(const struct zr_session *s, int32_t group)
{
	const struct zr_setup *p = s->setup;
	const void *scalars = zr_updates_blind(s) ? (void *)(s->region[ZR_R_MEASURE] + p->plan.measure.scalars) : s->scalars;
	return (struct zr_opt_step){
		.size = sizeof(struct zr_opt_step),
		.n_state = p->optimizer[p->param_group[group].optimizer].n_states,
		.step = s->applied + 1,
		.lr = s->lr[group],
		.grad_mult = s->grad_mult,
		.opts = p->param_group[group].section->opts,
		.state = s->state_buf,
		.seed = (uint64_t)p->train->seed,
		.ops = zr_update_ops(s),
		.scalars = (const struct zr_scalars *)scalars + group,
	};
}

/* The segments of one group, of those that s->seg holds; their number. */
static uint64_t of_group(const struct zr_session *s, int32_t group, uint64_t n)
{
	uint64_t count = 0;
	for (uint64_t i = 0; i < n; i++)
		if (s->setup->group_of[s->seg[i].param] == group)
			s->group_seg[count++] = s->seg[i];
	return count;
}

/* The optimizer's states of blocks [from, from + n) of a piece. */
static void point_states(struct zr_session *s, const struct zr_piece *piece, int64_t from, int64_t n)
{
	const struct zr_setup *p = s->setup;
	const struct zr_optimizer *o = &p->optimizer[piece->optimizer];
	for (uint32_t i = 0; i < o->n_states; i++) {
		uint32_t number = o->first_state + i;
		char *data = zr_piece_data(s, piece, ZR_D_STATE + (int)number) + (uint64_t)from * p->plan.state_bytes[number];
		s->state_buf[i] = zr_opt_buffer(s, data, n, zr_setup_state(p, number)->dtype);
	}
}

int zr_opt_each_group(struct zr_session *s, const struct zr_opt_blocks *b, uint64_t segments, zr_opt_fn *fn)
{
	struct zr_setup *p = s->setup;
	const struct zr_piece *piece = b->piece;
	int rc = 0;
	point_states(s, piece, b->from, b->n);
	for (int32_t g = 0; !rc && g < p->n_param_groups; g++) {
		struct zr_opt_step o = zr_opt_step_of(s, g);
		o.master = zr_opt_buffer(s, b->master, b->n, ZR_F32);
		o.grad = zr_opt_buffer(s, zr_piece_data(s, piece, ZR_D_GRAD) + b->from * ZR_BLOCK * 4, b->n, ZR_F32);
		o.seg = s->group_seg;
		o.n_seg = of_group(s, g, segments);
		if (b->lowp)
			o.lowp = zr_opt_buffer(s, b->lowp, b->n, p->types.dtype);
		if (o.n_seg)
			rc = fn(s, &p->optimizer[piece->optimizer], &o);
	}
	return rc;
}

static int call_step(struct zr_session *s, struct zr_optimizer *o, struct zr_opt_step *step)
{
	int rc = zr_partial_totals(s, o, step);
	if (!rc)
		rc = ((const struct zr_optimizer_v1 *)o->it.vtbl)->step(o->it.inst, step);
	return zr_user_failed(s, &o->it, rc, "step");
}

/* The optimizer on blocks [from, from + n) of a piece, whose master is at `master`. */
static int step_blocks(struct zr_session *s, const struct zr_piece *piece, int64_t from, int64_t n, char *master, char *lowp)
{
	struct zr_opt_blocks b = { piece, from, n, master, lowp };
	return zr_opt_each_group(s, &b, zr_cut_segments(s, piece->unit, piece->first + from, n, s->seg), call_step);
}

/* Masters that are kept in another format are made, updated and taken apart while they are in the cache. */
static int step_chunks(struct zr_session *s, const struct zr_piece *piece)
{
	float *x = zr_chunk(s);
	int rc = 0;
	for (int64_t at = 0; !rc && at < piece->n; at += ZR_CHUNK) {
		int64_t n = piece->n - at < ZR_CHUNK ? piece->n - at : ZR_CHUNK;
		rc = zr_master_get(s, piece, at, n, x);
		if (!rc)
			rc = step_blocks(s, piece, at, n, (char *)x, NULL);
		if (!rc)
			rc = zr_master_put(s, piece, at, n, x, 1);
	}
	return rc;
}

static int step_piece(struct zr_session *s, const struct zr_piece *piece)
{
	const struct zr_setup *p = s->setup;
	if (p->types.master != ZR_MASTER_FP32)
		return step_chunks(s, piece);
	char *master = zr_piece_data(s, piece, ZR_D_MASTER), *copy = zr_piece_data(s, piece, ZR_D_LOWP);
	int rc = step_blocks(s, piece, 0, piece->n, master, p->types.dtype == ZR_F32 ? NULL : copy);
	return rc || p->types.dtype != ZR_F32 || !copy ? rc : zr_copy(s, copy, master, (uint64_t)(piece->n * ZR_BLOCK * 4));
}

/* Pieces whose gradients are complete, and whose turn comes before other data goes through the staging. */
static int64_t readable(const struct zr_session *s, int64_t end)
{
	const struct zr_plan *p = &s->setup->plan;
	if (s->program->id == ZR_PROG_UPDATE)
		return s->n_pieces;
	return p->staging.datum[ZR_D_GRAD] == ZR_IN_PLACE ? s->early_pieces : end;
}

/* Reads of pieces up to `last`; each set first ends what it was writing. */
static int read_until(struct zr_session *s, int64_t last, const struct zr_sweep *w)
{
	uint32_t with = ZR_WITH(ZR_D_MASTER) | ZR_WITH(ZR_D_GRAD) | ZR_WITH_STATES;
	int rc = 0;
	if (s->setup->types.master != ZR_MASTER_FP32)
		with |= ZR_WITH(ZR_D_LOWP);
	for (; !rc && s->piece_read <= last; s->piece_read++) {
		const struct zr_piece *piece = &s->piece[s->piece_read];
		rc = zr_piece_done(s, piece->set);
		if (!rc && (!w->wants || w->wants(s, piece)))
			rc = zr_piece_read(s, piece, with);
	}
	return rc;
}

int zr_update_sweep(struct zr_session *s, int64_t end, const struct zr_sweep *w)
{
	const struct zr_staging *g = &s->setup->plan.staging;
	int64_t most = readable(s, end) - 1;
	int rc = 0;
	for (; !rc && s->piece_next < end; s->piece_next++) {
		const struct zr_piece *piece = &s->piece[s->piece_next];
		s->unit = piece->unit;
		rc = read_until(s, s->piece_next + g->ahead < most ? s->piece_next + g->ahead : most, w);
		if (!rc)
			rc = zr_piece_done(s, piece->set);
		int wanted = !w->wants || w->wants(s, piece);
		if (!rc && wanted && w->out && s->before_update)
			s->before_update(s->before_update_arg, piece);
		if (!rc && wanted)
			rc = w->fn(s, piece);
		if (!rc && w->out)
			rc = zr_piece_write(s, piece, w->out);
		if (!rc && !g->behind)
			rc = zr_piece_done(s, piece->set);
	}
	return rc;
}

int zr_run_update(struct zr_session *s, const struct zr_pop *op)
{
	static const struct zr_sweep step = { .fn = step_piece, .out = ZR_WITH(ZR_D_MASTER) | ZR_WITH(ZR_D_LOWP) | ZR_WITH_STATES };
	int64_t end = s->piece_next + zr_update_pieces(s, s->program, op, NULL, 0);
	int rc = zr_update_sweep(s, end, &step);
	/* sums that are folded on their way to disk use the same memory */
	return rc || readable(s, end) > end || s->program->id == ZR_PROG_UPDATE ? rc : zr_update_end(s);
}

int zr_update_begin(struct zr_session *s)
{
	s->piece_next = s->piece_read = 0;
	int rc = set_scalars(s);
	if (!rc)
		rc = zr_partial_sums(s);
	s->piece_next = s->piece_read = 0;
	return rc ? rc : zr_whole_update(s);
}

int zr_update_end(struct zr_session *s)
{
	int rc = 0;
	for (int32_t set = 0; set < s->setup->plan.staging.sets; set++) {
		int one = zr_piece_done(s, set);
		rc = rc ? rc : one;
	}
	return rc;
}
