/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.simd.c - adamw.c with vectors, same operations in the same order, same bits. Bound by
 * memory: 16 bytes read and 12 written per element, 12 and 8 with bf16 moments; 2 more for a copy
 * of 16 bits.
 */
#include "adamw.h"
#include "simd.h"
#include "table.h"

struct lanes {
	vf grad_mult, l2, keep, b1, b1c, b2, b2c, step, root, eps;
	int add_l2;
};

ZR_INLINE struct lanes spread(const struct zr_op_adamw *op)
{
	struct adamw_factors f = adamw_factors(op);

	return (struct lanes){ vset(f.grad_mult), vset(f.l2),  vset(f.keep), vset(f.b1),
			       vset(f.b1c),	  vset(f.b2),  vset(f.b2c),  vset(f.step),
			       vset(f.root),	  vset(f.eps), op->l2 };
}

/* type: of the moments; lowp: of the copy, or 0 for none */
ZR_INLINE void update(const struct zr_op_adamw *op, const struct lanes *f, int64_t i, int n,
		      int32_t type, int32_t lowp)
{
	vf p = vload_n(op->master, i, ZR_F32, n),
	   g = vload_n(op->grad, i, ZR_F32, n) * f->grad_mult;
	vf m = vload_n(op->m, i, type, n), v = vload_n(op->v, i, type, n);

	if (f->add_l2)
		g = g + p * f->l2;
	m = f->b1 * m + f->b1c * g;
	v = f->b2 * v + f->b2c * g * g;
	p = p * f->keep - f->step * m / (vsqrt(v) * f->root + f->eps);
	vstore_n(op->m, i, type, m, n);
	vstore_n(op->v, i, type, v, n);
	vstore_n(op->master, i, ZR_F32, p, n);
	if (lowp)
		vstore_n(op->lowp, i, lowp, p, n);
}

ZR_INLINE void sweep(const struct zr_op_adamw *op, int64_t lo, int64_t hi, int32_t type,
		     int32_t lowp)
{
	struct lanes f = spread(op);
	int64_t i = lo;

	for (; i + 2 * ZR_W <= hi; i += 2 * ZR_W) {
		update(op, &f, i, ZR_W, type, lowp);
		update(op, &f, i + ZR_W, ZR_W, type, lowp);
	}
	for (; i < hi; i += ZR_W)
		update(op, &f, i, vlanes(hi - i), type, lowp);
}

ZR_INLINE void by_copy(const struct zr_op_adamw *op, int64_t lo, int64_t hi, int32_t type)
{
	if (!op->lowp)
		sweep(op, lo, hi, type, 0);
	else
		ZR_BY_DTYPE(op->lowp_dtype, sweep, op, lo, hi, type);
}

void ZR_SIMD(adamw)(const struct zr_op_adamw *op, int64_t lo, int64_t hi)
{
	if (op->moment_dtype == ZR_BF16)
		by_copy(op, lo, hi, ZR_BF16);
	else
		by_copy(op, lo, hi, ZR_F32);
}
