/* SPDX-License-Identifier: Apache-2.0
 *
 * columns.cu - gradients that are sums over rows of activations, with the bits of the CPU's scalar kernels.
 */
#include "parts.h"

/* ---- bias_bwd ---------------------------------------------------------------------------------- */

template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	bias_part_kernel(const __grid_constant__ struct zr_op_bias_bwd op, float *part, int64_t first, int64_t columns)
{
	const int64_t c = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x, from = (int64_t)blockIdx.y * TILE;
	const int64_t to = from + TILE < op.rows ? from + TILE : op.rows;
	const T *dy = (const T *)op.dy + first;
	float sum = 0;

	if (c >= columns)
		return;
#pragma unroll 8
	for (int64_t r = from; r < to; r++)
		sum += zr_widen(dy[r * op.width + c]);
	part[blockIdx.y * columns + c] = sum;
}

/* As many columns at a time as there is room for. */
template <class T> static cudaError_t launch_bias_bwd(const struct zr_op_bias_bwd *op, float *part, int64_t room, cudaStream_t s)
{
	int64_t tiles = zr_ceil_div(op->rows, TILE), most = room / tiles;
	cudaError_t e = cudaSuccess;
	for (int64_t first = 0; e == cudaSuccess && first < op->width; first += most) {
		int64_t columns = op->width - first < most ? op->width - first : most;
		e = zr_launch(bias_part_kernel<T>, columns_by(columns, tiles), dim3(ZR_THREADS), 0, s, *op, part, first, columns);
		if (e == cudaSuccess)
			e = sum_parts(part, columns, tiles, op->db + first, columns, op->flags, s);
	}
	return e;
}

cudaError_t zr_cuda_bias_bwd(const struct zr_op_bias_bwd *op, float *part, int64_t room, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_bias_bwd, op, part, room, s);
}

/* ---- embedding_bwd ----------------------------------------------------------------------------- */

#define MOST 8 /* columns of a thread at a time */

/* A CUDA block per row. The first row of a token gathers all rows of it, ascending, and adds them; the others have
 * nothing to do. Each thread keeps its columns from row to row. */
template <class T>
static __global__ void __launch_bounds__(ZR_THREADS) embedding_tokens_kernel(const __grid_constant__ struct zr_op_embedding_bwd op)
{
	__shared__ uint32_t same[ZR_THREADS / ZR_WARP];
	const int64_t rows = op.batch * op.length, r = blockIdx.x, width = op.width;
	const int32_t token = op.tokens[r];
	const T *dout = (const T *)op.dout;
	const int me = (int)threadIdx.x;

	for (int64_t at = 0; at < r; at += ZR_THREADS)
		if (__syncthreads_or(at + me < r && op.tokens[at + me] == token))
			return;
	for (int64_t c0 = 0; c0 < width; c0 += MOST * ZR_THREADS) {
		float *to = op.dwte + token * width + c0, acc[MOST];
		for (int k = 0; k < MOST; k++)
			acc[k] = c0 + k * ZR_THREADS + me < width ? to[k * ZR_THREADS + me] : 0;
		for (int64_t at = r; at < rows; at += ZR_THREADS) {
			uint32_t mine = __ballot_sync(ZR_FULL_WARP, at + me < rows && op.tokens[at + me] == token);
			if (me % ZR_WARP == 0)
				same[me / ZR_WARP] = mine;
			__syncthreads();
			for (int w = 0; w < ZR_THREADS / ZR_WARP; w++)
				for (uint32_t left = same[w]; left; left &= left - 1) {
					const T *from = dout + (at + w * ZR_WARP + __ffs((int)left) - 1) * width + c0;
					for (int k = 0; k < MOST; k++)
						if (c0 + k * ZR_THREADS + me < width)
							acc[k] += zr_widen(from[k * ZR_THREADS + me]);
				}
			__syncthreads();
		}
		for (int k = 0; k < MOST; k++)
			if (c0 + k * ZR_THREADS + me < width)
				to[k * ZR_THREADS + me] = acc[k];
	}
}

template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	embedding_positions_kernel(const __grid_constant__ struct zr_op_embedding_bwd op)
{
	const int64_t i = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x, n = op.length * op.width;
	const T *dout = (const T *)op.dout;
	float sum;

	if (i >= n)
		return;
	sum = op.dwpe[i];
	for (int64_t b = 0; b < op.batch; b++)
		sum += zr_widen(dout[b * n + i]);
	op.dwpe[i] = sum;
}

template <class T> static cudaError_t launch_embedding_bwd(const struct zr_op_embedding_bwd *op, cudaStream_t s)
{
	int64_t rows = op->batch * op->length;
	cudaError_t e = cudaSuccess;
	if (op->dwte && !(op->flags & ZR_OP_ACCUMULATE_WTE))
		e = cudaMemsetAsync(op->dwte, 0, (size_t)(op->vocabulary * op->width) * sizeof(float), s);
	if (e == cudaSuccess && op->dwpe && !(op->flags & ZR_OP_ACCUMULATE_WPE))
		e = cudaMemsetAsync(op->dwpe, 0, (size_t)(op->positions * op->width) * sizeof(float), s);
	if (e == cudaSuccess && op->dwte)
		e = zr_launch(embedding_tokens_kernel<T>, dim3((unsigned)rows), dim3(ZR_THREADS), 0, s, *op);
	if (e == cudaSuccess && op->dwpe)
		e = zr_launch(embedding_positions_kernel<T>, dim3((unsigned)zr_ceil_div(op->length * op->width, ZR_THREADS)),
			      dim3(ZR_THREADS), 0, s, *op);
	return e;
}

cudaError_t zr_cuda_embedding_bwd(const struct zr_op_embedding_bwd *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_embedding_bwd, op, s);
}
