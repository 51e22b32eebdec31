/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.simd.c - adamw.c with vectors, same operations in the same order, same bits. Bound by
 * memory: 16 bytes read and 12 written per element, 12 and 8 with bf16 moments; 2 more for a copy
 * of 16 bits, which would be read, too, where AVX-512 did not write large ones in bf16 around the
 * caches. Of a split master 2 to 4 bytes are read and written instead of 4 and 4, and no copy.
 */
#include "adamw.h"
#include "adamw8_simd.h"
#include "table.h"

struct lanes {
	vf grad_mult, l2, keep, b1, b1c, b2, b2c, step, root, eps;
	int add_l2;
};

ZR_INLINE struct lanes spread(const struct zr_op_adamw *op)
{
	struct adamw_factors f = adamw_factors(op);

	return (struct lanes){ vset(f.grad_mult), vset(f.l2),  vset(f.keep), vset(f.b1),
			       vset(f.b1c),       vset(f.b2),  vset(f.b2c),  vset(f.step),
			       vset(f.root),      vset(f.eps), op->l2 };
}

ZR_INLINE vf gradient(const struct lanes *f, vf p, vf g)
{
	g = g * f->grad_mult;
	if (f->add_l2)
		g = g + p * f->l2;
	return g;
}

/* New moments, and with these, the new p. */
ZR_INLINE vf first(const struct lanes *f, vf m, vf g)
{
	return f->b1 * m + f->b1c * g;
}
ZR_INLINE vf second(const struct lanes *f, vf v, vf g)
{
	return f->b2 * v + f->b2c * g * g;
}
ZR_INLINE vf next(const struct lanes *f, vf p, vf m, vf root)
{
	return p * f->keep - f->step * m / (root * f->root + f->eps);
}

/* The new p of n elements whose old one is p; type: of the moments */
ZR_INLINE vf update(const struct zr_op_adamw *op, const struct lanes *f, vf p, int64_t i, int n,
		    int32_t type)
{
	vf g = gradient(f, p, vload_n(op->grad, i, ZR_F32, n));
	vf m = vload_n(op->m, i, type, n), v = vload_n(op->v, i, type, n);

	m = first(f, m, g);
	v = second(f, v, g);
	vstore_n(op->m, i, type, m, n);
	vstore_n(op->v, i, type, v, n);
	return next(f, p, m, vsqrt(v));
}

#define ASK 1024 /* bytes between what is asked for and what is used */

/* Asks for the lines of 2 * ZR_W elements that come later. */
ZR_INLINE void ask(const void *p, int64_t i, int bytes)
{
	const char *at = (const char *)((uintptr_t)p + (size_t)(i * bytes) + ASK);
	for (int b = 0; b < 2 * ZR_W * bytes; b += 64)
		__builtin_prefetch(at + b, 0, 3);
}

/* Processors read ahead by themselves, but less than memory could give. */
ZR_INLINE void ask_operands(const struct zr_op_adamw *op, int64_t i, int32_t type, int32_t kept)
{
	ask(op->grad, i, 4);
	ask(op->m, i, zr_size(type));
	ask(op->v, i, zr_size(type));
	if (!vsplit_bits(kept))
		ask(op->master, i, 4);
}

/* kept: how masters are */
ZR_INLINE void sweep(const struct zr_op_adamw *op, int64_t lo, int64_t hi, int32_t type,
		     int32_t kept)
{
	const struct vkept k = adamw_masters(op);
	struct lanes f = spread(op);
	int64_t i = lo;
	vf p[2];

	for (; i + 2 * ZR_W <= hi; i += 2 * ZR_W) {
		ask_operands(op, i, type, kept);
		vkept_get2(&k, i, p, kept);
		p[0] = update(op, &f, p[0], i, ZR_W, type);
		p[1] = update(op, &f, p[1], i + ZR_W, ZR_W, type);
		vkept_put2(&k, i, p, kept);
	}

	for (; i < hi; i += ZR_W) {
		int n = vlanes(hi - i);
		p[0] = update(op, &f, vkept_get(&k, i, n, kept), i, n, type);
		vkept_put(&k, i, p[0], n, kept);
	}
	vkept_end(&k);
}

void ZR_SIMD(adamw)(const struct zr_op_adamw *op, int64_t lo, int64_t hi)
{
	if (op->moment_dtype == ZR_U8)
		ZR_SIMD(adamw8)(op, lo, hi);
	else if (op->moment_dtype == ZR_BF16)
		ZR_BY_KEPT(op, sweep, op, lo, hi, ZR_BF16);
	else
		ZR_BY_KEPT(op, sweep, op, lo, hi, ZR_F32);
}
