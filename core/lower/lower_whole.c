/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_whole.c - optimizers of whole matrices: a tensor's master, states and gradient come
 * together at an owner, which is the same for every stage, are updated there and go back to who
 * holds them. As many tensors at a time as there are ranks, so that all owners compute at once.
 * Where all states are split over the world, two exchanges with counts carry a tensor of each
 * owner; else tensors travel in chunks, by broadcasts. A device with a memory of
 * its own computes them there, wherever masters are kept: its products have other bits than those
 * of the host.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/numbers.h"
#include "core/lower/lower.h"
#include "core/update/update.h"

enum { TO_OWNER, BACK };

/* Blocks [first, first + n) of a tensor's unit, together in a buffer: the master, then each state,
 * then the gradient. */
struct chunk {
	struct zr_operand buffer;
	int32_t tensor, optimizer;
	int64_t first, n;
};

static struct chunk matrix(const struct zr_lowering *l, int32_t tensor)
{
	const struct zr_place *t = &l->f->layout.tensor[tensor];
	return (struct chunk){ l->matrix, tensor, zr_optimizer_of(&l->s->roles, tensor),
			       t->offset / ZR_BLOCK, t->blocks };
}

/* As many blocks from `first` on as travel at a time, but none from `end` on. */
static struct chunk message(const struct zr_lowering *l, int32_t tensor, int64_t first, int64_t end)
{
	int64_t n = zr_fewer(end - first, l->plan->whole.chunk);
	return (struct chunk){ l->message, tensor, zr_optimizer_of(&l->s->roles, tensor), first,
			       n };
}

/* Blocks [from, from + n) of a chunk's data of one kind. */
static struct zr_operand part(const struct zr_lowering *l, const struct chunk *c, uint32_t kind,
			      int64_t from, int64_t n)
{
	uint64_t bytes = zr_whole_kind_bytes(l->s, c->tensor, kind);
	uint64_t at = zr_whole_kind_at(l->s, c->tensor, c->n, kind);
	return zr_operand_part(c->buffer, at + (uint64_t)from * bytes, (uint64_t)n * bytes);
}

static struct zr_operand all_of(const struct zr_lowering *l, const struct chunk *c, int way)
{
	uint32_t kinds = zr_whole_kinds(l->s, c->tensor, way == BACK);
	return zr_operand_part(c->buffer, 0, zr_whole_kind_at(l->s, c->tensor, c->n, kinds));
}

/* A state by shape may have nothing for a tensor. */
static int has(const struct zr_lowering *l, int32_t tensor, uint32_t kind)
{
	return zr_whole_kind_bytes(l->s, tensor, kind) > 0;
}

/* The blocks that both have, from one to the other. */
static void copy(struct zr_lowering *l, const struct chunk *to, const struct chunk *from, int way)
{
	int64_t lo = from->first, hi = from->first + from->n;
	zr_intersect(to->first, to->first + to->n, &lo, &hi);
	for (uint32_t k = 0; k < zr_whole_kinds(l->s, to->tensor, way == BACK); k++)
		if (has(l, to->tensor, k))
			zr_low_move(l, part(l, from, k, lo - from->first, hi - lo),
				    part(l, to, k, lo - to->first, hi - lo));
}

/* Of a chunk's blocks [first, first + n), all of which this rank holds. */
static struct zr_subgroup subgroup_of(const struct zr_lowering *l, const struct chunk *c,
				      int64_t first, int64_t n)
{
	const struct zr_plan *p = l->plan;
	int32_t unit = l->f->layout.tensor[c->tensor].unit;
	const struct zr_block_run *r = &p->run[p->first_run[unit]];
	while (r->first + r->n <= first)
		r++;
	return zr_subgroup_in(l->plan, r, first, n);
}

static int datum(const struct zr_lowering *l, const struct chunk *c, uint32_t kind)
{
	const struct zr_optimizer *o = &l->s->roles.optimizer[c->optimizer];
	if (kind == 0)
		return ZR_D_MASTER;
	if (kind > o->n_states)
		return ZR_D_GRAD;
	return ZR_D_STATE + (int)(o->first_state + kind - 1);
}

/* Masters pass through fp32. */
static void master(struct zr_lowering *l, int32_t kind, const struct chunk *c,
		   const struct zr_subgroup *p, int32_t number)
{
	int load = kind == ZR_I_LOAD;
	uint32_t other = load ? ZR_READS : ZR_WRITES;
	zr_low_emit(l, (struct zr_instr){ .kind = (uint8_t)kind,
					  .number = number,
					  .blocks = p->n,
					  .queue = zr_low_queue(l, ZR_R_MASTER) });
	zr_low_operand(l, ZR_O_LOAD_VALUES, part(l, c, 0, p->first - c->first, p->n),
		       load ? ZR_WRITES : ZR_READS | ZR_WRITES);
	zr_low_operand(l, ZR_O_LOAD_MASTER, zr_low_datum(l, p, ZR_D_MASTER), other);
	zr_low_operand(l, ZR_O_LOAD_COPY, zr_low_datum(l, p, ZR_D_LOWP),
		       l->f->types.master == ZR_MASTER_FP32 && load ? 0 : other);
}

/* Blocks [first, first + n) of a chunk from where this rank holds them. */
static void load(struct zr_lowering *l, const struct chunk *c, int64_t first, int64_t n)
{
	struct zr_subgroup p = subgroup_of(l, c, first, n);
	int32_t number = zr_low_add_subgroup(l, &p);
	zr_low_pass(l, &p, 0);
	master(l, ZR_I_LOAD, c, &p, number);
	for (uint32_t k = 1; k < zr_whole_kinds(l->s, c->tensor, 0); k++)
		if (has(l, c->tensor, k))
			zr_low_move(l, zr_low_datum(l, &p, datum(l, c, k)),
				    part(l, c, k, first - c->first, n));
}

/* What this rank holds of a chunk's blocks [first, first + n), to there; with its compute copy. */
static void store(struct zr_lowering *l, const struct chunk *c, int64_t first, int64_t n)
{
	struct zr_share mine = zr_rank_holds(l->f, c->tensor, l->f->process.rank);
	int64_t lo = mine.first, hi = lo + mine.n;
	if (!zr_intersect(first, first + n, &lo, &hi))
		return;

	struct zr_subgroup p = subgroup_of(l, c, lo, hi - lo);
	int32_t number = zr_low_add_subgroup(l, &p);
	zr_low_secure(l, number);
	master(l, ZR_I_STORE, c, &p, number);
	for (uint32_t k = 1; k < zr_whole_kinds(l->s, c->tensor, 1); k++)
		if (has(l, c->tensor, k))
			zr_low_move(l, part(l, c, k, lo - c->first, p.n),
				    zr_low_datum(l, &p, datum(l, c, k)));
	zr_low_round(l, &p, zr_low_datum(l, &p, ZR_D_LOWP));
	zr_low_pass(l, &p, 1);
}

static void send(struct zr_lowering *l, const struct chunk *c, int root, int way)
{
	l->part[0] = (struct zr_sent_received){ all_of(l, c, way), all_of(l, c, way) };
	if (l->f->process.world > 1)
		zr_low_collective(l, ZR_COMM_BROADCAST, ZR_GROUP_WORLD, ZR_F32, root, 1);
	zr_low_keep(l, &l->matrix); /* also on a rank that owns none */
}

/* What rank `from` holds of a tensor, to its owner. */
static void bring_part(struct zr_lowering *l, int32_t tensor, int from, int owner)
{
	int me = l->f->process.rank;
	struct chunk all = matrix(l, tensor), c;
	struct zr_share held = zr_rank_holds(l->f, tensor, from);
	int64_t end = held.first + held.n;

	for (int64_t at = held.first; !l->rc && at < end; at += c.n) {
		c = message(l, tensor, at, end);
		if (me == from)
			load(l, &c, c.first, c.n);
		if (from != owner)
			send(l, &c, from, TO_OWNER);
		if (me == owner)
			copy(l, &all, &c, TO_OWNER);
	}
}

/* From the owner's own group: others hold the same. */
static void bring(struct zr_lowering *l, int32_t tensor, int owner)
{
	int32_t unit = l->f->layout.tensor[tensor].unit;
	int n = (int)zr_group_ranks(l->f, l->f->groups[unit].state), first = owner / n * n;
	for (int r = first; r < first + n; r++)
		bring_part(l, tensor, r, owner);
}

static void update(struct zr_lowering *l, int32_t tensor)
{
	const struct zr_whole_plan *p = &l->plan->whole;
	struct chunk all = matrix(l, tensor);
	zr_low_emit(l, (struct zr_instr){ .kind = ZR_I_WHOLE,
					  .number = tensor,
					  .queue = zr_low_queue(l, ZR_R_WHOLE) });
	zr_low_operand(l, ZR_O_WHOLE_MATRIX, all_of(l, &all, TO_OWNER), ZR_READS | ZR_WRITES);
	zr_low_operand(l, ZR_O_WHOLE_WORK, zr_operand_part(l->matrix, p->work, p->work_bytes),
		       ZR_WRITES);
	zr_low_operand(l, ZR_O_WHOLE_SCALARS, l->whole_scalars, ZR_READS);
}

static void give_back(struct zr_lowering *l, int32_t tensor, int owner)
{
	struct chunk all = matrix(l, tensor), c;
	int64_t end = all.first + all.n;
	for (int64_t at = all.first; !l->rc && at < end; at += c.n) {
		c = message(l, tensor, at, end);
		if (l->f->process.rank == owner)
			copy(l, &c, &all, BACK);
		send(l, &c, owner, BACK);
		store(l, &c, c.first, c.n);
	}
}

/* ---- by exchanges ---- */

/* Bytes of what a rank holds of a tensor, as a chunk. */
static uint64_t held_bytes(const struct zr_lowering *l, int32_t tensor, int rank, int way)
{
	int64_t n = zr_rank_holds(l->f, tensor, rank).n;
	return zr_whole_kind_at(l->s, tensor, n, zr_whole_kinds(l->s, tensor, way == BACK));
}

/* That chunk, which begins at `at` of a buffer. */
static struct chunk held(const struct zr_lowering *l, int32_t tensor, int rank,
			 struct zr_operand buffer, uint64_t at)
{
	struct zr_share share = zr_rank_holds(l->f, tensor, rank);
	buffer.at += at;
	return (struct chunk){ buffer, tensor, zr_optimizer_of(&l->s->roles, tensor), share.first,
			       share.n };
}

/* A round: n tensors, which ranks 0 to n - 1 own. */
struct round {
	const int32_t *tensor;
	int n;
	/* bytes that `held` and `parts` have for each rank, one after the other */
	uint64_t *of_owner, *of_holder;
};

/* What each rank holds of the round's tensors: of each owner's what this rank does, and of this
 * rank's what each does. */
static void count(const struct zr_lowering *l, struct round *r, int way)
{
	const int me = l->f->process.rank, world = l->f->process.world;
	memset(r->of_owner, 0, 2 * (size_t)world * sizeof *r->of_owner);
	for (int i = 0; i < r->n; i++)
		r->of_owner[i] = held_bytes(l, r->tensor[i], me, way);
	if (me >= r->n)
		return;

	for (int i = 0; i < world; i++)
		r->of_holder[i] = held_bytes(l, r->tensor[me], i, way);
}

static uint64_t total(const uint64_t *bytes, int n)
{
	uint64_t sum = 0;
	for (int i = 0; i < n; i++)
		sum += bytes[i];
	return sum;
}

/* Of the blocks that are left those that move at once: all, or what fits a set of staging. */
static int64_t piece(const struct zr_lowering *l, int64_t left)
{
	if (!l->plan->staging.set_bytes)
		return left;
	return zr_fewer(left, l->plan->whole.chunk);
}

/* Of each tensor of the round what this rank holds, piece by piece. */
static void each_held(struct zr_lowering *l, const struct round *r,
		      void (*fn)(struct zr_lowering *, const struct chunk *, int64_t, int64_t))
{
	uint64_t at = 0;
	for (int i = 0; i < r->n; i++) {
		struct chunk c = held(l, r->tensor[i], l->f->process.rank, l->held, at);
		int64_t end = c.first + c.n, n;
		l->unit = l->f->layout.tensor[r->tensor[i]].unit;
		for (int64_t first = c.first; !l->rc && first < end; first += n) {
			n = piece(l, end - first);
			fn(l, &c, first, n);
		}
		at += r->of_owner[i];
	}
}

/* Holders that follow each other and hold as much of a tensor each. */
struct holders {
	struct chunk first; /* what the first of them holds */
	int64_t n;
	uint64_t apart; /* bytes from what one holds to what the next one does */
};

/* What they hold of one kind of data, to the matrix or from it. */
static void copy_held(struct zr_lowering *l, const struct holders *h, const struct chunk *all,
		      uint32_t kind, int way)
{
	const struct chunk *c = &h->first;
	struct zr_operand theirs = part(l, c, kind, 0, c->n);
	struct zr_operand ours = part(l, all, kind, c->first - all->first, h->n * c->n);
	const uint64_t bytes = theirs.bytes;
	theirs.bytes += (uint64_t)(h->n - 1) * h->apart;
	if (way == TO_OWNER)
		zr_low_move_parts(l, theirs, ours, h->n, bytes);
	else
		zr_low_move_parts(l, ours, theirs, h->n, bytes);
}

/* Those from rank `rank` on; what it holds is at `at` of the buffer. */
static struct holders alike(const struct zr_lowering *l, const struct round *r, int rank,
			    uint64_t at)
{
	const int32_t tensor = r->tensor[l->f->process.rank];
	struct holders h = { .n = 1 };

	h.first = held(l, tensor, rank, l->parts, at);
	h.apart = r->of_holder[rank];
	for (int i = rank + 1; i < l->f->process.world; i++) {
		if (zr_rank_holds(l->f, tensor, i).n != h.first.n)
			break;
		h.n++;
	}
	return h;
}

/* Between this rank's matrix and what the others hold of it: a copy for all that hold as much. */
static void each_part(struct zr_lowering *l, const struct round *r, int way)
{
	const struct chunk all = matrix(l, r->tensor[l->f->process.rank]);
	const uint32_t kinds = zr_whole_kinds(l->s, all.tensor, way == BACK);
	uint64_t at = 0;
	int rank = 0;

	while (rank < l->f->process.world) {
		const struct holders h = alike(l, r, rank, at);
		for (uint32_t k = 0; k < kinds && h.first.n; k++)
			if (has(l, all.tensor, k))
				copy_held(l, &h, &all, k, way);

		rank += (int)h.n;
		at += (uint64_t)h.n * h.apart;
	}
}

static void update_mine(struct zr_lowering *l, const struct round *r)
{
	each_part(l, r, TO_OWNER);
	update(l, r->tensor[l->f->process.rank]);
}

static void exchange(struct zr_lowering *l, const struct round *r, int way)
{
	const int world = l->f->process.world;
	struct zr_operand of_all, mine;
	of_all = zr_operand_part(l->held, 0, total(r->of_owner, world));
	mine = zr_operand_part(l->parts, 0, total(r->of_holder, world));

	l->unit = l->f->layout.tensor[r->tensor[0]].unit;
	if (way == TO_OWNER) {
		l->part[0] = (struct zr_sent_received){ of_all, mine };
		zr_low_exchange(l, r->of_owner, r->of_holder);
	} else {
		l->part[0] = (struct zr_sent_received){ mine, of_all };
		zr_low_exchange(l, r->of_holder, r->of_owner);
	}

	zr_low_keep(l, &l->held);
	zr_low_keep(l, &l->parts);
	zr_low_keep(l, &l->matrix);
}

static void run_round(struct zr_lowering *l, struct round *r)
{
	const int owns = l->f->process.rank < r->n;
	count(l, r, TO_OWNER);
	each_held(l, r, load);
	exchange(l, r, TO_OWNER);
	if (owns)
		update_mine(l, r);

	count(l, r, BACK);
	if (owns)
		each_part(l, r, BACK);
	exchange(l, r, BACK);
	each_held(l, r, store);
}

/* The most that a rank holds of the tensors of a round. */
static uint64_t most_held(const struct zr_lowering *l, int rank)
{
	const struct zr_whole_plan *p = &l->plan->whole;
	uint64_t most = 0, sum = 0;
	for (int32_t i = 0; i < p->n; i++) {
		if (i % l->f->process.world == 0)
			sum = 0;
		sum += held_bytes(l, p->tensor[i], rank, TO_OWNER);
		most = zr_max(most, sum);
	}
	return most;
}

/* What all ranks hold of a tensor. */
static uint64_t all_parts(const struct zr_lowering *l, int32_t tensor)
{
	uint64_t sum = 0;
	for (int r = 0; r < l->f->process.world; r++)
		sum += held_bytes(l, tensor, r, TO_OWNER);
	return sum;
}

/* Buffers are as large on all ranks: for whoever holds the most, and for the largest tensor. */
static void make_buffers(struct zr_lowering *l)
{
	const struct zr_whole_plan *p = &l->plan->whole;
	uint64_t bytes = 0;
	for (int r = 0; r < l->f->process.world; r++)
		bytes = zr_max(bytes, most_held(l, r));
	l->held = zr_low_buffer(l, ZR_R_CHUNK, bytes, 64);

	bytes = 0;
	for (int32_t i = 0; i < p->n; i++)
		bytes = zr_max(bytes, all_parts(l, p->tensor[i]));
	l->parts = zr_low_buffer(l, ZR_R_CHUNK, bytes, 64);
}

/* Whether each tensor is split over the world, and comm takes counts. */
static int by_exchanges(const struct zr_lowering *l)
{
	const struct zr_whole_plan *p = &l->plan->whole;
	int split = l->f->process.world > 1 && zr_low_exchanges(l, ZR_R_CHUNK);
	for (int32_t i = 0; i < p->n; i++) {
		int32_t unit = l->f->layout.tensor[p->tensor[i]].unit;
		split &= l->f->groups[unit].state == ZR_GROUP_WORLD;
	}
	return split;
}

static void exchange_all(struct zr_lowering *l)
{
	const struct zr_whole_plan *p = &l->plan->whole;
	const int world = l->f->process.world;
	uint64_t *bytes = calloc(2 * (size_t)world, sizeof *bytes);
	if (!bytes && !l->rc)
		l->rc = zr_no_memory(l->err);
	make_buffers(l);
	for (int32_t first = 0; !l->rc && first < p->n; first += world) {
		struct round r = { p->tensor + first, (int)zr_fewer(p->n - first, world), bytes,
				   bytes + world };
		run_round(l, &r);
	}
	free(bytes);
}

/* ---- by broadcasts ---- */

static void each(struct zr_lowering *l, int32_t first, int n,
		 void (*fn)(struct zr_lowering *, int32_t, int))
{
	for (int i = 0; i < n; i++) {
		int32_t tensor = l->plan->whole.tensor[first + i];
		l->unit = l->f->layout.tensor[tensor].unit;
		fn(l, tensor, i);
	}
}

void zr_low_whole(struct zr_lowering *l)
{
	const struct zr_whole_plan *p = &l->plan->whole;
	int world = l->f->process.world, rank = l->f->process.rank;
	if (!p->n)
		return;

	l->matrix = zr_low_buffer(l, ZR_R_WHOLE, p->work + p->work_bytes, 64);
	if (zr_low_queue(l, ZR_R_WHOLE) == zr_low_queue(l, ZR_R_MASTER))
		l->whole_scalars = l->scalars;
	else
		l->whole_scalars = zr_low_scalars(l, ZR_R_WHOLE);
	if (by_exchanges(l)) {
		exchange_all(l);
		return;
	}

	l->message = zr_low_buffer(l, ZR_R_CHUNK, p->message, 64);
	for (int32_t first = 0; !l->rc && first < p->n; first += world) {
		int n = (int)zr_fewer(p->n - first, world);
		zr_low_keep(l, &l->matrix);
		zr_low_keep(l, &l->message);
		each(l, first, n, bring);
		if (rank < n)
			update(l, p->tensor[first + rank]);
		each(l, first, n, give_back);
	}
}
