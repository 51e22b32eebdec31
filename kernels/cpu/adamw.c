/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.c - AdamW, or Adam with L2, in one sweep over n elements, scalar. The order of the operations
 * is that of torch.optim.AdamW; each rounds once (no fma), so that all variants have the same bits.
 */
#include "adamw.h"
#include "table.h"

void ZR_SCALAR(adamw)(const struct zr_op_adamw *op, int64_t lo, int64_t hi)
{
	const struct adamw_factors f = adamw_factors(op);
	const zr_real *grad = zr_reals(op->grad);
	zr_real *master = zr_reals(op->master);
	int32_t dtype = op->moment_dtype == ZR_BF16 ? ZR_BF16 : ZR_REAL_DTYPE;

	for (int64_t i = lo; i < hi; i++) {
		zr_real p = master[i], g = grad[i] * f.grad_mult;
		if (op->l2)
			g = g + p * f.l2;
		zr_real m = f.b1 * zr_get(op->m, i, dtype) + f.b1c * g;
		zr_real v = f.b2 * zr_get(op->v, i, dtype) + f.b2c * g * g;
		zr_put(op->m, i, dtype, m);
		zr_put(op->v, i, dtype, v);
		p = p * f.keep - f.step * m / (zr_sqrt(v) * f.root + f.eps);
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
