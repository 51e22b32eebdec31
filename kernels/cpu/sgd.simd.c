/* SPDX-License-Identifier: Apache-2.0
 *
 * sgd.simd.c - sgd.c with vectors, same operations in the same order, same bits.
 */
#include "simd.h"
#include "table.h"

struct lanes {
	vf mult, lr, wd, mu, fresh;
	int first;
};

/* lowp: the type of the copy, or 0 for none */
ZR_INLINE void update(const struct zr_op_sgd *op, const struct lanes *f, int64_t i, int32_t lowp,
		      int n)
{
	vf p = vload_n(op->master, i, ZR_F32, n);
	vf g = vload_n(op->grad, i, ZR_F32, n) * f->mult + f->wd * p, d = g;

	if (op->buf) {
		if (!f->first)
			d = f->mu * vload_n(op->buf, i, ZR_F32, n) + f->fresh * g;
		vstore_n(op->buf, i, ZR_F32, d, n);
		if (op->nesterov)
			d = g + f->mu * d;
	}

	p = p - f->lr * d;
	vstore_n(op->master, i, ZR_F32, p, n);
	if (lowp)
		vstore_n(op->lowp, i, lowp, p, n);
}

ZR_INLINE void sweep(const struct zr_op_sgd *op, int64_t lo, int64_t hi, int32_t lowp)
{
	struct lanes f = { vset(op->scalars->grad_mult),     vset(op->scalars->lr),
			   vset((float)op->weight_decay),    vset((float)op->momentum),
			   vset((float)(1 - op->dampening)), op->scalars->step == 1 };
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		update(op, &f, i, lowp, ZR_W);
	if (i < hi)
		update(op, &f, i, lowp, (int)(hi - i));
}

void ZR_SIMD(sgd)(const struct zr_op_sgd *op, int64_t lo, int64_t hi)
{
	if (!op->lowp)
		sweep(op, lo, hi, 0);
	else
		ZR_BY_DTYPE(op->lowp_dtype, sweep, op, lo, hi);
}
