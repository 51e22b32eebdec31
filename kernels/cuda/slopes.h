/* SPDX-License-Identifier: Apache-2.0
 *
 * slopes.h - an activation and its derivative of one element, with the bits of cpu/elementary.h in
 * fewer instructions: the exponential and the reciprocal are computed once for both, of x limited
 * to where they need no special cases.
 */
#ifndef ZEROTH_KERNELS_CUDA_SLOPES_H
#define ZEROTH_KERNELS_CUDA_SLOPES_H

#include "kernel.h"

struct slope {
	float y, dy;
};

/* x / d of s = zr_inverse(d), |x| < 2^100 and the quotient no subnormal unless d is 2. This too is
 * the compiler's division without its branch; -0 stays -0. */
ZR_DEVICE float quotient(float x, float d, float s)
{
	const float q = x * s;
	return fmaf(-s, fmaf(q, d, -x), q);
}

/* zr_expf(x), |x| <= 87.3 or NaN: it needs no limits, and 2^e is one factor. */
ZR_DEVICE float exp_within(float x)
{
	const float big = x * ZR_EXP_LOG2E + ZR_ROUND_MAGIC, n = big - ZR_ROUND_MAGIC;
	const float r = fmaf(n, -ZR_EXP_LN2_LO, fmaf(n, -ZR_EXP_LN2_HI, x));
	return (zr_exp_less_1(r) + 1) *
	       zr_from_bits((zr_bits(big) - zr_bits(ZR_ROUND_MAGIC) + 127) << 23);
}

ZR_DEVICE float limited(float x, float end)
{
	x = x > end ? end : x;
	return x < -end ? -end : x;
}

/* GELU's tanh form and SiLU are y = x s, s = 1 / (1 + e). Their derivatives are those of x limited;
 * y is that too, and not right beyond the limits. */
template <int32_t ACTIVATION> ZR_DEVICE slope value_and_slope(float x)
{
	float c, e, s, times;

	if constexpr (ACTIVATION == ZR_ACT_GELU_ERF) {
		c = zr_cdf_limit(x);
		e = zr_bell(c);
		s = zr_cdf(c, e);
		return slope{ x * s, fmaf(c * (float)ZR_BELL_SCALE, e, s) };
	}
	if constexpr (ACTIVATION == ZR_ACT_GELU_TANH) {
		c = limited(x, ZR_GELU_END);
		e = exp_within(c * (float)-ZR_GELU_2C * fmaf(c * (float)ZR_GELU_A, c, 1));
		s = zr_inverse(1 + e);
		times = c * ((float)ZR_GELU_2C * fmaf(c * (float)(3 * ZR_GELU_A), c, 1));
	} else {
		c = limited(x, ZR_SILU_END);
		e = exp_within(-c);
		s = zr_inverse(1 + e);
		times = c * s;
	}
	return slope{ quotient(c, 1 + e, s),
		      fmaf(times, ACTIVATION == ZR_ACT_SILU ? e * s : e * s * s, s) };
}

/* y beyond the limits. Above 1 + e is 1. Below it is e, which is up to infinity: it is divided by
 * less first. */
template <int32_t ACTIVATION> ZR_DEVICE float beyond(float x)
{
	const float e = ACTIVATION == ZR_ACT_SILU ? zr_exp(-x) : zr_gelu_exp(x), d = e * 0x1p-64f;
	const float y = isinf(e) ? x * 0 : quotient(x, d, zr_inverse(d)) * 0x1p-64f;
	return x > 0 ? x : y;
}

/* Of four elements, y in y and the derivative in dy. */
template <int32_t ACTIVATION> ZR_DEVICE void slopes_of(const zr_quad &x, zr_quad *y, zr_quad *dy)
{
	const float end = ACTIVATION == ZR_ACT_SILU ? ZR_SILU_END : ZR_GELU_END;
	int far = 0;

	for (int k = 0; k < 4; k++) {
		const slope s = value_and_slope<ACTIVATION>(x.x[k]);
		y->x[k] = s.y;
		dy->x[k] = s.dy;
		far |= ACTIVATION != ZR_ACT_GELU_ERF && fabsf(x.x[k]) > end;
	}
	for (int k = 0; k < 4 && far; k++)
		if (fabsf(x.x[k]) > end)
			y->x[k] = beyond<ACTIVATION>(x.x[k]);
}

/* fn<T, ACTIVATION>(...) of one of the three. */
#define ZR_BY_ACTIVATION(activation, fn, T, ...)                                                   \
	((activation) == ZR_ACT_GELU_TANH ? fn<T, ZR_ACT_GELU_TANH>(__VA_ARGS__) :                 \
	 (activation) == ZR_ACT_GELU_ERF  ? fn<T, ZR_ACT_GELU_ERF>(__VA_ARGS__) :                  \
					    fn<T, ZR_ACT_SILU>(__VA_ARGS__))

#endif
