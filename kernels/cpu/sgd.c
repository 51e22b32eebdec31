/* SPDX-License-Identifier: Apache-2.0
 *
 * sgd.c - SGD with momentum in one sweep over n elements, scalar, as torch.optim.SGD:
 * g = grad*grad_mult + wd*p; buf = step 1 ? g : mu*buf + (1-damp)*g; p -= lr * (nesterov ? g + mu*buf : buf).
 * Each operation rounds once (no fma), so that all variants have the same bits.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(sgd)(const struct zr_op_sgd *op, int64_t lo, int64_t hi)
{
	const zr_real *grad = zr_reals(op->grad);
	zr_real *master = zr_reals(op->master), *buf = zr_reals(op->buf);
	zr_real mult = op->scalars->grad_mult, lr = op->scalars->lr, wd = (zr_real)op->weight_decay;
	zr_real mu = (zr_real)op->momentum, fresh = (zr_real)(1 - op->dampening);
	int first = op->scalars->step == 1;

	for (int64_t i = lo; i < hi; i++) {
		zr_real p = master[i], g = grad[i] * mult + wd * p, d = g;
		if (buf) {
			buf[i] = first ? g : mu * buf[i] + fresh * g;
			d = op->nesterov ? g + mu * buf[i] : buf[i];
		}
		p = p - lr * d;
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
