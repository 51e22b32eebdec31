/* SPDX-License-Identifier: Apache-2.0
 *
 * muon.simd.c - muon.c with vectors, same operations in the same order, same bits.
 */
#include "simd.h"
#include "sumsq.h"
#include "table.h"

/* ---- muon_momentum --------------------------------------------------------------- */

struct lanes {
	vf mult, mu, fresh;
};

/* One vector of n elements from i, part `part` of its 16. */
ZR_INLINE void average(const struct zr_op_muon *op, const struct lanes *f, struct vchains *s,
		       int64_t i, int part, int n)
{
	vf g = f->fresh * (vload_n(op->grad, i, ZR_F32, n) * f->mult);
	vf x = f->mu * vload_n(op->buf, i, ZR_F32, n) + g;

	vstore_n(op->buf, i, ZR_F32, x, n);
	if (op->nesterov)
		x = g + f->mu * x;
	vstore_n(op->x, i, ZR_F32, x, n);
	vchain(s, part, x);
}

void ZR_SIMD(muon_momentum)(const struct zr_op_muon *op, int64_t lo, int64_t hi)
{
	struct lanes f = { vset(op->scalars->grad_mult), vset((float)op->momentum),
			   vset((float)(1 - op->momentum)) };

	for (int64_t b = lo; b < hi; b++) {
		int64_t i = b * ZR_BLOCK, to = i + ZR_BLOCK < op->n ? i + ZR_BLOCK : op->n;
		struct vchains s = vchains_zero();
		for (; i + ZR_CHAINS <= to; i += ZR_CHAINS)
			for (int part = 0; part < ZR_PARTS; part++)
				average(op, &f, &s, i + part * ZR_W, part, ZR_W);
		for (int part = 0; i < to; i += ZR_W, part++)
			average(op, &f, &s, i, part, vlanes(to - i));
		op->sumsq[b] = vchains_meet(&s);
	}
}

/* ---- elementwise ----------------------------------------------------------------- */

void ZR_SIMD(muon_normalize)(const struct zr_op_muon *op, float factor, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i += ZR_W) {
		int n = vlanes(hi - i);
		vstore_n(op->x, i, ZR_F32, vload_n(op->x, i, ZR_F32, n) * vset(factor), n);
	}
}

void ZR_SIMD(muon_factor)(const struct zr_op_muon_factor *op, int64_t lo, int64_t hi)
{
	vf b = vset(op->b), c = vset(op->c);

	for (int64_t r = lo; r < hi; r++) {
		float *gram = op->gram + r * op->n;
		const float *square = op->square + r * op->n;
		for (int64_t i = 0; i < op->n; i += ZR_W) {
			int n = vlanes(op->n - i);
			vstore_n(gram, i, ZR_F32,
				 b * vload_n(gram, i, ZR_F32, n) +
					 c * vload_n(square, i, ZR_F32, n),
				 n);
		}

		gram[r] += op->a;
	}
}

/* lowp: the type of the copy, or 0 for none */
ZR_INLINE void sweep(const struct zr_op_muon *op, int64_t lo, int64_t hi, int32_t lowp)
{
	double lr = op->scalars->lr;
	vf keep = vset((float)(1 - lr * op->weight_decay)), step = vset((float)(lr * op->ratio));

	for (int64_t i = lo; i < hi; i += ZR_W) {
		int n = vlanes(hi - i);
		vf p = vload_n(op->master, i, ZR_F32, n) * keep -
		       step * vload_n(op->x, i, ZR_F32, n);
		vstore_n(op->master, i, ZR_F32, p, n);
		if (lowp)
			vstore_n(op->lowp, i, lowp, p, n);
	}
}

void ZR_SIMD(muon_update)(const struct zr_op_muon *op, int64_t lo, int64_t hi)
{
	if (!op->lowp)
		sweep(op, lo, hi, 0);
	else
		ZR_BY_DTYPE(op->lowp_dtype, sweep, op, lo, hi);
}
