/* SPDX-License-Identifier: Apache-2.0
 *
 * lamb.simd.c - lamb.c with vectors, same operations in the same order, same bits.
 */
#include "lamb.h"
#include "simd.h"
#include "sumsq.h"
#include "table.h"

struct lanes {
	vf grad_mult, wd, eps, b1, b1c, b2, b2c, mean, root;
};

ZR_INLINE struct lanes spread(const struct zr_op_lamb *op)
{
	struct lamb_factors f = lamb_factors(op);

	return (struct lanes){ vset(f.grad_mult), vset(f.wd),   vset(f.eps),
			       vset(f.b1),        vset(f.b1c),  vset(f.b2),
			       vset(f.b2c),       vset(f.mean), vset(f.root) };
}

/* r of n elements from i, whose parameters are p; *m and *v become the new moments. */
ZR_INLINE vf direction(const struct zr_op_lamb *op, const struct lanes *f, int64_t i, vf p, vf *m,
		       vf *v, int n)
{
	vf g = vload_n(op->grad, i, ZR_F32, n) * f->grad_mult;

	*m = f->b1 * vload_n(op->m, i, ZR_F32, n) + f->b1c * g;
	*v = f->b2 * vload_n(op->v, i, ZR_F32, n) + f->b2c * g * g;
	return *m * f->mean / (vsqrt(*v) * f->root + f->eps) + f->wd * p;
}

struct norms {
	struct vchains p, r;
};

/* One vector of n elements from i, part `part` of its 16. */
ZR_INLINE void add(const struct zr_op_lamb *op, const struct lanes *f, struct norms *s, int64_t i,
		   int part, int n)
{
	vf p = vload_n(op->master, i, ZR_F32, n), m, v, r = direction(op, f, i, p, &m, &v, n);

	vchain(&s->p, part, p);
	/* 0/0 in the other lanes if eps is 0 */
	vchain(&s->r, part, n < ZR_W ? vfirst(r, n, vset(0)) : r);
}

static void norms_of_block(const struct zr_op_lamb *op, const struct lanes *f, int64_t b)
{
	int64_t i = b * ZR_BLOCK, to = i + ZR_BLOCK < op->n ? i + ZR_BLOCK : op->n;
	struct norms s = { vchains_zero(), vchains_zero() };

	for (; i + ZR_CHAINS <= to; i += ZR_CHAINS)
		for (int part = 0; part < ZR_PARTS; part++)
			add(op, f, &s, i + part * ZR_W, part, ZR_W);
	for (int part = 0; i < to; i += ZR_W, part++)
		add(op, f, &s, i, part, vlanes(to - i));
	op->block_norms[2 * b] = vchains_meet(&s.p);
	op->block_norms[2 * b + 1] = vchains_meet(&s.r);
}

void ZR_SIMD(lamb_norms)(const struct zr_op_lamb *op, int64_t lo, int64_t hi)
{
	struct lanes f = spread(op);

	for (int64_t b = lo; b < hi; b++)
		norms_of_block(op, &f, b);
}

/* lowp: the type of the copy, or 0 for none */
ZR_INLINE void update(const struct zr_op_lamb *op, const struct lanes *f, vf rate, int64_t i, int n,
		      int32_t lowp)
{
	vf p = vload_n(op->master, i, ZR_F32, n), m, v;

	p = p - rate * direction(op, f, i, p, &m, &v, n);
	vstore_n(op->m, i, ZR_F32, m, n);
	vstore_n(op->v, i, ZR_F32, v, n);
	vstore_n(op->master, i, ZR_F32, p, n);
	if (lowp)
		vstore_n(op->lowp, i, lowp, p, n);
}

ZR_INLINE void sweep(const struct zr_op_lamb *op, int64_t lo, int64_t hi, int32_t lowp)
{
	struct lanes f = spread(op);
	vf rate = vset(lamb_rate(op));
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		update(op, &f, rate, i, ZR_W, lowp);
	if (i < hi)
		update(op, &f, rate, i, (int)(hi - i), lowp);
}

void ZR_SIMD(lamb)(const struct zr_op_lamb *op, int64_t lo, int64_t hi)
{
	if (!op->lowp)
		sweep(op, lo, hi, 0);
	else
		ZR_BY_DTYPE(op->lowp_dtype, sweep, op, lo, hi);
}
