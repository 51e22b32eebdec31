/* SPDX-License-Identifier: Apache-2.0
 *
 * elementary.h - our own exp, tanh, log, cos, sin, GELU in both forms and SiLU: the results of
 * libm depend on the CPU (invariant I1). Included by scalar.h only.
 */
#ifndef ZEROTH_KERNELS_CPU_ELEMENTARY_H
#define ZEROTH_KERNELS_CPU_ELEMENTARY_H

/* Coefficients of the fp32 exponential, shared with simd.h: exp(r) = 1 + r + r^2 q(r), minimax of
 * relative error 3e-9 for |r| <= ln(2)/2. Below ZR_EXP_MIN the result is 0, never a subnormal. */
#define ZR_EXP_LOG2E   0x1.715476p+0f
#define ZR_EXP_LN2_HI  0x1.62e4p-1f
#define ZR_EXP_LN2_LO  0x1.7f7d1cp-20f
#define ZR_EXP_MIN     (-87.33f)
#define ZR_EXP_MAX     89.0f /* infinity from 88.73 on */
#define ZR_EXP_Q0      0x1.fffffcp-2f
#define ZR_EXP_Q1      0x1.55549p-3f
#define ZR_EXP_Q2      0x1.5558f8p-5f
#define ZR_EXP_Q3      0x1.123b02p-7f
#define ZR_EXP_Q4      0x1.6a2256p-10f
#define ZR_ROUND_MAGIC 0x1.8p+23f /* x + magic - magic rounds |x| < 2^22 to an integer */

/* exp(r) - 1 for |r| <= ln(2)/2. */
ZR_INLINE float zr_exp_less_1(float r)
{
	float q = fmaf(ZR_EXP_Q4, r, ZR_EXP_Q3);

	q = fmaf(q, r, ZR_EXP_Q2);
	q = fmaf(q, r, ZR_EXP_Q1);
	q = fmaf(q, r, ZR_EXP_Q0);
	return fmaf(q, r * r, r);
}

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
	q = zr_exp_less_1(r) + 1.0f;
	/* 2^e in two factors: e reaches 128 */
	return q * zr_from_bits((uint32_t)((e >> 1) + 127) << 23) *
	       zr_from_bits((uint32_t)(e - (e >> 1) + 127) << 23);
}

#define ZR_TANH_END 10.0f /* beyond it tanh is 1 or -1 to fp32's last bit */

/* t / (t + 2) of t = exp(2x) - 1, which is 2^n (exp(r) - 1) + (2^n - 1): relative error < 3e-7. NaN
 * stays NaN. */
ZR_INLINE float zr_tanhf(float x)
{
	float limited, y, big, n, r, power, t;

	if (x > ZR_TANH_END)
		limited = ZR_TANH_END;
	else if (x < -ZR_TANH_END)
		limited = -ZR_TANH_END;
	else
		limited = x;

	y = 2 * limited;
	big = y * ZR_EXP_LOG2E + ZR_ROUND_MAGIC;
	n = big - ZR_ROUND_MAGIC;
	r = fmaf(n, -ZR_EXP_LN2_HI, y);
	r = fmaf(n, -ZR_EXP_LN2_LO, r);
	power = zr_from_bits((zr_bits(big) - zr_bits(ZR_ROUND_MAGIC) + 127) << 23);
	t = fmaf(power, zr_exp_less_1(r), power - 1);
	return t / (t + 2);
}

/* The series of the two functions below, of a double or of a vector of them, as double_simd.h has:
 * first is the coefficient of the highest power, in that type. */
#define ZR_LOG_SERIES(first, s)                                                                    \
	((((((((first) * (s) + 1.0 / 15) * (s) + 1.0 / 13) * (s) + 1.0 / 11) * (s) + 1.0 / 9) *    \
		   (s) +                                                                           \
	   1.0 / 7) *                                                                              \
		  (s) +                                                                            \
	  1.0 / 5) *                                                                               \
		 (s) +                                                                             \
	 1.0 / 3)
#define ZR_SINE_SERIES(first, s)                                                                   \
	((((((((first) * (s)-1.0 / 1307674368000.0) * (s) + 1.0 / 6227020800.0) * (s)-1.0 /        \
	     39916800.0) *                                                                         \
		    (s) +                                                                          \
	    1.0 / 362880.0) *                                                                      \
	   (s)-1.0 / 5040.0) *                                                                     \
		  (s) +                                                                            \
	  1.0 / 120.0) *                                                                           \
	 (s)-1.0 / 6.0)

/* Natural logarithm of a positive normal number; relative error < 1e-14. No fma: the bits are the
 * same wherever it is compiled. */
ZR_INLINE double zr_logd(double x)
{
	uint64_t u;
	int64_t e;
	double m, f, s, p;

	memcpy(&u, &x, sizeof u);
	/* x / 2^k lands in [sqrt(1/2), sqrt(2)) */
	e = (int64_t)((u - 0x3fe6a09e667f3bcdu) >> 52 << 52);
	u -= (uint64_t)e;
	memcpy(&m, &u, sizeof m);
	f = (m - 1) / (m + 1);
	s = f * f;
	p = ZR_LOG_SERIES(1.0 / 17, s);
	return (double)(int32_t)(e >> 52) * 0x1.62e42fefa39efp-1 + (2 * f + 2 * f * (s * p));
}

/* cos(2 pi w / 2^32), error < 1e-13: cos is sin a quarter turn later; integer arithmetic reduces
 * the angle to [-1/4, 1/4] of a turn. Branch-free, no fma. */
ZR_INLINE double zr_cos_turn(uint32_t w)
{
	int32_t t = (int32_t)(w + 0x40000000u);
	/* -1 where |t| passes a quarter */
	int32_t far = (int32_t)((uint32_t)t ^ ((uint32_t)t << 1)) >> 31;
	double x, s, p;

	t = (int32_t)(((uint32_t)t ^ (uint32_t)far) + ((uint32_t)far & 0x80000001u));
	x = (double)t * 0x1.921fb54442d18p-30; /* pi / 2^31 */
	s = x * x;
	p = ZR_SINE_SERIES(1.0 / 355687428096000.0, s);
	return x + x * (s * p);
}

/* Angle a, 0 <= a < 2^26, in units of 2^-32 of a turn: zr_cos_turn() of it is cos a to 1e-9. A
 * quarter less gives the sine. */
ZR_INLINE uint32_t zr_turn(float a)
{
	return (uint32_t)(int64_t)((double)a * 0x1.45f306dc9c883p+29 + 0.5); /* 2^32 / (2 pi) */
}

#if ZR_REAL_IS_F64
/* The test oracle may use libm. */
ZR_INLINE zr_real zr_cos(float a)
{
	return cos((double)a);
}
ZR_INLINE zr_real zr_sin(float a)
{
	return sin((double)a);
}
ZR_INLINE zr_real zr_exp(zr_real x)
{
	return exp(x);
}
ZR_INLINE zr_real zr_tanh(zr_real x)
{
	return tanh(x);
}
ZR_INLINE zr_real zr_ln(zr_real x)
{
	return log(x);
}
ZR_INLINE zr_real zr_sqrt(zr_real x)
{
	return sqrt(x);
}
ZR_INLINE zr_real zr_fma(zr_real a, zr_real b, zr_real c)
{
	return fma(a, b, c);
}
#else
ZR_INLINE zr_real zr_cos(float a)
{
	return (float)zr_cos_turn(zr_turn(a));
}
ZR_INLINE zr_real zr_sin(float a)
{
	return (float)zr_cos_turn(zr_turn(a) - 0x40000000u);
}
ZR_INLINE zr_real zr_exp(zr_real x)
{
	return zr_expf(x);
}
ZR_INLINE zr_real zr_tanh(zr_real x)
{
	return zr_tanhf(x);
}
/* of a positive normal number; a NaN stays */
ZR_INLINE zr_real zr_ln(zr_real x)
{
	return x == x ? (float)zr_logd(x) : x;
}
ZR_INLINE zr_real zr_sqrt(zr_real x)
{
	return sqrtf(x);
}
ZR_INLINE zr_real zr_fma(zr_real a, zr_real b, zr_real c)
{
	return fmaf(a, b, c);
}
#endif

/* x within [-end, end]; NaN stays NaN. */
ZR_INLINE zr_real zr_limit(zr_real x, zr_real end)
{
	zr_real limited;

	if (x > end)
		limited = end;
	else if (x < -end)
		limited = -end;
	else
		limited = x;
	return limited;
}

/* GELU, tanh form: x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3). Since (1 + tanh(u)) / 2 =
 * 1 / (1 + exp(-2u)), one exponential and no cancellation in the negative tail. */
#define ZR_GELU_2C  1.5957691216057308 /* 2 sqrt(2/pi) */
#define ZR_GELU_A   0.044715
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

	x = zr_limit(x, ZR_GELU_END);
	e = zr_gelu_exp(x);
	s = 1 / (1 + e);
	du = (zr_real)ZR_GELU_2C * zr_fma(x * (zr_real)(3 * ZR_GELU_A), x, 1);
	return zr_fma(x * du, e * s * s, s);
}

#ifndef ZR_RECIPROCAL /* of numbers from 1 to 2^126 */
#define ZR_RECIPROCAL(d) (1 / (d))
#endif

/* The distribution function Phi of the normal distribution. For x <= 0 it is
 *   exp(-x^2/2) F(v) / (t + 3),  t = |x|, v = (t - 3) / (t + 3),
 * F a minimax polynomial of relative error 2e-8 for t <= ZR_CDF_END; for x > 0 it is 1 - Phi(-x).
 * Relative error < 8 * 2^-24; 0 where it would be subnormal. */
#define ZR_CDF_END    14
#define ZR_CDF_F0     0x1.754a76p-1f
#define ZR_CDF_F1     (-0x1.04c73p-1f)
#define ZR_CDF_F2     0x1.d71390p-3f
#define ZR_CDF_F3     (-0x1.832408p-5f)
#define ZR_CDF_F4     (-0x1.56dd3cp-7f)
#define ZR_CDF_F5     0x1.c6b43cp-8f
#define ZR_CDF_F6     0x1.0ba22ap-10f
#define ZR_CDF_F7     (-0x1.f03a30p-11f)
#define ZR_CDF_F8     (-0x1.b5f2dap-13f)
#define ZR_CDF_F9     0x1.9b38dap-15f
#define ZR_BELL_SCALE 0.3989422804014327 /* 1 / sqrt(2 pi) */

/* exp(-t^2/2) */
ZR_INLINE zr_real zr_bell(zr_real t)
{
	zr_real square = t * t, lost = zr_fma(t, t, -square), e = zr_exp(square * (zr_real)-0.5);

	return zr_fma(e, lost * (zr_real)-0.5, e);
}

/* x limited to where its tails are not constant yet; NaN stays NaN */
ZR_INLINE zr_real zr_cdf_limit(zr_real x)
{
	return zr_limit(x, ZR_CDF_END);
}

/* Phi(x) of a limited x, bell: zr_bell(x) */
ZR_INLINE zr_real zr_cdf(zr_real x, zr_real bell)
{
#if ZR_REAL_IS_F64
	(void)bell;
	return erfc(x * -0.7071067811865476) / 2;
#else
	float t = fabsf(x), w = ZR_RECIPROCAL(t + 3), v = (t - 3) * w, f;

	f = fmaf(ZR_CDF_F9, v, ZR_CDF_F8);
	f = fmaf(f, v, ZR_CDF_F7);
	f = fmaf(f, v, ZR_CDF_F6);
	f = fmaf(f, v, ZR_CDF_F5);
	f = fmaf(f, v, ZR_CDF_F4);
	f = fmaf(f, v, ZR_CDF_F3);
	f = fmaf(f, v, ZR_CDF_F2);
	f = fmaf(f, v, ZR_CDF_F1);
	f = fmaf(f, v, ZR_CDF_F0);
	f = f * w * bell;
	return x < 0 ? f : 1 - f;
#endif
}

/* GELU, x Phi(x), and its derivative, Phi(x) + x Phi'(x). */
ZR_INLINE zr_real zr_gelu_erf(zr_real x)
{
	zr_real c = zr_cdf_limit(x);

	return x * zr_cdf(c, zr_bell(c));
}

ZR_INLINE zr_real zr_gelu_erf_grad(zr_real x)
{
	zr_real c = zr_cdf_limit(x), bell = zr_bell(c);

	return zr_fma(c * (zr_real)ZR_BELL_SCALE, bell, zr_cdf(c, bell));
}

#define ZR_SILU_END 80 /* exp of it is finite, and the derivative beyond it 0 or 1 */

ZR_INLINE zr_real zr_silu(zr_real x)
{
	return x / (1 + zr_exp(-x));
}

/* d silu / dx = s + x s (1 - s), s = 1 / (1 + e), 1 - s = e s; NaN stays NaN. */
ZR_INLINE zr_real zr_silu_grad(zr_real x)
{
	zr_real e, s;

	x = zr_limit(x, ZR_SILU_END);
	e = zr_exp(-x);
	s = 1 / (1 + e);
	return zr_fma(x * s, e * s, s);
}

/* ---- activations of <zeroth/device.h> -------------------------------------------- */

/* the one that 0 stands for in its place */
ZR_INLINE int32_t zr_gelu_of(int32_t activation)
{
	return activation ? activation : ZR_ACT_GELU_TANH;
}

ZR_INLINE zr_real zr_activation(zr_real x, int32_t activation)
{
	if (activation == ZR_ACT_GELU_TANH)
		return zr_gelu(x);
	return activation == ZR_ACT_GELU_ERF ? zr_gelu_erf(x) : zr_silu(x);
}

ZR_INLINE zr_real zr_activation_grad(zr_real x, int32_t activation)
{
	if (activation == ZR_ACT_GELU_TANH)
		return zr_gelu_grad(x);
	return activation == ZR_ACT_GELU_ERF ? zr_gelu_erf_grad(x) : zr_silu_grad(x);
}

/* Attention's scores under a soft cap, and the derivative as a function of the capped score. */
ZR_INLINE zr_real zr_softcap(zr_real s, zr_real cap)
{
	return cap * zr_tanh(s * (1 / cap));
}

ZR_INLINE zr_real zr_softcap_slope(zr_real s, zr_real cap)
{
	zr_real t = s * (1 / cap);
	return zr_fma(-t, t, 1);
}

#endif
