/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_layer.c - calls of layers, with their activations, and where their gradients go: whole, or
 * part by part.
 */
#include "core/base/numbers.h"
#include "core/lower/lower.h"

/* A call of a layer. A backward has one more for each part of a gradient that comes in parts. */
struct layer {
	const struct zr_use *use;
	int32_t number;
	uint32_t loss;                /* 0: no loss layer */
	struct zr_operand work, part; /* part: of no region in the first call */
	int64_t row, rows;
};

/* With a view its own share is read, too. */
static struct zr_operand own_share(struct zr_operand o)
{
	if (o.whose == ZR_VIEW)
		return zr_mine(o.region, o.at, o.bytes);
	return zr_none();
}

/* Where a layer reads a unit: what is stored in another type comes into the type of the compute. */
static struct zr_operand converted(struct zr_lowering *l, int32_t unit)
{
	const struct zr_setup_facts *f = l->f;
	struct zr_operand from = l->gathered[unit];
	uint64_t bytes = (uint64_t)f->layout.unit[unit].blocks * zr_dtype_block(f->types.dtype);
	if (zr_unit_dtype(f, unit) == f->types.dtype)
		return from;

	struct zr_operand to = zr_low_buffer(l, ZR_R_GATHER, bytes, 64);
	zr_low_emit(l, (struct zr_instr){
			       .kind = ZR_I_CAST, .dtype = f->types.dtype, .from = f->stored });
	zr_low_operand(l, ZR_O_CAST_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_CAST_TO, to, ZR_WRITES);
	zr_low_arg(l, own_share(from), ZR_READS);
	return to;
}

/* Parameters of its k-th unit, and, in the backward, where its gradients go. */
static void layer_unit(struct zr_lowering *l, const struct layer *c, uint32_t k)
{
	int32_t unit = c->use->units[k];
	int again = c->rows > 0, parts = l->plan->unit[unit].part > 0;
	int backward = c->use->phase == ZR_BACKWARD && !l->f->frozen_unit[unit] && again == parts;
	int first = backward && l->s->programs.train_uses.first_grad[unit] == c->number;
	struct zr_operand to = zr_none();
	if (backward && again)
		to = c->part;
	else if (backward)
		to = zr_low_gradient(l, unit);

	zr_low_operand(l, zr_in_pair(ZR_O_LAYER_EACH_PARAM, k), l->part[k].recv, ZR_READS);
	zr_low_operand(l, zr_in_pair(ZR_O_LAYER_EACH_DPARAM, k), to,
		       first ? ZR_WRITES : ZR_READS | ZR_WRITES);
}

static struct zr_operand cache(struct zr_lowering *l, int32_t layer)
{
	uint64_t bytes = l->f->layer_bytes[layer].cache;
	if (!bytes || !(l->f->flags & ZR_SETUP_CACHED))
		return zr_none();
	return zr_mine(ZR_R_CACHE, zr_room(&l->cache, bytes), bytes);
}

/* How a backward uses what it is given of the activations' gradients: the loss layer, which is the
 * first one, begins them. */
static uint32_t changes_gradient(const struct layer *c)
{
	int begins = c->loss && !c->rows && (!c->number || c->use[-1].phase != ZR_BACKWARD);
	return begins ? ZR_WRITES : ZR_READS | ZR_WRITES;
}

static void forward_activations(struct zr_lowering *l, const struct layer *c)
{
	const struct zr_use_place *place = &l->act->use[c->number];
	zr_low_operand(l, ZR_O_LAYER_OUT, zr_low_activation(l, place->out), ZR_WRITES);
	zr_low_operand(l, ZR_O_LAYER_SAVED, zr_low_activation(l, place->saved), ZR_WRITES);
	zr_low_operand(l, ZR_O_LAYER_WORK, c->work, ZR_WRITES);
	zr_low_operand(l, ZR_O_LAYER_GRAD_OR_CACHE, cache(l, c->use->layer), ZR_READS | ZR_WRITES);
}

static void backward_activations(struct zr_lowering *l, const struct layer *c)
{
	const struct zr_use_place *place = &l->act->use[c->number];
	uint32_t changes = changes_gradient(c);
	zr_low_operand(l, ZR_O_LAYER_OUT, zr_none(), ZR_WRITES);
	zr_low_operand(l, ZR_O_LAYER_SAVED, zr_low_activation(l, place->saved), changes);
	zr_low_operand(l, ZR_O_LAYER_WORK, c->work, c->rows ? ZR_READS | ZR_WRITES : ZR_WRITES);
	zr_low_operand(l, ZR_O_LAYER_GRAD_OR_CACHE, l->work_grad, changes);
}

static void layer_activations(struct zr_lowering *l, const struct layer *c)
{
	int backward = c->use->phase == ZR_BACKWARD;
	struct zr_operand in = zr_none();
	if (backward && !l->work_grad.buffer)
		l->work_grad = zr_low_buffer(l, ZR_R_WORK, l->plan->act_grad_bytes, 64);
	if (c->use->layer)
		in = zr_low_activation(l, l->act->use[c->number].in);

	zr_low_operand(l, ZR_O_LAYER_IN, in, ZR_READS);
	if (backward)
		backward_activations(l, c);
	else
		forward_activations(l, c);
}

static uint16_t layer_flags(const struct zr_lowering *l, const struct layer *c)
{
	if (c->use->phase == ZR_BACKWARD)
		return ZR_F_BACKWARD;
	if (c->loss && l->f->mode == ZR_MODE_SAMPLE)
		return ZR_F_LOGITS;
	return 0;
}

/* Where the forward of a micro-batch gives the largest scores of its heads, if they are wanted. */
static struct zr_operand scores_of(const struct zr_lowering *l, const struct zr_use *use)
{
	const struct zr_clip_plan *p = &l->plan->clip;
	const uint64_t one = sizeof(float);

	if (!p->layer || use->phase != ZR_FORWARD || l->record->id == ZR_PROG_EVAL ||
	    !p->layer[use->layer].heads)
		return zr_none();
	return zr_operand_part(zr_low_scores(l), (uint64_t)p->layer[use->layer].score * one,
			       (uint64_t)p->layer[use->layer].heads * one);
}

static void call_layer(struct zr_lowering *l, const struct layer *c)
{
	const struct zr_plan *p = l->plan;
	const struct zr_use *use = c->use;
	uint64_t end = p->loss_sum + p->loss_bytes;
	for (uint32_t k = 0; k < use->n_units; k++)
		l->part[k].recv = converted(l, use->units[k]);

	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_LAYER,
					  .flags = layer_flags(l, c),
					  .number = use->layer,
					  .block = c->row,
					  .blocks = c->rows });
	layer_activations(l, c);
	for (uint32_t k = 0; k < use->n_units; k++)
		layer_unit(l, c, k);

	zr_low_operand(l, zr_behind_pairs(ZR_O_LAYER_BATCH, use->n_units),
		       zr_operand_part(l->batch, p->tokens, p->loss_rows - p->tokens), ZR_READS);
	zr_low_operand(l, zr_behind_pairs(ZR_O_LAYER_SCORES, use->n_units), scores_of(l, use),
		       ZR_READS | ZR_WRITES);
	if (c->loss)
		zr_low_arg(l, zr_operand_part(l->batch, p->loss_rows, end - p->loss_rows),
			   ZR_WRITES);
	for (uint32_t k = 0; k < use->n_units; k++)
		zr_low_arg(l, own_share(l->part[k].recv), ZR_READS);
}

/* While a part is computed, the one before leaves. */
static void call_parts(struct zr_lowering *l, struct layer c, int32_t unit)
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
		call_layer(l, &c);
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

	struct layer c = { use,       op->use, loss, zr_low_buffer(l, ZR_R_WORK, work, 64),
			   zr_none(), 0,       0 };
	l->unit = use->n_units ? use->units[0] : -1;
	call_layer(l, &c);
	for (uint32_t k = 0; backward && k < use->n_units; k++)
		if (l->plan->unit[use->units[k]].part)
			call_parts(l, c, use->units[k]);
	zr_low_pending(l);
	zr_low_ahead(l, op);
}
