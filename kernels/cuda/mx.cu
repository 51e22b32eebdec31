/* SPDX-License-Identifier: Apache-2.0
 *
 * mx.cu - casts into ZR_MXINT8, and out of it: the arithmetic of cpu/mx.h, four elements a thread.
 */
#include "kernel.h"

#include "../cpu/codes.h"
#include "../cpu/mx.h"

#define SHARERS (ZR_MX_SHARING / 4) /* threads whose elements share a scale */

/* The largest value of the threads that share a scale. */
ZR_DEVICE uint32_t largest(uint32_t x)
{
	for (int mask = SHARERS / 2; mask > 0; mask /= 2) {
		const uint32_t other = __shfl_xor_sync(ZR_FULL_WARP, x, mask, ZR_WARP);
		x = other > x ? other : x;
	}
	return x;
}

/* The codes of four elements, the first one in the lowest byte. */
ZR_DEVICE uint32_t codes(const zr_quad &q, uint32_t scale)
{
	uint32_t word = 0;
	if (!zr_mx_has_codes(scale))
		return 0;

	const float factor = zr_mx_factor(scale);
	for (int k = 0; k < 4; k++)
		word |= (uint32_t)(zr_mx_code(q.x[k] * factor) & 255) << 8 * k;
	return word;
}

/* All threads of a block work on whole blocks of elements, or none does. */
template <class From>
static __global__ void __launch_bounds__(ZR_THREADS)
	encode_kernel(const __grid_constant__ struct zr_op_cast op, int whole)
{
	const int64_t end = (op.n + ZR_BLOCK - 1) / ZR_BLOCK * ZR_BLOCK;
	const int64_t step = (int64_t)gridDim.x * ZR_THREADS * 4;
	for (int64_t i = ((int64_t)blockIdx.x * ZR_THREADS + threadIdx.x) * 4; i < end; i += step) {
		const int64_t left = op.n - i < 0 ? 0 : op.n - i;
		const int m = left < 4 ? (int)left : 4;
		const zr_quad q = zr_load<From>(op.src.data, zr_place{ i, m, whole && m == 4 });
		uint32_t most = 0;
		for (int k = 0; k < 4; k++)
			most = zr_magnitude(q.x[k]) > most ? zr_magnitude(q.x[k]) : most;

		const uint32_t scale = zr_mx_scale(largest(most));
		const int64_t at = i % ZR_BLOCK;
		uint8_t *block = (uint8_t *)op.dst.data + i / ZR_BLOCK * ZR_MX_BLOCK;
		*(uint32_t *)(void *)(block + at) = codes(q, scale);
		if (at % ZR_MX_SHARING == 0)
			block[ZR_BLOCK + at / ZR_MX_SHARING] = (uint8_t)scale;
	}
}

template <class From> static cudaError_t launch_encode(const struct zr_op_cast *op, cudaStream_t s)
{
	int64_t grid = zr_ceil_div(op->n, ZR_BLOCK) * ZR_BLOCK / (4 * ZR_THREADS);
	return zr_launch(encode_kernel<From>,
			 dim3((unsigned)(grid < ZR_MOST_BLOCKS ? grid : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, *op, zr_quads(op->src.data, sizeof(From)));
}

cudaError_t zr_cuda_mx_encode(const struct zr_op_cast *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->src.dtype, launch_encode, op, s);
}

template <class To> struct decode {
	struct zr_op_cast op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		const int64_t i = at.i % ZR_BLOCK;
		const uint8_t *block = (const uint8_t *)op.src.data + at.i / ZR_BLOCK * ZR_MX_BLOCK;
		const uint32_t word = *(const uint32_t *)(const void *)(block + i);
		const float unit = zr_mx_unit(block[ZR_BLOCK + i / ZR_MX_SHARING]);
		zr_quad q;
		for (int k = 0; k < 4; k++)
			q.x[k] = (float)(int8_t)(word >> 8 * k) * unit;
		zr_store<To>(op.dst.data, at, q);
	}
};

template <class To> static cudaError_t launch_decode(const struct zr_op_cast *op, cudaStream_t s)
{
	return zr_sweep(decode<To>{ *op }, op->n, zr_quads(op->dst.data, sizeof(To)), s);
}

cudaError_t zr_cuda_mx_decode(const struct zr_op_cast *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dst.dtype, launch_decode, op, s);
}
