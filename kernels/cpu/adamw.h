/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.h - the factors of one AdamW update, shared by all variants. Computed in double from the
 * step's scalars, rounded once: they are equal in every range of one call.
 */
#ifndef ZEROTH_KERNELS_CPU_ADAMW_H
#define ZEROTH_KERNELS_CPU_ADAMW_H

#include "scalar.h"

struct adamw_factors {
	zr_real grad_mult;
	zr_real l2;      /* weight decay added to the gradient: Adam's L2 form, else 0 */
	zr_real keep;    /* 1 - lr * weight_decay: AdamW's form, else 1 */
	zr_real b1, b1c; /* beta1, 1 - beta1 */
	zr_real b2, b2c;
	zr_real step;    /* lr / (1 - beta1^t) */
	zr_real root;    /* 1 / sqrt(1 - beta2^t) */
	zr_real eps;
};

/* x^n by squaring, n >= 0: no libm. */
ZR_INLINE double zr_powi(double x, int64_t n)
{
	double y = 1;
	for (; n > 0; n >>= 1, x *= x)
		if (n & 1)
			y *= x;
	return y;
}

ZR_INLINE struct adamw_factors adamw_factors(const struct zr_op_adamw *op)
{
	const struct zr_scalars *s = op->scalars;
	double lr = s->lr, wd = op->weight_decay;
	double c1 = op->bias_correction ? 1 - zr_powi(op->beta1, s->step) : 1;
	double c2 = op->bias_correction ? 1 - zr_powi(op->beta2, s->step) : 1;

	return (struct adamw_factors){
		.grad_mult = (zr_real)s->grad_mult,
		.l2 = (zr_real)(op->l2 ? wd : 0),
		.keep = (zr_real)(op->l2 ? 1 : 1 - lr * wd),
		.b1 = (zr_real)op->beta1,
		.b1c = (zr_real)(1 - op->beta1),
		.b2 = (zr_real)op->beta2,
		.b2c = (zr_real)(1 - op->beta2),
		.step = (zr_real)(lr / c1),
		.root = (zr_real)(1 / sqrt(c2)),
		.eps = (zr_real)op->eps,
	};
}

#endif
