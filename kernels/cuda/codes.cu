/* SPDX-License-Identifier: Apache-2.0
 *
 * codes.cu - casts into types of whole blocks, and out of them: the arithmetic of cpu/codes.h.
 */
#include "kernel.h"

#include "../cpu/codes.h"

/* ---- out of them: four elements at a time ------------------------------------------ */

template <class To> struct decode {
	struct zr_op_cast op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		const int nf4 = op.src.dtype == ZR_NF4;
		const int64_t b = at.i / ZR_BLOCK, i = at.i % ZR_BLOCK;
		const uint8_t *code =
			(const uint8_t *)op.src.data + b * zr_coded_block(op.src.dtype);
		const float scale =
			((const float *)(const void *)(code +
						       zr_code_bytes(op.src.dtype,
								     ZR_BLOCK)))[i / ZR_SHARING];
		zr_quad q;
		for (int k = 0; k < 4; k++) {
			int64_t e = i + k;
			q.x[k] = scale * (nf4 ? zr_nf4_value(code[e / 2] >> (e % 2 ? 0 : 4) & 15) :
						(float)(int8_t)code[e]);
		}
		zr_store<To>(op.dst.data, at, q);
	}
};

template <class To> static cudaError_t launch_decode(const struct zr_op_cast *op, cudaStream_t s)
{
	return zr_sweep(decode<To>{ *op }, op->n, zr_quads(op->dst.data, sizeof(To)), s);
}

cudaError_t zr_cuda_decode(const struct zr_op_cast *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dst.dtype, launch_decode, op, s);
}

/* ---- into them, once, when values come: a thread for all elements of a scale ------- */

static __global__ void __launch_bounds__(ZR_THREADS)
	encode_kernel(const __grid_constant__ struct zr_op_cast op)
{
	const int32_t dtype = op.dst.dtype;
	const int64_t scales = op.n / ZR_SHARING;
	for (int64_t g = (int64_t)blockIdx.x * ZR_THREADS + threadIdx.x; g < scales;
	     g += (int64_t)gridDim.x * ZR_THREADS) {
		const int64_t b = g / ZR_SCALES, k = g % ZR_SCALES;
		const float *x = (const float *)op.src.data + g * ZR_SHARING;
		uint8_t *block = (uint8_t *)op.dst.data + b * zr_coded_block(dtype);
		uint8_t *code = block + zr_code_bytes(dtype, k * ZR_SHARING);
		uint32_t most = 0;
		for (int i = 0; i < ZR_SHARING; i++)
			most = zr_magnitude(x[i]) > most ? zr_magnitude(x[i]) : most;
		const float scale = zr_code_scale(dtype, most);
		const float factor = zr_nf4_factor(scale), divisor = zr_int8_divisor(scale);
		((float *)(void *)(block + zr_code_bytes(dtype, ZR_BLOCK)))[k] = scale;
		for (int i = 0; dtype == ZR_NF4 && i < ZR_SHARING; i += 2)
			code[i / 2] = (uint8_t)(zr_nf4_code(x[i] * factor) << 4 |
						zr_nf4_code(x[i + 1] * factor));
		for (int i = 0; dtype == ZR_INT8 && i < ZR_SHARING; i++)
			code[i] = (uint8_t)zr_int8_code(x[i] / divisor);
	}
}

cudaError_t zr_cuda_encode(const struct zr_op_cast *op, cudaStream_t s)
{
	int64_t grid = zr_ceil_div(op->n / ZR_SHARING, ZR_THREADS);
	return zr_launch(encode_kernel,
			 dim3((unsigned)(grid < ZR_MOST_BLOCKS ? grid : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, *op);
}
