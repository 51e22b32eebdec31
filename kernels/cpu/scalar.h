/* SPDX-License-Identifier: Apache-2.0
 *
 * scalar.h - what the scalar kernels are written in: the arithmetic type zr_real, typed loads and
 * stores, and through it our own functions (elementary.h) and random words (rng.h).
 *
 * zr_real is float. With -DZR_REAL=double the same source becomes the oracle for finite differences
 * of the tests: storage type ZR_F64 is allowed, and every `float *` of an operation (gradients,
 * statistics, masters) points at doubles; read it through zr_reals().
 *
 * The GPU kernels include this header as well: it is C11 and C++20, and ZR_INLINE may be defined
 * before.
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

#define ZR_CAT_(a, b)     a##b
#define ZR_CAT(a, b)      ZR_CAT_(a, b)
#define ZR_REAL_IS_float  0
#define ZR_REAL_IS_double 1
#define ZR_REAL_IS_F64    ZR_CAT(ZR_REAL_IS_, ZR_REAL)

/* Name of a scalar kernel: zr_<op>_scalar, or zr_<op>_f64 in the double build. And zr_real as a
 * dtype. */
#if ZR_REAL_IS_F64
#define ZR_SCALAR(op) ZR_CAT(zr_##op, _f64)
#define ZR_REAL_DTYPE ZR_F64
#else
#define ZR_SCALAR(op) ZR_CAT(zr_##op, _scalar)
#define ZR_REAL_DTYPE ZR_F32
#endif

#ifndef ZR_INLINE
#define ZR_INLINE static inline __attribute__((always_inline, unused))
#endif

/* ---- storage --------------------------------------------------------------------- */

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

/* fp32 to bf16: `add` < 2^16 to the bits, then the upper half. It adds to the magnitude and carries
 * into the exponent as it should, infinity stays; NaN is kept by hand. */
ZR_INLINE uint16_t zr_bf16_with(float x, uint32_t add)
{
	uint32_t u = zr_bits(x);
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)((u | 0x00400000u) >> 16);
	return (uint16_t)((u + add) >> 16);
}

/* half away from zero: half of the last kept bit */
ZR_INLINE uint16_t zr_bf16(float x)
{
	return zr_bf16_with(x, 0x8000);
}

ZR_INLINE float zr_from_bf16(uint16_t h)
{
	return zr_from_bits((uint32_t)h << 16);
}

/* fp32 to fp16 (IEEE binary16), ties to even: subnormals are kept, what rounds past 65504 becomes
 * infinity. A NaN is made quiet and keeps the bits that fit, as the processor's conversions do. */
ZR_INLINE uint16_t zr_f16(float x)
{
	uint32_t u = zr_bits(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
	if (a > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
	if (a >= 0x477ff000u) /* 65520, half way from 65504 to 2^16 */
		return (uint16_t)(sign | 0x7c00u);
	/* below 2^-14: an ulp of 1/2 is the smallest subnormal, so the sum is rounded to it */
	if (a < 0x38800000u)
		return (uint16_t)(sign | (zr_bits(zr_from_bits(a) + 0.5f) - zr_bits(0.5f)));
	return (uint16_t)(sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1)) >> 13);
}

ZR_INLINE float zr_from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000u) << 16, a = (uint32_t)(h & 0x7fffu) << 13;
	if (a >= 0x0f800000u) /* infinity, or a NaN, which is made quiet */
		return zr_from_bits(sign | (a + 0x70000000u) | (a > 0x0f800000u ? 0x00400000u : 0));
	if (a >= 0x00800000u)
		return zr_from_bits(sign | (a + 0x38000000u));
	return zr_from_bits(sign | zr_bits((float)(h & 0x3ffu) * 0x1p-24f));
}

/* Element i of storage p. */
ZR_INLINE zr_real zr_get(const void *p, int64_t i, int32_t dtype)
{
#if ZR_REAL_IS_F64
	if (dtype == ZR_F64)
		return ((const double *)p)[i];
#endif
	if (dtype == ZR_BF16)
		return (zr_real)zr_from_bf16(((const uint16_t *)p)[i]);
	if (dtype == ZR_F16)
		return (zr_real)zr_from_f16(((const uint16_t *)p)[i]);
	return (zr_real)((const float *)p)[i];
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
	else if (dtype == ZR_F16)
		((uint16_t *)p)[i] = zr_f16((float)x);
	else
		((float *)p)[i] = (float)x;
}

/* x rounded to a storage type and widened again. */
ZR_INLINE zr_real zr_rounded(zr_real x, int32_t dtype)
{
	if (dtype == ZR_BF16)
		return (zr_real)zr_from_bf16(zr_bf16((float)x));
	return dtype == ZR_F16 ? (zr_real)zr_from_f16(zr_f16((float)x)) : x;
}

/* Bytes of an element. */
ZR_INLINE int64_t zr_size(int32_t dtype)
{
	if (dtype == ZR_BF16 || dtype == ZR_F16)
		return 2;
	if (dtype == ZR_F64)
		return 8;
	return 4;
}

/* Address of element i. */
ZR_INLINE void *zr_at(const void *p, int64_t i, int32_t dtype)
{
	return (char *)(uintptr_t)p + i * zr_size(dtype);
}

/* A factor of an operation: 0 stands for 1. */
ZR_INLINE float zr_gain(float gain)
{
	return gain != 0 ? gain : 1;
}

/* Rows of `width` elements that lie `stride` apart, both 0: no gaps. Where element i lies; and the
 * element after the last one of its row, or hi, whichever is first. */
ZR_INLINE int64_t zr_apart(int64_t i, int64_t width, int64_t stride)
{
	return width ? i / width * stride + i % width : i;
}

ZR_INLINE int64_t zr_row_end(int64_t i, int64_t hi, int64_t width)
{
	int64_t end = width ? (i / width + 1) * width : hi;

	return end < hi ? end : hi;
}

/* Rows of `width` elements in groups of per_row (0: 1), which lie `stride` apart, 0: no gaps. Where
 * row r starts. */
ZR_INLINE int64_t zr_row_at(int64_t r, int64_t width, int64_t per_row, int64_t stride)
{
	if (!per_row)
		per_row = 1;
	return stride ? r / per_row * stride + r % per_row * width : r * width;
}

#include "elementary.h"
#include "rng.h"

#endif
