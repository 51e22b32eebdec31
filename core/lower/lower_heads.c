/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_heads.c - a layer whose attention is divided by heads among the ranks of a sequence (Jacobs
 * et al. 2023, DeepSpeed Ulysses). Rows of all heads become all rows of a share of them, and back:
 * each rank sends each other one the part of its rows that belongs to the other's heads.
 *
 *   forward     BEFORE of each slice; queries, keys and values go to their heads; ATTEND of all
 *               slices; what it gives goes to its rows; AFTER of each slice
 *   backward    AFTER of each leaf; gradients go to their heads; ATTEND of all leaves, whose sums
 *               for keys are a whole tree; SUMS of all slices; gradients go to their rows; BEFORE
 *               of each leaf
 */
#include "core/base/numbers.h"
#include "core/lower/slices.h"

/* What is kept from the forward to the backward: all rows, of this rank's heads, of what attention
 * reads and of what it gives; its own rows, of all heads, of the latter; what attention keeps. */
struct kept {
	struct zr_operand read, given, attended, kept;
};

static struct zr_operand next_part(const struct zr_low_use *s, uint64_t *at, uint64_t bytes)
{
	return zr_operand_part(s->behind, zr_room(at, bytes), bytes);
}

/* As setup_layers.c sizes it; the last one to the end. */
static struct kept find_kept(const struct zr_low_use *s)
{
	const uint64_t here = (uint64_t)s->z->here;
	uint64_t at = 0;
	struct kept k = { .read = next_part(s, &at, here * s->bytes->keys) };
	k.given = next_part(s, &at, here * s->bytes->attended);
	k.attended = next_part(s, &at, here * s->bytes->attended);
	k.kept = zr_operand_part(s->behind, at, s->behind.bytes - at);
	return k;
}

/* ---- rows and heads ---- */

void zr_low_arrange(struct zr_lowering *l, const struct zr_low_use *s, int back, uint64_t slice,
		    struct zr_operand from, struct zr_operand to)
{
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_ARRANGE,
					  .number = back,
					  .block = (int64_t)slice / s->z->rows });
	zr_low_operand(l, ZR_O_ARRANGE_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_ARRANGE_TO, to, ZR_WRITES);
}

static void regroup(struct zr_lowering *l, const struct zr_low_use *s, int attended, int back,
		    struct zr_operand from, struct zr_operand to)
{
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_REGROUP,
					  .number = attended,
					  .root = back,
					  .group = s->call.use->layer });
	zr_low_operand(l, ZR_O_REGROUP_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_REGROUP_TO, to, ZR_WRITES);
}

static struct zr_operand exchange(struct zr_lowering *l, struct zr_operand sent)
{
	return zr_low_among(l, ZR_COMM_ALL_TO_ALL, l->f->types.dtype, sent);
}

/* one: bytes of a slice's rows of all heads. */
static void to_heads(struct zr_lowering *l, const struct zr_low_use *s, int attended, uint64_t one,
		     struct zr_operand rows, struct zr_operand heads)
{
	struct zr_operand sent = zr_low_buffer(l, ZR_R_COMM, rows.bytes, 64);
	regroup(l, s, attended, 0, rows, sent);
	zr_low_arrange(l, s, 0, one / (uint64_t)s->z->ranks, exchange(l, sent), heads);
}

static void to_rows(struct zr_lowering *l, const struct zr_low_use *s, int attended, uint64_t one,
		    struct zr_operand heads, struct zr_operand rows)
{
	struct zr_operand sent = zr_low_buffer(l, ZR_R_COMM, heads.bytes, 64);
	zr_low_arrange(l, s, 1, one / (uint64_t)s->z->ranks, heads, sent);
	regroup(l, s, attended, 1, exchange(l, sent), rows);
}

/* ---- passes ---- */

/* The memory that passes touch, each an operand of all slices or of all rows. */
struct zr_low_heads {
	struct kept kept;
	struct zr_operand keys, held, dattended; /* of rows: of this rank's slices */
	struct zr_operand dgiven, dread;         /* of heads: of all slices */
};

static void turn_to_rows(struct zr_low_use *s, const struct zr_low_heads *h, int32_t slice)
{
	struct zr_low_call *c = &s->call;
	const struct zr_layer_bytes *b = s->bytes;
	const int64_t place = zr_slice_place(s->z, slice);
	const int before = (c->parts & ZR_PART_BEFORE) != 0;
	const int backward = c->use->phase == ZR_BACKWARD;

	c->slice = slice;
	c->keys = c->all_keys = c->key_sums = c->held = c->kept = zr_none();
	c->attended = c->dattended = zr_none();
	if (before && !backward)
		c->keys = zr_low_nth(h->keys, place, b->keys);
	else if (before)
		c->held = zr_low_nth(h->held, place, b->held);
	else
		c->attended = zr_low_nth(h->kept.attended, place, b->attended);
	if (!before && backward)
		c->dattended = zr_low_nth(h->dattended, place, b->attended);
}

/* All slices, of this rank's heads. */
static void turn_to_heads(struct zr_low_use *s, const struct zr_low_heads *h, int32_t slice)
{
	struct zr_low_call *c = &s->call;
	const struct zr_layer_bytes *b = s->bytes;
	const uint64_t ranks = (uint64_t)s->z->ranks, one = b->keys / ranks;
	const uint64_t kept = zr_up(b->attend_kept, 64);
	const int backward = c->use->phase == ZR_BACKWARD;

	c->slice = slice;
	c->keys = zr_low_nth(h->kept.read, slice, one);
	c->all_keys = zr_operand_part(h->kept.read, 0, one * (uint64_t)(slice + 1));
	c->attended = zr_low_nth(h->kept.given, slice, b->attended / ranks);
	c->kept = zr_low_nth(h->kept.kept, slice, kept);
	if (slice + 1 == s->z->n) /* with the padding behind */
		c->kept.bytes = h->kept.kept.bytes - (uint64_t)slice * kept;
	c->dattended = c->held = zr_none();
	if (!backward)
		return;
	c->dattended = zr_low_nth(h->dgiven, slice, b->attended / ranks);
	c->held = zr_low_nth(h->dread, slice, b->held / ranks);
}

static void pass_of_rows(struct zr_lowering *l, struct zr_low_use *s, const struct zr_low_heads *h,
			 uint32_t parts)
{
	const int backward = s->call.use->phase == ZR_BACKWARD;

	s->call.parts = parts;
	for (int32_t i = 0; i < s->z->here; i++) {
		turn_to_rows(s, h, backward ? zr_low_leaf(s, i) : zr_slice_at(s->z, i));
		if (backward)
			zr_low_call_leaf(l, s, i);
		else
			zr_low_calls(l, &s->call);
	}
}

static struct zr_operand work_of(struct zr_lowering *l, uint64_t bytes)
{
	return zr_low_buffer(l, ZR_R_WORK, bytes, 64);
}

void zr_low_heads_forward(struct zr_lowering *l, struct zr_low_use *s)
{
	const struct zr_layer_bytes *b = s->bytes;
	struct zr_low_heads h = { .kept = find_kept(s),
				  .keys = work_of(l, (uint64_t)s->z->here * b->keys) };

	pass_of_rows(l, s, &h, ZR_PART_BEFORE);
	to_heads(l, s, 0, b->keys, h.keys, h.kept.read);
	s->call.parts = ZR_PART_ATTEND;
	for (int32_t slice = 0; slice < s->z->n; slice++) {
		turn_to_heads(s, &h, slice);
		s->call.key_sums = zr_none();
		zr_low_call(l, &s->call);
	}
	to_rows(l, s, 1, b->attended, h.kept.given, h.kept.attended);
	pass_of_rows(l, s, &h, ZR_PART_AFTER);
}

static void attend_leaf(struct zr_lowering *l, struct zr_low_use *s, int32_t leaf)
{
	turn_to_heads(s, s->heads, zr_slice_of_leaf(s->z, leaf));
	zr_low_call(l, &s->call);
}

/* Calls give no gradients of units. */
static void give_nothing(struct zr_low_use *s)
{
	for (uint32_t k = 0; k < s->call.use->n_units; k++)
		s->given[k] = zr_none();
	s->call.leaf = s->given;
}

void zr_low_heads_backward(struct zr_lowering *l, struct zr_low_use *s)
{
	const struct zr_layer_bytes *b = s->bytes;
	const uint64_t here = (uint64_t)s->z->here, one = b->key_sums / (uint64_t)s->z->ranks;
	struct zr_low_heads h = { .kept = find_kept(s) };
	s->heads = &h;

	h.dattended = work_of(l, here * b->attended);
	pass_of_rows(l, s, &h, ZR_PART_AFTER);
	h.dgiven = work_of(l, here * b->attended);
	to_heads(l, s, 1, b->attended, h.dattended, h.dgiven);

	h.dread = work_of(l, here * b->held);
	give_nothing(s);
	s->call.parts = ZR_PART_ATTEND;
	struct zr_operand sums = zr_low_sum_keys(l, s, s->z->n, one, attend_leaf);
	s->call.parts = ZR_PART_SUMS;
	for (int32_t slice = 0; slice < s->z->n; slice++) {
		turn_to_heads(s, &h, slice);
		s->call.key_sums = zr_low_nth(sums, slice, one);
		zr_low_call(l, &s->call);
	}

	h.held = work_of(l, here * b->held);
	to_rows(l, s, 0, b->held, h.dread, h.held);
	pass_of_rows(l, s, &h, ZR_PART_BEFORE);
}
