/* SPDX-License-Identifier: Apache-2.0
 *
 * adagrad.simd.c - adagrad.c with vectors, same operations in the same order, same bits.
 */
#include "simd.h"
#include "table.h"

struct lanes {
	vf mult, wd, eps, rate;
};

/* lowp: the type of the copy, or 0 for none */
ZR_INLINE void update(const struct zr_op_adagrad *op, const struct lanes *f, int64_t i,
		      int32_t lowp, int n)
{
	vf p = vload_n(op->master, i, ZR_F32, n);
	vf g = vload_n(op->grad, i, ZR_F32, n) * f->mult + f->wd * p;
	vf sum = vload_n(op->sum, i, ZR_F32, n) + g * g;

	p = p - f->rate * g / (vsqrt(sum) + f->eps);
	vstore_n(op->sum, i, ZR_F32, sum, n);
	vstore_n(op->master, i, ZR_F32, p, n);
	if (lowp)
		vstore_n(op->lowp, i, lowp, p, n);
}

ZR_INLINE void sweep(const struct zr_op_adagrad *op, int64_t lo, int64_t hi, int32_t lowp)
{
	const struct zr_scalars *s = op->scalars;
	double rate = (double)s->lr / (1 + (double)(s->step - 1) * op->lr_decay);
	struct lanes f = { vset(s->grad_mult), vset((float)op->weight_decay), vset((float)op->eps),
			   vset((float)rate) };
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		update(op, &f, i, lowp, ZR_W);
	if (i < hi)
		update(op, &f, i, lowp, (int)(hi - i));
}

void ZR_SIMD(adagrad)(const struct zr_op_adagrad *op, int64_t lo, int64_t hi)
{
	if (!op->lowp)
		sweep(op, lo, hi, 0);
	else
		ZR_BY_DTYPE(op->lowp_dtype, sweep, op, lo, hi);
}
