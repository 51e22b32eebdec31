/* SPDX-License-Identifier: Apache-2.0
 *
 * simd.h - what the vector kernels are written in. A <op>.simd.c is compiled once per instruction
 * set with -DZR_ISA=avx2 or avx512 and that set's compiler flags; nothing else may be.
 *
 * vf holds ZR_W floats, vi as many 32-bit integers, vh as many of 16 bits, vd half as many doubles.
 * The operators + - * / work on vf and vd (each rounds once: contraction is off), fma only where
 * vfma is written. Functions that take a dtype are to be inlined with a constant: make the body of
 * an operation an inline function of dtype and call it once per type (ZR_BY_DTYPE).
 *
 * Invariant I1: a tail of n < ZR_W elements takes the same instructions under a mask, and
 * horizontal sums have one fixed order.
 */
#ifndef ZEROTH_KERNELS_CPU_SIMD_H
#define ZEROTH_KERNELS_CPU_SIMD_H

#include "scalar.h"

#include <immintrin.h>

/* Name of a vector kernel: zr_<op>_avx2, zr_<op>_avx512. */
#define ZR_SIMD(op) ZR_CAT(ZR_CAT(zr_##op, _), ZR_ISA)

#define UNROLL _Pragma("GCC unroll 16")
/* For i from 0 on below n, a constant of at most `most`, which is a number: in time for clang. */
#define UNROLLED(i, most, n) UNROLL for (int i = 0; i < (most); i++) if (i < (n))

/* body(..., dtype) with a constant dtype. */
#define ZR_BY_DTYPE(dtype, body, ...)                                                              \
	do {                                                                                       \
		if ((dtype) == ZR_BF16)                                                            \
			body(__VA_ARGS__, ZR_BF16);                                                \
		else if ((dtype) == ZR_F16)                                                        \
			body(__VA_ARGS__, ZR_F16);                                                 \
		else                                                                               \
			body(__VA_ARGS__, ZR_F32);                                                 \
	} while (0)

#ifdef __AVX512F__
#include "simd_avx512.h"
#else
#include "simd_avx2.h"
#endif

/* ---- the same for every width ---------------------------------------------------- */

/* n may be anything: the lanes that are left, 0..ZR_W. */
ZR_INLINE int vlanes(int64_t n)
{
	return n < ZR_W ? (int)n : ZR_W;
}

/* Bits of zr_bf16. */
ZR_INLINE vh vnarrow(vf x)
{
	return vnarrow_with(x, viset(0x8000));
}

/* Between fp32 and storage of 16 bits. */
ZR_INLINE int vis16(int32_t dtype)
{
	return dtype == ZR_BF16 || dtype == ZR_F16;
}
ZR_INLINE vf vwiden_from(vh h, int32_t dtype)
{
	return dtype == ZR_F16 ? vwiden_f16(h) : vwiden(h);
}
ZR_INLINE vh vnarrow_to(vf x, int32_t dtype)
{
	return dtype == ZR_F16 ? vnarrow_f16(x) : vnarrow(x);
}

/* x as it comes back from storage. */
ZR_INLINE vf vround(vf x, int32_t dtype)
{
	return vis16(dtype) ? vwiden_from(vnarrow_to(x, dtype), dtype) : x;
}

/* ZR_W elements from element i of p, widened to fp32. */
ZR_INLINE vf vload(const void *p, int64_t i, int32_t dtype)
{
	return vis16(dtype) ? vwiden_from(vhload((const uint16_t *)p + i), dtype) :
			      vload_f32((const float *)p + i);
}

/* The first n <= ZR_W of them, 0 in the other lanes; touches no memory past them. With a constant n
 * = ZR_W it is vload: write a body once as an inline function of n, call it for full and for
 * tail. */
ZR_INLINE vf vload_n(const void *p, int64_t i, int32_t dtype, int n)
{
	if (n == ZR_W)
		return vload(p, i, dtype);
	return vis16(dtype) ? vwiden_from(vhload_n((const uint16_t *)p + i, n), dtype) :
			      vload_f32_n((const float *)p + i, n);
}

ZR_INLINE void vstore(void *p, int64_t i, int32_t dtype, vf x)
{
	if (vis16(dtype))
		vhstore((uint16_t *)p + i, vnarrow_to(x, dtype));
	else
		vstore_f32((float *)p + i, x);
}

ZR_INLINE void vstore_n(void *p, int64_t i, int32_t dtype, vf x, int n)
{
	if (n == ZR_W)
		vstore(p, i, dtype, x);
	else if (vis16(dtype))
		vhstore_n((uint16_t *)p + i, vnarrow_to(x, dtype), n);
	else
		vstore_f32_n((float *)p + i, x, n);
}

/* Formula and bits of zr_exp_less_1. */
ZR_INLINE vf vexp_less_1(vf r)
{
	vf q = vfma(vset(ZR_EXP_Q4), r, vset(ZR_EXP_Q3));

	q = vfma(q, r, vset(ZR_EXP_Q2));
	q = vfma(q, r, vset(ZR_EXP_Q1));
	q = vfma(q, r, vset(ZR_EXP_Q0));
	return vfma(q, r * r, r);
}

/* exp, formula and bits of zr_expf. */
ZR_INLINE vf vexp(vf x)
{
	vf c = vmin(vset(ZR_EXP_MAX), x);
	vf n = (c * vset(ZR_EXP_LOG2E) + vset(ZR_ROUND_MAGIC)) - vset(ZR_ROUND_MAGIC);
	vf r = vfma(n, vset(-ZR_EXP_LN2_LO), vfma(n, vset(-ZR_EXP_LN2_HI), c));
	return vzero_where_less(vscale2(vexp_less_1(r) + vset(1), n), x, vset(ZR_EXP_MIN));
}

/* The same of n <= 8 vectors whose elements are not above 0: one does not wait for the other. */
ZR_INLINE void vexp_small(vf *x, int n)
{
	vf whole[8], r[8], q[8];

	UNROLLED(i, 8, n)
	whole[i] = (x[i] * vset(ZR_EXP_LOG2E) + vset(ZR_ROUND_MAGIC)) - vset(ZR_ROUND_MAGIC);
	UNROLLED(i, 8, n)
	r[i] = vfma(whole[i], vset(-ZR_EXP_LN2_HI), x[i]);
	UNROLLED(i, 8, n)
	r[i] = vfma(whole[i], vset(-ZR_EXP_LN2_LO), r[i]);
	UNROLLED(i, 8, n)
	q[i] = vfma(vset(ZR_EXP_Q4), r[i], vset(ZR_EXP_Q3));
	UNROLLED(i, 8, n)
	q[i] = vfma(q[i], r[i], vset(ZR_EXP_Q2));
	UNROLLED(i, 8, n)
	q[i] = vfma(q[i], r[i], vset(ZR_EXP_Q1));
	UNROLLED(i, 8, n)
	q[i] = vfma(q[i], r[i], vset(ZR_EXP_Q0));
	UNROLLED(i, 8, n)
	q[i] = vfma(q[i], r[i] * r[i], r[i]) + vset(1);
	UNROLLED(i, 8, n)
	x[i] = vzero_where_less(vscale2_small(q[i], whole[i]), x[i], vset(ZR_EXP_MIN));
}

/* tanh, formula and bits of zr_tanhf. */
ZR_INLINE vf vtanh(vf x)
{
	vf c = vmax(vset(-ZR_TANH_END), vmin(vset(ZR_TANH_END), x)), y = c + c;
	vf n = (y * vset(ZR_EXP_LOG2E) + vset(ZR_ROUND_MAGIC)) - vset(ZR_ROUND_MAGIC);
	vf r = vfma(n, vset(-ZR_EXP_LN2_LO), vfma(n, vset(-ZR_EXP_LN2_HI), y));
	vf power = vscale2(vset(1), n), t = vfma(power, vexp_less_1(r), power - vset(1));

	return t / (t + vset(2));
}

/* Formulas and bits of zr_gelu, zr_gelu_grad. */
ZR_INLINE vf vgelu_exp(vf x)
{
	return vexp(x * vset((float)-ZR_GELU_2C) * vfma(x * vset((float)ZR_GELU_A), x, vset(1)));
}

ZR_INLINE vf vgelu(vf x)
{
	return x / (vset(1) + vgelu_exp(x));
}

/* Most have one exponential for both. */
ZR_INLINE vf vgelu_and_grad(vf x, vf *grad)
{
	vf c = vmax(vset(-ZR_GELU_END), vmin(vset(ZR_GELU_END), x));
	vf e = vgelu_exp(c), s = vset(1) / (vset(1) + e);
	vf du = vset((float)ZR_GELU_2C) * vfma(c * vset((float)(3 * ZR_GELU_A)), c, vset(1));
	*grad = vfma(c * du, e * s * s, s);
	if (!vall_equal(c, x))
		return vgelu(x);
	return x / (vset(1) + e);
}

/* Formulas and bits of zr_silu, zr_silu_grad. */
ZR_INLINE vf vsilu(vf x)
{
	return x / (vset(1) + vexp(vset(-1) * x));
}

ZR_INLINE vf vsilu_and_grad(vf x, vf *grad)
{
	vf c = vmax(vset(-ZR_SILU_END), vmin(vset(ZR_SILU_END), x));
	vf e = vexp(vset(-1) * c), s = vset(1) / (vset(1) + e);
	*grad = vfma(c * s, e * s, s);
	if (!vall_equal(c, x))
		return vsilu(x);
	return x / (vset(1) + e);
}

/* Formulas and bits of zr_bell, zr_cdf_limit, zr_cdf, zr_gelu_erf, zr_gelu_erf_grad. */
ZR_INLINE vf vbell(vf t)
{
	vf square = t * t, lost = vfma(t, t, vset(-1) * square), e = vexp(square * vset(-0.5f));
	return vfma(e, lost * vset(-0.5f), e);
}

ZR_INLINE vf vcdf_limit(vf x)
{
	return vmax(vset(-ZR_CDF_END), vmin(vset(ZR_CDF_END), x));
}

ZR_INLINE vf vcdf(vf x, vf bell)
{
	vf t = vabs(x), w = vset(1) / (t + vset(3)), v = (t - vset(3)) * w;
	vf f = vfma(vset(ZR_CDF_F9), v, vset(ZR_CDF_F8));

	f = vfma(f, v, vset(ZR_CDF_F7));
	f = vfma(f, v, vset(ZR_CDF_F6));
	f = vfma(f, v, vset(ZR_CDF_F5));
	f = vfma(f, v, vset(ZR_CDF_F4));
	f = vfma(f, v, vset(ZR_CDF_F3));
	f = vfma(f, v, vset(ZR_CDF_F2));
	f = vfma(f, v, vset(ZR_CDF_F1));
	f = vfma(f, v, vset(ZR_CDF_F0));
	f = f * w * bell;
	return vselect_less(x, vset(0), f, vset(1) - f);
}

ZR_INLINE vf vgelu_erf(vf x)
{
	vf c = vcdf_limit(x);
	return x * vcdf(c, vbell(c));
}

ZR_INLINE vf vgelu_erf_and_grad(vf x, vf *grad)
{
	vf c = vcdf_limit(x), bell = vbell(c), cdf = vcdf(c, bell);
	*grad = vfma(c * vset((float)ZR_BELL_SCALE), bell, cdf);
	return x * cdf;
}

ZR_INLINE vf vactivation(vf x, int32_t activation)
{
	if (activation == ZR_ACT_GELU_TANH)
		return vgelu(x);
	return activation == ZR_ACT_GELU_ERF ? vgelu_erf(x) : vsilu(x);
}

ZR_INLINE vf vactivation_and_grad(vf x, int32_t activation, vf *grad)
{
	if (activation == ZR_ACT_GELU_TANH)
		return vgelu_and_grad(x, grad);
	return activation == ZR_ACT_GELU_ERF ? vgelu_erf_and_grad(x, grad) :
					       vsilu_and_grad(x, grad);
}

/* Words of elements [4*block, 4*block + 4*ZR_W) of the stream, in order: vector k holds elements
 * k*ZR_W .. of them. */
ZR_INLINE void vrng(const struct zr_rng *g, uint64_t block, vi out[4])
{
	uint32_t k0 = zr_rng_key0(g), k1 = zr_rng_key1(g);
	vi c0 = viota((uint32_t)block), c1 = viset((uint32_t)(block >> 32));
	vi c2 = viset(g->slot), c3 = viset(g->site), a, b;

	/* a lane's counter carries into the high word */
	if ((uint32_t)block > UINT32_MAX - (ZR_W - 1))
		c1 = vicarry(c1, c0, (uint32_t)block);
	for (int round = 0; round < 10; round++) {
		vi hi0, lo0, hi1, lo1;
		vimul_wide(c0, ZR_PHILOX_M0, &hi0, &lo0);
		vimul_wide(c2, ZR_PHILOX_M1, &hi1, &lo1);
		a = vixor(vixor(hi1, c1), viset(k0));
		b = vixor(vixor(hi0, c3), viset(k1));
		c0 = a;
		c1 = lo1;
		c2 = b;
		c3 = lo0;
		k0 += ZR_PHILOX_W0;
		k1 += ZR_PHILOX_W1;
	}

	vi_interleave4(c0, c1, c2, c3, out);
}

/* x where word >= below, times scale; 0 elsewhere: dropout (see zr_drop_below). */
ZR_INLINE vf vdrop(vf x, vi word, uint32_t below, float scale)
{
	return vzero_where_word_below(x * vset(scale), word, below);
}

#endif
