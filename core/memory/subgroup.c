/* SPDX-License-Identifier: Apache-2.0
 *
 * subgroup.c - see subgroup.h.
 */
#include "core/memory/subgroup.h"

#include "core/base/numbers.h"

/* Of the tensor's states the one of a datum: bytes per block. */
static uint64_t state_block(const struct zr_setup *s, int32_t tensor, int d)
{
	const size_t row = (size_t)tensor * s->roles.n_states;
	return s->plan.state_bytes[row + (size_t)(d - ZR_D_STATE)];
}

uint64_t zr_block_bytes(const struct zr_setup *s, const struct zr_subgroup *p, int d)
{
	static const uint64_t master[] = {
		[ZR_MASTER_FP32] = 4, [ZR_MASTER_SPLIT] = 2, [ZR_MASTER_SPLIT24] = 1
	};
	if (d == ZR_D_MASTER)
		return ZR_BLOCK * master[zr_unit_master(&s->facts, p->unit)];
	if (d == ZR_D_GRAD)
		return ZR_BLOCK * 4;
	if (d == ZR_D_LOWP)
		return zr_unit_block(&s->facts, p->unit);
	return state_block(s, p->tensor, d);
}

/* Where the first block that this rank holds of a unit has its data of one kind; of a state, the
 * region that it is in. */
static struct zr_spot held_spot(const struct zr_plan *p, int32_t unit, int d)
{
	if (d < ZR_D_STATE)
		return p->unit[unit].datum[d];
	return (struct zr_spot){ .region = ZR_R_STATE };
}

struct zr_spot zr_datum_spot(const struct zr_setup *s, const struct zr_subgroup *p, int d)
{
	struct zr_spot spot = held_spot(&s->plan, p->unit, d);
	int64_t blocks = p->at;
	if (d >= ZR_D_STATE) {
		const size_t row = (size_t)p->run * s->roles.n_states;
		spot.at = s->plan.state[row + (size_t)(d - ZR_D_STATE)];
		blocks = p->first - s->plan.run[p->run].first;
	}

	spot.at += (uint64_t)blocks * zr_block_bytes(s, p, d);
	return spot;
}

int zr_has_datum(const struct zr_setup *p, int32_t unit, int d)
{
	if (d == ZR_D_MASTER)
		return zr_unit_master(&p->facts, unit) != ZR_MASTER_NONE;
	if (d != ZR_D_LOWP || zr_unit_dtype(&p->facts, unit) != ZR_F32)
		return 1;
	struct zr_spot a = held_spot(&p->plan, unit, ZR_D_LOWP), b = p->plan.unit[unit].master;
	return a.region != b.region || a.at != b.at;
}

int zr_subgroup_has(const struct zr_setup *s, const struct zr_subgroup *p, int d)
{
	if (d < ZR_D_STATE)
		return zr_has_datum(s, p->unit, d);
	if (p->optimizer == ZR_ANY)
		return 0;

	const struct zr_optimizer *o = &s->roles.optimizer[p->optimizer];
	uint32_t i = (uint32_t)(d - ZR_D_STATE);
	return i >= o->first_state && i < o->first_state + o->n_states &&
	       state_block(s, p->tensor, d) > 0;
}

int zr_datum_staged(const struct zr_setup *s, int32_t unit, int d)
{
	const struct zr_region *r = &s->plan.region[held_spot(&s->plan, unit, d).region];
	int apart = !s->facts.device_info.unified && r->store == ZR_STORE_DEVICE &&
		    s->plan.region[ZR_R_MASTER].store != ZR_STORE_DEVICE;
	return zr_has_datum(s, unit, d) && (apart || r->tier == ZR_TIER_DISK);
}

uint64_t zr_staged_at(const struct zr_setup *s, const struct zr_subgroup *p, int d)
{
	uint64_t at = 0;
	for (int i = 0; i < d; i++)
		if (zr_subgroup_has(s, p, i) && zr_datum_staged(s, p->unit, i)) {
			uint64_t block = zr_block_bytes(s, p, i);
			uint64_t bytes = block * (uint64_t)s->plan.staging.blocks;
			if (block % ZR_PAGE)
				bytes += ZR_PAGE - 1;
			at += zr_up(bytes, ZR_PAGE);
		}

	/* a datum lies in its first page where it does in the store */
	if (d < s->plan.staging.n_data && zr_block_bytes(s, p, d) % ZR_PAGE)
		at += zr_datum_spot(s, p, d).at % ZR_PAGE;
	return at;
}

/* ---- masters in other formats ---- */

int32_t zr_unit_rem_bits(const struct zr_setup_facts *f, int32_t unit)
{
	int32_t kept = zr_unit_master(f, unit);
	if (kept == ZR_MASTER_SPLIT)
		return 16;
	if (kept == ZR_MASTER_SPLIT24)
		return 8;
	return 0;
}

int zr_master_convert(struct zr_session *s, const struct zr_subgroup *p, const struct zr_masters *m,
		      int64_t n, float *x, int back, struct zr_error *err)
{
	int32_t type = zr_unit_dtype(s->facts, p->unit);
	int32_t split = zr_unit_rem_bits(s->facts, p->unit);
	struct zr_op_master op = { .size = sizeof op,
				   .n = n * ZR_BLOCK,
				   .master = x,
				   .lowp = (uint16_t *)m->lowp,
				   .rem = m->master,
				   .rem_bits = split };
	const struct zr_array wide = zr_array_at(ZR_F32, x), narrow = zr_array_at(type, m->lowp);
	struct zr_op_cast cast = { .size = sizeof cast,
				   .n = n * ZR_BLOCK,
				   .src = back ? wide : narrow,
				   .dst = back ? narrow : wide };
	int rc;

	if (!split) {
		rc = m->ops->cast(m->ops, NULL, &cast);
		return zr_op_failed(s, m->ops, rc, "cast", err);
	}
	if (back) {
		rc = m->ops->master_split(m->ops, NULL, &op);
		return zr_op_failed(s, m->ops, rc, "master_split", err);
	}

	rc = m->ops->master_join(m->ops, NULL, &op);
	return zr_op_failed(s, m->ops, rc, "master_join", err);
}

/* From block `from` of the sub-group on. */
static struct zr_masters part(const struct zr_setup *s, const struct zr_subgroup *p,
			      const struct zr_masters *m, int64_t from)
{
	struct zr_masters k = *m;
	if (k.master)
		k.master = k.master + from * zr_block_bytes(s, p, ZR_D_MASTER);
	if (k.lowp)
		k.lowp = k.lowp + from * zr_block_bytes(s, p, ZR_D_LOWP);
	return k;
}

int zr_master_get(struct zr_session *s, const struct zr_subgroup *p, const struct zr_masters *m,
		  int64_t from, int64_t n, float *x, struct zr_error *err)
{
	struct zr_masters k = part(s->setup, p, m, from);
	if (zr_unit_master(s->facts, p->unit) == ZR_MASTER_FP32)
		return zr_copy(s, x, k.master, (uint64_t)(n * ZR_BLOCK) * sizeof *x, err);
	return zr_master_convert(s, p, &k, n, x, 0, err);
}

/* The generator's place is that of the element in its tensor: no cut changes what is drawn. */
static int round_segments(struct zr_session *s, const struct zr_subgroup *p,
			  const struct zr_masters *m, int64_t from, int64_t n, const float *x,
			  struct zr_error *err)
{
	uint64_t count = zr_cut_segments(s, p->unit, p->first + from, n, s->seg);
	int rc = 0;
	for (const struct zr_seg *g = s->seg; !rc && g < s->seg + count; g++) {
		struct zr_op_round_stochastic op = {
			.size = sizeof op,
			.n = g->n,
			.first = g->param_off,
			.src = x + g->off,
			.dst = (uint16_t *)m->lowp + g->off,
			.rng = { .seed = (uint64_t)s->facts->train->seed,
				 .step = (uint64_t)(s->step - s->owed),
				 .slot = (uint32_t)g->param,
				 .site = UINT32_MAX - 1 }
		};
		rc = zr_op_failed(s, m->ops, m->ops->round_stochastic(m->ops, NULL, &op),
				  "round_stochastic", err);
	}
	return rc;
}

int zr_master_put(struct zr_session *s, const struct zr_subgroup *p, const struct zr_masters *m,
		  int64_t from, int64_t n, float *x, struct zr_error *err)
{
	struct zr_masters k = part(s->setup, p, m, from);
	int32_t kept = zr_unit_master(s->facts, p->unit);
	int rc = 0;
	if (kept == ZR_MASTER_NONE)
		return round_segments(s, p, &k, from, n, x, err);
	if (kept == ZR_MASTER_FP32)
		rc = zr_copy(s, k.master, x, (uint64_t)(n * ZR_BLOCK) * sizeof *x, err);
	if (rc || !k.lowp)
		return rc;
	return zr_master_convert(s, p, &k, n, x, 1, err);
}

uint64_t zr_cut_segments(const struct zr_session *s, int32_t unit, int64_t first, int64_t n,
			 struct zr_seg *out)
{
	const struct zr_layout *l = &s->facts->layout;
	const struct zr_unit_place *u = &l->unit[unit];
	int64_t lo = first * ZR_BLOCK, hi = lo + n * ZR_BLOCK;
	uint64_t count = 0;

	for (int32_t i = u->first; i < u->first + u->count; i++) {
		const struct zr_place *t = &l->tensor[i];
		int64_t from = t->offset, to = from + t->elements;
		if (!zr_intersect(lo, hi, &from, &to))
			continue;
		out[count++] = (struct zr_seg){ .off = from - lo,
						.n = to - from,
						.param_off = from - t->offset,
						.param = i,
						.ndim = t->decl->ndim,
						.dims = t->decl->dims,
						.name = t->decl->name };
	}
	return count;
}

struct zr_subgroup zr_subgroup_in(const struct zr_plan *p, const struct zr_block_run *r,
				  int64_t first, int64_t n)
{
	const int any = r->optimizer == ZR_ANY;
	return (struct zr_subgroup){ .unit = r->unit,
				     .optimizer = r->optimizer,
				     .tensor = r->tensor,
				     .run = any ? -1 : (int32_t)(r - p->run),
				     .first = first,
				     .n = n,
				     .at = first - p->unit[r->unit].held.first };
}
