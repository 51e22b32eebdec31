/* SPDX-License-Identifier: Apache-2.0
 *
 * lion.c - Lion (Chen et al. 2023) in one sweep over n elements, scalar. Each operation rounds once (no fma), so
 * that all variants have the same bits.
 */
#include "scalar.h"
#include "table.h"

static zr_real sign(zr_real x)
{
	return x > 0 ? 1 : x < 0 ? -1 : x; /* NaN stays */
}

void ZR_SCALAR(lion)(const struct zr_op_lion *op, int64_t lo, int64_t hi)
{
	const zr_real *grad = zr_reals(op->grad);
	zr_real *master = zr_reals(op->master), *m = zr_reals(op->m);
	zr_real mult = op->scalars->grad_mult, lr = op->scalars->lr;
	zr_real keep = (zr_real)(1 - (double)op->scalars->lr * op->weight_decay);
	zr_real b1 = (zr_real)op->beta1, b1c = (zr_real)(1 - op->beta1);
	zr_real b2 = (zr_real)op->beta2, b2c = (zr_real)(1 - op->beta2);

	for (int64_t i = lo; i < hi; i++) {
		zr_real g = grad[i] * mult, p = master[i] * keep - lr * sign(b1 * m[i] + b1c * g);
		m[i] = b2 * m[i] + b2c * g;
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
