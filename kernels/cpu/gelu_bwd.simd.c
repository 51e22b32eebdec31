/* SPDX-License-Identifier: Apache-2.0
 *
 * gelu_bwd.simd.c - gelu_bwd.c with vectors, same bits.
 */
#include "simd.h"
#include "table.h"

ZR_INLINE void lanes(const struct zr_op_gelu_bwd *op, int64_t i, int32_t dtype, int n)
{
	const int32_t gelu = zr_gelu_of(op->activation);
	vf grad, act = vactivation_and_grad(vload_n(op->pre, i, dtype, n), gelu, &grad);

	if (op->act)
		vstore_n(op->act, i, dtype, act, n);
	vstore_n(op->dx, i, dtype, vload_n(op->dy, i, dtype, n) * grad, n);
}

ZR_INLINE void body(const struct zr_op_gelu_bwd *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		lanes(op, i, dtype, ZR_W);
	if (i < hi)
		lanes(op, i, dtype, (int)(hi - i));
}

void ZR_SIMD(gelu_bwd)(const struct zr_op_gelu_bwd *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, body, op, lo, hi);
}
