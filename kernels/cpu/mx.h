/* SPDX-License-Identifier: Apache-2.0
 *
 * mx.h - ZR_MXINT8: what 32 elements that share a power of two become (MXINT8 of the OCP
 * Microscaling Formats specification, version 1.0). A block is its codes, then its scales. Scaling
 * is exact, so that codes which were decoded, also in bf16, are encoded to the same bytes. The
 * CPU's kernels and those of CUDA compute with it.
 */
#ifndef ZEROTH_KERNELS_CPU_MX_H
#define ZEROTH_KERNELS_CPU_MX_H

#include "scalar.h"

#define ZR_MX_SHARING 32                         /* elements with one scale */
#define ZR_MX_SCALES  (ZR_BLOCK / ZR_MX_SHARING) /* of a block, a byte each */
#define ZR_MX_BLOCK   (ZR_BLOCK + ZR_MX_SCALES)  /* bytes of a block */

/* A scale s stands for 2^(s - 127), which a code of 64 is decoded to. */
#define ZR_MX_ZERO  0u   /* all elements are 0 */
#define ZR_MX_LEAST 7u   /* smaller magnitudes become 0: nothing here is a subnormal number */
#define ZR_MX_NAN   255u /* no element is a number */

/* Scale of elements whose largest magnitude has these bits. */
ZR_INLINE uint32_t zr_mx_scale(uint32_t magnitude)
{
	const uint32_t exponent = magnitude >> 23;
	return exponent < ZR_MX_LEAST ? ZR_MX_ZERO : exponent;
}

/* Whether elements of a scale have codes that say something. */
ZR_INLINE int zr_mx_has_codes(uint32_t scale)
{
	return scale != ZR_MX_ZERO && scale != ZR_MX_NAN;
}

/* What an element is multiplied by before it is rounded to its code; of a scale with codes. */
ZR_INLINE float zr_mx_factor(uint32_t scale)
{
	return zr_from_bits((260 - scale) << 23);
}

/* What codes are multiplied by. */
ZR_INLINE float zr_mx_unit(uint32_t scale)
{
	if (scale == ZR_MX_ZERO)
		return 0;
	if (scale == ZR_MX_NAN)
		return zr_from_bits(0x7fc00000u);
	return zr_from_bits((scale - 6) << 23);
}

/* The nearest code, ties to even, of an element times its factor. */
ZR_INLINE int zr_mx_code(float x)
{
	float c = x > -127 ? x : -127;
	return (int)rintf(c < 127 ? c : 127);
}

/* Element i of encoded blocks. */
ZR_INLINE float zr_mx_get(const void *blocks, int64_t i)
{
	const uint8_t *block = (const uint8_t *)blocks + i / ZR_BLOCK * ZR_MX_BLOCK;
	const int64_t at = i % ZR_BLOCK;
	return (float)(int8_t)block[at] * zr_mx_unit(block[ZR_BLOCK + at / ZR_MX_SHARING]);
}

#endif
