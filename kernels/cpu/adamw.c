/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.c - AdamW, or Adam with L2, in one sweep over n elements, scalar.
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
		zr_real m = zr_get(op->m, i, dtype), v = zr_get(op->v, i, dtype);
		zr_real p = adamw_update(&f, op->l2, master[i], grad[i], &m, &v);
		zr_put(op->m, i, dtype, m);
		zr_put(op->v, i, dtype, v);
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
