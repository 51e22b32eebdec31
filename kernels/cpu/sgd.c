/* SPDX-License-Identifier: Apache-2.0
 *
 * sgd.c - SGD with momentum in one pass over n elements, scalar, as torch.optim.SGD:
 *   g = grad*grad_mult + wd*p;  buf = step 1 ? g : mu*buf + (1-damp)*g;
 *   p -= lr * (nesterov ? g + mu*buf : buf).
 */
#include "table.h"
#include "update.h"

void ZR_SCALAR(sgd)(const struct zr_op_sgd *op, int64_t lo, int64_t hi)
{
	const zr_real *grad = zr_reals(op->grad);
	zr_real *master = zr_reals(op->master), *buf = zr_reals(op->buf);
	const struct sgd_factors f = sgd_factors(op);

	for (int64_t i = lo; i < hi; i++) {
		zr_real p = sgd_update(&f, master[i], grad[i], buf ? buf + i : NULL);
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
