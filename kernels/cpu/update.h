/* SPDX-License-Identifier: Apache-2.0
 *
 * update.h - one element under SGD, Lion, Adagrad and Muon, and the factors of a call: what the
 * scalar kernels and those of a GPU compute alike. Each operation rounds once (no fma), so that all
 * variants have the same bits.
 */
#ifndef ZEROTH_KERNELS_CPU_UPDATE_H
#define ZEROTH_KERNELS_CPU_UPDATE_H

#include "scalar.h"

/* ---- SGD ------------------------------------------------------------------------- */

struct sgd_factors {
	zr_real mult, lr, wd;
	zr_real mu, fresh; /* momentum, 1 - dampening */
	int first, nesterov;
};

ZR_INLINE struct sgd_factors sgd_factors(const struct zr_op_sgd *op)
{
	const struct sgd_factors f = {
		.mult = op->scalars->grad_mult,
		.lr = op->scalars->lr,
		.wd = (zr_real)op->weight_decay,
		.mu = (zr_real)op->momentum,
		.fresh = (zr_real)(1 - op->dampening),
		.first = op->scalars->step == 1,
		.nesterov = op->nesterov,
	};

	return f;
}

/* The new p; *buf, if there is one, becomes the new buffer. */
ZR_INLINE zr_real sgd_update(const struct sgd_factors *f, zr_real p, zr_real grad, zr_real *buf)
{
	zr_real g = grad * f->mult + f->wd * p, d = g;

	if (buf) {
		*buf = f->first ? g : f->mu * *buf + f->fresh * g;
		d = f->nesterov ? g + f->mu * *buf : *buf;
	}
	return p - f->lr * d;
}

/* ---- Lion ------------------------------------------------------------------------ */

struct lion_factors {
	zr_real mult, lr;
	zr_real keep; /* 1 - lr * weight_decay */
	zr_real b1, b1c, b2, b2c;
};

ZR_INLINE struct lion_factors lion_factors(const struct zr_op_lion *op)
{
	const struct lion_factors f = {
		.mult = op->scalars->grad_mult,
		.lr = op->scalars->lr,
		.keep = (zr_real)(1 - (double)op->scalars->lr * op->weight_decay),
		.b1 = (zr_real)op->beta1,
		.b1c = (zr_real)(1 - op->beta1),
		.b2 = (zr_real)op->beta2,
		.b2c = (zr_real)(1 - op->beta2),
	};

	return f;
}

ZR_INLINE zr_real lion_sign(zr_real x)
{
	zr_real sign;

	if (x > 0)
		sign = 1;
	else if (x < 0)
		sign = -1;
	else
		sign = x; /* 0 or NaN */
	return sign;
}

ZR_INLINE zr_real lion_update(const struct lion_factors *f, zr_real p, zr_real grad, zr_real *m)
{
	zr_real g = grad * f->mult, sign = lion_sign(f->b1 * *m + f->b1c * g);

	*m = f->b2 * *m + f->b2c * g;
	return p * f->keep - f->lr * sign;
}

/* ---- Adagrad --------------------------------------------------------------------- */

struct adagrad_factors {
	zr_real mult, wd, eps;
	zr_real rate; /* lr, decayed */
};

ZR_INLINE struct adagrad_factors adagrad_factors(const struct zr_op_adagrad *op)
{
	const struct adagrad_factors f = {
		.mult = op->scalars->grad_mult,
		.wd = (zr_real)op->weight_decay,
		.eps = (zr_real)op->eps,
		.rate = (zr_real)((double)op->scalars->lr /
				  (1 + (double)(op->scalars->step - 1) * op->lr_decay)),
	};

	return f;
}

ZR_INLINE zr_real adagrad_update(const struct adagrad_factors *f, zr_real p, zr_real grad,
				 zr_real *sum)
{
	zr_real g = grad * f->mult + f->wd * p;

	*sum = *sum + g * g;
	return p - f->rate * g / (zr_sqrt(*sum) + f->eps);
}

/* ---- Muon ------------------------------------------------------------------------ */

struct muon_factors {
	zr_real mult, mu, fresh; /* fresh: 1 - momentum */
	zr_real keep, step;      /* 1 - lr * weight_decay, lr * ratio */
	int nesterov;
};

ZR_INLINE struct muon_factors muon_factors(const struct zr_op_muon *op)
{
	double lr = op->scalars->lr;
	const struct muon_factors f = {
		.mult = op->scalars->grad_mult,
		.mu = (zr_real)op->momentum,
		.fresh = (zr_real)(1 - op->momentum),
		.keep = (zr_real)(1 - lr * op->weight_decay),
		.step = (zr_real)(lr * op->ratio),
		.nesterov = op->nesterov,
	};

	return f;
}

/* x; *buf becomes the new buffer. */
ZR_INLINE zr_real muon_average(const struct muon_factors *f, zr_real grad, zr_real *buf)
{
	zr_real g = f->fresh * (grad * f->mult);

	*buf = f->mu * *buf + g;
	return f->nesterov ? g + f->mu * *buf : *buf;
}

ZR_INLINE zr_real muon_step(const struct muon_factors *f, zr_real p, zr_real x)
{
	return p * f->keep - f->step * x;
}

#endif
