/* SPDX-License-Identifier: Apache-2.0
 *
 * lion.c - Lion (Chen et al. 2023) in one sweep over n elements, scalar.
 */
#include "table.h"
#include "update.h"

void ZR_SCALAR(lion)(const struct zr_op_lion *op, int64_t lo, int64_t hi)
{
	const zr_real *grad = zr_reals(op->grad);
	zr_real *master = zr_reals(op->master), *m = zr_reals(op->m);
	const struct lion_factors f = lion_factors(op);

	for (int64_t i = lo; i < hi; i++) {
		zr_real p = lion_update(&f, master[i], grad[i], m + i);
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
