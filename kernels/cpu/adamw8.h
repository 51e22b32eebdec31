/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw8.h - the update of one element by AdamW with moments in 8 bits (moments8.h), in two parts:
 * between them its group finds the scales of the new moments. The order of the operations, each of
 * which rounds once, is that of all variants; fma is a fused multiply-add:
 *
 *	g    = gradient, or gradient * grad_mult + p * l2 where weight decay is in the gradient
 *	m    = fma(q / (254 - |q|), b1 * scale, g * m_grad)		 q, scale: old ones of m
 *	x    = q * (scale * root_each), y = g * root_grad		 of v
 *	root = sqrt(fma(x, x, y * y))
 *
 *	d    = fma(root, root_factor, eps), e = fma(|m|, 1/254, scale / 254)	new scale of m
 *	q    = m / (d * e)
 *	p    = fma(-step, q * e, p * keep)
 *
 * Rounded to integers, q * d is the code of m; that of the root is as in moments8.h.
 *
 * One division makes the step and the code of m; a vector kernel waits for its divisions. e is
 * |m| / 254 + 1 in groups of zeros. Where the root's scale is not finite, neither is d: codes of m
 * are 0 there, as where its own is not.
 */
#ifndef ZEROTH_KERNELS_CPU_ADAMW8_H
#define ZEROTH_KERNELS_CPU_ADAMW8_H

#include "adamw.h"
#include "moments8.h"

struct adamw8_factors {
	struct adamw_factors f;
	zr_real m_grad, root_grad; /* of the gradient in m and in the root of v */
	zr_real root_each;         /* of a code of v in the root, times its scale */
};

#define ADAMW8_254TH (1.0f / 254)

ZR_INLINE struct adamw8_factors adamw8_factors(const struct zr_op_adamw *op)
{
	const double mult = op->l2 ? 1 : op->scalars->grad_mult;

	return (struct adamw8_factors){
		.f = adamw_factors(op),
		.m_grad = (zr_real)((1 - op->beta1) * mult),
		.root_grad = (zr_real)(sqrt(1 - op->beta2) * mult),
		.root_each = (zr_real)(sqrt(op->beta2) / 255),
	};
}

/* The new m and root of v, from the old codes and scales; p counts with l2 alone. */
ZR_INLINE void adamw8_moments(const struct adamw8_factors *f, int l2, zr_real p, zr_real g,
			      const int code[2], const float scale[2], zr_real *m, zr_real *root)
{
	const zr_real x = (zr_real)code[1] * (scale[1] * f->root_each);

	if (l2)
		g = g * f->f.grad_mult + p * f->f.l2;
	*m = zr_fma(zr_signed8(code[0], 1), f->f.b1 * scale[0], g * f->m_grad);
	*root = zr_sqrt(zr_fma(x, x, g * f->root_grad * (g * f->root_grad)));
}

/* The new p, and the codes of m and of the root under their new scales. */
ZR_INLINE zr_real adamw8_next(const struct adamw8_factors *f, zr_real p, zr_real m, zr_real root,
			      const float scale[2], uint8_t code[2])
{
	const zr_real part = scale[0] == 0 ? 1 : scale[0] / 254;
	const zr_real d = zr_fma(root, f->f.root, f->f.eps);
	const zr_real e = zr_fma(m < 0 ? -m : m, ADAMW8_254TH, part);
	const zr_real q = m / (d * e);

	code[0] = code[1] = 0;
	if (scale[0] > 0 && scale[1] == scale[1])
		code[0] = (uint8_t)zr_signed8_rounded((float)(q * d));
	if (scale[1] > 0)
		code[1] = (uint8_t)zr_root8_code((float)root, scale[1]);
	return zr_fma(-f->f.step, q * e, p * f->f.keep);
}

#endif
