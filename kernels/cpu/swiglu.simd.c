/* SPDX-License-Identifier: Apache-2.0
 *
 * swiglu.simd.c - swiglu.c with vectors, same bits.
 */
#include "simd.h"
#include "table.h"

ZR_INLINE void forward_lanes(const struct zr_op_swiglu *op, int64_t i, int32_t dtype, int n)
{
	vstore_n(op->out, i, dtype,
		 vsilu(vload_n(op->gate, i, dtype, n)) * vload_n(op->up, i, dtype, n), n);
}

ZR_INLINE void forward(const struct zr_op_swiglu *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		forward_lanes(op, i, dtype, ZR_W);
	if (i < hi)
		forward_lanes(op, i, dtype, (int)(hi - i));
}

void ZR_SIMD(swiglu)(const struct zr_op_swiglu *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, forward, op, lo, hi);
}

ZR_INLINE void backward_lanes(const struct zr_op_swiglu_bwd *op, int64_t i, int32_t dtype, int n)
{
	vf gate = vload_n(op->gate, i, dtype, n), up = vload_n(op->up, i, dtype, n),
	   dy = vload_n(op->dy, i, dtype, n);
	vf silu = vsilu(gate);

	if (op->act)
		vstore_n(op->act, i, dtype, silu * up, n);
	vstore_n(op->dgate, i, dtype, dy * up * vsilu_grad(gate), n);
	vstore_n(op->dup, i, dtype, dy * silu, n);
}

ZR_INLINE void backward(const struct zr_op_swiglu_bwd *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		backward_lanes(op, i, dtype, ZR_W);
	if (i < hi)
		backward_lanes(op, i, dtype, (int)(hi - i));
}

void ZR_SIMD(swiglu_bwd)(const struct zr_op_swiglu_bwd *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, backward, op, lo, hi);
}
