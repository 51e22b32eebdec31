/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - sums over many rows: per tile of 64 rows first, rows ascending, then over tiles
 * ascending, as on the CPU. In the first a thread takes a column of a tile, in the second a column.
 */
#ifndef ZEROTH_KERNELS_CUDA_PARTS_H
#define ZEROTH_KERNELS_CUDA_PARTS_H

#include "kernel.h"

#define TILE ZR_LN_TILE /* rows; of bias_bwd too, where it is part of the arithmetic */

/* out[c] = or += the sum over tiles of part[tile * stride + c]. */
static __global__ void __launch_bounds__(ZR_THREADS)
	sum_parts_kernel(const float *part, int64_t stride, int64_t tiles, float *out,
			 int64_t columns, int accumulate)
{
	const int64_t c = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x;
	float sum = 0;

	if (c >= columns)
		return;
#pragma unroll 32
	for (int64_t t = 0; t < tiles; t++)
		sum += part[t * stride + c];
	out[c] = accumulate ? out[c] + sum : sum;
}

static dim3 columns_by(int64_t columns, int64_t tiles)
{
	return dim3((unsigned)zr_ceil_div(columns, ZR_THREADS), (unsigned)tiles);
}

static cudaError_t sum_parts(const float *part, int64_t stride, int64_t tiles, float *out,
			     int64_t columns, uint32_t flags, cudaStream_t s)
{
	return zr_launch(sum_parts_kernel, columns_by(columns, 1), dim3(ZR_THREADS), 0, s, part,
			 stride, tiles, out, columns, (int)!!(flags & ZR_OP_ACCUMULATE));
}

#endif
