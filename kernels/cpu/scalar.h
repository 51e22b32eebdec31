/* SPDX-License-Identifier: Apache-2.0
 *
 * scalar.h - what the scalar kernels are written in: the arithmetic type zr_real, typed loads and
 * stores, our own exp, log, cos and GELU (libm's choose their bits by CPU), Philox4x32-10.
 *
 * zr_real is float. With -DZR_REAL=double the same source becomes the oracle for finite differences
 * of the tests: storage type ZR_F64 is allowed, and every `float *` of an operation (gradients,
 * statistics, masters) points at doubles; read it through zr_reals().
 */
#ifndef ZEROTH_KERNELS_CPU_SCALAR_H
#define ZEROTH_KERNELS_CPU_SCALAR_H

#include <kernels.h>

#include <math.h>
#include <string.h>

#ifndef ZR_REAL
#define ZR_REAL float
#endif
typedef ZR_REAL zr_real;

#define ZR_CAT_(a, b) a##b
#define ZR_CAT(a, b) ZR_CAT_(a, b)
#define ZR_REAL_IS_float 0
#define ZR_REAL_IS_double 1
#define ZR_REAL_IS_F64 ZR_CAT(ZR_REAL_IS_, ZR_REAL)

/* Name of a scalar kernel: zr_<op>_scalar, or zr_<op>_f64 in the double build. */
#if ZR_REAL_IS_F64
#define ZR_SCALAR(op) ZR_CAT(zr_##op, _f64)
#else
#define ZR_SCALAR(op) ZR_CAT(zr_##op, _scalar)
#endif

#define ZR_INLINE static inline __attribute__((always_inline, unused))

/* ---- storage ---------------------------------------------------------------------------------- */

ZR_INLINE zr_real *zr_reals(const float *p)
{
	return (zr_real *)(uintptr_t)p;
}

ZR_INLINE uint32_t zr_bits(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

ZR_INLINE float zr_from_bits(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

/* fp32 to bf16, half away from zero: adding half of the last kept bit to the magnitude carries into
 * the exponent as it should, infinity stays; NaN is kept by hand. */
ZR_INLINE uint16_t zr_bf16(float x)
{
	uint32_t u = zr_bits(x);
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)((u | 0x00400000u) >> 16);
	return (uint16_t)((u + 0x8000u) >> 16);
}

ZR_INLINE float zr_from_bf16(uint16_t h)
{
	return zr_from_bits((uint32_t)h << 16);
}

/* Element i of storage p. */
ZR_INLINE zr_real zr_get(const void *p, int64_t i, int32_t dtype)
{
#if ZR_REAL_IS_F64
	if (dtype == ZR_F64)
		return ((const double *)p)[i];
#endif
	return dtype == ZR_BF16 ? (zr_real)zr_from_bf16(((const uint16_t *)p)[i]) : (zr_real)((const float *)p)[i];
}

ZR_INLINE void zr_put(void *p, int64_t i, int32_t dtype, zr_real x)
{
#if ZR_REAL_IS_F64
	if (dtype == ZR_F64) {
		((double *)p)[i] = x;
		return;
	}
#endif
	if (dtype == ZR_BF16)
		((uint16_t *)p)[i] = zr_bf16((float)x);
	else
		((float *)p)[i] = (float)x;
}

/* Bytes of an element. */
ZR_INLINE int64_t zr_size(int32_t dtype)
{
	return dtype == ZR_BF16 ? 2 : dtype == ZR_F64 ? 8 : 4;
}

/* Address of element i. */
ZR_INLINE void *zr_at(const void *p, int64_t i, int32_t dtype)
{
	return (char *)(uintptr_t)p + i * zr_size(dtype);
}

/* ---- functions -------------------------------------------------------------------------------- */

/* Coefficients of the fp32 exponential, shared with simd.h: exp(r) = 1 + r + r^2 q(r), minimax of
 * relative error 3e-9 for |r| <= ln(2)/2. Below ZR_EXP_MIN the result is 0, never a subnormal. */
#define ZR_EXP_LOG2E 0x1.715476p+0f
#define ZR_EXP_LN2_HI 0x1.62e4p-1f
#define ZR_EXP_LN2_LO 0x1.7f7d1cp-20f
#define ZR_EXP_MIN (-87.33f)
#define ZR_EXP_MAX 89.0f /* infinity from 88.73 on */
#define ZR_EXP_Q0 0x1.fffffcp-2f
#define ZR_EXP_Q1 0x1.55549p-3f
#define ZR_EXP_Q2 0x1.5558f8p-5f
#define ZR_EXP_Q3 0x1.123b02p-7f
#define ZR_EXP_Q4 0x1.6a2256p-10f
#define ZR_ROUND_MAGIC 0x1.8p+23f /* x + magic - magic rounds |x| < 2^22 to an integer */

ZR_INLINE float zr_expf(float x)
{
	float big, n, r, q;
	int32_t e;

	if (x < ZR_EXP_MIN)
		return 0;
	if (x > ZR_EXP_MAX)
		x = ZR_EXP_MAX;
	big = x * ZR_EXP_LOG2E + ZR_ROUND_MAGIC;
	n = big - ZR_ROUND_MAGIC;
	e = (int32_t)(zr_bits(big) - zr_bits(ZR_ROUND_MAGIC));
	r = fmaf(n, -ZR_EXP_LN2_HI, x);
	r = fmaf(n, -ZR_EXP_LN2_LO, r);
	q = fmaf(ZR_EXP_Q4, r, ZR_EXP_Q3);
	q = fmaf(q, r, ZR_EXP_Q2);
	q = fmaf(q, r, ZR_EXP_Q1);
	q = fmaf(q, r, ZR_EXP_Q0);
	q = fmaf(q, r * r, r) + 1.0f;
	/* 2^e in two factors: e reaches 128 */
	return q * zr_from_bits((uint32_t)((e >> 1) + 127) << 23) *
	       zr_from_bits((uint32_t)(e - (e >> 1) + 127) << 23);
}

/* Natural logarithm of a positive normal number; relative error < 1e-14. No fma: the bits are the
 * same wherever it is compiled. */
ZR_INLINE double zr_logd(double x)
{
	uint64_t u;
	int64_t e;
	double m, f, s, p;

	memcpy(&u, &x, sizeof u);
	e = (int64_t)((u - 0x3fe6a09e667f3bcdu) >> 52 << 52); /* x / 2^k lands in [sqrt(1/2), sqrt(2)) */
	u -= (uint64_t)e;
	memcpy(&m, &u, sizeof m);
	f = (m - 1) / (m + 1);
	s = f * f;
	p = 1.0 / 17;
	p = p * s + 1.0 / 15;
	p = p * s + 1.0 / 13;
	p = p * s + 1.0 / 11;
	p = p * s + 1.0 / 9;
	p = p * s + 1.0 / 7;
	p = p * s + 1.0 / 5;
	p = p * s + 1.0 / 3;
	return (double)(int32_t)(e >> 52) * 0x1.62e42fefa39efp-1 + (2 * f + 2 * f * (s * p));
}

/* cos(2 pi w / 2^32), error < 1e-13: cos is sin a quarter turn later, folded in integers to
 * [-1/4, 1/4] of a turn. Branch-free, no fma. */
ZR_INLINE double zr_cos_turn(uint32_t w)
{
	int32_t t = (int32_t)(w + 0x40000000u);
	int32_t far = (int32_t)((uint32_t)t ^ ((uint32_t)t << 1)) >> 31; /* -1 where |t| passes a quarter */
	double x, s, p;

	t = (int32_t)(((uint32_t)t ^ (uint32_t)far) + ((uint32_t)far & 0x80000001u));
	x = (double)t * 0x1.921fb54442d18p-30; /* pi / 2^31 */
	s = x * x;
	p = 1.0 / 355687428096000.0;
	p = p * s - 1.0 / 1307674368000.0;
	p = p * s + 1.0 / 6227020800.0;
	p = p * s - 1.0 / 39916800.0;
	p = p * s + 1.0 / 362880.0;
	p = p * s - 1.0 / 5040.0;
	p = p * s + 1.0 / 120.0;
	p = p * s - 1.0 / 6.0;
	return x + x * (s * p);
}

#if ZR_REAL_IS_F64
/* The test oracle may take libm's. */
ZR_INLINE zr_real zr_exp(zr_real x) { return exp(x); }
ZR_INLINE zr_real zr_ln(zr_real x) { return log(x); }
ZR_INLINE zr_real zr_sqrt(zr_real x) { return sqrt(x); }
ZR_INLINE zr_real zr_fma(zr_real a, zr_real b, zr_real c) { return fma(a, b, c); }
#else
ZR_INLINE zr_real zr_exp(zr_real x) { return zr_expf(x); }
ZR_INLINE zr_real zr_ln(zr_real x) { return (float)zr_logd(x); } /* positive normal x */
ZR_INLINE zr_real zr_sqrt(zr_real x) { return sqrtf(x); }
ZR_INLINE zr_real zr_fma(zr_real a, zr_real b, zr_real c) { return fmaf(a, b, c); }
#endif

/* GELU, tanh form: x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3). Since (1 + tanh(u)) / 2 =
 * 1 / (1 + exp(-2u)), one exponential and no cancellation in the negative tail. */
#define ZR_GELU_2C 1.5957691216057308 /* 2 sqrt(2/pi) */
#define ZR_GELU_A 0.044715
#define ZR_GELU_END 10 /* beyond it the derivative is 0 or 1 to fp32's last bit */

/* exp(-2u) */
ZR_INLINE zr_real zr_gelu_exp(zr_real x)
{
	return zr_exp(x * (zr_real)-ZR_GELU_2C * zr_fma(x * (zr_real)ZR_GELU_A, x, 1));
}

ZR_INLINE zr_real zr_gelu(zr_real x)
{
	return x / (1 + zr_gelu_exp(x));
}

/* d gelu / dx = s + x s (1 - s) 2u', s = 1 / (1 + e), 1 - s = e s; x is limited so that e stays
 * finite, NaN stays NaN. */
ZR_INLINE zr_real zr_gelu_grad(zr_real x)
{
	zr_real e, s, du;

	x = x > ZR_GELU_END ? ZR_GELU_END : x < -ZR_GELU_END ? -ZR_GELU_END : x;
	e = zr_gelu_exp(x);
	s = 1 / (1 + e);
	du = (zr_real)ZR_GELU_2C * zr_fma(x * (zr_real)(3 * ZR_GELU_A), x, 1);
	return zr_fma(x * du, e * s * s, s);
}

/* ---- random words ----------------------------------------------------------------------------- */

#define ZR_PHILOX_M0 0xD2511F53u
#define ZR_PHILOX_M1 0xCD9E8D57u
#define ZR_PHILOX_W0 0x9E3779B9u
#define ZR_PHILOX_W1 0xBB67AE85u

/* c, a counter of four words, becomes the block of four random words of key (k0, k1). */
ZR_INLINE void zr_philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)ZR_PHILOX_M0 * c[0], b = (uint64_t)ZR_PHILOX_M1 * c[2];
		c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
		c[1] = (uint32_t)b;
		c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
		c[3] = (uint32_t)a;
		k0 += ZR_PHILOX_W0;
		k1 += ZR_PHILOX_W1;
	}
}

ZR_INLINE uint32_t zr_rng_key0(const struct zr_rng *g) { return (uint32_t)g->seed ^ (uint32_t)g->step; }
ZR_INLINE uint32_t zr_rng_key1(const struct zr_rng *g) { return (uint32_t)(g->seed >> 32) ^ (uint32_t)(g->step >> 32); }

/* Words of elements [4*block, 4*block + 4) of the stream. */
ZR_INLINE void zr_rng_block(const struct zr_rng *g, uint64_t block, uint32_t w[4])
{
	w[0] = (uint32_t)block;
	w[1] = (uint32_t)(block >> 32);
	w[2] = g->slot;
	w[3] = g->site;
	zr_philox(w, zr_rng_key0(g), zr_rng_key1(g));
}

/* Word of one element. */
ZR_INLINE uint32_t zr_rng_word(const struct zr_rng *g, uint64_t element)
{
	uint32_t w[4];
	zr_rng_block(g, element / 4, w);
	return w[element % 4];
}

/* N(0,1) from two words: Box-Muller, the radius from a in (0, 1), the angle from b. |result| < 6.8. */
ZR_INLINE double zr_normal(uint32_t a, uint32_t b)
{
	return sqrt(-2 * zr_logd(((double)a + 0.5) * 0x1p-32)) * zr_cos_turn(b);
}

/* Dropout with probability p in [0, 1): an element is kept if its word >= zr_drop_below(p), and then
 * multiplied by zr_drop_scale(p). */
ZR_INLINE uint32_t zr_drop_below(float p) { return (uint32_t)((double)p * 4294967296.0); }
ZR_INLINE zr_real zr_drop_scale(float p) { return (zr_real)(1.0 / (1.0 - (double)p)); }

#endif
