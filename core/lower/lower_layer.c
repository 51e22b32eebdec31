/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_layer.c - uses of layers: a call, one for each slice, or one more for each part of a
 * gradient that comes in parts.
 */
#include "core/base/numbers.h"
#include "core/lower/layer_call.h"

/* While a part is computed, the one before leaves. */
static void call_parts(struct zr_lowering *l, struct zr_low_call c, int32_t unit)
{
	const struct zr_unit_memory *m = &l->plan->unit[unit];
	const struct zr_unit_place *u = &l->f->layout.unit[unit];
	const int64_t *dims = l->f->layout.tensor[u->first].decl->dims;
	for (int64_t at = 0, n; at < u->blocks; at += n) {
		struct zr_operand before = c.part;
		n = m->part;
		if (u->blocks - at <= m->part)
			n = m->own.per * l->f->process.world - at;

		struct zr_operand there = zr_of_spot(m->parts, (uint64_t)n * ZR_BLOCK * 4);
		there.at += (uint64_t)at * ZR_BLOCK * 4;
		c.part = zr_low_buffer(l, ZR_R_GRAD_BUFFER, there.bytes, ZR_PAGE);
		c.row = at * ZR_BLOCK / dims[1];
		c.rows = zr_fewer(n * ZR_BLOCK / dims[1], dims[0] - c.row);
		l->now++;
		zr_low_keep(l, &before);
		if (l->s->programs.train_uses.first_grad[unit] != c.number)
			zr_low_move(l, there, c.part);
		zr_low_take_params(l, c.use);
		zr_low_call(l, &c);
		zr_low_move(l, c.part, there);
	}
}

void zr_low_layer(struct zr_lowering *l, const struct zr_pop *op)
{
	const struct zr_schedule *uses = &l->s->programs.train_uses;
	if (l->record->id == ZR_PROG_EVAL)
		uses = &l->s->programs.eval_uses;

	const struct zr_use *use = &uses->use[op->use];
	const struct zr_layer_bytes *b = &l->f->layer_bytes[use->layer];
	int backward = use->phase == ZR_BACKWARD;
	uint32_t loss = zr_layer_at(&l->f->decl, use->layer)->flags & ZR_LAYER_LOSS;
	uint64_t work = b->work_fwd;
	if (backward || (loss && b->work_bwd > work))
		work = b->work_bwd;

	struct zr_low_call c = { .use = use,
				 .number = op->use,
				 .loss = loss,
				 .work = zr_low_buffer(l, ZR_R_WORK, work, 64),
				 .part = zr_none(),
				 .slice = -1,
				 .keys = zr_none(),
				 .all_keys = zr_none(),
				 .key_sums = zr_none(),
				 .held = zr_none(),
				 .attended = zr_none(),
				 .dattended = zr_none(),
				 .kept = zr_none(),
				 .slot_sums = zr_none() };
	l->unit = use->n_units ? use->units[0] : -1;
	zr_low_take_params(l, use);
	if (zr_sliced(&l->f->slices))
		zr_low_slices(l, &c);
	else
		zr_low_calls(l, &c);
	for (uint32_t k = 0; backward && k < use->n_units; k++)
		if (l->plan->unit[use->units[k]].part)
			call_parts(l, c, use->units[k]);
	zr_low_pending(l);
	zr_low_ahead(l, op);
}
