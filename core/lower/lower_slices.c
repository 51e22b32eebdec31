/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_slices.c - a use of a layer, slice by slice (core/model/slices.h). Where keys and values of
 * the whole sequence come to each rank:
 *
 *   forward     BEFORE of each slice; keys of all ranks of the sequence come; ATTEND | AFTER of
 *               each. Where one rank has all slices each is one call, which finds the keys before.
 *   backward    keys come again; AFTER | ATTEND of each leaf; what queries gave to keys goes
 *               to the ranks that have them; SUMS | BEFORE of each leaf
 *
 * Before the loss layer sums of all slices come, where the model has some (slot_sums).
 *
 * What each leaf gives to keys is added as a balanced tree as it comes, and goes on where the ranks
 * of the sequence add it. lower_heads.c: the same, divided by heads.
 */
#include "core/lower/slices.h"

#include <stdlib.h>

#include "core/base/numbers.h"

/* Keys and values: of this rank's slices, of all, and what the backward holds between its parts. */
struct zr_low_keys {
	struct zr_operand own, all, held;
};

static struct zr_low_keys find_keys(const struct zr_low_use *s)
{
	struct zr_operand own =
		zr_operand_part(s->behind, 0, (uint64_t)s->z->here * s->bytes->keys);
	return (struct zr_low_keys){ own, own, zr_none() };
}

/* Keys and values of the whole sequence. */
static void gather_keys(struct zr_lowering *l, const struct zr_low_use *s, struct zr_low_keys *k)
{
	const uint64_t bytes = k->own.bytes * (uint64_t)s->z->ranks;
	if (s->z->ranks == 1)
		return;

	struct zr_operand came = zr_low_among(l, ZR_COMM_ALL_GATHER, l->f->types.dtype, k->own);
	k->all = zr_low_buffer(l, ZR_R_WORK, bytes, 64);
	zr_low_arrange(l, s, 0, s->bytes->keys, came, k->all);
}

/* What this rank's queries gave to the keys of all ranks reaches them. */
static struct zr_operand exchange_sums(struct zr_lowering *l, const struct zr_low_use *s,
				       struct zr_operand sums)
{
	const int32_t ranks = s->z->ranks;
	if (ranks == 1)
		return sums;

	struct zr_operand sent = zr_low_buffer(l, ZR_R_COMM, sums.bytes, 64);
	zr_low_arrange(l, s, 1, s->bytes->key_sums, sums, sent);

	struct zr_operand came = zr_low_among(l, ZR_COMM_ALL_TO_ALL, ZR_F32, sent);
	struct zr_operand own = zr_low_buffer(l, ZR_R_WORK, sums.bytes / (uint64_t)ranks, 64);
	zr_low_add_tree(l, ranks, ZR_F32, 1, came, own);
	return own;
}

/* ---- passes ---- */

/* Sets up the call for a slice: its keys, and the memory between its parts. */
static void turn_to(struct zr_low_use *s, const struct zr_low_keys *k, int32_t slice)
{
	struct zr_low_call *c = &s->call;
	const int64_t place = zr_slice_place(s->z, slice);
	const uint64_t one = s->bytes->keys, before = (uint64_t)slice * one;
	c->slice = slice;
	if (!s->parted)
		return;

	c->keys = zr_low_nth(s->behind, place, one);
	if (place + 1 == s->z->here) /* with the padding behind */
		c->keys.bytes = s->behind.bytes - (uint64_t)place * one;
	c->all_keys = zr_none();
	if (c->parts & ZR_PART_ATTEND && c->parts & ZR_PART_BEFORE) /* its own are written now */
		c->all_keys = zr_operand_part(k->all, 0, before);
	else if (c->parts & ZR_PART_ATTEND)
		c->all_keys = zr_operand_part(k->all, 0, before + one);
	if (k->held.region >= 0)
		c->held = zr_low_nth(k->held, place, s->bytes->held);
}

static void forward_pass(struct zr_lowering *l, struct zr_low_use *s, const struct zr_low_keys *k,
			 uint32_t parts)
{
	s->call.parts = parts;
	for (int32_t i = 0; i < s->z->here; i++) {
		turn_to(s, k, zr_slice_at(s->z, i));
		zr_low_calls(l, &s->call);
	}
}

static void forward(struct zr_lowering *l, struct zr_low_use *s)
{
	if (!s->parted) {
		forward_pass(l, s, NULL, 0);
		return;
	}

	struct zr_low_keys k = find_keys(s);
	if (s->z->ranks == 1) {
		forward_pass(l, s, &k, ZR_PART_BEFORE | ZR_PART_ATTEND | ZR_PART_AFTER);
		return;
	}

	forward_pass(l, s, &k, ZR_PART_BEFORE);
	gather_keys(l, s, &k);
	forward_pass(l, s, &k, ZR_PART_ATTEND | ZR_PART_AFTER);
}

static void attend_leaf(struct zr_lowering *l, struct zr_low_use *s, int32_t leaf)
{
	turn_to(s, s->keys, zr_low_leaf(s, leaf));
	zr_low_call_leaf(l, s, leaf);
}

static void backward_in_parts(struct zr_lowering *l, struct zr_low_use *s)
{
	const uint64_t here = (uint64_t)s->z->here, one = s->bytes->key_sums;
	struct zr_low_keys k = find_keys(s);
	gather_keys(l, s, &k);
	k.held = zr_low_buffer(l, ZR_R_WORK, here * s->bytes->held, 64);
	s->keys = &k;

	s->call.parts = ZR_PART_AFTER | ZR_PART_ATTEND;
	struct zr_operand sums = zr_low_sum_keys(l, s, s->z->here, one, attend_leaf);
	sums = exchange_sums(l, s, sums);

	s->call.parts = ZR_PART_SUMS | ZR_PART_BEFORE;
	for (int32_t i = 0; i < s->z->here; i++) {
		const int32_t slice = zr_low_leaf(s, i);
		s->call.key_sums = zr_low_nth(sums, zr_slice_place(s->z, slice), one);
		turn_to(s, &k, slice);
		zr_low_call_leaf(l, s, i);
	}
}

static void backward_of_rows(struct zr_lowering *l, struct zr_low_use *s)
{
	s->call.parts = 0;
	for (int32_t i = 0; i < s->z->here; i++) {
		turn_to(s, NULL, zr_low_leaf(s, i));
		zr_low_call_leaf(l, s, i);
	}
}

static void copy_sums(struct zr_lowering *l, struct zr_operand from, struct zr_operand to)
{
	const struct zr_instr bits_stay = {
		.kind = ZR_I_CAST,
		.from = ZR_F32,
		.dtype = ZR_F32,
	};

	zr_low_emit(l, bits_stay);
	zr_low_operand(l, ZR_O_CAST_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_CAST_TO, to, ZR_WRITES);
}

/* What this rank's slices left behind the rows that the loss layer reads, by leaves. */
static void collect_sums(struct zr_lowering *l, const struct zr_low_use *s,
			 const struct zr_layer_bytes *before, struct zr_operand to)
{
	struct zr_operand in = zr_low_activation(l, l->act->use[s->call.number].in);
	struct zr_operand of;

	for (int32_t i = 0; i < s->z->here; i++) {
		const int32_t slice = zr_low_leaf(s, i);
		of = zr_low_of_slice(l, in, zr_slice_place(s->z, slice));
		of = zr_operand_part(of, before->sums_at, before->sums);
		copy_sums(l, of, zr_low_nth(to, i, before->sums));
	}
}

/* Those of the whole sequence: leaves of a rank follow each other, so that they are in one order
 * however many ranks there are. */
static struct zr_operand gather_sums(struct zr_lowering *l, const struct zr_low_use *s)
{
	const struct zr_layer_bytes *before = s->bytes - 1;
	const int32_t ranks = s->z->ranks;
	struct zr_operand own;
	int32_t where = ZR_R_COMM;
	if (!s->call.loss || !s->call.use->layer)
		return zr_none();
	if (!before->sums)
		return zr_none();

	if (ranks == 1)
		where = ZR_R_WORK;
	own = zr_low_buffer(l, where, (uint64_t)s->z->here * before->sums, 64);
	collect_sums(l, s, before, own);
	if (ranks == 1)
		return own;

	return zr_low_among(l, ZR_COMM_ALL_GATHER, ZR_F32, own);
}

static void backward(struct zr_lowering *l, struct zr_low_use *s)
{
	s->call.slot_sums = gather_sums(l, s);
	zr_low_begin_trees(l, s);
	if (!s->parted)
		backward_of_rows(l, s);
	else if (s->z->by_heads)
		zr_low_heads_backward(l, s);
	else
		backward_in_parts(l, s);
	zr_low_end_trees(l, s);
}

/* Behind what its slices saved, of a layer of parts. */
static struct zr_operand find_behind(struct zr_lowering *l, const struct zr_low_use *s)
{
	const uint64_t at = (uint64_t)s->z->here * zr_up(s->bytes->saved, 64);
	struct zr_operand saved;
	if (!s->parted)
		return zr_none();

	saved = zr_low_activation(l, l->act->use[s->call.number].saved);
	return zr_operand_part(saved, at, saved.bytes - at);
}

void zr_low_slices(struct zr_lowering *l, const struct zr_low_call *c)
{
	const size_t n = (size_t)c->use->n_units + 1;
	struct zr_low_use s = {
		.call = *c,
		.z = &l->f->slices,
		.bytes = &l->f->slice_bytes[c->use->layer],
		.parted = zr_layer_at(&l->f->decl, c->use->layer)->cut == ZR_CUT_KEYS,
	};
	struct zr_operand *tables = calloc(4 * n, sizeof *tables);
	if (!tables) {
		l->rc = zr_err(l->err, ZR_ENOMEM, "out of memory for the slices of a layer");
		return;
	}

	s.leaf = tables;
	s.root = tables + n;
	s.waiting = tables + 2 * n;
	s.given = tables + 3 * n;
	s.behind = find_behind(l, &s);
	if (c->use->phase == ZR_BACKWARD)
		backward(l, &s);
	else if (s.parted && s.z->by_heads)
		zr_low_heads_forward(l, &s);
	else
		forward(l, &s);
	free(tables);
}
