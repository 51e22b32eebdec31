/* SPDX-License-Identifier: Apache-2.0
 *
 * lamb.h - the factors of one LAMB update, shared by all variants, and the direction of one
 * element, as adamw.h has them.
 */
#ifndef ZEROTH_KERNELS_CPU_LAMB_H
#define ZEROTH_KERNELS_CPU_LAMB_H

#include "adamw.h"

struct lamb_factors {
	zr_real grad_mult, wd, eps;
	zr_real b1, b1c; /* beta1, 1 - beta1 */
	zr_real b2, b2c;
	zr_real mean; /* 1 / (1 - beta1^t) */
	zr_real root; /* 1 / sqrt(1 - beta2^t) */
};

ZR_INLINE struct lamb_factors lamb_factors(const struct zr_op_lamb *op)
{
	const struct zr_scalars *s = op->scalars;
	double c1 = op->bias_correction ? 1 - zr_powi(op->beta1, s->step) : 1;
	double c2 = op->bias_correction ? 1 - zr_powi(op->beta2, s->step) : 1;
	const struct lamb_factors f = {
		.grad_mult = (zr_real)s->grad_mult,
		.wd = (zr_real)op->weight_decay,
		.eps = (zr_real)op->eps,
		.b1 = (zr_real)op->beta1,
		.b1c = (zr_real)(1 - op->beta1),
		.b2 = (zr_real)op->beta2,
		.b2c = (zr_real)(1 - op->beta2),
		.mean = (zr_real)(1 / c1),
		.root = (zr_real)(1 / sqrt(c2)),
	};

	return f;
}

/* r of an element p; *m and *v become the new moments. Each operation rounds once (no fma). */
ZR_INLINE zr_real lamb_direction(const struct lamb_factors *f, zr_real p, zr_real grad, zr_real *m,
				 zr_real *v)
{
	zr_real g = grad * f->grad_mult;

	*m = f->b1 * *m + f->b1c * g;
	*v = f->b2 * *v + f->b2c * g * g;
	return *m * f->mean / (zr_sqrt(*v) * f->root + f->eps) + f->wd * p;
}

/* lr * trust, from the sums over the whole parameter. */
ZR_INLINE zr_real lamb_rate(const struct zr_op_lamb *op)
{
	double p = sqrt(op->norms[0]), r = sqrt(op->norms[1]), trust = 1;

	if (p > 0 && r > 0) {
		trust = p / r;
		if (trust < op->min_coeff)
			trust = op->min_coeff;
		else if (trust > op->max_coeff)
			trust = op->max_coeff;
	}

	return (zr_real)(op->scalars->lr * trust);
}

#endif
