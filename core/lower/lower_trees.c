/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_trees.c - what slices give to gradients, added as balanced trees as it comes. A rank has
 * one node of the tree of all slices; where gradients are added over ranks the tree goes on.
 *
 * A unit that several layers use has a tree for each use. Where ranks share a sequence, each tree
 * is completed for the blocks of one of them, and these ranks then give the sum of all uses, each
 * of its own blocks, and nothing of the others.
 */
#include "core/lower/slices.h"

#include "core/base/numbers.h"

struct zr_operand zr_low_among(struct zr_lowering *l, int32_t kind, int32_t dtype,
			       struct zr_operand sent)
{
	uint64_t bytes = sent.bytes;
	if (kind == ZR_COMM_ALL_GATHER)
		bytes *= (uint64_t)l->f->slices.ranks;

	struct zr_operand came = zr_low_buffer(l, ZR_R_COMM, bytes, 64);
	l->part[0] = (struct zr_sent_received){ sent, came };
	zr_low_collective(l, kind, ZR_GROUP_SEQUENCE, dtype, 0, 1);
	return came;
}

static struct zr_operand part_of_each(struct zr_operand o, int32_t parts, uint64_t at, uint64_t n)
{
	if (!parts)
		return zr_none();
	return zr_operand_part(o, at, (uint64_t)(parts - 1) * (o.bytes / (uint64_t)parts) + n);
}

/* Leaf `leaf` of a tree of n, in fp32, whose nodes are rounded to dtype. waiting: of as many levels
 * as there are. */
static void add_leaf(struct zr_lowering *l, int32_t leaf, int32_t n, int32_t dtype,
		     struct zr_operand from, struct zr_operand sum, struct zr_operand waiting)
{
	const int last = leaf + 1 == n;

	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_TREE,
					  .flags = ZR_F_STORE,
					  .number = leaf,
					  .group = n,
					  .blocks = 1,
					  .dtype = dtype });
	zr_low_operand(l, ZR_O_TREE_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_TREE_SUM, last ? sum : zr_none(), ZR_WRITES);
	zr_low_operand(l, ZR_O_TREE_WAITING, waiting, leaf ? ZR_READS | ZR_WRITES : ZR_WRITES);
}

void zr_low_add_tree(struct zr_lowering *l, int32_t n, int32_t dtype, int stores,
		     struct zr_operand from, struct zr_operand sum)
{
	struct zr_instr of = { .kind = ZR_I_TREE, .group = n, .blocks = n, .dtype = dtype };
	if (stores)
		of.flags = ZR_F_STORE;

	zr_low_emit(l, of);
	zr_low_operand(l, ZR_O_TREE_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_TREE_SUM, sum, stores ? ZR_WRITES : ZR_READS | ZR_WRITES);
	zr_low_operand(l, ZR_O_TREE_WAITING, zr_none(), ZR_WRITES);
}

/* Fills it with -0, which no sum notices. */
static void clear(struct zr_lowering *l, struct zr_operand to)
{
	if (!to.bytes)
		return;
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_CLEAR });
	zr_low_operand(l, ZR_O_CLEAR_TO, to, ZR_WRITES);
}

/* ---- gradients of units ---- */

static uint64_t padded_bytes(const struct zr_lowering *l, int32_t unit)
{
	return (uint64_t)zr_unit_padded_elements(l->f, unit) * 4;
}

static struct zr_operand gradient_buffer(struct zr_lowering *l, uint64_t bytes)
{
	return zr_low_buffer(l, ZR_R_GRAD_BUFFER, bytes, 64);
}

static int trains(const struct zr_lowering *l, const struct zr_low_use *s, uint32_t k)
{
	return s->call.use->phase == ZR_BACKWARD && !l->f->frozen_unit[s->call.use->units[k]];
}

/* Whether a backward of another layer adds to a unit's gradient later. */
static int is_used_later(const struct zr_lowering *l, const struct zr_low_use *s, int32_t unit)
{
	const struct zr_schedule *uses = &l->s->programs.train_uses;
	int32_t use = s->call.number;

	while ((use = zr_schedule_next(uses, unit, use)) >= 0)
		if (uses->use[use].phase == ZR_BACKWARD)
			return 1;
	return 0;
}

static int was_used(const struct zr_lowering *l, const struct zr_low_use *s, int32_t unit)
{
	return l->s->programs.train_uses.first_grad[unit] != s->call.number;
}

static int has_several_uses(const struct zr_lowering *l, const struct zr_low_use *s, int32_t unit)
{
	return was_used(l, s, unit) || is_used_later(l, s, unit);
}

/* Where the trees of a use end: in the unit's gradient, or apart where there is more to do. */
void zr_low_begin_trees(struct zr_lowering *l, struct zr_low_use *s)
{
	const int32_t levels = zr_tree_levels(s->z->here);

	for (uint32_t k = 0; k < s->call.use->n_units; k++) {
		const int32_t unit = s->call.use->units[k];
		const uint64_t bytes = padded_bytes(l, unit);
		const int apart = was_used(l, s, unit) ||
				  (s->z->ranks > 1 && has_several_uses(l, s, unit));
		s->leaf[k] = s->root[k] = s->waiting[k] = zr_none();
		if (!trains(l, s, k))
			continue;

		s->root[k] = apart ? gradient_buffer(l, bytes) : zr_low_gradient(l, unit);
		s->leaf[k] = s->root[k];
		if (!levels)
			continue;
		s->leaf[k] = gradient_buffer(l, bytes);
		s->waiting[k] = gradient_buffer(l, bytes * (uint64_t)levels);
	}
}

/* Whether the calls that come now give a tensor's gradient. */
static int is_given(const struct zr_lowering *l, const struct zr_low_use *s, int32_t tensor)
{
	const struct zr_tensor *t = l->f->layout.tensor[tensor].decl;
	if (!s->parted)
		return 1;
	return (s->call.parts & (uint32_t)t->part) != 0;
}

/* Finds the next tensors of a unit, from *tensor on, whose gradients the calls give, and their
 * bytes with the padding behind them. Returns 0 where there are none. */
static int next_run(const struct zr_lowering *l, const struct zr_low_use *s, int32_t unit,
		    int32_t *tensor, uint64_t *at, uint64_t *bytes)
{
	const struct zr_unit_place *u = &l->f->layout.unit[unit];
	const int32_t end = u->first + u->count;
	int32_t t = *tensor;

	while (t < end && !is_given(l, s, t))
		t++;
	if (t == end)
		return 0;

	*at = (uint64_t)l->f->layout.tensor[t].offset * 4;
	while (t < end && is_given(l, s, t))
		t++;
	*bytes = padded_bytes(l, unit) - *at;
	if (t < end)
		*bytes = (uint64_t)l->f->layout.tensor[t].offset * 4 - *at;
	*tensor = t;
	return 1;
}

/* Whether the calls that come now give any gradient of the use's k-th unit. */
static int gives(const struct zr_lowering *l, const struct zr_low_use *s, uint32_t k)
{
	const int32_t unit = s->call.use->units[k];
	int32_t tensor = l->f->layout.unit[unit].first;
	uint64_t at, bytes;
	return trains(l, s, k) && next_run(l, s, unit, &tensor, &at, &bytes);
}

static void grow_trees(struct zr_lowering *l, const struct zr_low_use *s, int32_t leaf)
{
	const int32_t levels = zr_tree_levels(s->z->here), type = l->f->types.comm_dtype;

	for (uint32_t k = 0; levels && k < s->call.use->n_units; k++) {
		const int32_t unit = s->call.use->units[k];
		int32_t tensor = l->f->layout.unit[unit].first;
		uint64_t at, bytes;
		if (!gives(l, s, k))
			continue;

		l->unit = unit;
		while (next_run(l, s, unit, &tensor, &at, &bytes))
			add_leaf(l, leaf, s->z->here, type, zr_operand_part(s->leaf[k], at, bytes),
				 zr_operand_part(s->root[k], at, bytes),
				 part_of_each(s->waiting[k], levels, at, bytes));
	}
}

/* Completes the tree of a use over all slices, for the blocks whose sum this rank gives. */
static void complete_tree(struct zr_lowering *l, const struct zr_low_use *s, uint32_t k)
{
	const int32_t unit = s->call.use->units[k], ranks = s->z->ranks;
	const uint64_t bytes = padded_bytes(l, unit), own = bytes / (uint64_t)ranks;
	struct zr_operand came = zr_low_among(l, ZR_COMM_ALL_TO_ALL, ZR_F32, s->root[k]);

	if (!was_used(l, s, unit))
		l->shared[unit] = gradient_buffer(l, own);

	struct zr_operand sum = l->shared[unit];
	if (was_used(l, s, unit))
		sum = gradient_buffer(l, own);
	zr_low_add_tree(l, ranks, l->f->types.comm_dtype, 1, came, sum);
	if (was_used(l, s, unit))
		zr_low_add_tree(l, 1, ZR_F32, 0, sum, l->shared[unit]);
	if (is_used_later(l, s, unit))
		return;

	struct zr_operand all = zr_low_gradient(l, unit);
	clear(l, all);
	zr_low_add_tree(l, 1, ZR_F32, 1, l->shared[unit],
			zr_operand_part(all, own * (uint64_t)s->z->rank, own));
}

void zr_low_end_trees(struct zr_lowering *l, const struct zr_low_use *s)
{
	for (uint32_t k = 0; k < s->call.use->n_units; k++) {
		const int32_t unit = s->call.use->units[k];
		if (!trains(l, s, k) || !has_several_uses(l, s, unit))
			continue;

		l->unit = unit;
		if (s->z->ranks > 1)
			complete_tree(l, s, k);
		else if (was_used(l, s, unit))
			zr_low_add_tree(l, 1, ZR_F32, 0, s->root[k], zr_low_gradient(l, unit));
	}
}

/* Lists where the call gives gradients: of the units that have a tensor in its parts. */
static void give(struct zr_lowering *l, struct zr_low_use *s)
{
	for (uint32_t k = 0; k < s->call.use->n_units; k++) {
		s->given[k] = zr_none();
		if (gives(l, s, k))
			s->given[k] = s->leaf[k];
	}
	s->call.leaf = s->given;
}

void zr_low_call_leaf(struct zr_lowering *l, struct zr_low_use *s, int32_t leaf)
{
	give(l, s);
	zr_low_calls(l, &s->call);
	grow_trees(l, s, leaf);
}

struct zr_operand zr_low_sum_keys(struct zr_lowering *l, struct zr_low_use *s, int32_t n,
				  uint64_t one, zr_low_attend *attend)
{
	const int32_t levels = zr_tree_levels(n), first = n == s->z->n ? 0 : s->z->rank * n;
	const uint64_t bytes = one * (uint64_t)s->z->n;
	struct zr_operand sums = zr_low_buffer(l, ZR_R_WORK, bytes, 64), leaf = sums;
	struct zr_operand waiting = zr_none();
	if (levels) {
		leaf = zr_low_buffer(l, ZR_R_WORK, bytes, 64);
		waiting = zr_low_buffer(l, ZR_R_WORK, bytes * (uint64_t)levels, 64);
	}

	for (int32_t i = 0; i < n; i++) {
		/* queries give nothing to keys behind them */
		const uint64_t end = one * (uint64_t)(zr_slice_of_leaf(s->z, first + i) + 1);
		clear(l, zr_operand_part(leaf, end, bytes - end));
		s->call.key_sums = zr_operand_part(leaf, 0, end);
		attend(l, s, i);
		if (levels)
			add_leaf(l, i, n, ZR_F32, leaf, sums, waiting);
	}

	return sums;
}
