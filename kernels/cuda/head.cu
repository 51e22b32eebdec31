/* SPDX-License-Identifier: Apache-2.0
 *
 * head.cu - softmax cross entropy of rows of logits and its gradient: a CUDA block takes a row, which stays in the
 * cache between its three passes. Each thread sums every 512th element; the sums meet in one order.
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

template <class T>
static __global__ void __launch_bounds__(THREADS) softmax_kernel(const __grid_constant__ struct zr_cuda_softmax op)
{
	__shared__ float room[WARPS];
	const int64_t r = blockIdx.x;
	const float *x = op.logits + r * op.ld;
	T *grad = (T *)op.grad + r * op.ldd;
	const int32_t target = op.targets[r];
	float max = x[threadIdx.x < op.vocabulary ? threadIdx.x : 0], sum = 0;

	for (int64_t j = threadIdx.x; j < op.vocabulary; j += THREADS)
		max = zr_larger(max, x[j]);
	max = block_max(max, room);
	for (int64_t j = threadIdx.x; j < op.vocabulary; j += THREADS)
		sum += zr_exp(x[j] - max);
	sum = block_sum(sum, room);
	if (threadIdx.x == 0)
		op.loss[r] = max - x[target] + zr_ln(sum);
	if (!op.grad)
		return;
	const float factor = op.scale / sum;
	for (int64_t j = threadIdx.x; j < op.vocabulary; j += THREADS) {
		float g = zr_exp(x[j] - max) * factor;
		zr_narrow(j == target ? g - op.scale : g, &grad[j]);
	}
}

template <class T> static cudaError_t launch_softmax(const struct zr_cuda_softmax *op, cudaStream_t s)
{
	return zr_launch(softmax_kernel<T>, dim3((unsigned)op->rows), dim3(THREADS), 0, s, *op);
}

cudaError_t zr_cuda_softmax_loss(const struct zr_cuda_softmax *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_softmax, op, s);
}

/* One thread adds, the others bring. */
static __global__ void __launch_bounds__(THREADS) loss_sum_kernel(const float *loss, int64_t rows, double *sum)
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
