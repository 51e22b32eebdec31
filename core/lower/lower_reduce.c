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
#include "core/lower/reduce.h"

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
		zr_low_add_unit(l, zr_low_units(l, op)[i], contributions_to(l, op, i));
	if (l->f->peers)
		zr_low_meet(l, op, 0);
}

/* The sums of a unit's blocks that this rank adds; room for those of all: in place, or apart. */
static struct zr_sent_received all_sums(struct zr_lowering *l, int32_t u)
{
	const struct zr_unit_memory *m = &l->plan->unit[u];
	uint64_t share = zr_low_fp32_bytes(m->own.per),
		 bytes = share * (uint64_t)l->f->process.world;
	int apart = zr_sums_way(l->f, u) == ZR_SUMS_PASS;
	struct zr_operand sum = zr_of_spot(m->grad, share), all = zr_of_spot(m->grad, bytes);
	if (apart)
		all = zr_low_buffer(l, zr_low_sums_on_host(l) ? ZR_R_GRAD_BOUNCE : ZR_R_COMM, bytes,
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
	uint64_t bytes = zr_low_fp32_bytes(m->held.per);
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
	if (!l->last || zr_low_alone(l))
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
	return l->last && zr_low_on_device_first(l);
}

/* What the device added up leaves it, to the sums themselves where these are in memory. */
static void leave_device(struct zr_lowering *l, const struct zr_pop *op)
{
	int disk = l->plan->region[ZR_R_GRAD].tier == ZR_TIER_DISK;
	l->now++;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = l->unit = zr_low_units(l, op)[i];
		uint64_t bytes = zr_low_fp32_bytes(l->plan->unit[u].own.per);
		struct zr_operand to = zr_low_owned_sum(l, u, 0, bytes);
		if (disk)
			to = zr_low_buffer(l, ZR_R_GRAD_BOUNCE, bytes, 64);
		zr_low_move(l, zr_low_first_sum(l, u, 0, bytes), to);
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
	} else if (!zr_low_on_device_first(l)) {
		share_sums(l, op);
	}
}

/* Where what was received of a unit goes on to: what is the sum so far perhaps straight to its
 * own place. */
static struct zr_operand target_of(struct zr_lowering *l, int32_t u, int32_t region, uint64_t bytes)
{
	int64_t skip = 0;
	if (!l->plan->stored_directly || !zr_low_stores(l))
		return zr_low_buffer(l, region, bytes, 64);

	if (l->slice.per)
		skip = l->slice.first - l->plan->unit[u].own.first;
	return zr_low_owned_sum(l, u, skip, bytes);
}

/* Whether what the host made is added from where it lies. */
static int is_there(const struct zr_lowering *l, const struct zr_operand *o, int32_t region)
{
	return zr_low_is_on_host(l, o) && region == ZR_R_GRAD_BOUNCE &&
	       !(l->plan->stored_directly && zr_low_stores(l));
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
			to = zr_low_room_for_expert(l, i, op->n, region, x->recv.bytes);
		else
			to = target_of(l, u, region, x->recv.bytes);
		zr_low_keep(l, &x->recv);
		/* with the padding, or nothing else: all ranks wait for what they send */
		zr_low_move(l, x->recv, to);
		if (!zr_low_alone(l)) /* on its way until zr_low_pending() */
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
	uint64_t bytes = zr_low_fp32_bytes(l->slice.per);
	struct zr_operand to = zr_low_buffer(l, region, bytes * (uint64_t)ranks, ZR_PAGE);
	struct zr_operand from =
		zr_of_spot(m->parts, zr_low_fp32_bytes((ranks - 1) * m->own.per) + bytes);
	from.at += zr_low_fp32_bytes(l->slice.first - m->own.first);
	zr_low_move_parts(l, from, to, ranks, bytes);
	return to;
}

/* The slice that this rank has of its own gradient reaches the owners. */
static void send_slice(struct zr_lowering *l, const struct zr_pop *op, int host)
{
	struct zr_sent_received *x = &l->reduce[op->first];
	if (zr_low_alone(l))
		return;

	if (l->f->peers) {
		zr_low_meet(l, op, 1);
		return;
	}

	x->send = zr_low_narrow(l, zr_low_units(l, op)[0], x->send, x->send.bytes, host);
	x->recv = zr_low_room_for(l, &x->send);
	zr_low_send(l, op);
	zr_low_send_on(l, op);
	if (zr_low_by_host(l) && !zr_comm_on_host(l->f))
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
	if (zr_low_alone(l))
		host = zr_low_by_host(l);
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
	if (zr_low_alone(l)) {
		*from = zr_low_whole_gradient(l, u);
		if (zr_low_by_host(l) || zr_codes_gradients(l->f))
			*from = zr_low_narrow(l, u, *from, from->bytes, zr_low_is_on_host(l, from));
		*x = (struct zr_sent_received){ zr_none(), *from };
		return;
	}

	if (zr_sums_locally(l->f))
		zr_low_add_locally(l, u);
	if (zr_low_sends(l))
		*x = zr_low_fill(l, op, i, from);
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

	if (zr_low_alone(l) && zr_low_by_host(l))
		move_received(l, op, ZR_R_GRAD_BOUNCE);
	else if (zr_low_alone(l))
		add_alone(l, op);
	else if (zr_low_sends(l) && l->f->peers)
		zr_low_meet(l, op, op->n);
	else if (zr_low_sends(l) && !zr_comm_on_host(l->f))
		zr_low_send(l, op);
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

	if (zr_low_by_host(l) && !zr_low_sums_on_host(l))
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
	if (zr_low_alone(l))
		return;

	if (zr_low_by_host(l) && zr_comm_on_host(l->f))
		zr_low_send(l, op);
	zr_low_send_on(l, op);
	if (zr_low_by_host(l) && !zr_comm_on_host(l->f))
		move_received(l, op, ZR_R_GRAD_BOUNCE);
}

/* After a reduce: emits now what reads buffers of the device that the next layers, or the next
 * reduce, will write. */
void zr_low_reduced(struct zr_lowering *l, const struct zr_pop *op)
{
	int32_t whose = l->op;
	if (zr_low_alone(l) && leaves(l)) {
		await_sums(l, op);
		return;
	}
	if (in_parts(l, op) || (zr_low_alone(l) && !zr_low_by_host(l)) ||
	    (!zr_low_alone(l) && !zr_low_sends(l)))
		return;

	l->op = (int32_t)(op - l->record->op);
	for (int32_t i = 0; i < op->n; i++)
		zr_low_keep(l, &l->from[op->first + i]);
	if (zr_low_by_host(l) || zr_low_by_node(l)) {
		leave_pending(l, op);
	} else {
		add_contributions(l, op);
	}

	l->op = whose;
}
