/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.simd.c - adamw.c with vectors, same operations in the same order, same bits. Bound by
 * memory: 16 bytes read and 12 written per element, 12 and 8 with bf16 moments, 10.1 and 6.1 with
 * 8-bit ones; 2 more for a copy of 16 bits, which would be read, too, where AVX-512 did not write
 * large ones in bf16 around the caches. Of a split master 2 to 4 bytes are read and written instead
 * of 4 and 4, and no copy.
 */
#include "adamw.h"
#include "kept_simd.h"
#include "moments8_simd.h"
#include "table.h"

/* From so many elements on, a copy in bf16 goes around the caches: these would read it first, up to
 * a tenth of what the update moves, and lose it before the next forward. */
#define LARGE (1 << 18)

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

ZR_INLINE vf gradient(const struct lanes *f, vf p, vf g)
{
	g = g * f->grad_mult;
	if (f->add_l2)
		g = g + p * f->l2;
	return g;
}

/* New moments, and with these, the new p. */
ZR_INLINE vf first(const struct lanes *f, vf m, vf g) { return f->b1 * m + f->b1c * g; }
ZR_INLINE vf second(const struct lanes *f, vf v, vf g) { return f->b2 * v + f->b2c * g * g; }
ZR_INLINE vf next(const struct lanes *f, vf p, vf m, vf root)
{
	return p * f->keep - f->step * m / (root * f->root + f->eps);
}

ZR_INLINE struct vkept masters_of(const struct zr_op_adamw *op)
{
	return (struct vkept){ op->master, op->lowp, op->rem, op->n >= LARGE };
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
	ask(op->m, i, type == ZR_F32 ? 4 : 2);
	ask(op->v, i, type == ZR_F32 ? 4 : 2);
	if (!vsplit_bits(kept))
		ask(op->master, i, 4);
}

/* kept: how masters are */
ZR_INLINE void sweep(const struct zr_op_adamw *op, int64_t lo, int64_t hi, int32_t type,
		     int32_t kept)
{
	const struct vkept k = masters_of(op);
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

/* ---- moments in 8 bits ----------------------------------------------------------- */

/* Turns of ZR_SOME8 elements between asking for bytes and using them. 16 were a little better for
 * the kernel alone, and made whole updates slower. */
#define AHEAD 8

/* Where the elements of ZR_GROUPS8 groups of a block are. */
struct groups {
	const float *grad;
	struct vkept p;
	uint8_t *m, *v;
	uint16_t *m_scale, *v_scale;
};

/* Asks for the line that element i of an operand begins, some turns from here: the processor itself
 * sees too late where passes over few elements of many operands go on. Behind the end it does
 * nothing. */
ZR_INLINE void ahead(const void *p, int i, int bytes)
{
	if (i * bytes % 64 == 0)
		__builtin_prefetch((const char *)((uintptr_t)p +
						  (size_t)((i + AHEAD * ZR_SOME8) * bytes)));
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

/* Of a group that begins at element i: m becomes the new first moments, root the roots of the new
 * second ones; `each` is a 255th of the scale of these. */
ZR_INLINE void moments_of(const struct lanes *f, const struct groups *a, int i, vf *m, vf *root,
			  float each, int32_t kept)
{
	vf p[ZR_V8] = { vset(0) };
	if (f->add_l2)
#pragma GCC unroll 2
		for (int k = 0; k < ZR_V8; k += 2)
			vkept_get2(&a->p, i + k * ZR_W, p + k, kept);
#pragma GCC unroll 4
	for (int k = 0; k < ZR_V8; k++) {
		vf grad = gradient(f, p[k], vload_f32(a->grad + i + k * ZR_W));
		vf r = vroot8(a->v + i + k * ZR_W, each);
		root[k] = vsqrt(second(f, r * r, grad));
		m[k] = first(f, m[k], grad);
	}
}

/* ZR_SOME8 elements between two passes. */
struct passing {
	float m[ZR_SOME8], root[ZR_SOME8]; /* new moments */
	vi m_most[ZR_GROUPS8], v_most[ZR_GROUPS8];
	struct groups8 m_scale, each; /* before the passes; each: a 255th of the scale of v */
	struct groups8 scale, per;    /* of the new moments: of m; per: 255 divided by that of v */
};

/* First pass, over the group that begins at element i. */
ZR_INLINE void renew(const struct lanes *f, const struct groups *a, struct passing *s, int i,
		     int32_t kept)
{
	const int g = i / ZR_MOMENT8_GROUP;
	vf m[ZR_V8], root[ZR_V8];

	vgroup_signed8(m, a->m + i, s->m_scale.x[g]);
	moments_of(f, a, i, m, root, s->each.x[g], kept);
#pragma GCC unroll 4
	for (int k = 0; k < ZR_V8; k++) {
		ahead(a->grad, i + k * ZR_W, 4);
		ahead(a->m, i + k * ZR_W, 1);
		ahead(a->v, i + k * ZR_W, 1);
		ahead_of_kept(&a->p, i + k * ZR_W, kept);
		vstore_f32(s->m + i + k * ZR_W, m[k]);
		vstore_f32(s->root + i + k * ZR_W, root[k]);
	}
	s->m_most[g] = vmost8(m);
	s->v_most[g] = vmost_root8(root);
}

/* Second pass, over 4 vectors from element i on. */
ZR_INLINE void put(const struct lanes *f, const struct groups *a, const struct passing *s, int i,
		   int32_t kept)
{
	vf p[4], m[4], root[4];

	vload4(m, s->m + i);
	vload4(root, s->root + i);
	vkept_get2(&a->p, i, p, kept);
	vkept_get2(&a->p, i + 2 * ZR_W, p + 2, kept);
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++)
		p[k] = next(f, p[k], m[k], root[k]);
	vkept_put2(&a->p, i, p, kept);
	vkept_put2(&a->p, i + 2 * ZR_W, p + 2, kept);
	vcode_root8(a->v, root, i, &s->per);
	vcode_signed8(a->m, m, i, &s->scale);
}

/* Both passes. a is a copy that nothing else points to: its pointers stay in registers. */
ZR_INLINE void passes(const struct lanes *f, const struct groups a, int32_t kept)
{
	struct passing s;
	v8 m_scale, v_scale;

	s.m_scale = vgroups8(vscales8(a.m_scale));
	s.each = vgroups8(vscales8(a.v_scale) / 255);
#pragma GCC unroll 2
	for (int i = 0; i < ZR_SOME8; i += ZR_MOMENT8_GROUP)
		renew(f, &a, &s, i, kept);
	m_scale = vput_scales8(a.m_scale, s.m_most);
	v_scale = vput_scales8(a.v_scale, s.v_most);
	s.scale = vgroups8(m_scale);
	s.per = vgroups8(255 / v_scale);
	for (int i = 0; i < ZR_SOME8; i += 4 * ZR_W)
		put(f, &a, &s, i, kept);
	if (vsome_largest8(v_scale)) /* not what `put` takes for granted */
		vput_root8(a.v, s.root, v_scale);
	vclear8(a.v, v_scale);
	vclear8(a.m, m_scale);
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
	const struct vkept masters = masters_of(op);
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

/* ---------------------------------------------------------------------------------- */

void ZR_SIMD(adamw)(const struct zr_op_adamw *op, int64_t lo, int64_t hi)
{
	if (op->moment_dtype == ZR_U8)
		ZR_BY_KEPT(op, sweep_groups, op, lo, hi);
	else if (op->moment_dtype == ZR_BF16)
		ZR_BY_KEPT(op, sweep, op, lo, hi, ZR_BF16);
	else
		ZR_BY_KEPT(op, sweep, op, lo, hi, ZR_F32);
}
