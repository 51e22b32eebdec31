/* SPDX-License-Identifier: Apache-2.0
 *
 * adagrad.c - Adagrad (Duchi et al. 2011) in one sweep over n elements, scalar, as
 * torch.optim.Adagrad.
 */
#include "table.h"
#include "update.h"

void ZR_SCALAR(adagrad)(const struct zr_op_adagrad *op, int64_t lo, int64_t hi)
{
	const zr_real *grad = zr_reals(op->grad);
	zr_real *master = zr_reals(op->master), *sum = zr_reals(op->sum);
	const struct adagrad_factors f = adagrad_factors(op);

	for (int64_t i = lo; i < hi; i++) {
		zr_real p = adagrad_update(&f, master[i], grad[i], sum + i);
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
