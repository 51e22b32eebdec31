/* SPDX-License-Identifier: Apache-2.0
 *
 * lion.simd.c - lion.c with vectors, same operations in the same order, same bits.
 */
#include "simd.h"
#include "table.h"

struct lanes {
	vf mult, lr, keep, b1, b1c, b2, b2c;
};

/* lowp: the type of the copy, or 0 for none */
ZR_INLINE void update(const struct zr_op_lion *op, const struct lanes *f, int64_t i, int32_t lowp,
		      int n)
{
	vf p = vload_n(op->master, i, ZR_F32, n), g = vload_n(op->grad, i, ZR_F32, n) * f->mult;
	vf m = vload_n(op->m, i, ZR_F32, n);

	p = p * f->keep - f->lr * vsign(f->b1 * m + f->b1c * g);
	vstore_n(op->m, i, ZR_F32, f->b2 * m + f->b2c * g, n);
	vstore_n(op->master, i, ZR_F32, p, n);
	if (lowp)
		vstore_n(op->lowp, i, lowp, p, n);
}

ZR_INLINE void sweep(const struct zr_op_lion *op, int64_t lo, int64_t hi, int32_t lowp)
{
	const struct zr_scalars *s = op->scalars;
	struct lanes f = { vset(s->grad_mult),
			   vset(s->lr),
			   vset((float)(1 - (double)s->lr * op->weight_decay)),
			   vset((float)op->beta1),
			   vset((float)(1 - op->beta1)),
			   vset((float)op->beta2),
			   vset((float)(1 - op->beta2)) };
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		update(op, &f, i, lowp, ZR_W);
	if (i < hi)
		update(op, &f, i, lowp, (int)(hi - i));
}

void ZR_SIMD(lion)(const struct zr_op_lion *op, int64_t lo, int64_t hi)
{
	if (!op->lowp)
		sweep(op, lo, hi, 0);
	else
		ZR_BY_DTYPE(op->lowp_dtype, sweep, op, lo, hi);
}
