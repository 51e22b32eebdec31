/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.h - what the kernels of attention share: where a row starts, where dropout's random
 * numbers are, and which keys a query attends to. Of queries before `first` there is nothing: tiles
 * begin where they would without it, and what they have of these is neither read nor stored.
 */
#ifndef ZEROTH_KERNELS_CUDA_ATTENTION_H
#define ZEROTH_KERNELS_CUDA_ATTENTION_H

#include "kernel.h"

#include "../cpu/attention_places.h"

/* A tensor of q, k, v or out, or its gradient: rows are `stride` elements apart, heads `head`. */
struct heads {
	const void *x;
	int64_t stride, head;
};

ZR_DEVICE heads heads_of(const struct zr_op_attention &o, const void *x, int64_t stride,
			 int64_t head)
{
	return heads{ x, stride, head ? head : o.head_dim };
}

ZR_DEVICE heads as_q(const struct zr_op_attention &o, const void *x)
{
	return heads_of(o, x, o.q_stride, o.q_head);
}

ZR_DEVICE heads as_k(const struct zr_op_attention &o, const void *x)
{
	return heads_of(o, x, o.k_stride, o.k_head);
}

ZR_DEVICE heads as_v(const struct zr_op_attention &o, const void *x)
{
	return heads_of(o, x, o.v_stride, o.v_head);
}

ZR_DEVICE heads as_out(const struct zr_op_attention &o, const void *x)
{
	return heads_of(o, x, o.out_stride, 0);
}

/* Of token t, head h of batch entry b. */
ZR_DEVICE int64_t row_of(const struct zr_op_attention &o, const heads &x, int64_t b, int64_t t,
			 int64_t h)
{
	return (b * o.length + t) * x.stride + h * x.head;
}

/* The same of query t, and its place in lse and delta. */
ZR_DEVICE int64_t query_of(const struct zr_op_attention &o, const heads &x, int64_t b, int64_t t,
			   int64_t h)
{
	return (b * (o.length - o.first) + t - o.first) * x.stride + h * x.head;
}

ZR_DEVICE int64_t lse_of(const struct zr_op_attention &o, int64_t b, int64_t h, int64_t t)
{
	return (b * o.heads + h) * (o.length - o.first) + t - o.first;
}

/* The generator's element of query i and key j. */
ZR_DEVICE uint64_t element(const struct zr_op_attention &o, int64_t b, int64_t h, int64_t i,
			   int64_t j)
{
	return zr_drop_element(&o, b, h, i) + (uint64_t)j;
}

/* The first key that query i attends to: of its window and its document, which begins at key
 * `start`. */
ZR_DEVICE int first_since(const struct zr_op_attention &o, int start, int i)
{
	const int window = (int)(o.window && o.window < o.length ? o.window : o.length);
	const int oldest = i - window + 1;
	return oldest > start ? oldest : start;
}

/* The same, with the start looked up. It never falls as i grows to the last query. */
ZR_DEVICE int first_key(const struct zr_op_attention &o, int64_t b, int64_t i)
{
	return first_since(o, o.starts && i < o.length ? o.starts[b * o.length + i] : 0, (int)i);
}

/* The first query, in tiles of n, of those that keys from j0 on may be seen by. */
ZR_DEVICE int first_tile_of_queries(const struct zr_op_attention &o, int j0, int n)
{
	const int from = o.first / n * n;
	return from > j0 ? from : j0;
}

/* Of rows of which some have not seen a key yet: their largest score is -infinity, to which there
 * is no difference. */
ZR_DEVICE float seen_or_0(float most)
{
	return most == -INFINITY ? 0 : most;
}

/* What a thread has seen of head h is among the largest scores; all threads of the warp come here.
 * Where both are 0 or more, floats compare as their bits do. */
ZR_DEVICE void raise_largest(const struct zr_op_attention &o, int64_t h, float largest)
{
#pragma unroll
	for (int lane = ZR_WARP / 2; lane; lane /= 2)
		largest = fmaxf(largest, __shfl_xor_sync(ZR_FULL_WARP, largest, lane, ZR_WARP));
	if (threadIdx.x % ZR_WARP == 0 && largest > 0)
		atomicMax((int *)(void *)&o.max_scores[h], (int)zr_bits(largest));
}

#endif
