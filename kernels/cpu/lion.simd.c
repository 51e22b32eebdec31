/* SPDX-License-Identifier: Apache-2.0
 *
 * lion.simd.c - lion.c with vectors, same operations in the same order, same bits.
 */
#include "kept_simd.h"
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

/* kept: how masters are */
ZR_INLINE void update(const struct zr_op_lion *op, const struct lanes *f, int64_t i, int32_t kept,
		      int n)
{
	const struct vkept k = { op->master, op->lowp, op->rem, 0 };
	vf g = vload_n(op->grad, i, ZR_F32, n), m = vload_n(op->m, i, ZR_F32, n);
	vf p = next(f, vkept_get(&k, i, n, kept), g, &m);

	vstore_n(op->m, i, ZR_F32, m, n);
	vkept_put(&k, i, p, n, kept);
}

ZR_INLINE void sweep(const struct zr_op_lion *op, int64_t lo, int64_t hi, int32_t kept)
{
	struct lanes f = spread(op);
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		update(op, &f, i, kept, ZR_W);
	if (i < hi)
		update(op, &f, i, kept, (int)(hi - i));
}

/* ---- the average in 8 bits ------------------------------------------------------- */

/* Where the elements of some groups of a block are. */
struct groups {
	const float *grad;
	struct vkept p;
	uint8_t *m;
	uint16_t *m_scale;
};

ZR_INLINE struct groups groups_at(const struct zr_op_lion *op, int64_t i, int32_t kept)
{
	const struct vkept masters = { op->master, op->lowp, op->rem, 0 };

	return (struct groups){ op->grad + i, vkept_at(&masters, i, kept), zr_codes8(op->m, i),
				zr_scale8(op->m, i) };
}

/* Of ZR_GROUPS8 groups the scales, and in m8 what the codes are to be made from. */
ZR_INLINE v8 update_groups(const struct lanes *f, const struct groups *a, float *m8, int32_t kept)
{
	struct groups8 scale = vgroups8(vscales8(a->m_scale));
	vi most[ZR_GROUPS8];

	for (int g = 0; g < ZR_GROUPS8; g++) {
		vf m[ZR_V8], p[ZR_V8];
		vgroup_signed8(m, a->m + g * ZR_MOMENT8_GROUP, scale.x[g]);
#pragma GCC unroll 2
		for (int k = 0; k < ZR_V8; k += 2)
			vkept_get2(&a->p, g * ZR_MOMENT8_GROUP + k * ZR_W, p + k, kept);
#pragma GCC unroll 4
		for (int k = 0; k < ZR_V8; k++) {
			int i = g * ZR_MOMENT8_GROUP + k * ZR_W;
			p[k] = next(f, p[k], vload_f32(a->grad + i), &m[k]);
			vstore_f32(m8 + i, m[k]);
		}
#pragma GCC unroll 2
		for (int k = 0; k < ZR_V8; k += 2)
			vkept_put2(&a->p, g * ZR_MOMENT8_GROUP + k * ZR_W, p + k, kept);
		most[g] = vmost8(m);
	}
	return vput_scales8(a->m_scale, most);
}

/* n elements of them, with zeros behind. */
ZR_INLINE void update_part(const struct lanes *f, const struct groups *a, int n, int32_t kept)
{
	const size_t scales = (size_t)(n + ZR_MOMENT8_GROUP - 1) / ZR_MOMENT8_GROUP * 2;
	float grad[ZR_SOME8] = { 0 }, master[ZR_SOME8] = { 0 }, copy[ZR_SOME8] = { 0 };
	uint16_t rem[ZR_SOME8] = { 0 }, m_scale[ZR_GROUPS8] = { 0 };
	uint8_t m[ZR_SOME8] = { 0 };
	float m8[ZR_SOME8];
	const struct groups whole = { grad, { master, copy, rem, 0 }, m, m_scale };

	memcpy(grad, a->grad, (size_t)n * sizeof *grad);
	vkept_copy(&whole.p, &a->p, n, kept);
	memcpy(m, a->m, (size_t)n);
	memcpy(m_scale, a->m_scale, scales);
	vput_signed8(m, m8, update_groups(f, &whole, m8, kept));
	vkept_copy(&a->p, &whole.p, n, kept);
	memcpy(a->m, m, (size_t)n);
	memcpy(a->m_scale, m_scale, scales);
}

ZR_INLINE void sweep_groups(const struct zr_op_lion *op, int64_t lo, int64_t hi, int32_t kept)
{
	struct lanes f = spread(op);
	float m8[2][ZR_SOME8];
	int n;

	for (int64_t i = lo; i < hi; i += n) {
		struct groups a = groups_at(op, i, kept), b;
		n = vsome8(i, hi);
		if (n < ZR_SOME8) {
			update_part(&f, &a, n, kept);
			continue;
		}
		/* two at a time: what follows a search for scales does not wait for it */
		v8 scale = update_groups(&f, &a, m8[0], kept), next_scale;
		if (vsome8(i + n, hi) < ZR_SOME8) {
			vput_signed8(a.m, m8[0], scale);
			continue;
		}
		b = groups_at(op, i + n, kept);
		next_scale = update_groups(&f, &b, m8[1], kept);
		vput_signed8(a.m, m8[0], scale);
		vput_signed8(b.m, m8[1], next_scale);
		n *= 2;
	}
}

void ZR_SIMD(lion)(const struct zr_op_lion *op, int64_t lo, int64_t hi)
{
	if (op->moment_dtype == ZR_U8)
		ZR_BY_KEPT(op, sweep_groups, op, lo, hi);
	else
		ZR_BY_KEPT(op, sweep, op, lo, hi);
}
