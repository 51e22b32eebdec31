/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_slices.c - a use of a layer, slice by slice (core/model/slices.h).
 *
 *   forward     BEFORE of each slice; keys of all ranks of the sequence come; ATTEND | AFTER of
 *               each. Where one rank has all slices each is one call, which finds the keys before.
 *   backward    keys come again; AFTER | ATTEND of each leaf; what queries gave to keys goes to
 *               the ranks that have these keys; BEFORE of each leaf
 *
 * What each leaf gives to a gradient, or to keys, is added as a balanced tree as it comes. So a rank
 * has one node of the tree of all slices; where gradients are added over ranks, or keys' over those
 * of the sequence, the tree goes on.
 *
 * A unit that several layers use has a tree for each use. Where ranks share a sequence, each tree
 * is completed for the blocks of one of them, and these ranks then give the sum of all uses, each
 * of its own blocks, and nothing of the others.
 */
#include "core/lower/layer_call.h"

#include <stdlib.h>

#include "core/base/numbers.h"

/* The slices of one use. */
struct slices {
	struct zr_low_call call; /* of the slice that is computed */
	const struct zr_slices *z;
	const struct zr_layer_bytes *bytes;
	int parted;                 /* the layer's calls have parts */
	struct zr_operand kept;     /* behind what the slices saved */
	struct zr_operand own;      /* keys of this rank's slices, ascending: they are there */
	struct zr_operand all;      /* keys of all slices; own, where there are no others */
	struct zr_operand held;     /* from one pass of a backward to the next */
	struct zr_operand *leaf;    /* [n_units] gradient of a slice */
	struct zr_operand *root;    /* [n_units] where the tree of a unit ends */
	struct zr_operand *waiting; /* [n_units] */
};

/* How many nodes of a tree of n leaves may wait for their sibling. */
static int32_t levels_of(int32_t n)
{
	int32_t levels = 0;
	while (n >> (levels + 1))
		levels++;
	return levels;
}

/* ---- trees ---- */

static struct zr_operand part_of_each(struct zr_operand o, int32_t parts, uint64_t at, uint64_t n)
{
	if (!parts)
		return zr_none();
	return zr_operand_part(o, at, (uint64_t)(parts - 1) * (o.bytes / (uint64_t)parts) + n);
}

/* Leaf `leaf` of a rank's slices. waiting: of as many levels as there are. */
static void add_leaf(struct zr_lowering *l, const struct zr_slices *z, int32_t leaf, int32_t dtype,
		     struct zr_operand from, struct zr_operand sum, struct zr_operand waiting)
{
	const int last = leaf + 1 == z->here;

	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_TREE,
					  .flags = ZR_F_STORE,
					  .number = leaf,
					  .group = z->here,
					  .blocks = 1,
					  .dtype = dtype });
	zr_low_operand(l, ZR_O_TREE_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_TREE_SUM, last ? sum : zr_none(), ZR_WRITES);
	zr_low_operand(l, ZR_O_TREE_WAITING, waiting, leaf ? ZR_READS | ZR_WRITES : ZR_WRITES);
}

/* n leaves, one behind the other, are a tree; of one, it is copied, or added. */
static void add_tree(struct zr_lowering *l, int32_t n, int32_t dtype, int stores,
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

static int trains(const struct zr_lowering *l, const struct slices *s, uint32_t k)
{
	return s->call.use->phase == ZR_BACKWARD && !l->f->frozen_unit[s->call.use->units[k]];
}

/* Whether a backward of another layer adds to a unit's gradient later. */
static int is_used_later(const struct zr_lowering *l, const struct slices *s, int32_t unit)
{
	const struct zr_schedule *uses = &l->s->programs.train_uses;
	int32_t use = s->call.number;

	while ((use = zr_schedule_next(uses, unit, use)) >= 0)
		if (uses->use[use].phase == ZR_BACKWARD)
			return 1;
	return 0;
}

static int was_used(const struct zr_lowering *l, const struct slices *s, int32_t unit)
{
	return l->s->programs.train_uses.first_grad[unit] != s->call.number;
}

static int has_several_uses(const struct zr_lowering *l, const struct slices *s, int32_t unit)
{
	return was_used(l, s, unit) || is_used_later(l, s, unit);
}

/* Where the trees of a use end: in the unit's gradient, or apart where there is more to do. */
static void make_trees(struct zr_lowering *l, struct slices *s)
{
	const int32_t levels = levels_of(s->z->here);

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
static int is_given(const struct zr_lowering *l, const struct slices *s, int32_t tensor)
{
	const struct zr_tensor *t = l->f->layout.tensor[tensor].decl;
	if (!s->parted)
		return 1;
	return (s->call.parts & (uint32_t)t->part) != 0;
}

/* The next tensors of a unit from *tensor on whose gradients the calls give: their bytes, which the
 * padding behind them is counted to. Returns 0 where there are none. */
static int next_run(const struct zr_lowering *l, const struct slices *s, int32_t unit,
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
static int gives(const struct zr_lowering *l, const struct slices *s, uint32_t k)
{
	const int32_t unit = s->call.use->units[k];
	int32_t tensor = l->f->layout.unit[unit].first;
	uint64_t at, bytes;
	return trains(l, s, k) && next_run(l, s, unit, &tensor, &at, &bytes);
}

static void grow_trees(struct zr_lowering *l, const struct slices *s, int32_t leaf)
{
	const int32_t levels = levels_of(s->z->here), type = l->f->types.comm_dtype;

	for (uint32_t k = 0; levels && k < s->call.use->n_units; k++) {
		const int32_t unit = s->call.use->units[k];
		int32_t tensor = l->f->layout.unit[unit].first;
		uint64_t at, bytes;
		if (!gives(l, s, k))
			continue;

		l->unit = unit;
		while (next_run(l, s, unit, &tensor, &at, &bytes))
			add_leaf(l, s->z, leaf, type, zr_operand_part(s->leaf[k], at, bytes),
				 zr_operand_part(s->root[k], at, bytes),
				 part_of_each(s->waiting[k], levels, at, bytes));
	}
}

/* The tree of a use over all slices, of the blocks of which this rank is to give the sum. */
static void complete_tree(struct zr_lowering *l, const struct slices *s, uint32_t k)
{
	const int32_t unit = s->call.use->units[k], ranks = s->z->ranks;
	const uint64_t bytes = padded_bytes(l, unit), own = bytes / (uint64_t)ranks;
	struct zr_operand came = zr_low_buffer(l, ZR_R_COMM, bytes, 64);

	l->part[0] = (struct zr_sent_received){ s->root[k], came };
	zr_low_collective(l, ZR_COMM_ALL_TO_ALL, ZR_GROUP_SEQUENCE, ZR_F32, 0, 1);
	if (!was_used(l, s, unit))
		l->shared[unit] = gradient_buffer(l, own);

	struct zr_operand sum = l->shared[unit];
	if (was_used(l, s, unit))
		sum = gradient_buffer(l, own);
	add_tree(l, ranks, l->f->types.comm_dtype, 1, came, sum);
	if (was_used(l, s, unit))
		add_tree(l, 1, ZR_F32, 0, sum, l->shared[unit]);
	if (is_used_later(l, s, unit))
		return;

	struct zr_operand all = zr_low_gradient(l, unit);
	clear(l, all);
	add_tree(l, 1, ZR_F32, 1, l->shared[unit],
		 zr_operand_part(all, own * (uint64_t)s->z->rank, own));
}

static void end_trees(struct zr_lowering *l, const struct slices *s)
{
	for (uint32_t k = 0; k < s->call.use->n_units; k++) {
		const int32_t unit = s->call.use->units[k];
		if (!trains(l, s, k) || !has_several_uses(l, s, unit))
			continue;

		l->unit = unit;
		if (s->z->ranks > 1)
			complete_tree(l, s, k);
		else if (was_used(l, s, unit))
			add_tree(l, 1, ZR_F32, 0, s->root[k], zr_low_gradient(l, unit));
	}
}

/* ---- keys ---- */

static void find_keys(struct zr_lowering *l, struct slices *s)
{
	const uint64_t here = (uint64_t)s->z->here;
	struct zr_operand saved = zr_low_activation(l, l->act->use[s->call.number].saved);
	const uint64_t at = here * zr_up(s->bytes->saved, 64);
	s->kept = zr_operand_part(saved, at, saved.bytes - at);
	s->own = zr_operand_part(s->kept, 0, here * s->bytes->keys);
	s->all = s->own;
}

static void arrange(struct zr_lowering *l, const struct slices *s, int back, uint64_t slice,
		    struct zr_operand from, struct zr_operand to)
{
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_ARRANGE,
					  .number = back,
					  .block = (int64_t)slice / s->z->rows });
	zr_low_operand(l, ZR_O_ARRANGE_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_ARRANGE_TO, to, ZR_WRITES);
}

/* Keys and values of the whole sequence. */
static void gather_keys(struct zr_lowering *l, struct slices *s)
{
	const uint64_t bytes = s->own.bytes * (uint64_t)s->z->ranks;
	if (s->z->ranks == 1)
		return;

	struct zr_operand came = zr_low_buffer(l, ZR_R_COMM, bytes, 64);
	l->part[0] = (struct zr_sent_received){ s->own, came };
	zr_low_collective(l, ZR_COMM_ALL_GATHER, ZR_GROUP_SEQUENCE, l->f->types.dtype, 0, 1);
	s->all = zr_low_buffer(l, ZR_R_WORK, bytes, 64);
	arrange(l, s, 0, s->bytes->keys, came, s->all);
}

/* What this rank's queries gave to the keys of all ranks reaches them. */
static struct zr_operand exchange_sums(struct zr_lowering *l, const struct slices *s,
				       struct zr_operand sums)
{
	const int32_t ranks = s->z->ranks;
	if (ranks == 1)
		return sums;

	struct zr_operand sent = zr_low_buffer(l, ZR_R_COMM, sums.bytes, 64);
	struct zr_operand came = zr_low_buffer(l, ZR_R_COMM, sums.bytes, 64);
	arrange(l, s, 1, s->bytes->key_sums, sums, sent);
	l->part[0] = (struct zr_sent_received){ sent, came };
	zr_low_collective(l, ZR_COMM_ALL_TO_ALL, ZR_GROUP_SEQUENCE, ZR_F32, 0, 1);

	struct zr_operand own = zr_low_buffer(l, ZR_R_WORK, sums.bytes / (uint64_t)ranks, 64);
	add_tree(l, ranks, ZR_F32, 1, came, own);
	return own;
}

/* ---- passes ---- */

/* Which slice comes, and what its call finds. */
static void turn_to(struct slices *s, int32_t slice)
{
	struct zr_low_call *c = &s->call;
	const int64_t place = zr_slice_place(s->z, slice);
	const uint64_t before = (uint64_t)slice * s->bytes->keys;

	c->slice = slice;
	c->keys = c->all_keys = zr_none();
	if (!s->parted)
		return;

	c->keys = zr_operand_part(s->kept, (uint64_t)place * s->bytes->keys, s->bytes->keys);
	if (place + 1 == s->z->here) /* with the padding behind */
		c->keys.bytes = s->kept.bytes - (uint64_t)place * s->bytes->keys;
	if (c->parts & ZR_PART_ATTEND && c->parts & ZR_PART_BEFORE) /* its own are written now */
		c->all_keys = zr_operand_part(s->all, 0, before);
	else if (c->parts & ZR_PART_ATTEND)
		c->all_keys = zr_operand_part(s->all, 0, before + s->bytes->keys);
	if (s->held.region >= 0)
		c->held = zr_operand_part(s->held, (uint64_t)place * zr_up(s->bytes->held, 64),
					  s->bytes->held);
}

static void forward_pass(struct zr_lowering *l, struct slices *s, uint32_t parts)
{
	s->call.parts = parts;
	for (int32_t i = 0; i < s->z->here; i++) {
		turn_to(s, zr_slice_at(s->z, i));
		zr_low_call(l, &s->call);
	}
}

static void forward(struct zr_lowering *l, struct slices *s)
{
	if (!s->parted) {
		forward_pass(l, s, 0);
		return;
	}

	find_keys(l, s);
	if (s->z->ranks == 1) {
		forward_pass(l, s, ZR_PART_BEFORE | ZR_PART_ATTEND | ZR_PART_AFTER);
		return;
	}

	forward_pass(l, s, ZR_PART_BEFORE);
	gather_keys(l, s);
	forward_pass(l, s, ZR_PART_ATTEND | ZR_PART_AFTER);
}

/* The call of a leaf, whose gradients join their trees. */
static void backward_leaf(struct zr_lowering *l, struct slices *s, int32_t leaf,
			  struct zr_operand *given)
{
	turn_to(s, zr_slice_of_leaf(s->z, s->z->rank * s->z->here + leaf));
	for (uint32_t k = 0; k < s->call.use->n_units; k++)
		given[k] = gives(l, s, k) ? s->leaf[k] : zr_none();
	s->call.leaf = given;
	zr_low_call(l, &s->call);
	grow_trees(l, s, leaf);
}

/* Of each leaf what its queries gave to all keys, of which there is nothing behind the leaf. */
static struct zr_operand attend_backward(struct zr_lowering *l, struct slices *s,
					 struct zr_operand *given)
{
	const struct zr_slices *z = s->z;
	const int32_t levels = levels_of(z->here);
	const uint64_t one = s->bytes->key_sums, bytes = one * (uint64_t)z->n;
	struct zr_operand sums = zr_low_buffer(l, ZR_R_WORK, bytes, 64), leaf = sums;
	struct zr_operand waiting = zr_none();
	if (levels) {
		leaf = zr_low_buffer(l, ZR_R_WORK, bytes, 64);
		waiting = zr_low_buffer(l, ZR_R_WORK, bytes * (uint64_t)levels, 64);
	}

	s->call.parts = ZR_PART_AFTER | ZR_PART_ATTEND;
	for (int32_t i = 0; i < z->here; i++) {
		const int32_t slice = zr_slice_of_leaf(z, z->rank * z->here + i);
		const uint64_t end = one * (uint64_t)(slice + 1);
		clear(l, zr_operand_part(leaf, end, bytes - end));
		s->call.key_sums = zr_operand_part(leaf, 0, end);
		backward_leaf(l, s, i, given);
		if (levels)
			add_leaf(l, z, i, ZR_F32, leaf, sums, waiting);
	}

	return sums;
}

static void before_backward(struct zr_lowering *l, struct slices *s, struct zr_operand sums,
			    struct zr_operand *given)
{
	const uint64_t one = s->bytes->key_sums;

	s->call.parts = ZR_PART_BEFORE;
	for (int32_t i = 0; i < s->z->here; i++) {
		const int32_t leaf = s->z->rank * s->z->here + i;
		const int64_t place = zr_slice_place(s->z, zr_slice_of_leaf(s->z, leaf));
		s->call.key_sums = zr_operand_part(sums, (uint64_t)place * one, one);
		backward_leaf(l, s, i, given);
	}
}

static void backward(struct zr_lowering *l, struct slices *s, struct zr_operand *given)
{
	make_trees(l, s);
	if (!s->parted) {
		s->call.parts = 0;
		for (int32_t i = 0; i < s->z->here; i++)
			backward_leaf(l, s, i, given);
		end_trees(l, s);
		return;
	}

	find_keys(l, s);
	gather_keys(l, s);
	s->held = zr_low_buffer(l, ZR_R_WORK, (uint64_t)s->z->here * zr_up(s->bytes->held, 64), 64);
	struct zr_operand sums = exchange_sums(l, s, attend_backward(l, s, given));
	before_backward(l, s, sums, given);
	end_trees(l, s);
}

void zr_low_slices(struct zr_lowering *l, const struct zr_low_call *c)
{
	const size_t n = (size_t)c->use->n_units + 1;
	struct slices s = { .call = *c,
			    .z = &l->f->slices,
			    .bytes = &l->f->slice_bytes[c->use->layer],
			    .parted = zr_layer_at(&l->f->decl, c->use->layer)->cut == ZR_CUT_KEYS,
			    .held = zr_none() };
	struct zr_operand *tables = calloc(4 * n, sizeof *tables);
	if (!tables) {
		l->rc = zr_err(l->err, ZR_ENOMEM, "out of memory for the slices of a layer");
		return;
	}

	s.leaf = tables;
	s.root = tables + n;
	s.waiting = tables + 2 * n;
	if (c->use->phase == ZR_BACKWARD)
		backward(l, &s, tables + 3 * n);
	else
		forward(l, &s);
	free(tables);
}
