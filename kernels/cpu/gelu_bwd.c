/* SPDX-License-Identifier: Apache-2.0
 *
 * gelu_bwd.c - dx = dy * gelu'(pre) and, if asked for, act = gelu(pre) over n elements, scalar. The
 * formulas are in elementary.h; the forward is part of a matrix product's finish, with the same
 * bits.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(gelu_bwd)(const struct zr_op_gelu_bwd *op, int64_t lo, int64_t hi)
{
	const int32_t gelu = zr_gelu_of(op->activation);

	for (int64_t i = lo; i < hi; i++) {
		zr_real pre = zr_get(op->pre, i, op->dtype);
		if (op->act)
			zr_put(op->act, i, op->dtype, zr_activation(pre, gelu));
		zr_put(op->dx, i, op->dtype,
		       zr_get(op->dy, i, op->dtype) * zr_activation_grad(pre, gelu));
	}
}
