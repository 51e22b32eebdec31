/* SPDX-License-Identifier: Apache-2.0
 *
 * swiglu.c - out = f(gate) * up over n elements, and its gradients, scalar. The formulas of f are
 * in elementary.h.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(swiglu)(const struct zr_op_swiglu *op, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i++) {
		int64_t at = zr_apart(i, op->width, op->stride);
		zr_put(op->out, i, op->dtype,
		       zr_activation(zr_get(op->gate, at, op->dtype), op->activation) *
			       zr_get(op->up, at, op->dtype));
	}
}

void ZR_SCALAR(swiglu_bwd)(const struct zr_op_swiglu_bwd *op, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i++) {
		int64_t at = zr_apart(i, op->width, op->stride);
		zr_real gate = zr_get(op->gate, at, op->dtype), up = zr_get(op->up, at, op->dtype);
		zr_real dy = zr_get(op->dy, i, op->dtype);
		zr_real f = zr_activation(gate, op->activation);
		if (op->act)
			zr_put(op->act, i, op->dtype, f * up);
		zr_put(op->dgate, at, op->dtype,
		       dy * up * zr_activation_grad(gate, op->activation));
		zr_put(op->dup, at, op->dtype, dy * f);
	}
}
