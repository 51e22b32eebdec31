/* SPDX-License-Identifier: Apache-2.0
 *
 * head.cu - softmax cross entropy of rows of logits and its gradient: a CUDA block computes a row
 * and reads it twice, the second time from the cache. Each thread takes every 512th group of four
 * elements, and keeps their maximum and the sum of their exponentials relative to it. The results
 * of the threads are combined in a fixed order.
 */
#include "kernel.h"

#define THREADS 512
#define WARPS (THREADS / ZR_WARP)

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

template <class T, int CAPPED>
static __global__ void __launch_bounds__(THREADS)
	softmax_kernel(const __grid_constant__ struct zr_cuda_softmax op, int whole)
{
	__shared__ float room[WARPS];
	const int64_t r = blockIdx.x, n = op.vocabulary;
	const float *x = op.logits + r * op.ld;
	const int32_t target = op.targets[r];
	const float weight = target < 0 ? 0 : op.weights ? op.weights[r] : 1,
		    scale = op.scale * weight;
	float max = -3.40282347e38f, sum = 0; /* a difference to it is a number */

	for (int64_t j = 4 * (int64_t)threadIdx.x; j < n; j += 4 * THREADS) {
		const int m = n - j < 4 ? (int)(n - j) : 4;
		zr_quad q = zr_load<float>(x, zr_place{ j, m, whole && m == 4 });
		for (int k = 0; k < 4; k++)
			q.x[k] = logit_of<CAPPED>(op, q.x[k]);
		float most = max, more = 0;
		for (int k = 0; k < 4; k++)
			most = k < m ? zr_larger(most, q.x[k]) : most;
		for (int k = 0; k < 4; k++)
			more += k < m ? zr_exp(q.x[k] - most) : 0;
		sum = most > max || most != most ? fmaf(sum, zr_exp(max - most), more) : sum + more;
		max = most;
	}
	const float all = block_max(max, room);
	sum = block_sum(sum * zr_exp(max - all), room);
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
	for (int64_t j = 4 * (int64_t)threadIdx.x; j < n; j += 4 * THREADS) {
		const int m = n - j < 4 ? (int)(n - j) : 4;
		const zr_place at = { j, m, whole && m == 4 };
		zr_quad q = zr_load<float>(x, at);
		for (int k = 0; k < 4; k++) {
			float logit = logit_of<CAPPED>(op, q.x[k]), slope = slope_of<CAPPED>(op, logit);
			float g = zr_exp(logit - all) * factor;
			g = j + k == target ? g - scale : g;
			q.x[k] = target < 0 ? 0 : g * slope;
		}
		zr_store<T>(grad, at, q);
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

/* One thread adds, the others bring. */
static __global__ void __launch_bounds__(THREADS)
	loss_sum_kernel(const float *loss, int64_t rows, double *sum)
{
	__shared__ float some[THREADS];
	double all = 0;

	for (int64_t at = 0; at < rows; at += THREADS) {
		if (at + threadIdx.x < rows)
			some[threadIdx.x] = loss[at + threadIdx.x];
		__syncthreads();
		for (int k = 0; threadIdx.x == 0 && k < THREADS && at + k < rows; k++)
			all += (double)some[k];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		*sum = all;
}

cudaError_t zr_cuda_loss_sum(const float *loss, int64_t rows, double *sum, cudaStream_t s)
{
	return zr_launch(loss_sum_kernel, dim3(1), dim3(THREADS), 0, s, loss, rows, sum);
}
