/* SPDX-License-Identifier: Apache-2.0
 *
 * narrow.h - numbers of 8 bits with a power of two that a row or a column shares: see ZR_MM_FP8.
 * E4M3 and E5M2 are those of "FP8 Formats for Deep Learning" (Micikevicius et al. 2022). Scaling is
 * exact, and so is bf16 for the scaled numbers: all that rounds is the step to 8 bits. The CPU's
 * kernels and those of CUDA compute with it.
 */
#ifndef ZEROTH_KERNELS_CPU_NARROW_H
#define ZEROTH_KERNELS_CPU_NARROW_H

#include "scalar.h"

struct zr_narrow_kind {
	int32_t mantissa; /* bits behind the point */
	int32_t most;     /* exponent of the largest number, which is 1.75 times that */
	int32_t normal;   /* exponent of the smallest normal number */
	int32_t highest;  /* power of two above which the smallest number is none of bf16 */
};

ZR_INLINE struct zr_narrow_kind zr_narrow_kind_of(int e5m2)
{
	const struct zr_narrow_kind e4m3 = { 3, 8, -6, 117 }, wide = { 2, 15, -14, 110 };
	if (e5m2)
		return wide;
	return e4m3;
}

ZR_INLINE float zr_power_of_two(int32_t exponent)
{
	return zr_from_bits((uint32_t)(exponent + 127) << 23);
}

/* By which power of two elements are scaled whose largest magnitude has these bits; that is
 * finite. */
ZR_INLINE int32_t zr_narrow_power(struct zr_narrow_kind kind, uint32_t magnitude)
{
	const int32_t exponent = (int32_t)(magnitude >> 23) - 127;
	const int32_t above = (magnitude & 0x7fffffu) > 0x600000u; /* 1.75 */
	const int32_t power = kind.most - exponent - above;
	return power < kind.highest ? power : kind.highest;
}

ZR_INLINE int zr_narrow_is_finite(uint32_t magnitude)
{
	return magnitude < 0x7f800000u;
}

/* What is added to a scaled element whose exponent is that of `power`, and subtracted again, so
 * that it is rounded: it has 2^-mantissa of `power` as its last bit. */
ZR_INLINE float zr_narrow_magic(struct zr_narrow_kind kind)
{
	return 1.5f * zr_power_of_two(23 - kind.mantissa);
}

/* The nearest number of 8 bits to a scaled element. */
ZR_INLINE float zr_narrow_round(struct zr_narrow_kind kind, float x)
{
	const float least = zr_power_of_two(kind.normal);
	const float power = zr_from_bits(zr_bits(x) & 0x7f800000u);
	const float magic = (power > least ? power : least) * zr_narrow_magic(kind);
	return (x + magic) - magic;
}

#endif
