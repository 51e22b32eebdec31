/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.simd.c - adamw.c with vectors, same operations in the same order, same bits. Bound by
 * memory: 16 bytes read and 12 written per element, 12 and 8 with bf16 moments, 10.1 and
 * 6.1 with 8-bit ones; 2 more for a copy of 16 bits.
 */
#include "adamw.h"
#include "moments8_simd.h"
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

/* The new p of elements with gradients g; *m and *v become the new moments, *root that of *v. */
ZR_INLINE vf next(const struct lanes *f, vf p, vf g, vf *m, vf *v, vf *root)
{
	g = g * f->grad_mult;
	if (f->add_l2)
		g = g + p * f->l2;
	*m = f->b1 * *m + f->b1c * g;
	*v = f->b2 * *v + f->b2c * g * g;
	*root = vsqrt(*v);
	return p * f->keep - f->step * *m / (*root * f->root + f->eps);
}

/* type: of the moments; lowp: of the copy, or 0 for none */
ZR_INLINE void update(const struct zr_op_adamw *op, const struct lanes *f, int64_t i, int n,
		      int32_t type, int32_t lowp)
{
	vf p = vload_n(op->master, i, ZR_F32, n), g = vload_n(op->grad, i, ZR_F32, n);
	vf m = vload_n(op->m, i, type, n), v = vload_n(op->v, i, type, n), root;

	p = next(f, p, g, &m, &v, &root);
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

/* ---- moments in 8 bits ----------------------------------------------------------- */

/* Where the elements of a group are. */
struct group {
	const float *grad;
	float *master;
	uint8_t *m, *v;
	uint16_t *m_scale, *v_scale;
	void *lowp;
};

ZR_INLINE void update_group(const struct lanes *f, const struct group *a, int32_t lowp)
{
	float scale = zr_from_f16(*a->m_scale), each = zr_from_f16(*a->v_scale) / 255;
	vf m[ZR_V8], root[ZR_V8];

	for (int k = 0; k < ZR_V8; k++) {
		vf p = vload(a->master, k * ZR_W, ZR_F32), g = vload(a->grad, k * ZR_W, ZR_F32);
		vf r = vroot8(a->v, k, each), v = r * r;
		m[k] = vsigned8(a->m, k, scale);
		p = next(f, p, g, &m[k], &v, &root[k]);
		vstore(a->master, k * ZR_W, ZR_F32, p);
		if (lowp)
			vstore(a->lowp, k * ZR_W, lowp, p);
	}
	vput_signed8(a->m, a->m_scale, m);
	vput_root8(a->v, a->v_scale, root);
}

ZR_INLINE struct group group_at(const struct zr_op_adamw *op, int64_t i, int32_t lowp)
{
	return (struct group){ .grad = op->grad + i,
			       .master = op->master + i,
			       .m = zr_codes8(op->m, i),
			       .v = zr_codes8(op->v, i),
			       .m_scale = zr_scale8(op->m, i),
			       .v_scale = zr_scale8(op->v, i),
			       .lowp = lowp ? zr_at(op->lowp, i, lowp) : NULL };
}

/* A last group of n elements: with zeros, as nothing that changes the others. */
ZR_INLINE void update_part(const struct lanes *f, const struct group *a, int n, int32_t lowp)
{
	float grad[ZR_MOMENT8_GROUP] = { 0 }, master[ZR_MOMENT8_GROUP] = { 0 };
	uint8_t m[ZR_MOMENT8_GROUP] = { 0 }, v[ZR_MOMENT8_GROUP] = { 0 };
	float copy[ZR_MOMENT8_GROUP];
	const struct group whole = { grad, master, m, v, a->m_scale, a->v_scale, copy };

	memcpy(grad, a->grad, (size_t)n * sizeof *grad);
	memcpy(master, a->master, (size_t)n * sizeof *master);
	memcpy(m, a->m, (size_t)n);
	memcpy(v, a->v, (size_t)n);
	update_group(f, &whole, lowp);
	memcpy(a->master, master, (size_t)n * sizeof *master);
	memcpy(a->m, m, (size_t)n);
	memcpy(a->v, v, (size_t)n);
	if (lowp)
		memcpy(a->lowp, copy, (size_t)(n * zr_size(lowp)));
}

ZR_INLINE void sweep_groups(const struct zr_op_adamw *op, int64_t lo, int64_t hi, int32_t lowp)
{
	struct lanes f = spread(op);

	for (int64_t i = lo; i < hi; i += ZR_MOMENT8_GROUP) {
		struct group a = group_at(op, i, lowp);
		if (hi - i >= ZR_MOMENT8_GROUP)
			update_group(&f, &a, lowp);
		else
			update_part(&f, &a, (int)(hi - i), lowp);
	}
}

/* ---------------------------------------------------------------------------------- */

ZR_INLINE void by_copy(const struct zr_op_adamw *op, int64_t lo, int64_t hi, int32_t type)
{
	if (!op->lowp)
		sweep(op, lo, hi, type, 0);
	else
		ZR_BY_DTYPE(op->lowp_dtype, sweep, op, lo, hi, type);
}

void ZR_SIMD(adamw)(const struct zr_op_adamw *op, int64_t lo, int64_t hi)
{
	if (op->moment_dtype == ZR_U8 && !op->lowp)
		sweep_groups(op, lo, hi, 0);
	else if (op->moment_dtype == ZR_U8)
		ZR_BY_DTYPE(op->lowp_dtype, sweep_groups, op, lo, hi);
	else if (op->moment_dtype == ZR_BF16)
		by_copy(op, lo, hi, ZR_BF16);
	else
		by_copy(op, lo, hi, ZR_F32);
}
