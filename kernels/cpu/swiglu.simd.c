/* SPDX-License-Identifier: Apache-2.0
 *
 * swiglu.simd.c - swiglu.c with vectors, same bits. `gap`: what lies between the rows before
 * element i of gate and up.
 */
#include "simd.h"
#include "table.h"

ZR_INLINE void forward_lanes(const struct zr_op_swiglu *op, int64_t i, int64_t gap, int32_t f,
			     int32_t dtype, int n)
{
	vf gate = vload_n(op->gate, i + gap, dtype, n), up = vload_n(op->up, i + gap, dtype, n);

	vstore_n(op->out, i, dtype, vactivation(gate, f) * up, n);
}

ZR_INLINE void forward(const struct zr_op_swiglu *op, int64_t lo, int64_t hi, int32_t dtype)
{
	const int32_t f = op->activation;

	for (int64_t i = lo, end; i < hi; i = end) {
		int64_t gap = zr_apart(i, op->width, op->stride) - i;
		end = zr_row_end(i, hi, op->width);
		for (; i + ZR_W <= end; i += ZR_W)
			forward_lanes(op, i, gap, f, dtype, ZR_W);
		if (i < end)
			forward_lanes(op, i, gap, f, dtype, (int)(end - i));
	}
}

void ZR_SIMD(swiglu)(const struct zr_op_swiglu *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, forward, op, lo, hi);
}

ZR_INLINE void backward_lanes(const struct zr_op_swiglu_bwd *op, int64_t i, int64_t gap, int32_t f,
			      int32_t dtype, int n)
{
	vf gate = vload_n(op->gate, i + gap, dtype, n), up = vload_n(op->up, i + gap, dtype, n),
	   dy = vload_n(op->dy, i, dtype, n);
	vf grad, y = vactivation_and_grad(gate, f, &grad);

	if (op->act)
		vstore_n(op->act, i, dtype, y * up, n);
	vstore_n(op->dgate, i + gap, dtype, dy * up * grad, n);
	vstore_n(op->dup, i + gap, dtype, dy * y, n);
}

ZR_INLINE void backward(const struct zr_op_swiglu_bwd *op, int64_t lo, int64_t hi, int32_t dtype)
{
	const int32_t f = op->activation;

	for (int64_t i = lo, end; i < hi; i = end) {
		int64_t gap = zr_apart(i, op->width, op->stride) - i;
		end = zr_row_end(i, hi, op->width);
		for (; i + ZR_W <= end; i += ZR_W)
			backward_lanes(op, i, gap, f, dtype, ZR_W);
		if (i < end)
			backward_lanes(op, i, gap, f, dtype, (int)(end - i));
	}
}

void ZR_SIMD(swiglu_bwd)(const struct zr_op_swiglu_bwd *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, backward, op, lo, hi);
}
