/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_call.c - see layer_call.h: an instruction that calls a layer, with its activations.
 */
#include "core/lower/layer_call.h"

#include "core/base/numbers.h"

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
	if (zr_is_elsewhere(f, unit))
		return zr_none();
	if (zr_unit_dtype(f, unit) == f->types.dtype)
		return from;

	const int32_t region = zr_computes_on_host(&f->homes, unit) ? ZR_R_BOUNCE : ZR_R_GATHER;
	struct zr_operand to = zr_low_buffer(l, region, bytes, 64);
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_CAST,
					  .queue = zr_low_queue(l, region),
					  .dtype = f->types.dtype,
					  .from = f->stored });
	zr_low_operand(l, ZR_O_CAST_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_CAST_TO, to, ZR_WRITES);
	zr_low_arg(l, own_share(from), ZR_READS);
	return to;
}

/* Whether a call has a use for its k-th unit: of a layer whose experts are divided, these in the
 * part at home, and all else before and behind them. */
static int uses_unit(const struct zr_lowering *l, const struct zr_low_call *c, uint32_t k)
{
	if (!c->home)
		return 1;
	if (zr_is_expert(&l->f->homes, c->use->units[k]))
		return c->home->part == ZR_HOME_HOME;
	return c->home->part == ZR_HOME_SORT || c->home->part == ZR_HOME_END;
}

struct zr_operand zr_low_call_gradient(struct zr_lowering *l, const struct zr_low_call *c,
				       uint32_t k)
{
	int32_t unit = c->use->units[k];
	int again = c->rows > 0, parts = l->plan->unit[unit].part > 0;
	if (c->use->phase != ZR_BACKWARD || l->f->frozen_unit[unit] || again != parts)
		return zr_none();
	if (!uses_unit(l, c, k))
		return zr_none();
	if (c->slice >= 0)
		return c->leaf[k];
	if (again)
		return c->part;
	return zr_low_gradient(l, unit);
}

/* Parameters of its k-th unit, and, in the backward, where its gradients go. */
static void layer_unit(struct zr_lowering *l, const struct zr_low_call *c, uint32_t k)
{
	int32_t unit = c->use->units[k];
	struct zr_operand to = zr_low_call_gradient(l, c, k);
	int first = c->slice >= 0 ||
		    (to.region >= 0 && l->s->programs.train_uses.first_grad[unit] == c->number);
	struct zr_operand from = l->param[k];

	if (!uses_unit(l, c, k))
		from = zr_none();
	if (c->home && c->home->on_host && to.region >= 0)
		to = c->home->gradient[k];
	if (c->home && c->home->part == ZR_HOME_HOME && c->home->round)
		first = 0;
	zr_low_operand(l, zr_in_pair(ZR_O_LAYER_EACH_PARAM, k), from, ZR_READS);
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
static uint32_t changes_gradient(const struct zr_low_call *c)
{
	int begins = c->loss && !c->rows && (!c->number || c->use[-1].phase != ZR_BACKWARD);
	return begins ? ZR_WRITES : ZR_READS | ZR_WRITES;
}

/* Whether a forward begins what it keeps: a later part of a slice goes on. */
static uint32_t changes_saved(const struct zr_low_call *c)
{
	int goes_on = c->parts && !(c->parts & ZR_PART_BEFORE);
	if (c->home)
		goes_on = c->home->part != ZR_HOME_SORT;
	return goes_on ? ZR_READS | ZR_WRITES : ZR_WRITES;
}

/* Activations of a call. */
struct places {
	struct zr_operand in, out, saved, grad;
};

static struct places places_of(struct zr_lowering *l, const struct zr_low_call *c)
{
	const struct zr_use_place *place = &l->act->use[c->number];
	struct places p = { .in = zr_none(), .out = zr_none(), .grad = zr_none() };
	int backward = c->use->phase == ZR_BACKWARD;

	if (backward && !l->work_grad.buffer)
		l->work_grad = zr_low_buffer(l, ZR_R_WORK, l->plan->act_grad_bytes, 64);
	if (c->use->layer)
		p.in = zr_low_activation(l, place->in);
	if (backward)
		p.grad = l->work_grad;
	else if (place->out >= 0)
		p.out = zr_low_activation(l, place->out);
	p.saved = zr_low_activation(l, place->saved);
	return p;
}

struct zr_operand zr_low_of_slice(const struct zr_lowering *l, struct zr_operand all, int64_t i)
{
	const uint64_t here = (uint64_t)l->f->slices.here, apart = all.bytes / here / 64 * 64;
	const uint64_t at = (uint64_t)i * apart;
	if (all.region < 0)
		return all;
	if (i + 1 == (int64_t)here)
		return zr_operand_part(all, at, all.bytes - at);
	return zr_operand_part(all, at, apart);
}

/* Those of its slice. What a layer saved is followed by the keys of all slices. */
static void cut_places(const struct zr_lowering *l, const struct zr_low_call *c, struct places *p)
{
	const struct zr_layer_bytes *one = &l->f->slice_bytes[c->use->layer];
	const struct zr_slices *z = &l->f->slices;
	const int64_t i = zr_slice_place(z, c->slice);

	p->in = zr_low_of_slice(l, p->in, i);
	p->out = zr_low_of_slice(l, p->out, i);
	if (one->keys)
		p->saved = zr_operand_part(p->saved, 0, (uint64_t)z->here * zr_up(one->saved, 64));
	p->saved = zr_low_of_slice(l, p->saved, i);
	p->grad = zr_low_of_slice(l, p->grad, i);
}

/* Those parts of a layer with experts that follow the first one find what that left. */
static uint32_t goes_on(const struct zr_low_call *c)
{
	if (c->home && c->home->on_host) /* in memory of its own */
		return ZR_WRITES;
	if (c->rows || (c->home && c->home->part != ZR_HOME_SORT))
		return ZR_READS | ZR_WRITES;
	return ZR_WRITES;
}

/* Whether it has rows of this rank: experts have those that came. */
static int has_rows(const struct zr_low_call *c)
{
	return !zr_of_all_rows(c) && (!c->home || c->home->part != ZR_HOME_HOME);
}

static void layer_activations(struct zr_lowering *l, const struct zr_low_call *c)
{
	int backward = c->use->phase == ZR_BACKWARD;
	struct places p = { zr_none(), zr_none(), zr_none(), zr_none() };
	if (has_rows(c))
		p = places_of(l, c);
	if (c->slice >= 0 && !zr_of_all_rows(c))
		cut_places(l, c, &p);

	zr_low_operand(l, ZR_O_LAYER_IN, p.in, ZR_READS);
	zr_low_operand(l, ZR_O_LAYER_OUT, p.out, goes_on(c));
	if (backward) {
		uint32_t changes = changes_gradient(c);
		zr_low_operand(l, ZR_O_LAYER_SAVED, p.saved, changes);
		zr_low_operand(l, ZR_O_LAYER_WORK, c->work, goes_on(c));
		zr_low_operand(l, ZR_O_LAYER_GRAD_OR_CACHE, p.grad, changes);
	} else {
		zr_low_operand(l, ZR_O_LAYER_SAVED, p.saved, changes_saved(c));
		zr_low_operand(l, ZR_O_LAYER_WORK, c->work, goes_on(c));
		zr_low_operand(l, ZR_O_LAYER_GRAD_OR_CACHE, cache(l, c->use->layer),
			       ZR_READS | ZR_WRITES);
	}
}

static uint16_t layer_flags(const struct zr_lowering *l, const struct zr_low_call *c)
{
	uint16_t flags = 0;

	if (l->f->layer_bytes[c->use->layer].is_lean)
		flags = ZR_F_LEAN;
	if (c->use->phase == ZR_BACKWARD)
		flags |= ZR_F_BACKWARD;
	else if (c->loss && l->f->mode == ZR_MODE_SAMPLE)
		flags |= ZR_F_LOGITS;
	return flags;
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

static void one_more(struct zr_lowering *l, const struct zr_low_call *c, int32_t name,
		     struct zr_operand o, uint32_t access)
{
	zr_low_operand(l, zr_behind_pairs(name, c->use->n_units), o, access);
}

static uint32_t reads_or(int writes)
{
	return writes ? ZR_WRITES : ZR_READS;
}

/* What is between the parts of a slice: the first one that touches it writes it. */
static void layer_keys(struct zr_lowering *l, const struct zr_low_call *c)
{
	const int backward = c->use->phase == ZR_BACKWARD;
	const int before = (c->parts & ZR_PART_BEFORE) != 0,
		  after = (c->parts & ZR_PART_AFTER) != 0;
	const int attend = (c->parts & ZR_PART_ATTEND) != 0;

	one_more(l, c, ZR_O_LAYER_KEYS, c->keys, reads_or(before && !backward));
	one_more(l, c, ZR_O_LAYER_ALL_KEYS, c->all_keys, ZR_READS);
	one_more(l, c, ZR_O_LAYER_KEY_SUMS, c->key_sums, reads_or(attend));
	one_more(l, c, ZR_O_LAYER_HELD, c->held, attend ? ZR_WRITES : ZR_READS | ZR_WRITES);
	one_more(l, c, ZR_O_LAYER_ATTENDED, c->attended, reads_or(attend && !backward));
	one_more(l, c, ZR_O_LAYER_DATTENDED, c->dattended, reads_or(after));
	one_more(l, c, ZR_O_LAYER_KEPT, c->kept, reads_or(!backward));
	one_more(l, c, ZR_O_LAYER_SUMS, c->slot_sums, ZR_READS);
}

/* Whether the part that has this memory fills it. */
static int is_made(int32_t memory)
{
	switch (memory) {
	case ZR_HOME_ROWS_SENT:
	case ZR_HOME_GRADS_SENT:
	case ZR_HOME_WEIGHTS_SENT:
	case ZR_HOME_ROWS_MADE:
	case ZR_HOME_WEIGHTS_MADE:
		return 1;
	default:
		return 0;
	}
}

/* What rows of experts are in; of another layer it is none. */
static void layer_homes(struct zr_lowering *l, const struct zr_low_call *c)
{
	const struct zr_low_home none = zr_low_no_home(0);
	const struct zr_low_home *h = &none;

	if (c->home)
		h = c->home;
	for (int32_t k = 0; k < ZR_HOME_MEMORY; k++)
		one_more(l, c, ZR_O_LAYER_ROWS_SENT + k, h->memory[k], reads_or(is_made(k)));
}

void zr_low_take_params(struct zr_lowering *l, const struct zr_use *use)
{
	for (uint32_t k = 0; k < use->n_units; k++)
		l->param[k] = converted(l, use->units[k]);
}

struct zr_operand zr_low_saved(struct zr_lowering *l, const struct zr_low_call *c)
{
	struct places p = places_of(l, c);

	if (c->slice >= 0)
		cut_places(l, c, &p);
	return p.saved;
}

/* Experts have rows, and nothing of the tokens. */
static struct zr_operand batch_of(const struct zr_lowering *l, const struct zr_low_call *c)
{
	const struct zr_plan *p = l->plan;

	if (c->home && c->home->on_host)
		return zr_none();
	return zr_operand_part(l->batch, p->tokens, p->loss_rows - p->tokens);
}

void zr_low_call(struct zr_lowering *l, const struct zr_low_call *c)
{
	const struct zr_plan *p = l->plan;
	const struct zr_use *use = c->use;
	uint64_t end = p->loss_sum + p->loss_bytes;
	struct zr_instr of = { .kind = ZR_I_LAYER,
			       .flags = layer_flags(l, c),
			       .number = use->layer,
			       .block = c->row,
			       .blocks = c->rows };
	if (c->slice >= 0) {
		of.group = c->slice;
		of.root = (int32_t)c->parts;
	}
	if (c->home) {
		of.from = c->home->part;
		of.dtype = c->home->round;
		of.queue = c->home->on_host ? ZR_Q_HOST : ZR_Q_COMPUTE;
	}

	zr_low_emit(l, of);
	layer_activations(l, c);
	for (uint32_t k = 0; k < use->n_units; k++)
		layer_unit(l, c, k);

	zr_low_operand(l, zr_behind_pairs(ZR_O_LAYER_BATCH, use->n_units), batch_of(l, c),
		       ZR_READS);
	zr_low_operand(l, zr_behind_pairs(ZR_O_LAYER_SCORES, use->n_units), scores_of(l, use),
		       ZR_READS | ZR_WRITES);
	layer_keys(l, c);
	layer_homes(l, c);
	if (c->loss)
		zr_low_arg(l, zr_operand_part(l->batch, p->loss_rows, end - p->loss_rows),
			   ZR_WRITES);
	for (uint32_t k = 0; k < use->n_units; k++)
		if (uses_unit(l, c, k))
			zr_low_arg(l, own_share(l->param[k]), ZR_READS);
}
