/* SPDX-License-Identifier: Apache-2.0
 *
 * ordered.c - sums of fp32 in rank order: every rank sends each other one its part, in pieces, and
 * adds what comes. Pieces come into the halves of a scratch in turn; a stream of its own adds one
 * while the next one comes.
 */
#define _GNU_SOURCE
#include "nccl.h"

#ifndef NN_PEER                   /* tests have smaller pieces */
#define NN_PEER       (2u << 20)  /* bytes of a piece that come from each rank, */
#define NN_HALF_LEAST (16u << 20) /* within these bounds of all of them */
#define NN_HALF_MOST  (128u << 20)
#endif

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
void nn_part_of(const struct nn_group *g, int32_t kind, int64_t count, int32_t rank, int64_t *lo,
		int64_t *hi)
{
	const int64_t part = part_length(g, kind, count);
	const int64_t all = kind == ZR_COMM_REDUCE_SCATTER ? count * g->size : count;
	*lo = least(part * rank, all);
	*hi = least(*lo + part, all);
}

uint64_t nn_scratch_bytes(int32_t world)
{
	const uint64_t half = (uint64_t)world * NN_PEER;
	if (half < NN_HALF_LEAST)
		return 2 * NN_HALF_LEAST;
	if (half > NN_HALF_MOST)
		return 2 * NN_HALF_MOST;
	return 2 * half;
}

/* Elements that come from each rank at a time; whole lines, for the kernel that adds them. */
static int64_t piece_length(const struct zr_inst *c, const struct nn_group *g)
{
	const uint64_t half = nn_scratch_bytes(c->world) / 2;
	return (int64_t)(half / sizeof(float)) / g->size / 64 * 64;
}

/* Of them those of the piece that begins `at` after the first. */
static void piece_of(const struct zr_inst *c, const struct nn_group *g, int32_t kind, int64_t count,
		     int32_t rank, int64_t at, int64_t *lo, int64_t *hi)
{
	int64_t most = piece_length(c, g);
	nn_part_of(g, kind, count, rank, lo, hi);
	*lo = least(*lo + at, *hi);
	*hi = least(*lo + most, *hi);
}

/* to = what n elements of each rank add up to, which lie in the half one after the other. */
static int add_in_order(struct zr_inst *c, const struct nn_group *g, const struct nn_half *half,
			float *to, int64_t n)
{
	const struct zr_ops *ops = c->dev->ops(c->dev_inst);
	const struct zr_op_fold op = { .size = sizeof op,
				       .comm_dtype = ZR_F32,
				       .n = n,
				       .g = half->at,
				       .acc = to,
				       .number = g->size,
				       .apart = n * (int64_t)sizeof(float) };
	if (!n)
		return ZR_OK;
	return ops->fold(ops, (struct zr_stream *)c->adding, &op);
}

/* Every rank sends each other one a piece of its part of `send`; those for this one come to the
 * half, in rank order. */
static int exchange(struct zr_inst *c, const struct nn_group *g, const struct nn_half *half,
		    const struct zr_comm_seg *s, int32_t kind, int64_t from, int64_t mine)
{
	ncclResult_t e = ncclGroupStart();

	for (int32_t r = 0; r < g->size && nn_is_noted(e); r++) {
		int64_t lo, hi;
		piece_of(c, g, kind, s->count, r, from, &lo, &hi);
		e = ncclSend((const float *)s->send + lo, (size_t)(hi - lo), ncclFloat32, r,
			     g->comm, c->stream);
		if (nn_is_noted(e))
			e = ncclRecv(half->at + r * mine, (size_t)mine, ncclFloat32, r, g->comm,
				     c->stream);
	}

	return nn_end_group(c, g->comm, e);
}

/* The sums of all ranks to all. */
static int spread(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_seg *s)
{
	ncclResult_t e = ncclGroupStart();

	for (int32_t r = 0; r < g->size && nn_is_noted(e); r++) {
		int64_t lo, hi;
		nn_part_of(g, ZR_COMM_ALL_REDUCE, s->count, r, &lo, &hi);
		e = ncclBroadcast((float *)s->recv + lo, (float *)s->recv + lo, (size_t)(hi - lo),
				  ncclFloat32, r, g->comm, c->stream);
	}

	return nn_end_group(c, g->comm, e);
}

static int follow(struct zr_inst *c, cudaStream_t s, cudaEvent_t e)
{
	return nn_cuda(c, cudaStreamWaitEvent(s, e, 0), "cudaStreamWaitEvent");
}

static int mark(struct zr_inst *c, cudaEvent_t e, cudaStream_t s)
{
	return nn_cuda(c, cudaEventRecord(e, s), "cudaEventRecord");
}

/* One piece: comes into the half once what lay there is added, and is added beside the next
 * one. */
static int add_piece(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_seg *s,
		     int32_t kind, int64_t from)
{
	struct nn_half *half = &c->half[c->turn];
	int64_t lo, hi;
	c->turn = !c->turn;
	piece_of(c, g, kind, s->count, g->rank, from, &lo, &hi);

	int rc = follow(c, c->stream, half->added);
	if (!rc)
		rc = exchange(c, g, half, s, kind, from, hi - lo);
	if (!rc)
		rc = mark(c, half->arrived, c->stream);
	if (!rc)
		rc = follow(c, c->adding, half->arrived);
	if (rc)
		return rc;

	const int64_t at = kind == ZR_COMM_REDUCE_SCATTER ? from : lo;
	rc = add_in_order(c, g, half, (float *)s->recv + at, hi - lo);
	if (rc)
		return rc;
	return mark(c, half->added, c->adding);
}

/* The stream goes on once all that is added so far is. */
static int join(struct zr_inst *c)
{
	int rc = follow(c, c->stream, c->half[0].added);
	if (rc)
		return rc;
	return follow(c, c->stream, c->half[1].added);
}

static int add_segment(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_seg *s,
		       int32_t kind)
{
	const int64_t length = part_length(g, kind, s->count);
	int rc = ZR_OK;

	for (int64_t from = 0; !rc && from < length; from += piece_length(c, g))
		rc = add_piece(c, g, s, kind, from);
	return rc;
}

int nn_ordered_sum(struct zr_inst *c, const struct nn_group *g, const struct zr_comm_op *op)
{
	const int spreads = op->kind == ZR_COMM_ALL_REDUCE;
	int rc = ZR_OK;

	for (int32_t i = 0; !rc && i < op->n_seg; i++)
		rc = add_segment(c, g, &op->seg[i], op->kind);
	if (!rc)
		rc = join(c);
	for (int32_t i = 0; !rc && i < op->n_seg && spreads; i++)
		if (op->seg[i].count)
			rc = spread(c, g, &op->seg[i]);
	return rc;
}

/* ---- the scratch ----------------------------------------------------------------- */

int nn_halves_open(struct zr_inst *c)
{
	const uint64_t bytes = nn_scratch_bytes(c->world);
	int rc = nn_cuda(c, cudaMalloc(&c->scratch, bytes), "device memory for sums");
	if (!rc)
		rc = nn_cuda(c, cudaStreamCreateWithFlags(&c->adding, cudaStreamNonBlocking),
			     "cudaStreamCreate");
	for (int i = 0; !rc && i < 2; i++) {
		struct nn_half *half = &c->half[i];
		half->at = (float *)((char *)c->scratch + (uint64_t)i * (bytes / 2));
		rc = nn_cuda(c, cudaEventCreateWithFlags(&half->arrived, cudaEventDisableTiming),
			     "cudaEventCreate");
		if (!rc)
			rc = nn_cuda(c,
				     cudaEventCreateWithFlags(&half->added, cudaEventDisableTiming),
				     "cudaEventCreate");
	}

	return rc;
}

void nn_halves_close(struct zr_inst *c)
{
	for (int i = 0; i < 2; i++) {
		if (c->half[i].arrived)
			nn_gave_back(c, cudaEventDestroy(c->half[i].arrived), "cudaEventDestroy");
		if (c->half[i].added)
			nn_gave_back(c, cudaEventDestroy(c->half[i].added), "cudaEventDestroy");
	}

	if (c->adding)
		nn_gave_back(c, cudaStreamDestroy(c->adding), "cudaStreamDestroy");
	if (c->scratch)
		nn_gave_back(c, cudaFree(c->scratch), "cudaFree");
}
