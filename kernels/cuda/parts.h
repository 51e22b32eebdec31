/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - sums over many rows: per tile of 64 rows first, rows ascending, then over tiles
 * ascending, as on the CPU.
 */
#ifndef ZEROTH_KERNELS_CUDA_PARTS_H
#define ZEROTH_KERNELS_CUDA_PARTS_H

#include "kernel.h"

#define TILE ZR_LN_TILE /* rows; of bias_bwd too, where it is part of the arithmetic */

#define SUM_COLUMNS 32 /* of a CUDA block */
#define SUM_ROWS    8  /* threads of a column, which load SUM_EACH tiles each at a time */
#define SUM_EACH    16

/* out[c] = or += the sum over tiles of part[tile * stride + c]. All threads load, the next tiles
 * while one of a column adds those before: few columns are a long wait for memory otherwise. */
static __global__ void __launch_bounds__(SUM_COLUMNS *SUM_ROWS)
	sum_parts_kernel(const float *part, int64_t stride, int64_t tiles, float *out,
			 int64_t columns, int accumulate)
{
	__shared__ float tile[SUM_EACH * SUM_ROWS][SUM_COLUMNS];
	const int64_t c = (int64_t)blockIdx.x * SUM_COLUMNS + threadIdx.x;
	const int64_t first = c < columns ? threadIdx.y : tiles; /* beyond: nothing to load */
	float next[SUM_EACH], sum = 0;

#pragma unroll
	for (int k = 0; k < SUM_EACH; k++) {
		const int64_t t = first + k * SUM_ROWS;
		next[k] = t < tiles ? part[t * stride + c] : 0;
	}
	for (int64_t from = 0; from < tiles; from += SUM_EACH * SUM_ROWS) {
#pragma unroll
		for (int k = 0; k < SUM_EACH; k++)
			tile[k * SUM_ROWS + threadIdx.y][threadIdx.x] = next[k];
		__syncthreads();
#pragma unroll
		for (int k = 0; k < SUM_EACH; k++) {
			const int64_t t = first + from + (SUM_EACH + k) * SUM_ROWS;
			next[k] = t < tiles ? part[t * stride + c] : 0;
		}
		const int n = tiles - from < SUM_EACH * SUM_ROWS ? (int)(tiles - from) :
								   SUM_EACH * SUM_ROWS;
		if (threadIdx.y == 0)
#pragma unroll 32
			for (int k = 0; k < n; k++)
				sum += tile[k][threadIdx.x];
		__syncthreads();
	}
	if (threadIdx.y == 0 && c < columns)
		out[c] = accumulate ? out[c] + sum : sum;
}

static cudaError_t sum_parts(const float *part, int64_t stride, int64_t tiles, float *out,
			     int64_t columns, uint32_t flags, cudaStream_t s)
{
	return zr_launch(sum_parts_kernel, dim3((unsigned)zr_ceil_div(columns, SUM_COLUMNS)),
			 dim3(SUM_COLUMNS, SUM_ROWS), 0, s, part, stride, tiles, out, columns,
			 (int)!!(flags & ZR_OP_ACCUMULATE));
}

#endif
