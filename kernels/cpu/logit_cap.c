/* SPDX-License-Identifier: Apache-2.0
 *
 * logit_cap.c - x = cap(gain x) over n logits, and what that does to a gradient by x, scalar. The
 * formulas of a cap are in elementary.h, those of attention's scores.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(logit_cap)(const struct zr_op_logit_cap *op, int64_t lo, int64_t hi)
{
	zr_real *x = zr_reals(op->x), gain = zr_gain(op->gain);

	for (int64_t i = lo; i < hi; i++) {
		x[i] = x[i] * gain;
		if (op->softcap > 0)
			x[i] = zr_softcap(x[i], op->softcap);
	}
}

void ZR_SCALAR(logit_cap_bwd)(const struct zr_op_logit_cap *op, zr_real *grad)
{
	const zr_real *x = zr_reals(op->x), gain = zr_gain(op->gain);

	for (int64_t i = 0; i < op->n; i++)
		grad[i] *= op->softcap > 0 ? zr_softcap_slope(x[i], op->softcap) * gain : gain;
}
