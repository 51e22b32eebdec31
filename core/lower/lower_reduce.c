/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_reduce.c - gradients: each rank's contribution reaches the unit's owner, which adds them
 * there in rank order, which with ascending micro-batches is slot order.
 *
 *   way               zr_low_reduce         zr_low_reduced                   zr_low_pending
 *   one rank          adds
 *   one, by host      rounds, to the host                                    adds
 *   device first      as if sums were on it; the last time to its tier       adds
 *   peers             fence                 adds in place, fence
 *   others            exchange              adds, shares sums
 *   others, by node   exchange in the node  joins, exchange of nodes         adds, shares sums
 *   others, by host   exchange or copy      to the host, or exchange         adds, shares sums
 *   in parts          all of it, slice by slice
 *
 * Peers read each other's memory. An exchange is an all-to-all, or, where each rank sends once per
 * update, a reduce-scatter: comm adds on the way. By host: from a device that only copies reach, to
 * sums on the host, or to other ranks; such a reduce ends after the next layer was enqueued, so
 * that the device does not wait for the host. By node: what the ranks of a node have for each owner
 * is added there first, and the sums go to the owners, between ranks of the same place in their
 * nodes. Sums are shared where who adds gradients is not who
 * holds masters.
 */
#include "core/base/numbers.h"
#include "core/lower/lower.h"

/* Bytes of so many blocks in fp32. */
static uint64_t fp32_bytes(int64_t blocks)
{
	return (uint64_t)blocks * ZR_BLOCK * 4;
}

static int alone(const struct zr_lowering *l)
{
	return l->f->process.world == 1;
}

/* Whether the device adds up micro-batches until their sum leaves it. */
static int on_device_first(const struct zr_lowering *l)
{
	return l->plan->device_sums && !l->summed;
}

/* Where contributions are added. */
static int sum_region(const struct zr_lowering *l)
{
	return on_device_first(l) ? ZR_R_MICRO_SUMS : ZR_R_GRAD;
}

static int sums_on_host(const struct zr_lowering *l)
{
	return l->plan->region[sum_region(l)].store != ZR_STORE_DEVICE;
}

/* Whether gradients pass through host memory. */
static int by_host(const struct zr_lowering *l)
{
	return !l->f->device_info.host_ops && (sums_on_host(l) || zr_comm_on_host(l->f));
}

/* Whether what arrives becomes the sum. */
static int stores(const struct zr_lowering *l)
{
	return l->summed || l->store || zr_sums_locally(l->f);
}

static int sends(const struct zr_lowering *l)
{
	return !alone(l) && (l->last || !zr_sums_locally(l->f));
}

static int by_node(const struct zr_lowering *l)
{
	return l->f->node_sum > 1;
}

/* What comes for a unit: of each rank its contribution, of neighbours, or their sum. */
static int contributions(const struct zr_lowering *l)
{
	if (l->plan->scatter || l->summed)
		return 1;
	return l->f->process.world / l->f->node_sum;
}

/* The type in which they come: as codes, wherever they are; or as layers left them, in place, in
 * parts, and where nobody sends. */
static int32_t contribution_type(const struct zr_lowering *l)
{
	int goes = by_host(l) && !l->slice.per;
	if (!l->summed && zr_codes_gradients(l->f))
		return ZR_MXINT8;
	if (l->f->peers || l->summed || (alone(l) && !goes))
		return ZR_F32;
	return l->f->types.comm_dtype;
}

static int is_on_host(const struct zr_lowering *l, const struct zr_operand *o)
{
	return zr_low_queue(l, o->region) == ZR_Q_HOST;
}

/* What layers left of a unit's gradient, without the padding. */
static struct zr_operand gradient(struct zr_lowering *l, int32_t u)
{
	return zr_operand_part(zr_low_gradient(l, u), 0, fp32_bytes(l->f->layout.unit[u].blocks));
}

static struct zr_operand local_sum(const struct zr_lowering *l, int32_t u)
{
	return zr_of_spot(l->plan->unit[u].local, (uint64_t)zr_unit_padded_elements(l->f, u) * 4);
}

/* So many bytes of the sum of the blocks that this rank owns, from its block `skip` on. */
static struct zr_operand owned_sum(const struct zr_lowering *l, int32_t u, int64_t skip,
				   uint64_t bytes)
{
	const struct zr_unit_memory *m = &l->plan->unit[u];
	struct zr_operand o = zr_of_spot(m->grad, bytes);
	o.at += fp32_bytes(skip);
	if (zr_sums_way(l->f, u) == ZR_SUMS_MEET) /* beside those of the others */
		o.at += fp32_bytes(l->f->process.rank * m->own.per);
	return o;
}

/* Of which contributions are added first to these, perhaps. */
static struct zr_operand first_sum(const struct zr_lowering *l, int32_t u, int64_t skip,
				   uint64_t bytes)
{
	struct zr_operand o;
	if (!on_device_first(l))
		return owned_sum(l, u, skip, bytes);

	o = zr_of_spot(l->plan->unit[u].micro_sum, bytes);
	o.at += fp32_bytes(skip);
	return o;
}

/* A buffer for what ranks send or receive: in host memory, or where layers compute. */
static int32_t message_region(int on_host)
{
	return on_host ? ZR_R_GRAD_BOUNCE : ZR_R_COMM;
}

static struct zr_operand message(struct zr_lowering *l, int on_host, uint64_t bytes)
{
	return zr_low_buffer(l, message_region(on_host), bytes, 64);
}

/* ---- experts that ranks divide ---- */

/* The place of a layer's expert number g in memory of all of them: what a home has of one of its
 * experts, for all ranks, follows each other. */
static int32_t place_of_expert(const struct zr_homes *h, int32_t g, int32_t experts)
{
	const int32_t here = zr_experts_here(h, experts);
	return g % here * h->ranks + g / here;
}

/* So many bytes for the i-th of an operation's experts, in a buffer of all of them, which the first
 * one takes. */
static struct zr_operand room_for_expert(struct zr_lowering *l, int32_t i, int32_t experts,
					 int32_t region, uint64_t bytes)
{
	const uint64_t place = (uint64_t)place_of_expert(&l->f->homes, i, experts);
	if (!i)
		l->experts = zr_low_buffer(l, region, bytes * (uint64_t)experts, 64);
	return zr_operand_part(l->experts, place * bytes, bytes);
}

/* ---- sums ---- */

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
	uint64_t block = zr_dtype_block(contribution_type(l)), bytes = (uint64_t)a->n * block;
	uint64_t at = (uint64_t)(a->first - l->own.first) * block;
	uint64_t share = (uint64_t)l->own.per * block;
	a->others = zr_none();
	if (!f->peers) {
		uint64_t before = (uint64_t)(contributions(l) - 1) * share;
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

	uint64_t before = fp32_bytes(m->own.per) * (uint64_t)(levels - 1);
	struct zr_operand o = zr_of_spot(m->waiting, before + fp32_bytes(n));
	o.at += fp32_bytes(first - m->own.first);
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
			       .from = contribution_type(l),
			       .number = contributions(l),
			       .group = zr_sums_tree(l->f) / l->f->node_sum,
			       .queue = zr_low_queue(l, sum_region(l)) };

	set_contributions(l, x, a);
	if (of.from == ZR_MXINT8)
		of.dtype = ZR_F32;
	if (l->summed) {
		of.dtype = ZR_F32;
		of.group = 1;
	}

	/* the first tree of several micro-batches is stored by its last one */
	a->begins = stores(l);
	if (a->begins && (l->summed || zr_sums_turns(l->f) == 1))
		of.flags |= ZR_F_STORE;
	if (l->last && !on_device_first(l))
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
	const uint64_t step = fp32_bytes(blocks), levels = (uint64_t)levels_of(l);
	struct zr_operand pair = l->staging, waiting = zr_none();
	if (!pair.buffer)
		pair = zr_low_buffer(l, ZR_R_STAGING, 2 * step, ZR_PAGE);
	if (levels)
		waiting = zr_low_buffer(l, ZR_R_STAGING, levels * step, ZR_PAGE);

	int64_t first = l->own.first;
	struct zr_operand here = zr_operand_part(pair, 0, step);
	struct zr_operand other = zr_operand_part(pair, step, step);
	if (!stores(l))
		read_sum(l, sum, 0, here);

	for (uint64_t at = 0; at < sum.bytes; at += step, first += blocks) {
		uint64_t now = zr_min(sum.bytes - at, step);
		struct zr_operand part = zr_operand_part(here, 0, now), next = other;
		struct addition a = { .first = first, .n = (int64_t)(now / fp32_bytes(1)) };
		struct zr_operand kept = waiting_sums(l, u, first, a.n);
		if (!stores(l))
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

/* All contributions to what this rank owns of a unit, or of its slice. */
static void add_unit(struct zr_lowering *l, int32_t u, const struct zr_sent_received *x)
{
	const struct zr_share *whole = &l->plan->unit[u].own;
	l->own = *whole;
	if (l->slice.per)
		l->own = l->slice;
	l->unit = u;
	l->now++; /* units have buffers in turn */

	struct zr_operand sum = first_sum(l, u, l->own.first - whole->first, fp32_bytes(l->own.n));
	if (l->f->peers)
		l->p->in_place += (uint64_t)(l->f->process.world - 1) *
				  ((uint64_t)l->own.n * zr_dtype_block(contribution_type(l)));
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

/* ---- what ranks send ---- */

/* Bytes of so many of fp32 as ranks send them. */
static uint64_t narrow_bytes(const struct zr_lowering *l, uint64_t fp32)
{
	return zr_bytes_of(l->f->types.comm_dtype, (int64_t)fp32 / 4);
}

/* In 16 bits or as codes, what of it has data. */
static void narrow_into(struct zr_lowering *l, int32_t u, struct zr_operand send, uint64_t bytes,
			int host, struct zr_operand to)
{
	int32_t type = l->f->types.comm_dtype;
	const uint8_t queue = host ? ZR_Q_HOST : ZR_Q_COMPUTE;
	if (type == ZR_MXINT8) {
		zr_low_encode_gradient(l, u, queue, zr_operand_part(send, 0, bytes), to);
		return;
	}

	zr_low_emit(l, (struct zr_instr){
			       .kind = ZR_I_CAST, .queue = queue, .dtype = type, .from = ZR_F32 });
	zr_low_operand(l, ZR_O_CAST_FROM, zr_operand_part(send, 0, bytes), ZR_READS);
	zr_low_operand(l, ZR_O_CAST_TO, to, ZR_WRITES);
}

/* Of fp32 it stays where it is. */
static struct zr_operand narrow(struct zr_lowering *l, int32_t u, struct zr_operand send,
				uint64_t bytes, int host)
{
	if (l->f->types.comm_dtype == ZR_F32)
		return send;

	struct zr_operand to = message(l, host, narrow_bytes(l, send.bytes));
	narrow_into(l, u, send, bytes, host, to);
	return to;
}

/* Codes of an expert's gradient lie beside those of the others that a home has of it. */
static struct zr_operand code_expert(struct zr_lowering *l, const struct zr_pop *op, int32_t i,
				     struct zr_operand send)
{
	const int32_t u = zr_low_units(l, op)[i];
	struct zr_operand to =
		room_for_expert(l, i, op->n, message_region(0), narrow_bytes(l, send.bytes));
	narrow_into(l, u, send, (uint64_t)l->f->layout.unit[u].elements * 4, 0, to);
	return to;
}

static struct zr_operand room_for(struct zr_lowering *l, const struct zr_operand *send)
{
	uint64_t bytes = send->bytes / (uint64_t)l->f->process.world * (uint64_t)contributions(l);
	return message(l, zr_comm_on_host(l->f), bytes);
}

/* What this rank sends of a unit, in place or rounded, and where it receives. By way of the host
 * both are there, where the gradients begin to go. */
static struct zr_sent_received fill(struct zr_lowering *l, const struct zr_pop *op, int32_t i,
				    struct zr_operand *from)
{
	const int32_t u = zr_low_units(l, op)[i];
	struct zr_sent_received x = { .recv = zr_none() };
	if (zr_sums_locally(l->f))
		x.send = local_sum(l, u);
	else
		x.send = zr_low_gradient(l, u);
	if (l->f->peers && !zr_codes_gradients(l->f))
		return x;

	if (l->f->peers && zr_low_of_experts(l, op)) {
		*from = x.send = code_expert(l, op, i, x.send);
		return x;
	}

	*from = x.send = narrow(l, u, x.send, (uint64_t)l->f->layout.unit[u].elements * 4,
				is_on_host(l, &x.send));
	if (l->f->peers)
		return x;

	if (zr_comm_on_host(l->f) && !is_on_host(l, &x.send)) {
		struct zr_operand copy = zr_low_buffer(l, ZR_R_GRAD_BOUNCE, x.send.bytes, 64);
		zr_low_move(l, x.send, copy);
		x.send = copy;
	}
	if (zr_low_of_experts(l, op))
		x.recv = room_for_expert(l, i, op->n, message_region(zr_comm_on_host(l->f)),
					 x.send.bytes);
	else
		x.recv = room_for(l, &x.send);
	return x;
}

/* By node: ranks of a node exchange what they have for each rank of the same place in any node; the
 * unit's result is behind what it sends, in a buffer of its own. */
static void exchange_in_node(struct zr_lowering *l, const struct zr_pop *op)
{
	const int64_t nodes = zr_group_ranks(l->f, ZR_GROUP_CROSS);
	int32_t n = 0;
	for (int32_t i = 0; i < op->n; i++) {
		const struct zr_operand send = l->reduce[op->first + i].send;
		const uint64_t bytes = send.bytes / (uint64_t)nodes;
		struct zr_operand recv = message(l, zr_comm_on_host(l->f), send.bytes);
		for (int64_t k = 0; k < nodes; k++) {
			uint64_t at = (uint64_t)k * bytes;
			l->part[n++] =
				(struct zr_sent_received){ zr_operand_part(send, at, bytes),
							   zr_operand_part(recv, at, bytes) };
		}
		l->reduce[op->first + i].send = recv;
	}

	l->unit = zr_low_units(l, op)[0];
	zr_low_collective(l, ZR_COMM_ALL_TO_ALL, ZR_GROUP_NODE, l->f->types.comm_dtype, 0, n);
}

/* What came in the node is added, neighbours to neighbours. */
static void join(struct zr_lowering *l, int32_t u, struct zr_sent_received *x)
{
	const int host = zr_comm_on_host(l->f);
	int32_t type = l->f->types.comm_dtype, world = l->f->process.world;
	struct zr_operand to = message(l, host, x->send.bytes / (uint64_t)l->f->node_sum);
	struct zr_instr of = { .kind = ZR_I_JOIN,
			       .queue = host ? ZR_Q_HOST : ZR_Q_COMPUTE,
			       .dtype = type,
			       .from = type,
			       .number = world,
			       .group = l->f->node_sum };
	of.blocks = (int64_t)(x->send.bytes / (uint64_t)world / zr_dtype_block(type));
	l->unit = u;
	zr_low_emit(l, of);
	zr_low_operand(l, ZR_O_JOIN_FROM, x->send, ZR_READS);
	zr_low_operand(l, ZR_O_JOIN_TO, to, ZR_WRITES);
	x->send = to;
}

/* Codes are bytes for whoever moves them. */
static int32_t sent_type(const struct zr_lowering *l)
{
	return zr_codes_gradients(l->f) ? ZR_U8 : l->f->types.comm_dtype;
}

/* What ranks have of the units goes to their owners, or to those of their node. */
static void exchange(struct zr_lowering *l, const struct zr_pop *op)
{
	int32_t kind = ZR_COMM_ALL_TO_ALL;
	if (l->plan->scatter &&
	    !zr_low_of_experts(l, op)) /* what a rank sends of these is no sum of all */
		kind = ZR_COMM_REDUCE_SCATTER;
	if (by_node(l)) {
		exchange_in_node(l, op);
		return;
	}

	for (int32_t i = 0; i < op->n; i++)
		l->part[i] = l->reduce[op->first + i];
	l->unit = zr_low_units(l, op)[0];
	zr_low_collective(l, kind, ZR_GROUP_WORLD, sent_type(l), 0, op->n);
}

/* By node, what came there goes on to the owners. */
static void exchange_on(struct zr_lowering *l, const struct zr_pop *op)
{
	if (!by_node(l))
		return;

	for (int32_t i = 0; i < op->n; i++) {
		join(l, zr_low_units(l, op)[i], &l->reduce[op->first + i]);
		l->part[i] = l->reduce[op->first + i];
	}
	l->unit = zr_low_units(l, op)[0];
	zr_low_collective(l, ZR_COMM_ALL_TO_ALL, ZR_GROUP_CROSS, l->f->types.comm_dtype, 0, op->n);
}

/* Contributions may be read where they lie, or, after the second fence, no more. `send`: what
 * others look at is compared. */
static void fence(struct zr_lowering *l, const struct zr_pop *op, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		l->part[i] = (struct zr_sent_received){ l->reduce[op->first + i].send, zr_none() };
	l->unit = zr_low_units(l, op)[0];
	zr_low_collective(l, ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, 0, n);
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = zr_low_units(l, op)[i];
		zr_low_seen(l, l->reduce[op->first + i].send);
		/* whoever came here looks at this share no more in this micro-batch */
		if (n && zr_unit_view(l->f, u))
			zr_low_arg(l, zr_low_share(l, u), ZR_READS | ZR_WRITES);
	}
}

/* What was sent or came that has a unit's contributions. */
static const struct zr_sent_received *contributions_to(const struct zr_lowering *l,
						       const struct zr_pop *op, int32_t i)
{
	if (zr_low_of_experts(l, op) && !l->summed)
		i %= zr_experts_here(&l->f->homes, op->n);
	return &l->reduce[op->first + i];
}

static void add_units(struct zr_lowering *l, const struct zr_pop *op)
{
	for (int32_t i = 0; i < op->n; i++)
		add_unit(l, zr_low_units(l, op)[i], contributions_to(l, op, i));
	if (l->f->peers)
		fence(l, op, 0);
}

/* reduction = local: a micro-batch's gradient joins this rank's own sum, which the last one
 * sends. */
static void add_locally(struct zr_lowering *l, int32_t u)
{
	struct addition a = { .n = l->f->layout.unit[u].blocks,
			      .from = gradient(l, u),
			      .others = zr_none(),
			      .sum = local_sum(l, u),
			      .waiting = zr_none() };
	struct zr_instr of = { .dtype = ZR_F32, .from = ZR_F32, .number = 1, .group = 1 };
	a.begins = l->store;
	if (a.begins)
		of.flags = ZR_F_STORE;
	else
		a.sum = zr_operand_part(a.sum, 0, a.from.bytes);
	accumulate(l, u, of, &a);
}

/* The sums of a unit's blocks that this rank adds; room for those of all: in place, or apart. */
static struct zr_sent_received all_sums(struct zr_lowering *l, int32_t u)
{
	const struct zr_unit_memory *m = &l->plan->unit[u];
	uint64_t share = fp32_bytes(m->own.per), bytes = share * (uint64_t)l->f->process.world;
	int apart = zr_sums_way(l->f, u) == ZR_SUMS_PASS;
	struct zr_operand sum = zr_of_spot(m->grad, share), all = zr_of_spot(m->grad, bytes);
	if (apart)
		all = zr_low_buffer(l, sums_on_host(l) ? ZR_R_GRAD_BOUNCE : ZR_R_COMM, bytes,
				    ZR_PAGE);

	struct zr_operand own = zr_operand_part(all, (uint64_t)l->f->process.rank * share, share);
	if (l->plan->region[sum.region].tier == ZR_TIER_DISK)
		zr_low_move(l, sum, own);
	else if (apart)
		own = sum;
	return (struct zr_sent_received){ own, all };
}

/* Of all sums of a unit, those of what this rank holds: also of one that holds padding alone, so
 * that all ranks wait at the same place. */
static void keep_sums(struct zr_lowering *l, const struct zr_pop *op, int32_t i)
{
	int32_t u = l->unit = zr_low_units(l, op)[i];
	const struct zr_unit_memory *m = &l->plan->unit[u];
	uint64_t bytes = fp32_bytes(m->held.per);
	uint64_t at = (uint64_t)l->f->mesh.group[l->f->groups[u].state].rank * bytes;
	if (zr_sums_way(l->f, u) == ZR_SUMS_PASS)
		zr_low_move(l, zr_operand_part(l->reduce[op->first + i].recv, at, bytes),
			    zr_of_spot(m->grad, bytes));
}

/* After the last contribution, where who adds gradients is not who holds masters, all sums reach
 * all ranks, and each keeps those of what it holds. */
static void share_sums(struct zr_lowering *l, const struct zr_pop *op)
{
	int32_t n = 0;
	if (!l->last || alone(l))
		return;

	l->now++; /* what came for the sums is over */
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = l->unit = zr_low_units(l, op)[i];
		if (zr_sums_way(l->f, u) != ZR_SUMS_STAY)
			l->part[n++] = l->reduce[op->first + i] = all_sums(l, u);
	}

	l->unit = zr_low_units(l, op)[0];
	if (n)
		zr_low_collective(l, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_F32, 0, n);
	for (int32_t i = 0; i < op->n; i++)
		keep_sums(l, op, i);
}

/* Whether the device has added up all micro-batches. */
static int leaves(const struct zr_lowering *l)
{
	return l->last && on_device_first(l);
}

/* What the device added up leaves it, to the sums themselves where these are in memory. */
static void leave_device(struct zr_lowering *l, const struct zr_pop *op)
{
	int disk = l->plan->region[ZR_R_GRAD].tier == ZR_TIER_DISK;
	l->now++;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = l->unit = zr_low_units(l, op)[i];
		uint64_t bytes = fp32_bytes(l->plan->unit[u].own.per);
		struct zr_operand to = owned_sum(l, u, 0, bytes);
		if (disk)
			to = zr_low_buffer(l, ZR_R_GRAD_BOUNCE, bytes, 64);
		zr_low_move(l, first_sum(l, u, 0, bytes), to);
		l->reduce[op->first + i] = (struct zr_sent_received){ zr_none(), to };
	}
}

/* zr_low_pending() emits what is left to be done with it. */
static void await_sums(struct zr_lowering *l, const struct zr_pop *op)
{
	zr_low_pending(l);
	l->pending = (int32_t)(op - l->record->op);
	l->left = 1;
}

/* What the device added up becomes the sums, and is measured. */
static void take_sums(struct zr_lowering *l, const struct zr_pop *op)
{
	l->left = 0;
	l->summed = 1;
	add_units(l, op);
	share_sums(l, op);
	l->summed = 0;
}

/* Contributions are added, and with the last ones the sums reach who updates. */
static void add_contributions(struct zr_lowering *l, const struct zr_pop *op)
{
	add_units(l, op);
	if (leaves(l)) {
		leave_device(l, op);
		await_sums(l, op);
	} else if (!on_device_first(l)) {
		share_sums(l, op);
	}
}

/* Where what was received of a unit goes on to: what is the sum so far perhaps straight to its
 * own place. */
static struct zr_operand target_of(struct zr_lowering *l, int32_t u, int32_t region, uint64_t bytes)
{
	int64_t skip = 0;
	if (!l->plan->stored_directly || !stores(l))
		return zr_low_buffer(l, region, bytes, 64);

	if (l->slice.per)
		skip = l->slice.first - l->plan->unit[u].own.first;
	return owned_sum(l, u, skip, bytes);
}

/* Whether what the host made is added from where it lies. */
static int is_there(const struct zr_lowering *l, const struct zr_operand *o, int32_t region)
{
	return is_on_host(l, o) && region == ZR_R_GRAD_BOUNCE &&
	       !(l->plan->stored_directly && stores(l));
}

static void move_received(struct zr_lowering *l, const struct zr_pop *op, int32_t region)
{
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = l->unit = zr_low_units(l, op)[i];
		struct zr_sent_received *x = &l->reduce[op->first + i];
		struct zr_operand to;
		if (is_there(l, &x->recv, region))
			continue;
		if (zr_low_of_experts(l, op))
			to = room_for_expert(l, i, op->n, region, x->recv.bytes);
		else
			to = target_of(l, u, region, x->recv.bytes);
		zr_low_keep(l, &x->recv);
		/* with the padding, or nothing else: all ranks wait for what they send */
		zr_low_move(l, x->recv, to);
		if (!alone(l)) /* on its way until zr_low_pending() */
			x->send = x->recv;
		x->recv = to;
	}
}

static int in_parts(const struct zr_lowering *l, const struct zr_pop *op)
{
	return l->plan->unit[zr_low_units(l, op)[0]].part > 0;
}

/* The next blocks of this rank's share that are added at a time, from the at-th on. */
static struct zr_share slice_at(const struct zr_share *own, int64_t at, int64_t most)
{
	struct zr_share slice = { .per = zr_fewer(own->per - at, most), .first = own->first + at };
	if (at < own->n)
		slice.n = zr_fewer(own->n - at, slice.per);
	return slice;
}

/* The slice's blocks of each rank's share, together in a buffer. */
static struct zr_operand read_slice(struct zr_lowering *l, int32_t u, int32_t region)
{
	const struct zr_unit_memory *m = &l->plan->unit[u];
	const int32_t ranks = l->f->process.world;
	uint64_t bytes = fp32_bytes(l->slice.per);
	struct zr_operand to = zr_low_buffer(l, region, bytes * (uint64_t)ranks, ZR_PAGE);
	struct zr_operand from = zr_of_spot(m->parts, fp32_bytes((ranks - 1) * m->own.per) + bytes);
	from.at += fp32_bytes(l->slice.first - m->own.first);
	zr_low_move_parts(l, from, to, ranks, bytes);
	return to;
}

/* The slice that this rank has of its own gradient reaches the owners. */
static void send_slice(struct zr_lowering *l, const struct zr_pop *op, int host)
{
	struct zr_sent_received *x = &l->reduce[op->first];
	if (alone(l))
		return;

	if (l->f->peers) {
		fence(l, op, 1);
		return;
	}

	x->send = narrow(l, zr_low_units(l, op)[0], x->send, x->send.bytes, host);
	x->recv = room_for(l, &x->send);
	exchange(l, op);
	exchange_on(l, op);
	if (by_host(l) && !zr_comm_on_host(l->f))
		move_received(l, op, ZR_R_GRAD_BOUNCE);
}

/* What of a unit came in parts is read slice by slice: the same blocks of each rank's share. */
static void reduce_parts(struct zr_lowering *l, const struct zr_pop *op)
{
	const int32_t u = zr_low_units(l, op)[0];
	const struct zr_unit_memory *m = &l->plan->unit[u];
	struct zr_sent_received *x = &l->reduce[op->first];
	int host = zr_comm_on_host(l->f);
	int64_t most = m->part / l->f->process.world;
	if (alone(l))
		host = by_host(l);
	if (most < 1)
		most = 1;

	for (int64_t at = 0; at < m->own.per; at += l->slice.per) {
		l->now++;
		l->unit = u;
		l->slice = slice_at(&m->own, at, most);
		x->send = read_slice(l, u, host ? ZR_R_GRAD_BOUNCE : ZR_R_GRAD_BUFFER);
		x->recv = x->send;
		send_slice(l, op, host);
		add_units(l, op);
	}

	l->slice.per = 0;
	share_sums(l, op);
}

/* What this rank has of a unit is ready to be sent, or to be added where it is alone. */
static void begin_unit(struct zr_lowering *l, const struct zr_pop *op, int32_t i)
{
	int32_t u = l->unit = zr_low_units(l, op)[i];
	struct zr_sent_received *x = &l->reduce[op->first + i];
	struct zr_operand *from = &l->from[op->first + i];
	if (alone(l)) {
		*from = gradient(l, u);
		if (by_host(l) || zr_codes_gradients(l->f))
			*from = narrow(l, u, *from, from->bytes, is_on_host(l, from));
		*x = (struct zr_sent_received){ zr_none(), *from };
		return;
	}

	if (zr_sums_locally(l->f))
		add_locally(l, u);
	if (sends(l))
		*x = fill(l, op, i, from);
}

static void add_alone(struct zr_lowering *l, const struct zr_pop *op)
{
	add_units(l, op);
	if (leaves(l))
		leave_device(l, op);
}

void zr_low_reduce(struct zr_lowering *l, const struct zr_pop *op)
{
	if (in_parts(l, op)) {
		reduce_parts(l, op);
		return;
	}

	for (int32_t i = 0; i < op->n; i++)
		begin_unit(l, op, i);

	if (alone(l) && by_host(l))
		move_received(l, op, ZR_R_GRAD_BOUNCE);
	else if (alone(l))
		add_alone(l, op);
	else if (sends(l) && l->f->peers)
		fence(l, op, op->n);
	else if (sends(l) && !zr_comm_on_host(l->f))
		exchange(l, op);
}

/* The next that is to be done for the reduce that is pending. */
static void go_on(struct zr_lowering *l)
{
	const struct zr_pop *op = &l->record->op[l->pending];
	l->op = l->pending;
	l->pending = -1;
	for (int32_t i = 0; i < op->n; i++)
		zr_low_keep(l, &l->reduce[op->first + i].send);
	if (l->left) {
		take_sums(l, op);
		return;
	}

	if (by_host(l) && !sums_on_host(l))
		move_received(l, op, ZR_R_COMM);
	add_contributions(l, op);
}

void zr_low_pending(struct zr_lowering *l)
{
	int32_t whose = l->op;
	while (l->pending >= 0)
		go_on(l);
	l->op = whose;
}

/* What the host or other nodes see to goes on by itself; zr_low_pending() emits the rest. */
static void leave_pending(struct zr_lowering *l, const struct zr_pop *op)
{
	zr_low_pending(l);
	l->pending = (int32_t)(op - l->record->op);
	if (alone(l))
		return;

	if (by_host(l) && zr_comm_on_host(l->f))
		exchange(l, op);
	exchange_on(l, op);
	if (by_host(l) && !zr_comm_on_host(l->f))
		move_received(l, op, ZR_R_GRAD_BOUNCE);
}

/* After a reduce: emits now what reads buffers of the device that the next layers, or the next
 * reduce, will write. */
void zr_low_reduced(struct zr_lowering *l, const struct zr_pop *op)
{
	int32_t whose = l->op;
	if (alone(l) && leaves(l)) {
		await_sums(l, op);
		return;
	}
	if (in_parts(l, op) || (alone(l) && !by_host(l)) || (!alone(l) && !sends(l)))
		return;

	l->op = (int32_t)(op - l->record->op);
	for (int32_t i = 0; i < op->n; i++)
		zr_low_keep(l, &l->from[op->first + i]);
	if (by_host(l) || by_node(l)) {
		leave_pending(l, op);
	} else {
		add_contributions(l, op);
	}

	l->op = whose;
}

/* Of all experts of a layer. */
static void take_gradients(struct zr_lowering *l, const struct zr_home_unit *u, uint64_t bytes)
{
	const int32_t n = zr_layer_experts(l->f, u->layer);

	for (int32_t g = 0; g < n; g++)
		l->grad[zr_expert_unit(l->f, u->layer, u->beside, g)] =
			room_for_expert(l, g, n, ZR_R_GRAD_BUFFER, bytes);
}

/* Whether a gradient that the host makes goes on from there. */
static int stays_on_host(const struct zr_lowering *l, int32_t unit)
{
	if (!zr_computes_on_host(&l->f->homes, unit) || l->f->homes.ranks > 1)
		return 0;
	if (l->plan->unit[unit].part || zr_sliced(&l->f->slices) || zr_sums_locally(l->f))
		return 0;
	return by_host(l) && (alone(l) || zr_comm_on_host(l->f));
}

struct zr_operand zr_low_gradient(struct zr_lowering *l, int32_t unit)
{
	uint64_t bytes = (uint64_t)zr_unit_padded_elements(l->f, unit) * 4;
	struct zr_operand *o = &l->grad[unit];
	if (l->plan->direct)
		return zr_of_spot(l->plan->unit[unit].grad, bytes);
	if (!o->buffer && zr_is_divided(&l->f->homes, unit))
		take_gradients(l, &l->f->homes.unit[unit], bytes);
	if (!o->buffer)
		*o = zr_low_buffer(l, stays_on_host(l, unit) ? ZR_R_GRAD_BOUNCE : ZR_R_GRAD_BUFFER,
				   bytes, 64);
	return *o;
}
