/* SPDX-License-Identifier: Apache-2.0
 *
 * adagrad.c - Adagrad (Duchi et al. 2011) in one sweep over n elements, scalar, as torch.optim.Adagrad. Each
 * operation rounds once (no fma), so that all variants have the same bits.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(adagrad)(const struct zr_op_adagrad *op, int64_t lo, int64_t hi)
{
	const zr_real *grad = zr_reals(op->grad);
	zr_real *master = zr_reals(op->master), *sum = zr_reals(op->sum);
	zr_real mult = op->scalars->grad_mult, wd = (zr_real)op->weight_decay, eps = (zr_real)op->eps;
	zr_real rate = (zr_real)((double)op->scalars->lr / (1 + (double)(op->scalars->step - 1) * op->lr_decay));

	for (int64_t i = lo; i < hi; i++) {
		zr_real p = master[i], g = grad[i] * mult + wd * p;
		sum[i] = sum[i] + g * g;
		p = p - rate * g / (zr_sqrt(sum[i]) + eps);
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
