/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_sums.c - contributions to gradients are added: at once, with sums that wait for the rest
 * of a tree, or through buffers where sums are on disk.
 */
#include "core/base/numbers.h"
#include "core/lower/reduce.h"

/* Where blocks [first, first + n) of a unit are measured: squares, counts. */
static void measure(struct zr_lowering *l, int32_t unit, int64_t first, int64_t n, int on_host)
{
	const struct zr_plan *p = l->plan;
	uint64_t block = (uint64_t)(l->f->layout.unit[unit].block + first);
	int32_t region = on_host || l->f->device_info.host_ops ? ZR_R_HOST : ZR_R_MEASURE;
	zr_low_operand(l, ZR_O_ACCUMULATE_SQUARES,
		       zr_mine(region, p->sumsq + block * 8, (uint64_t)n * 8), ZR_WRITES);
	zr_low_operand(l, ZR_O_ACCUMULATE_COUNTS,
		       zr_mine(region, p->nonfinite + block * 4, (uint64_t)n * 4), ZR_WRITES);
}

/* What is added, of blocks [first, first + n) of a unit. */
struct addition {
	int64_t first, n;
	int begins; /* 1: nothing is in the sum, and nothing waits */
	struct zr_operand from, others, sum, waiting;
};

/* of: the number of contributions, their types, those of a tree. */
static void accumulate(struct zr_lowering *l, int32_t u, struct zr_instr of,
		       const struct addition *a)
{
	const struct zr_operand *from = &a->from, *sum = &a->sum;
	int same = from->region == sum->region && from->at == sum->at &&
		   from->buffer == sum->buffer;
	if (a->n <= 0 || (same && !(of.flags & ZR_F_MEASURE)))
		return;

	of.kind = ZR_I_ACCUMULATE;
	of.block = a->first;
	of.blocks = a->n;
	zr_low_emit(l, of);
	zr_low_operand(l, ZR_O_ACCUMULATE_FROM, *from, ZR_READS);
	zr_low_operand(l, ZR_O_ACCUMULATE_OTHERS, a->others, ZR_READS);
	/* where nothing is complete yet, what is there counts as written, too */
	if (a->begins && !same)
		zr_low_operand(l, ZR_O_ACCUMULATE_SUM, *sum, ZR_WRITES);
	else
		zr_low_operand(l, ZR_O_ACCUMULATE_SUM, *sum, ZR_READS | ZR_WRITES);
	zr_low_operand(l, ZR_O_ACCUMULATE_WAITING, a->waiting,
		       a->begins ? ZR_WRITES : ZR_READS | ZR_WRITES);
	if (of.flags & ZR_F_MEASURE)
		measure(l, u, a->first, a->n, of.queue == ZR_Q_HOST);
}

/* What ranks sent of blocks [first, first + n): where it lies, or that of all together. */
static void set_contributions(const struct zr_lowering *l, const struct zr_sent_received *x,
			      struct addition *a)
{
	const struct zr_setup_facts *f = l->f;
	uint64_t block = zr_dtype_block(zr_low_contribution_type(l)),
		 bytes = (uint64_t)a->n * block;
	uint64_t at = (uint64_t)(a->first - l->own.first) * block;
	uint64_t share = (uint64_t)l->own.per * block;
	a->others = zr_none();
	if (!f->peers) {
		uint64_t before = (uint64_t)(zr_low_contributions(l) - 1) * share;
		a->from = zr_operand_part(x->recv, at, before + bytes);
		return;
	}

	a->from = zr_operand_part(x->send, (uint64_t)f->process.rank * share + at, bytes);
	a->others = a->from;
	a->others.whose = ZR_OTHERS;
}

/* How many sums wait for what is added to be complete. */
static int32_t levels_of(const struct zr_lowering *l)
{
	return l->summed ? 0 : zr_sums_waiting(l->f);
}

/* Sums of blocks [first, first + n) that wait, of all levels. */
static struct zr_operand waiting_sums(const struct zr_lowering *l, int32_t u, int64_t first,
				      int64_t n)
{
	const struct zr_unit_memory *m = &l->plan->unit[u];
	const int32_t levels = levels_of(l);
	if (!levels)
		return zr_none();

	uint64_t before = zr_low_fp32_bytes(m->own.per) * (uint64_t)(levels - 1);
	struct zr_operand o = zr_of_spot(m->waiting, before + zr_low_fp32_bytes(n));
	o.at += zr_low_fp32_bytes(first - m->own.first);
	return o;
}

/* Contributions to an expert's gradient, from the homes that have it, one after the other: each has
 * them for as many ranks as divide experts. first: what the layer's first rank has of it; others:
 * the same of all ranks. */
static void set_homes(const struct zr_lowering *l, const struct zr_sent_received *first,
		      struct zr_instr *of, struct addition *a)
{
	const uint64_t block = zr_dtype_block(of->from), share = (uint64_t)l->own.per * block;
	const struct zr_operand *whole = l->f->peers ? &first->send : &first->recv;
	uint64_t at = (uint64_t)(a->first - l->own.first) * block;
	if (l->f->peers)
		at += share * (uint64_t)l->f->process.rank;

	of->number = l->f->homes.ranks;
	of->root = 1;
	a->from = zr_operand_part(*whole, at, (uint64_t)of->number * whole->bytes - at);
	a->others = zr_none();
	if (!l->f->peers)
		return;
	a->others = a->from;
	a->others.whose = ZR_OTHERS;
}

/* All contributions to some blocks of a unit, into their sum. */
static void add_range(struct zr_lowering *l, int32_t u, const struct zr_sent_received *x,
		      struct addition *a)
{
	struct zr_instr of = { .dtype = l->f->types.comm_dtype,
			       .from = zr_low_contribution_type(l),
			       .number = zr_low_contributions(l),
			       .group = zr_sums_tree(l->f) / l->f->node_sum,
			       .queue = zr_low_queue(l, zr_low_sum_region(l)) };

	set_contributions(l, x, a);
	if (of.from == ZR_MXINT8)
		of.dtype = ZR_F32;
	if (l->summed) {
		of.dtype = ZR_F32;
		of.group = 1;
	}

	/* the first tree of several micro-batches is stored by its last one */
	a->begins = zr_low_stores(l);
	if (a->begins && (l->summed || zr_sums_turns(l->f) == 1))
		of.flags |= ZR_F_STORE;
	if (l->last && !zr_low_on_device_first(l))
		of.flags |= ZR_F_MEASURE;
	if (l->plan->direct && !l->slice.per)
		a->from = a->sum;
	if (!l->summed && zr_is_divided(&l->f->homes, u))
		set_homes(l, x, &of, a);
	accumulate(l, u, of, a);
}

/* Bytes of a sum from `at` on, as many as fit, from the disk; nothing behind its end. */
static void read_sum(struct zr_lowering *l, struct zr_operand sum, uint64_t at,
		     struct zr_operand to)
{
	uint64_t n = zr_min(sum.bytes - at, to.bytes);
	if (n)
		zr_low_move(l, zr_operand_part(sum, at, n), zr_operand_part(to, 0, n));
}

/* Sums that wait, on disk: of all levels `bytes` from one place to another. They begin with the
 * step, and nothing waits at its end. */
static void pass_waiting(struct zr_lowering *l, struct zr_operand from, struct zr_operand to,
			 uint64_t bytes)
{
	const int32_t levels = levels_of(l);
	if (levels)
		zr_low_move_parts(l, from, to, levels, bytes);
}

/* Sums on disk pass through two buffers: while one is added to, the other is written and read
 * ahead. All ranks have buffers of one size, whatever they own. */
static void add_on_disk(struct zr_lowering *l, int32_t u, const struct zr_sent_received *x,
			struct zr_operand sum)
{
	const int64_t blocks = zr_fewer(l->own.per, l->plan->staging.blocks);
	const uint64_t step = zr_low_fp32_bytes(blocks), levels = (uint64_t)levels_of(l);
	struct zr_operand pair = l->staging, waiting = zr_none();
	if (!pair.buffer)
		pair = zr_low_buffer(l, ZR_R_STAGING, 2 * step, ZR_PAGE);
	if (levels)
		waiting = zr_low_buffer(l, ZR_R_STAGING, levels * step, ZR_PAGE);

	int64_t first = l->own.first;
	struct zr_operand here = zr_operand_part(pair, 0, step);
	struct zr_operand other = zr_operand_part(pair, step, step);
	if (!zr_low_stores(l))
		read_sum(l, sum, 0, here);

	for (uint64_t at = 0; at < sum.bytes; at += step, first += blocks) {
		uint64_t now = zr_min(sum.bytes - at, step);
		struct zr_operand part = zr_operand_part(here, 0, now), next = other;
		struct addition a = { .first = first, .n = (int64_t)(now / zr_low_fp32_bytes(1)) };
		struct zr_operand kept = waiting_sums(l, u, first, a.n);
		if (!zr_low_stores(l))
			read_sum(l, sum, at + now, other);
		a.sum = part;
		a.waiting = zr_operand_part(waiting, 0, levels * now);
		if (!l->store)
			pass_waiting(l, kept, a.waiting, now);
		add_range(l, u, x, &a);
		if (!l->last)
			pass_waiting(l, a.waiting, kept, now);
		zr_low_move(l, part, zr_operand_part(sum, at, now));
		other = here;
		here = next;
	}

	zr_low_keep(l, &pair);
	zr_low_keep(l, &waiting);
}

static void add_whole(struct zr_lowering *l, int32_t u, const struct zr_sent_received *x,
		      struct zr_operand sum)
{
	struct addition a = { .first = l->own.first, .n = l->own.n, .sum = sum };
	a.waiting = waiting_sums(l, u, a.first, a.n);
	add_range(l, u, x, &a);
}

void zr_low_add_unit(struct zr_lowering *l, int32_t u, const struct zr_sent_received *x)
{
	const struct zr_share *whole = &l->plan->unit[u].own;
	l->own = *whole;
	if (l->slice.per)
		l->own = l->slice;
	l->unit = u;
	l->now++; /* units have buffers in turn */

	struct zr_operand sum =
		zr_low_first_sum(l, u, l->own.first - whole->first, zr_low_fp32_bytes(l->own.n));
	if (l->f->peers)
		l->p->in_place +=
			(uint64_t)(l->f->process.world - 1) *
			((uint64_t)l->own.n * zr_dtype_block(zr_low_contribution_type(l)));
	if (l->plan->region[sum.region].tier == ZR_TIER_DISK)
		add_on_disk(l, u, x, sum);
	else
		add_whole(l, u, x, sum);

	/* also by a rank that owns nothing of it */
	zr_low_keep(l, &sum);
	if (l->f->peers)
		zr_low_keep(l, &x->send);
	else
		zr_low_keep(l, &x->recv);
}

void zr_low_add_locally(struct zr_lowering *l, int32_t u)
{
	struct addition a = { .n = l->f->layout.unit[u].blocks,
			      .from = zr_low_whole_gradient(l, u),
			      .others = zr_none(),
			      .sum = zr_low_local_sum(l, u),
			      .waiting = zr_none() };
	struct zr_instr of = { .dtype = ZR_F32, .from = ZR_F32, .number = 1, .group = 1 };
	a.begins = l->store;
	if (a.begins)
		of.flags = ZR_F_STORE;
	else
		a.sum = zr_operand_part(a.sum, 0, a.from.bytes);
	accumulate(l, u, of, &a);
}
