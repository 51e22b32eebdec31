/* SPDX-License-Identifier: Apache-2.0
 *
 * gelu_bwd.c - dx = dy * gelu'(pre) over n elements, scalar. The formula is in scalar.h; the forward
 * is part of a matrix product's finish.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(gelu_bwd)(const struct zr_op_gelu_bwd *op, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i++)
		zr_put(op->dx, i, op->dtype,
		       zr_get(op->dy, i, op->dtype) * zr_gelu_grad(zr_get(op->pre, i, op->dtype)));
}
