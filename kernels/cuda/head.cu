/* SPDX-License-Identifier: Apache-2.0
 *
 * head.cu - softmax cross entropy of rows of logits and its gradient: a CUDA block computes a row
 * and reads it twice, the second time from the cache: one block is on a multiprocessor, so that the
 * rows of all of them fit there. A thread takes QUADS groups of four elements at a time, a block's
 * width apart, and keeps their maximum and the sum of their exponentials relative to it. The
 * results of the threads are combined in a fixed order.
 */
#include "kernel.h"
#include "mma.h"

#define THREADS ZR_MOST_THREADS
#define WARPS   (THREADS / ZR_WARP)
#define QUADS   5
#define STEP    ((int64_t)QUADS * 4 * THREADS) /* elements that a block takes at a time */
#define LOG2E   1.44269504f
#define LOWEST  (-3.40282347e38f) /* a difference to it is a number */

/* All threads get the result. */
ZR_DEVICE float block_sum(float x, float *room)
{
	x = zr_warp_sum(x);
	if (threadIdx.x % ZR_WARP == 0)
		room[threadIdx.x / ZR_WARP] = x;
	__syncthreads();
	x = zr_warp_sum(threadIdx.x % ZR_WARP < WARPS ? room[threadIdx.x % ZR_WARP] : 0);
	__syncthreads();
	return x;
}

ZR_DEVICE float block_max(float x, float *room)
{
	x = zr_warp_max(x);
	if (threadIdx.x % ZR_WARP == 0)
		room[threadIdx.x / ZR_WARP] = x;
	__syncthreads();
	x = zr_warp_max(room[threadIdx.x % WARPS]);
	__syncthreads();
	return x;
}

/* The logit that x, of the product, becomes, and the slope there. */
template <int CAPPED> ZR_DEVICE float logit_of(const struct zr_cuda_softmax &op, float x)
{
	if (!CAPPED)
		return x;
	return op.softcap > 0 ? zr_softcap(x * op.gain, op.softcap) : x * op.gain;
}

template <int CAPPED> ZR_DEVICE float slope_of(const struct zr_cuda_softmax &op, float logit)
{
	if (!CAPPED)
		return 1;
	return op.softcap > 0 ? zr_softcap_slope(logit, op.softcap) * op.gain : op.gain;
}

/* Whether no logit of the row is larger than the target's, nor one before it as large. */
template <int CAPPED>
ZR_DEVICE int is_likeliest(const struct zr_cuda_softmax &op, const float *x, int64_t n,
			   int32_t target, float *room)
{
	const float mine = logit_of<CAPPED>(op, x[target]);
	float others = 0;
	for (int64_t j = threadIdx.x; j < n; j += THREADS) {
		const float logit = logit_of<CAPPED>(op, x[j]);
		if (logit > mine || (j < target && logit == mine))
			others = 1;
	}
	return block_max(others, room) == 0;
}

/* exp of what is at most 0. Where a gradient is rounded to 16 bits, by the unit for powers of 2: of
 * a relative error of 1e-6. */
template <class T> ZR_DEVICE float exp_of(float x, T)
{
	return zr_exp2(x * LOG2E);
}
ZR_DEVICE float exp_of(float x, float)
{
	return zr_exp(x);
}

/* A thread's part of STEP elements from j on, of which n are there; FULL: all of them, aligned. */
struct some_logits {
	float x[QUADS][4];
	int n[QUADS]; /* how many of four there are */
};

template <bool FULL> ZR_DEVICE zr_place some_place(int64_t j, int q, int64_t n, int whole)
{
	const int64_t at = j + 4 * ((int64_t)q * THREADS + threadIdx.x), left = n - at;
	const int m = left < 0 ? 0 : left < 4 ? (int)left : 4;
	return FULL ? zr_place{ at, 4, 1 } : zr_place{ at, m, whole && m == 4 };
}

template <bool FULL>
ZR_DEVICE some_logits load_some(const float *x, int64_t j, int64_t n, int whole)
{
	some_logits s;
#pragma unroll
	for (int q = 0; q < QUADS; q++) {
		const zr_place at = some_place<FULL>(j, q, n, whole);
		const zr_quad v = zr_load<float>(x, at);
		s.n[q] = at.n;
		for (int k = 0; k < 4; k++)
			s.x[q][k] = v.x[k];
	}
	return s;
}

/* The largest logit and the sum of exponentials relative to it. A NaN is in the sum. */
struct row_sum {
	float max, sum;
};

template <class T, int CAPPED, bool FULL>
ZR_DEVICE void add_some(const struct zr_cuda_softmax &op, const float *x, int64_t j, int whole,
			row_sum *to)
{
	some_logits s = load_some<FULL>(x, j, op.vocabulary, whole);
	float max = to->max, more = 0;
#pragma unroll
	for (int q = 0; q < QUADS; q++)
		for (int k = 0; k < 4; k++) {
			s.x[q][k] = k < s.n[q] ? logit_of<CAPPED>(op, s.x[q][k]) : -INFINITY;
			max = fmaxf(max, s.x[q][k]);
		}
#pragma unroll
	for (int q = 0; q < QUADS; q++)
		for (int k = 0; k < 4; k++)
			more += exp_of(s.x[q][k] - max, T());
	to->sum = fmaf(to->sum, exp_of(to->max - max, T()), more);
	to->max = max;
}

/* Gradients of `last` columns as if none were the target's, and zeros up to column `end`. */
template <class T, int CAPPED, bool FULL>
ZR_DEVICE void store_some(const struct zr_cuda_softmax &op, const float *x, T *grad, int64_t j,
			  int64_t last, int64_t end, int whole, float all, float factor)
{
	const some_logits s = load_some<FULL>(x, j, last, whole);
#pragma unroll
	for (int q = 0; q < QUADS; q++) {
		zr_quad g;
		for (int k = 0; k < 4; k++) {
			const float logit = logit_of<CAPPED>(op, s.x[q][k]);
			g.x[k] = exp_of(logit - all, T()) * factor * slope_of<CAPPED>(op, logit);
			g.x[k] = k < s.n[q] ? g.x[k] : 0;
		}
		zr_store<T>(grad, some_place<FULL>(j, q, end, whole), g);
	}
}

template <class T, int CAPPED>
static __global__ void __launch_bounds__(THREADS, 1)
	softmax_kernel(const __grid_constant__ struct zr_cuda_softmax op, int whole)
{
	__shared__ float room[WARPS];
	const int64_t r = blockIdx.x, n = op.vocabulary, full = whole ? n - STEP : -1;
	const float *x = op.logits + r * op.ld;
	const int32_t target = op.targets[r];
	const float weight = target < 0 ? 0 :
			     op.weights ? op.weights[r] :
					  1,
		    scale = op.scale * weight;
	row_sum mine = { LOWEST, 0 };

	for (int64_t j = 0; j < n; j += STEP)
		if (j <= full)
			add_some<T, CAPPED, true>(op, x, j, whole, &mine);
		else
			add_some<T, CAPPED, false>(op, x, j, whole, &mine);
	const float all = block_max(mine.max, room);
	const float sum = block_sum(mine.sum * exp_of(mine.max - all, T()), room);
	const float loss = target < 0 ? 0 : all - logit_of<CAPPED>(op, x[target]) + zr_ln(sum);
	if (threadIdx.x == 0)
		op.loss[r] = loss * weight;
	if (op.right) {
		const int right = target >= 0 && is_likeliest<CAPPED>(op, x, n, target, room);
		if (threadIdx.x == 0)
			op.right[r] = right && loss == loss ? weight : 0;
	}
	if (!op.grad)
		return;
	T *grad = (T *)op.grad + r * op.ldd;
	const float factor = scale / sum;
	const int64_t last = target < 0 ? 0 : n, end = op.filled > n ? op.filled : n;
	for (int64_t j = 0; j < end; j += STEP)
		if (j <= full && target >= 0)
			store_some<T, CAPPED, true>(op, x, grad, j, last, end, whole, all, factor);
		else
			store_some<T, CAPPED, false>(op, x, grad, j, last, end, whole, all, factor);
	__syncthreads();
	if (target >= 0 && threadIdx.x == 0) {
		const float logit = logit_of<CAPPED>(op, x[target]);
		zr_narrow((exp_of(logit - all, T()) * factor - scale) * slope_of<CAPPED>(op, logit),
			  &grad[target]);
	}
}

template <class T>
static cudaError_t launch_softmax(const struct zr_cuda_softmax *op, cudaStream_t s)
{
	int whole = op->ld % 4 == 0 && op->ldd % 4 == 0 && zr_quads(op->logits, 4) &&
		    zr_quads(op->grad, sizeof(T));
	int capped = op->softcap > 0 || op->gain != 1;
	return zr_launch(capped ? softmax_kernel<T, 1> : softmax_kernel<T, 0>,
			 dim3((unsigned)op->rows), dim3(THREADS), 0, s, *op, whole);
}

cudaError_t zr_cuda_softmax_loss(const struct zr_cuda_softmax *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_softmax, op, s);
}

/* One thread adds, the others bring: zeros behind the last, which change no sum of a row before. */
static __global__ void __launch_bounds__(THREADS)
	loss_sum_kernel(const float *loss, int64_t rows, double *sum)
{
	__shared__ double some[THREADS];
	double all = 0;

	for (int64_t at = 0; at < rows; at += THREADS) {
		some[threadIdx.x] = at + threadIdx.x < rows ? (double)loss[at + threadIdx.x] : 0;
		__syncthreads();
		if (threadIdx.x == 0) {
#pragma unroll 32
			for (int k = 0; k < THREADS; k++)
				all += some[k];
		}
		__syncthreads();
	}
	if (threadIdx.x == 0)
		*sum = all;
}

cudaError_t zr_cuda_loss_sum(const float *loss, int64_t rows, double *sum, cudaStream_t s)
{
	return zr_launch(loss_sum_kernel, dim3(1), dim3(THREADS), 0, s, loss, rows, sum);
}
