/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul.cu - any matrix product in fp32: for operands that cuBLASLt does not take, as mixed types
 * and odd strides, and for low-rank updates with dropout. A CUDA block computes a tile of 64 x 64,
 * a thread 4 x 4 of it, along K in one chain of fma per element.
 */
#include "kernel.h"

#define TILE  64
#define DEPTH 16
#define SIDE  (TILE / 4) /* threads along either side */

/* D = or += drop(gain op(A) op(B)), then the rest of `op` */
struct scaled_product {
	struct zr_op_matmul op;
	float gain, dropout;
	struct zr_rng rng;
	int64_t first;
};

/* Element (row, k) of op(A), or (k, col) of op(B); 0 outside. */
ZR_DEVICE float at_a(const struct zr_op_matmul &op, int64_t row, int64_t k)
{
	if (row >= op.m || k >= op.k)
		return 0;
	return zr_get(op.a.data, op.flags & ZR_MM_TRANS_A ? k * op.lda + row : row * op.lda + k,
		      op.a.dtype);
}

ZR_DEVICE float at_b(const struct zr_op_matmul &op, int64_t k, int64_t col)
{
	if (col >= op.n || k >= op.k)
		return 0;
	return zr_get(op.b.data, op.flags & ZR_MM_TRANS_B ? col * op.ldb + k : k * op.ldb + col,
		      op.b.dtype);
}

ZR_DEVICE void finish(const struct scaled_product &p, int64_t row, int64_t col, float x)
{
	const struct zr_op_matmul &op = p.op;
	int64_t at = row * op.ldd + col;
	x *= p.gain;
	if (p.dropout > 0) {
		uint32_t word = zr_rng_word(&p.rng, (uint64_t)(p.first + row * op.n + col));
		x = word >= zr_drop_below(p.dropout) ? x * zr_drop_scale(p.dropout) : 0;
	}
	if (op.flags & ZR_MM_ACCUMULATE)
		x = zr_get(op.d.data, at, op.d.dtype) + x;
	if (op.bias)
		x += zr_get(op.bias, col, op.b.dtype);
	if (op.flags & ZR_MM_GELU) {
		if (op.pre)
			zr_put(op.pre, at, op.d.dtype, x);
		x = zr_activation(x, zr_gelu_of(op.activation));
	}
	zr_put(op.d.data, at, op.d.dtype, x);
}

static __global__ void __launch_bounds__(SIDE *SIDE)
	matmul_kernel(const __grid_constant__ struct scaled_product p)
{
	const struct zr_op_matmul &op = p.op;
	__shared__ float a[DEPTH][TILE + 1], b[DEPTH][TILE + 1];
	const int64_t row0 = (int64_t)blockIdx.y * TILE, col0 = (int64_t)blockIdx.x * TILE;
	const int me = (int)(threadIdx.y * SIDE + threadIdx.x);
	float sum[4][4] = { { 0 } };

	for (int64_t k0 = 0; k0 < op.k; k0 += DEPTH) {
		/* neighbours in a warp load neighbours in memory, whichever way the operand is
		 * stored */
		for (int i = me; i < TILE * DEPTH; i += SIDE * SIDE) {
			int ra = op.flags & ZR_MM_TRANS_A ? i % TILE : i / DEPTH,
			    ka = op.flags & ZR_MM_TRANS_A ? i / TILE : i % DEPTH;
			int cb = op.flags & ZR_MM_TRANS_B ? i / DEPTH : i % TILE,
			    kb = op.flags & ZR_MM_TRANS_B ? i % DEPTH : i / TILE;
			a[ka][ra] = at_a(op, row0 + ra, k0 + ka);
			b[kb][cb] = at_b(op, k0 + kb, col0 + cb);
		}
		__syncthreads();
		for (int k = 0; k < DEPTH; k++)
#pragma unroll
			for (int i = 0; i < 4; i++)
#pragma unroll
				for (int j = 0; j < 4; j++)
					sum[i][j] = fmaf(a[k][threadIdx.y + i * SIDE],
							 b[k][threadIdx.x + j * SIDE], sum[i][j]);
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) {
			int64_t row = row0 + threadIdx.y + i * SIDE,
				col = col0 + threadIdx.x + j * SIDE;
			if (row < op.m && col < op.n)
				finish(p, row, col, sum[i][j]);
		}
}

static cudaError_t launch(const struct scaled_product &p, cudaStream_t s)
{
	return zr_launch(matmul_kernel,
			 dim3((unsigned)zr_ceil_div(p.op.n, TILE),
			      (unsigned)zr_ceil_div(p.op.m, TILE)),
			 dim3(SIDE, SIDE), 0, s, p);
}

cudaError_t zr_cuda_matmul(const struct zr_op_matmul *op, cudaStream_t s)
{
	const struct scaled_product p = { *op, 1, 0, {}, 0 };
	return launch(p, s);
}

cudaError_t zr_cuda_low_rank_update(const struct zr_op_matmul_low_rank *l, cudaStream_t s)
{
	const struct scaled_product p = { zr_low_rank_update(l), l->gain, l->dropout, l->rng,
					  l->first };
	return launch(p, s);
}
