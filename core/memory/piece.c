/* SPDX-License-Identifier: Apache-2.0
 *
 * piece.c - see piece.h.
 */
#include "core/memory/piece.h"

uint64_t zr_block_bytes(const struct zr_setup *p, int32_t unit, int d)
{
	switch (d) {
	case ZR_D_MASTER:
		return p->types.master == ZR_MASTER_NONE ? 0 : p->types.master == ZR_MASTER_SPLIT ? ZR_BLOCK * 2 : ZR_BLOCK * 4;
	case ZR_D_GRAD:
		return ZR_BLOCK * 4;
	case ZR_D_LOWP:
		return zr_unit_block(p, unit);
	default:
		return p->plan.state_bytes[d - ZR_D_STATE];
	}
}

/* Where the first block that this rank holds of a unit has its data of one kind; of a state, where the first of all is. */
static struct zr_spot held_spot(const struct zr_setup *p, int32_t unit, int d)
{
	const struct zr_unit_memory *m = &p->plan.unit[unit];
	switch (d) {
	case ZR_D_MASTER:
		return m->master;
	case ZR_D_GRAD:
		return m->grad;
	case ZR_D_LOWP:
		return m->held_copy;
	default:
		return (struct zr_spot){ .region = ZR_R_STATE, .at = p->plan.state[d - ZR_D_STATE] };
	}
}

struct zr_spot zr_datum_spot(const struct zr_setup *s, const struct zr_piece *p, int d)
{
	struct zr_spot spot = held_spot(s, p->unit, d);
	spot.at += (uint64_t)(d < ZR_D_STATE ? p->at : p->state) * zr_block_bytes(s, p->unit, d);
	return spot;
}

/* Whether the state is one of the piece's optimizer. */
static int has_state(const struct zr_setup *s, const struct zr_piece *p, int d)
{
	const struct zr_optimizer *o = p->optimizer == ZR_ANY ? NULL : &s->optimizer[p->optimizer];
	uint32_t i = (uint32_t)(d - ZR_D_STATE);
	return o && i >= o->first_state && i < o->first_state + o->n_states;
}

int zr_has_datum(const struct zr_setup *p, int32_t unit, int d)
{
	if (d == ZR_D_MASTER)
		return zr_unit_master(p, unit) != ZR_MASTER_NONE;
	if (d != ZR_D_LOWP || zr_unit_dtype(p, unit) != ZR_F32)
		return 1;
	struct zr_spot a = held_spot(p, unit, ZR_D_LOWP), b = p->plan.unit[unit].master;
	return a.region != b.region || a.at != b.at;
}

int zr_piece_has(const struct zr_setup *s, const struct zr_piece *p, int d)
{
	return zr_has_datum(s, p->unit, d) && (d < ZR_D_STATE || has_state(s, p, d));
}

/* Staging was planned for the kinds of data that are out of reach somewhere: of the compute copies only some may be. */
int zr_datum_staged(const struct zr_setup *s, int32_t unit, int d)
{
	const struct zr_plan *plan = &s->plan;
	const struct zr_region *r = &plan->region[held_spot(s, unit, d).region];
	if (plan->staging.datum[d] == ZR_IN_PLACE || !zr_has_datum(s, unit, d))
		return 0;
	return r->tier == ZR_TIER_DISK || (r->store == ZR_STORE_DEVICE && plan->region[ZR_R_MASTER].store != ZR_STORE_DEVICE);
}

char *zr_piece_data(const struct zr_session *s, const struct zr_piece *p, int d)
{
	const struct zr_staging *g = &s->setup->plan.staging;
	if (!zr_has_datum(s->setup, p->unit, d))
		return NULL;
	return zr_datum_staged(s->setup, p->unit, d) ? s->region[ZR_R_STAGING] + (uint64_t)p->set * g->set_bytes + g->datum[d] : zr_at(s, zr_datum_spot(s->setup, p, d));
}

int zr_piece_move(struct zr_session *s, const struct zr_piece *p, uint32_t with, int out)
{
	int rc = 0;
	for (int d = 0; !rc && d < s->setup->plan.staging.n_data; d++) {
		if (!(with & ZR_WITH(d)) || !zr_piece_has(s->setup, p, d) || !zr_datum_staged(s->setup, p->unit, d))
			continue;
		struct zr_spot spot = zr_datum_spot(s->setup, p, d);
		uint64_t bytes = (uint64_t)p->n * zr_block_bytes(s->setup, p->unit, d);
		rc = out ? zr_put(s, spot, zr_piece_data(s, p, d), bytes) : zr_get(s, spot, zr_piece_data(s, p, d), bytes);
	}
	return rc;
}

/* ---- masters in other formats ---- */

int zr_updates_without_host(const struct zr_session *s)
{
	return s->setup->plan.region[ZR_R_MASTER].store == ZR_STORE_DEVICE && !s->setup->device_info.host_ops;
}

const struct zr_ops *zr_update_ops(const struct zr_session *s)
{
	return s->setup->plan.region[ZR_R_MASTER].store == ZR_STORE_DEVICE ? s->setup->ops : s->setup->host_ops;
}

int zr_master_get(struct zr_session *s, const struct zr_piece *p, int64_t from, int64_t n, float *x)
{
	const struct zr_setup *setup = s->setup;
	const struct zr_ops *ops = zr_update_ops(s);
	int64_t lo = from * ZR_BLOCK, count = n * ZR_BLOCK;
	int32_t kept = zr_unit_master(setup, p->unit), type = zr_unit_dtype(setup, p->unit);
	char *master = zr_piece_data(s, p, ZR_D_MASTER), *lowp = zr_piece_data(s, p, ZR_D_LOWP);
	if (kept == ZR_MASTER_FP32)
		return zr_copy(s, x, (float *)master + lo, (uint64_t)count * 4);
	if (kept == ZR_MASTER_SPLIT) {
		struct zr_op_master op = { .size = sizeof op, .n = count, .master = x, .lowp = (uint16_t *)lowp + lo,
					   .rem = (uint16_t *)master + lo };
		return zr_op_failed(s, ops, ops->master_join(ops, NULL, &op), "master_join");
	}
	struct zr_op_cast op = { .size = sizeof op, .dst_dtype = ZR_F32, .src_dtype = type, .n = count,
				 .src = lowp + lo * zr_dtype_bytes(type), .dst = x };
	return zr_op_failed(s, ops, ops->cast(ops, NULL, &op), "cast");
}

/* The generator's place is that of the element in its tensor: no cut changes what is drawn. */
static int round_segments(struct zr_session *s, const struct zr_piece *p, int64_t from, int64_t n, const float *x, uint16_t *lowp)
{
	const struct zr_setup *setup = s->setup;
	const struct zr_ops *ops = zr_update_ops(s);
	uint64_t count = zr_cut_segments(s, p->unit, p->first + from, n, s->seg);
	int rc = 0;
	for (uint64_t i = 0; !rc && i < count; i++) {
		const struct zr_seg *g = &s->seg[i];
		struct zr_op_round_stochastic op = {
			.size = sizeof op, .n = g->n, .first = g->param_off, .src = x + g->off, .dst = lowp + g->off,
			.rng = { .seed = (uint64_t)setup->train->seed, .step = (uint64_t)s->step, .slot = (uint32_t)g->param,
				 .site = UINT32_MAX - 1 },
		};
		rc = zr_op_failed(s, ops, ops->round_stochastic(ops, NULL, &op), "round_stochastic");
	}
	return rc;
}

int zr_master_put(struct zr_session *s, const struct zr_piece *p, int64_t from, int64_t n, float *x, int stochastic)
{
	const struct zr_setup *setup = s->setup;
	const struct zr_ops *ops = zr_update_ops(s);
	int64_t lo = from * ZR_BLOCK, count = n * ZR_BLOCK;
	char *master = zr_piece_data(s, p, ZR_D_MASTER), *lowp = zr_piece_data(s, p, ZR_D_LOWP);
	int32_t kept = zr_unit_master(setup, p->unit), type = zr_unit_dtype(setup, p->unit);
	if (kept == ZR_MASTER_SPLIT) {
		struct zr_op_master op = { .size = sizeof op, .n = count, .master = x, .lowp = (uint16_t *)lowp + lo,
					   .rem = (uint16_t *)master + lo };
		return zr_op_failed(s, ops, ops->master_split(ops, NULL, &op), "master_split");
	}
	if (kept == ZR_MASTER_NONE && stochastic)
		return round_segments(s, p, from, n, x, (uint16_t *)lowp + lo);
	int rc = master ? zr_copy(s, (float *)master + lo, x, (uint64_t)count * 4) : 0;
	if (rc || !lowp)
		return rc;
	struct zr_op_cast op = { .size = sizeof op, .dst_dtype = type, .src_dtype = ZR_F32, .n = count,
				 .src = x, .dst = lowp + lo * zr_dtype_bytes(type) };
	return zr_op_failed(s, ops, ops->cast(ops, NULL, &op), "cast");
}

int zr_master_out(struct zr_session *s, const struct zr_piece *p, int64_t from, int64_t n, float *x)
{
	if (!zr_updates_without_host(s))
		return zr_master_get(s, p, from, n, x);
	int rc = zr_master_get(s, p, from, n, zr_chunk(s));
	return rc ? rc : zr_copy(s, x, zr_chunk(s), (uint64_t)(n * ZR_BLOCK) * sizeof *x);
}

int zr_master_in(struct zr_session *s, const struct zr_piece *p, int64_t from, int64_t n, float *x)
{
	if (!zr_updates_without_host(s))
		return zr_master_put(s, p, from, n, x, 0);
	int rc = zr_copy(s, zr_chunk(s), x, (uint64_t)(n * ZR_BLOCK) * sizeof *x);
	return rc ? rc : zr_master_put(s, p, from, n, zr_chunk(s), 0);
}

uint64_t zr_cut_segments(const struct zr_session *s, int32_t unit, int64_t first, int64_t n, struct zr_seg *out)
{
	const struct zr_layout *l = &s->setup->layout;
	const struct zr_unit_place *u = &l->unit[unit];
	int64_t lo = first * ZR_BLOCK, hi = lo + n * ZR_BLOCK;
	uint64_t count = 0;
	for (int32_t i = u->first; i < u->first + u->count; i++) {
		const struct zr_place *t = &l->tensor[i];
		int64_t from = t->offset, to = from + t->elements;
		if (!zr_intersect(lo, hi, &from, &to))
			continue;
		out[count++] = (struct zr_seg){ .off = from - lo, .n = to - from, .param_off = from - t->offset, .param = i,
						.ndim = t->decl->ndim, .dims = t->decl->dims, .name = t->decl->name };
	}
	return count;
}

struct zr_piece zr_piece_in(const struct zr_setup *s, const struct zr_run *r, int64_t first, int64_t n)
{
	return (struct zr_piece){ .unit = r->unit, .optimizer = r->optimizer, .first = first, .n = n,
				  .at = first - s->plan.unit[r->unit].held.first, .state = r->state + first - r->first };
}

static int each_of_run(struct zr_session *s, const struct zr_run *r, uint32_t in, uint32_t out,
		       int (*fn)(struct zr_session *, const struct zr_piece *, void *arg), void *arg)
{
	int64_t step = s->setup->plan.staging.blocks;
	int rc = 0;
	for (int64_t at = 0; !rc && at < r->n; at += step) {
		struct zr_piece p = zr_piece_in(s->setup, r, r->first + at, r->n - at < step ? r->n - at : step);
		rc = zr_piece_move(s, &p, in, 0);
		rc = rc ? rc : fn(s, &p, arg);
		rc = rc ? rc : zr_piece_move(s, &p, out, 1);
	}
	return rc;
}

int zr_each_piece(struct zr_session *s, int32_t unit, int32_t optimizer, uint32_t in, uint32_t out,
		  int (*fn)(struct zr_session *, const struct zr_piece *, void *arg), void *arg)
{
	const struct zr_plan *p = &s->setup->plan;
	const struct zr_share *held = &p->unit[unit].held;
	struct zr_run all = { .unit = unit, .optimizer = ZR_ANY, .first = held->first, .n = held->n };
	int rc = 0;
	if (optimizer == ZR_ANY)
		return each_of_run(s, &all, in, out, fn, arg);
	for (int32_t i = p->first_run[unit]; !rc && i < p->first_run[unit + 1]; i++)
		if (p->run[i].optimizer == optimizer)
			rc = each_of_run(s, &p->run[i], in, out, fn, arg);
	return rc;
}
