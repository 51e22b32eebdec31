/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.h - the factors of one AdamW update, shared by all variants, and the update of one element.
 * Factors are computed in double from the step's scalars, rounded once: they are equal in every
 * range of one call.
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
	zr_real step; /* lr / (1 - beta1^t) */
	zr_real root; /* 1 / sqrt(1 - beta2^t) */
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
	const struct adamw_factors f = {
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

	return f;
}

/* The new p; *m and *v become the new moments. The order of the operations is that of
 * torch.optim.AdamW; each rounds once (no fma), so that all variants have the same bits. */
ZR_INLINE zr_real adamw_update(const struct adamw_factors *f, int l2, zr_real p, zr_real grad,
			       zr_real *m, zr_real *v)
{
	zr_real g = grad * f->grad_mult;

	if (l2)
		g = g + p * f->l2;
	*m = f->b1 * *m + f->b1c * g;
	*v = f->b2 * *v + f->b2c * g * g;
	return p * f->keep - f->step * *m / (zr_sqrt(*v) * f->root + f->eps);
}

#endif
