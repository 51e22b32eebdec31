/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_sends.c - what ranks send of their gradients: rounded or as codes, to the owners of units,
 * or first in each node.
 */
#include "core/base/numbers.h"
#include "core/lower/reduce.h"

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

struct zr_operand zr_low_narrow(struct zr_lowering *l, int32_t u, struct zr_operand send,
				uint64_t bytes, int host)
{
	if (l->f->types.comm_dtype == ZR_F32)
		return send;

	struct zr_operand to = zr_low_message(l, host, narrow_bytes(l, send.bytes));
	narrow_into(l, u, send, bytes, host, to);
	return to;
}

/* Codes of an expert's gradient lie beside those of the others that a home has of it. */
static struct zr_operand code_expert(struct zr_lowering *l, const struct zr_pop *op, int32_t i,
				     struct zr_operand send)
{
	const int32_t u = zr_low_units(l, op)[i];
	struct zr_operand to = zr_low_room_for_expert(l, i, op->n, zr_low_message_region(0),
						      narrow_bytes(l, send.bytes));
	narrow_into(l, u, send, (uint64_t)l->f->layout.unit[u].elements * 4, 0, to);
	return to;
}

struct zr_operand zr_low_room_for(struct zr_lowering *l, const struct zr_operand *send)
{
	uint64_t bytes =
		send->bytes / (uint64_t)l->f->process.world * (uint64_t)zr_low_contributions(l);
	return zr_low_message(l, zr_comm_on_host(l->f), bytes);
}

struct zr_sent_received zr_low_fill(struct zr_lowering *l, const struct zr_pop *op, int32_t i,
				    struct zr_operand *from)
{
	const int32_t u = zr_low_units(l, op)[i];
	struct zr_sent_received x = { .recv = zr_none() };
	if (zr_sums_locally(l->f))
		x.send = zr_low_local_sum(l, u);
	else
		x.send = zr_low_gradient(l, u);
	if (l->f->peers && !zr_codes_gradients(l->f))
		return x;

	if (l->f->peers && zr_low_of_experts(l, op)) {
		*from = x.send = code_expert(l, op, i, x.send);
		return x;
	}

	*from = x.send = zr_low_narrow(l, u, x.send, (uint64_t)l->f->layout.unit[u].elements * 4,
				       zr_low_is_on_host(l, &x.send));
	if (l->f->peers)
		return x;

	if (zr_comm_on_host(l->f) && !zr_low_is_on_host(l, &x.send)) {
		struct zr_operand copy = zr_low_buffer(l, ZR_R_GRAD_BOUNCE, x.send.bytes, 64);
		zr_low_move(l, x.send, copy);
		x.send = copy;
	}
	if (zr_low_of_experts(l, op))
		x.recv = zr_low_room_for_expert(
			l, i, op->n, zr_low_message_region(zr_comm_on_host(l->f)), x.send.bytes);
	else
		x.recv = zr_low_room_for(l, &x.send);
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
		struct zr_operand recv = zr_low_message(l, zr_comm_on_host(l->f), send.bytes);
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
	struct zr_operand to = zr_low_message(l, host, x->send.bytes / (uint64_t)l->f->node_sum);
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

void zr_low_send(struct zr_lowering *l, const struct zr_pop *op)
{
	int32_t kind = ZR_COMM_ALL_TO_ALL;
	if (l->plan->scatter &&
	    !zr_low_of_experts(l, op)) /* what a rank sends of these is no sum of all */
		kind = ZR_COMM_REDUCE_SCATTER;
	if (zr_low_by_node(l)) {
		exchange_in_node(l, op);
		return;
	}

	for (int32_t i = 0; i < op->n; i++)
		l->part[i] = l->reduce[op->first + i];
	l->unit = zr_low_units(l, op)[0];
	zr_low_collective(l, kind, ZR_GROUP_WORLD, sent_type(l), 0, op->n);
}

void zr_low_send_on(struct zr_lowering *l, const struct zr_pop *op)
{
	if (!zr_low_by_node(l))
		return;

	for (int32_t i = 0; i < op->n; i++) {
		join(l, zr_low_units(l, op)[i], &l->reduce[op->first + i]);
		l->part[i] = l->reduce[op->first + i];
	}
	l->unit = zr_low_units(l, op)[0];
	zr_low_collective(l, ZR_COMM_ALL_TO_ALL, ZR_GROUP_CROSS, l->f->types.comm_dtype, 0, op->n);
}

void zr_low_meet(struct zr_lowering *l, const struct zr_pop *op, int32_t n)
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
