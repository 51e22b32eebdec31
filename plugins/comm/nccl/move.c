/* SPDX-License-Identifier: Apache-2.0
 *
 * move.c - operations on memory of GPUs: what NCCL moves by itself; sums of floats as an exchange
 * and additions in rank order.
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

int nn_is_noted(ncclResult_t e)
{
	return e == ncclSuccess || e == ncclInProgress;
}

/* e: what the calls of the group came to. */
int nn_end_group(struct zr_inst *c, ncclComm_t comm, ncclResult_t e)
{
	ncclResult_t end = ncclGroupEnd();
	if (nn_is_noted(e))
		e = end;
	return nn_finish(c, comm, e, "ncclGroupEnd");
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The most elements that a rank adds up. */
static int64_t part_length(const struct nn_group *g, int32_t kind, int64_t count)
{
	if (kind == ZR_COMM_REDUCE_SCATTER)
		return count;
	return ((count + g->size - 1) / g->size + 15) / 16 * 16;
}

/* Elements [lo, hi) of a sum's segment, as it is sent, that a rank adds up. */
static void part_of(const struct nn_group *g, int32_t kind, int64_t count, int32_t rank,
		    int64_t *lo, int64_t *hi)
{
	const int64_t part = part_length(g, kind, count);
	const int64_t all = kind == ZR_COMM_REDUCE_SCATTER ? count * g->size : count;
	*lo = least(part * rank, all);
	*hi = least(*lo + part, all);
}

/* Elements that come from each rank at a time; whole lines, for the kernel that adds them. */
static int64_t piece_length(const struct nn_group *g)
{
	return (int64_t)(NN_SCRATCH / sizeof(float)) / g->size / 64 * 64;
}

/* Of them those of the piece that begins `at` after the first. */
static void piece_of(const struct nn_group *g, int32_t kind, int64_t count, int32_t rank,
		     int64_t at, int64_t *lo, int64_t *hi)
{
	int64_t most = piece_length(g);
	part_of(g, kind, count, rank, lo, hi);
	*lo = least(*lo + at, *hi);
	*hi = least(*lo + most, *hi);
}

/* to = what the parts in scratch, n elements each, add up to. */
static int add_in_order(struct zr_inst *c, const struct nn_group *g, float *to, int64_t n)
{
	const struct zr_ops *ops = c->dev->ops(c->dev_inst);
	int rc = ZR_OK;

	for (int32_t r = 0; !rc && r < g->size && n; r++) {
		struct zr_op_fold op = { .size = sizeof op,
					 .flags = r ? ZR_OP_ACCUMULATE : 0,
					 .comm_dtype = ZR_F32,
					 .n = n,
					 .g = (float *)c->scratch + r * n,
					 .acc = to };
		rc = ops->fold(ops, (struct zr_stream *)c->stream, &op);
	}

	return rc;
}

/* Every rank sends each other one a piece of its part of `send`; those for this one come to
 * scratch, in rank order. */
static int exchange(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_seg *s,
		    int32_t kind, int64_t from, int64_t mine)
{
	ncclResult_t e = ncclGroupStart();

	for (int32_t r = 0; r < g->size && nn_is_noted(e); r++) {
		int64_t lo, hi;
		piece_of(g, kind, s->count, r, from, &lo, &hi);
		e = ncclSend((const float *)s->send + lo, (size_t)(hi - lo), ncclFloat32, r,
			     g->comm, c->stream);
		if (nn_is_noted(e))
			e = ncclRecv((float *)c->scratch + r * mine, (size_t)mine, ncclFloat32, r,
				     g->comm, c->stream);
	}

	return nn_end_group(c, g->comm, e);
}

/* The sums of all ranks to all. */
static int spread(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_seg *s)
{
	ncclResult_t e = ncclGroupStart();

	for (int32_t r = 0; r < g->size && nn_is_noted(e); r++) {
		int64_t lo, hi;
		part_of(g, ZR_COMM_ALL_REDUCE, s->count, r, &lo, &hi);
		e = ncclBroadcast((float *)s->recv + lo, (float *)s->recv + lo, (size_t)(hi - lo),
				  ncclFloat32, r, g->comm, c->stream);
	}

	return nn_end_group(c, g->comm, e);
}

static int ordered_sum(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_op *op,
		       const struct zr_comm_seg *s)
{
	const int scatters = op->kind == ZR_COMM_REDUCE_SCATTER;
	int64_t length = part_length(g, op->kind, s->count), lo, hi;

	for (int64_t from = 0; from < length; from += piece_length(g)) {
		piece_of(g, op->kind, s->count, g->rank, from, &lo, &hi);
		int rc = exchange(c, g, s, op->kind, from, hi - lo);
		if (!rc)
			rc = add_in_order(c, g, (float *)s->recv + (scatters ? from : lo), hi - lo);
		if (rc)
			return rc;
	}

	if (scatters)
		return ZR_OK;
	return spread(c, g, s);
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

/* A sum of nothing: every stream that waits for it waits for all ranks. */
static int meet(struct zr_inst *c, const struct nn_group *g)
{
	ncclResult_t e =
		ncclAllReduce(c->scratch, c->scratch, 1, ncclInt32, ncclSum, g->comm, c->stream);
	return nn_finish(c, g->comm, e, "ncclAllReduce");
}

int nn_move(struct zr_inst *c, const struct zr_comm_op *op)
{
	const struct nn_group *g = &c->group[op->group];
	const int is_data = op->kind < ZR_COMM_BARRIER;
	int rc = ZR_OK;
	if (g->size == 1 && is_data)
		return alone(c, op);
	if (g->size == 1)
		return ZR_OK;
	if (!is_data)
		return meet(c, g);
	if (!is_ordered(c, op))
		return move_all(c, g, op);

	for (int32_t i = 0; !rc && i < op->n_seg; i++)
		if (op->seg[i].count)
			rc = ordered_sum(c, g, op, &op->seg[i]);
	return rc;
}

uint64_t nn_bytes_of(const struct zr_inst *c, const struct zr_comm_op *op)
{
	const struct nn_group *g = &c->group[op->group];
	uint64_t sum = 0;

	for (int32_t i = 0; i < op->n_seg && op->kind < ZR_COMM_BARRIER; i++) {
		uint64_t esz = comm_dtype_bytes(op->dtype), part = (uint64_t)op->seg[i].count * esz;
		int64_t lo, hi;
		if (op->kind == ZR_COMM_ALL_REDUCE) {
			part_of(g, op->kind, op->seg[i].count, g->rank, &lo, &hi);
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
