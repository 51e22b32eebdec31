/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw8.simd.c - adamw8.h with vectors, same operations in the same order, same bits: in two
 * passes over ZR_SOME8 elements, between which groups find their scales. 10.1 bytes are read and
 * 6.1 written per element, and what adamw.simd.c says of copies and split masters.
 */
#include "adamw8.h"
#include "adamw8_simd.h"
#include "moments8_simd.h"

struct lanes {
	vf m_grad, root_grad, mult, l2, step, keep, root, eps;
	float b1, root_each;
	int add_l2;
};

ZR_INLINE struct lanes spread(const struct zr_op_adamw *op)
{
	struct adamw8_factors f = adamw8_factors(op);

	return (struct lanes){ vset(f.m_grad),
			       vset(f.root_grad),
			       vset(f.f.grad_mult),
			       vset(f.f.l2),
			       vset(f.f.step),
			       vset(f.f.keep),
			       vset(f.f.root),
			       vset(f.f.eps),
			       f.f.b1,
			       f.root_each,
			       op->l2 };
}

/* Where the elements of ZR_GROUPS8 groups of a block are. */
struct groups {
	const float *grad;
	struct vkept p;
	uint8_t *m, *v;
	uint16_t *m_scale, *v_scale;
};

/* Asks for the line that element i of an operand begins, AHEAD bytes from here: the processor
 * itself sees too late where passes over few elements of many operands go on. Behind the end it
 * does nothing. */
#define AHEAD 3072

ZR_INLINE void ahead(const void *p, int i, int bytes)
{
	if (i * bytes % 64 == 0)
		__builtin_prefetch((const char *)((uintptr_t)p + (size_t)(i * bytes + AHEAD)));
}

ZR_INLINE void ahead_of_kept(const struct vkept *k, int i, int32_t kept)
{
	if (!vsplit_bits(kept))
		ahead(k->master, i, 4);
	else
		ahead(k->rem, i, vsplit_bits(kept) / 8);
	if (kept && !k->around)
		ahead(k->lowp, i, kept == ZR_F32 ? 4 : 2);
}

/* ZR_SOME8 elements between two passes. */
struct passing {
	float m[ZR_SOME8], root[ZR_SOME8]; /* new moments */
	vi m_most[ZR_GROUPS8], v_most[ZR_GROUPS8];
	struct groups8 m_scale, each; /* of the old moments, times a factor each */
	struct groups8 part, per;     /* of the new: a 254th of the scale of m, 255 / that of v */
};

/* First pass: the new moments of the group that begins at element i. */
ZR_INLINE void renew(const struct lanes *f, const struct groups *a, struct passing *s, int i,
		     int32_t kept)
{
	const int g = i / ZR_MOMENT8_GROUP;
	vf p[ZR_V8] = { vset(0) }, m[ZR_V8], root[ZR_V8];

	vgroup_signed8(m, a->m + i, 1);
	if (f->add_l2)
#pragma GCC unroll 2
		for (int k = 0; k < ZR_V8; k += 2)
			vkept_get2(&a->p, i + k * ZR_W, p + k, kept);
#pragma GCC unroll 4
	for (int k = 0; k < ZR_V8; k++) {
		const int at = i + k * ZR_W;
		vf grad = vload_f32(a->grad + at), x = vroot8(a->v + at, s->each.x[g]), y;
		if (f->add_l2)
			grad = grad * f->mult + p[k] * f->l2;
		y = grad * f->root_grad;
		m[k] = vfma(m[k], vset(s->m_scale.x[g]), grad * f->m_grad);
		root[k] = vsqrt(vfma(x, x, y * y));
		ahead(a->grad, at, 4);
		ahead(a->m, at, 1);
		ahead(a->v, at, 1);
		vstore_f32(s->m + at, m[k]);
		vstore_f32(s->root + at, root[k]);
	}

	s->m_most[g] = vmost8(m);
	s->v_most[g] = vmost_root8(root);
}

/* Second pass: masters and codes of 4 vectors from element i on. */
ZR_INLINE void put(const struct lanes *f, const struct groups *a, const struct passing *s, int i,
		   int32_t kept)
{
	vf p[4], m[4], root[4];

	vload4(m, s->m + i);
	vload4(root, s->root + i);
	vkept_get2(&a->p, i, p, kept);
	vkept_get2(&a->p, i + 2 * ZR_W, p + 2, kept);
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++) {
		vf part = vset(s->part.x[(i + k * ZR_W) / ZR_MOMENT8_GROUP]);
		vf d = vfma(root[k], f->root, f->eps);
		vf e = vfma(vabs(m[k]), vset(ADAMW8_254TH), part), q = m[k] / (d * e);
		p[k] = vfma(-f->step, q * e, p[k] * f->keep);
		m[k] = q * d;
		ahead_of_kept(&a->p, i + k * ZR_W, kept);
	}

	vkept_put2(&a->p, i, p, kept);
	vkept_put2(&a->p, i + 2 * ZR_W, p + 2, kept);
	vcode_root8(a->v, root, i, &s->per);
	vstore_i8(a->m + i, m, -127);
}

/* Both passes. a is a copy that nothing else points to: its pointers stay in registers. */
ZR_INLINE void passes(const struct lanes *f, const struct groups a, int32_t kept)
{
	struct passing s;
	v8 m_scale, v_scale;

	s.m_scale = vgroups8(vscales8(a.m_scale) * f->b1);
	s.each = vgroups8(vscales8(a.v_scale) * f->root_each);
#pragma GCC unroll 2
	for (int i = 0; i < ZR_SOME8; i += ZR_MOMENT8_GROUP)
		renew(f, &a, &s, i, kept);
	m_scale = vput_scales8(a.m_scale, s.m_most);
	v_scale = vput_scales8(a.v_scale, s.v_most);
	s.part = vgroups8(vdivisors8(m_scale) / 254);
	s.per = vgroups8(255 / v_scale);
	for (int i = 0; i < ZR_SOME8; i += 4 * ZR_W)
		put(f, &a, &s, i, kept);
	if (vsome_largest8(v_scale)) /* not what `put` takes for granted */
		vput_root8(a.v, s.root, v_scale);
	vclear8(a.v, v_scale);
	vclear8(a.m, m_scale + 0 * v_scale); /* not a number where one is not */
}

ZR_INLINE struct groups groups_at(const struct zr_op_adamw *op, const struct vkept *masters,
				  int64_t i, int32_t kept)
{
	return (struct groups){ .grad = op->grad + i,
				.p = vkept_at(masters, i, kept),
				.m = zr_codes8(op->m, i),
				.v = zr_codes8(op->v, i),
				.m_scale = zr_scale8(op->m, i),
				.v_scale = zr_scale8(op->v, i) };
}

/* n elements of them, with zeros behind, which change nothing. */
ZR_INLINE void update_part(const struct lanes *f, const struct groups *a, int n, int32_t kept)
{
	const size_t scales = (size_t)(n + ZR_MOMENT8_GROUP - 1) / ZR_MOMENT8_GROUP * 2;
	float grad[ZR_SOME8] = { 0 }, master[ZR_SOME8] = { 0 }, copy[ZR_SOME8] = { 0 };
	uint16_t rem[ZR_SOME8] = { 0 }, m_scale[ZR_GROUPS8] = { 0 }, v_scale[ZR_GROUPS8] = { 0 };
	uint8_t m[ZR_SOME8] = { 0 }, v[ZR_SOME8] = { 0 };
	const struct groups whole = { grad, { master, copy, rem, 0 }, m, v, m_scale, v_scale };

	memcpy(grad, a->grad, (size_t)n * sizeof *grad);
	vkept_copy(&whole.p, &a->p, n, kept);
	memcpy(m, a->m, (size_t)n);
	memcpy(v, a->v, (size_t)n);
	memcpy(m_scale, a->m_scale, scales);
	memcpy(v_scale, a->v_scale, scales);
	passes(f, whole, kept);
	vkept_copy(&a->p, &whole.p, n, kept);
	memcpy(a->m, m, (size_t)n);
	memcpy(a->v, v, (size_t)n);
	memcpy(a->m_scale, m_scale, scales);
	memcpy(a->v_scale, v_scale, scales);
}

ZR_INLINE void sweep_groups(const struct zr_op_adamw *op, int64_t lo, int64_t hi, int32_t kept)
{
	const struct vkept masters = adamw_masters(op);
	struct lanes f = spread(op);
	int n;

	for (int64_t i = lo; i < hi; i += n) {
		struct groups a = groups_at(op, &masters, i, kept);
		n = vsome8(i, hi);
		if (n == ZR_SOME8)
			passes(&f, a, kept);
		else
			update_part(&f, &a, n, kept);
	}

	vkept_end(&masters);
}

void ZR_SIMD(adamw8)(const struct zr_op_adamw *op, int64_t lo, int64_t hi)
{
	ZR_BY_KEPT(op, sweep_groups, op, lo, hi);
}
