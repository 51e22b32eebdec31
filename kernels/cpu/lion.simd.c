/* SPDX-License-Identifier: Apache-2.0
 *
 * lion.simd.c - lion.c with vectors, same operations in the same order, same bits.
 */
#include "moments8_simd.h"
#include "table.h"

struct lanes {
	vf mult, lr, keep, b1, b1c, b2, b2c;
};

ZR_INLINE struct lanes spread(const struct zr_op_lion *op)
{
	const struct zr_scalars *s = op->scalars;

	return (struct lanes){ vset(s->grad_mult),
			       vset(s->lr),
			       vset((float)(1 - (double)s->lr * op->weight_decay)),
			       vset((float)op->beta1),
			       vset((float)(1 - op->beta1)),
			       vset((float)op->beta2),
			       vset((float)(1 - op->beta2)) };
}

/* The new p of elements with gradients g; *m becomes the new average. */
ZR_INLINE vf next(const struct lanes *f, vf p, vf g, vf *m)
{
	g = g * f->mult;
	p = p * f->keep - f->lr * vsign(f->b1 * *m + f->b1c * g);
	*m = f->b2 * *m + f->b2c * g;
	return p;
}

/* lowp: the type of the copy, or 0 for none */
ZR_INLINE void update(const struct zr_op_lion *op, const struct lanes *f, int64_t i, int32_t lowp,
		      int n)
{
	vf p = vload_n(op->master, i, ZR_F32, n), g = vload_n(op->grad, i, ZR_F32, n);
	vf m = vload_n(op->m, i, ZR_F32, n);

	p = next(f, p, g, &m);
	vstore_n(op->m, i, ZR_F32, m, n);
	vstore_n(op->master, i, ZR_F32, p, n);
	if (lowp)
		vstore_n(op->lowp, i, lowp, p, n);
}

ZR_INLINE void sweep(const struct zr_op_lion *op, int64_t lo, int64_t hi, int32_t lowp)
{
	struct lanes f = spread(op);
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		update(op, &f, i, lowp, ZR_W);
	if (i < hi)
		update(op, &f, i, lowp, (int)(hi - i));
}

/* ---- the average in 8 bits ------------------------------------------------------- */

/* n whole groups of a block, the first elements of which are given. */
ZR_INLINE void update_groups(const struct lanes *f, const float *grad, float *master, uint8_t *code,
			     uint16_t *scale, void *copy, int n, int32_t lowp)
{
	float m8[ZR_GROUPS8 * ZR_MOMENT8_GROUP];
	uint32_t most[ZR_GROUPS8];

	for (int g = 0; g < n; g++) {
		float s = vscale8(scale[g]);
		vf m[ZR_V8];
#pragma GCC unroll 4
		for (int k = 0; k < ZR_V8; k++) {
			int i = g * ZR_MOMENT8_GROUP + k * ZR_W;
			vf p = vload(master, i, ZR_F32);
			m[k] = vsigned8(code + i, s);
			p = next(f, p, vload(grad, i, ZR_F32), &m[k]);
			vstore(master, i, ZR_F32, p);
			if (lowp)
				vstore(copy, i, lowp, p);
			vstore(m8, i, ZR_F32, m[k]);
		}
		most[g] = vmost8(m);
	}
	for (int g = 0; g < n; g++) {
		int i = g * ZR_MOMENT8_GROUP;
		vput_signed8(code + i, scale + g, m8 + i, most[g]);
	}
}

/* A last group of n elements, with zeros behind them. */
ZR_INLINE void update_part(const struct lanes *f, const struct zr_op_lion *op, int64_t i, int n,
			   int32_t lowp)
{
	float grad[ZR_MOMENT8_GROUP] = { 0 }, master[ZR_MOMENT8_GROUP] = { 0 };
	uint8_t code[ZR_MOMENT8_GROUP] = { 0 };
	float copy[ZR_MOMENT8_GROUP];

	memcpy(grad, op->grad + i, (size_t)n * sizeof *grad);
	memcpy(master, op->master + i, (size_t)n * sizeof *master);
	memcpy(code, zr_codes8(op->m, i), (size_t)n);
	update_groups(f, grad, master, code, zr_scale8(op->m, i), copy, 1, lowp);
	memcpy(op->master + i, master, (size_t)n * sizeof *master);
	memcpy(zr_codes8(op->m, i), code, (size_t)n);
	if (lowp)
		memcpy(zr_at(op->lowp, i, lowp), copy, (size_t)(n * zr_size(lowp)));
}

ZR_INLINE void sweep_groups(const struct zr_op_lion *op, int64_t lo, int64_t hi, int32_t lowp)
{
	struct lanes f = spread(op);
	int64_t i = lo, n;

	for (; (n = vgroups8(i, hi)) > 0; i += n * ZR_MOMENT8_GROUP)
		update_groups(&f, op->grad + i, op->master + i, zr_codes8(op->m, i),
			      zr_scale8(op->m, i), lowp ? zr_at(op->lowp, i, lowp) : NULL, (int)n,
			      lowp);
	if (i < hi)
		update_part(&f, op, i, (int)(hi - i), lowp);
}

void ZR_SIMD(lion)(const struct zr_op_lion *op, int64_t lo, int64_t hi)
{
	if (op->moment_dtype == ZR_U8 && !op->lowp)
		sweep_groups(op, lo, hi, 0);
	else if (op->moment_dtype == ZR_U8)
		ZR_BY_DTYPE(op->lowp_dtype, sweep_groups, op, lo, hi);
	else if (!op->lowp)
		sweep(op, lo, hi, 0);
	else
		ZR_BY_DTYPE(op->lowp_dtype, sweep, op, lo, hi);
}
