/* SPDX-License-Identifier: Apache-2.0
 *
 * swiglu.c - out = silu(gate) * up over n elements, and its gradients, scalar. The formulas are in
 * elementary.h.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(swiglu)(const struct zr_op_swiglu *op, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i++)
		zr_put(op->out, i, op->dtype,
		       zr_silu(zr_get(op->gate, i, op->dtype)) * zr_get(op->up, i, op->dtype));
}

void ZR_SCALAR(swiglu_bwd)(const struct zr_op_swiglu_bwd *op, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i++) {
		zr_real gate = zr_get(op->gate, i, op->dtype), up = zr_get(op->up, i, op->dtype);
		zr_real dy = zr_get(op->dy, i, op->dtype), silu = zr_silu(gate);
		if (op->act)
			zr_put(op->act, i, op->dtype, silu * up);
		zr_put(op->dgate, i, op->dtype, dy * up * zr_silu_grad(gate));
		zr_put(op->dup, i, op->dtype, dy * silu);
	}
}
