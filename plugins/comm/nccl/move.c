/* SPDX-License-Identifier: Apache-2.0
 *
 * move.c - operations on memory of GPUs that NCCL runs by itself; sums of floats are in ordered.c.
 */
#define _GNU_SOURCE
#include "nccl.h"

ncclDataType_t nn_type_of(int32_t dtype)
{
	static const ncclDataType_t types[] = { ncclUint8,   ncclFloat32, ncclBfloat16, ncclFloat16,
						ncclFloat64, ncclInt32,   ncclInt64,    ncclUint8 };
	return types[dtype];
}

int nn_adds(int32_t kind)
{
	return kind == ZR_COMM_REDUCE_SCATTER || kind == ZR_COMM_ALL_REDUCE;
}

/* Sums in rank order are for fp32; those of integers have one result in any order. */
static int is_ordered(const struct zr_inst *c, const struct zr_comm_op *op)
{
	return nn_adds(op->kind) && op->dtype != ZR_I64 &&
	       !(op->kind == ZR_COMM_REDUCE_SCATTER && c->o->sums == NN_SUMS_NCCL);
}

static char *at(const void *base, uint64_t bytes)
{
	return (char *)(uintptr_t)base + bytes;
}

/* One segment by NCCL's own calls, inside a group call. */
static ncclResult_t move(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_op *op,
			 const struct zr_comm_seg *s)
{
	ncclDataType_t type = nn_type_of(op->dtype);
	uint64_t part = (uint64_t)s->count * comm_dtype_bytes(op->dtype);
	size_t n = (size_t)s->count;
	ncclResult_t e = ncclSuccess;

	switch (op->kind) {
	case ZR_COMM_ALL_GATHER:
		return ncclAllGather(s->send, s->recv, n, type, g->comm, c->stream);
	case ZR_COMM_REDUCE_SCATTER:
		return ncclReduceScatter(s->send, s->recv, n, type, ncclSum, g->comm, c->stream);
	case ZR_COMM_ALL_REDUCE:
		return ncclAllReduce(s->send, s->recv, n, type, ncclSum, g->comm, c->stream);
	case ZR_COMM_BROADCAST:
		return ncclBroadcast(s->send, s->recv, n, type, op->root, g->comm, c->stream);
	default:
		for (int32_t r = 0; r < g->size && nn_is_noted(e); r++) {
			e = ncclSend(at(s->send, (uint64_t)r * part), n, type, r, g->comm,
				     c->stream);
			if (nn_is_noted(e))
				e = ncclRecv(at(s->recv, (uint64_t)r * part), n, type, r, g->comm,
					     c->stream);
		}
		return e;
	}
}

static int move_all(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_op *op)
{
	ncclResult_t e = ncclGroupStart();

	for (int32_t i = 0; i < op->n_seg && nn_is_noted(e); i++)
		if (op->seg[i].count)
			e = move(c, g, op, &op->seg[i]);
	return nn_end_group(c, g->comm, e);
}

/* A group of one rank: the result is a copy. */
static int alone(struct zr_inst *c, const struct zr_comm_op *op)
{
	int rc = ZR_OK;

	for (int32_t i = 0; !rc && i < op->n_seg; i++) {
		const struct zr_comm_seg *s = &op->seg[i];
		if (s->count && s->recv && s->send != s->recv)
			rc = nn_cuda(c,
				     cudaMemcpyAsync(s->recv, s->send,
						     (size_t)s->count * comm_dtype_bytes(op->dtype),
						     cudaMemcpyDefault, c->stream),
				     "cudaMemcpyAsync");
	}

	return rc;
}

int nn_move(struct zr_inst *c, const struct zr_comm_op *op)
{
	const struct nn_group *g = &c->group[op->group];
	if (g->size == 1)
		return alone(c, op);
	if (is_ordered(c, op))
		return nn_ordered_sum(c, g, op);
	return move_all(c, g, op);
}

uint64_t nn_bytes_of(const struct zr_inst *c, const struct zr_comm_op *op)
{
	const struct nn_group *g = &c->group[op->group];
	uint64_t sum = 0;

	for (int32_t i = 0; i < op->n_seg && op->kind < ZR_COMM_BARRIER; i++) {
		uint64_t esz = comm_dtype_bytes(op->dtype), part = (uint64_t)op->seg[i].count * esz;
		int64_t lo, hi;
		if (op->kind == ZR_COMM_ALL_REDUCE) {
			nn_part_of(g, op->kind, op->seg[i].count, g->rank, &lo, &hi);
			sum += (uint64_t)(g->size - 1) * (uint64_t)(hi - lo) * esz + part -
			       (uint64_t)(hi - lo) * esz;
		} else if (op->kind == ZR_COMM_BROADCAST) {
			if (g->rank != op->root)
				sum += part;
		} else {
			sum += (uint64_t)(g->size - 1) * part;
		}
	}

	return sum;
}

int nn_move_exchange(struct zr_inst *c, const struct zr_comm_exchange *x)
{
	const struct nn_group *g = &c->group[x->group];
	const uint64_t esz = comm_dtype_bytes(x->dtype);
	const ncclDataType_t type = nn_type_of(x->dtype);
	const char *send = x->send;
	char *recv = x->recv;
	ncclResult_t e = ncclGroupStart();

	for (int32_t r = 0; r < g->size && nn_is_noted(e); r++) {
		const size_t to = (size_t)x->send_count[r], from = (size_t)x->recv_count[r];
		if (to)
			e = ncclSend(send, to, type, r, g->comm, c->stream);
		if (from && nn_is_noted(e))
			e = ncclRecv(recv, from, type, r, g->comm, c->stream);
		send += to * esz;
		recv += from * esz;
	}

	return nn_end_group(c, g->comm, e);
}
