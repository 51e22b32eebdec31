/* SPDX-License-Identifier: Apache-2.0
 *
 * codes.h - types of whole blocks, ZR_NF4 and ZR_INT8: what 64 elements that share a scale become.
 * A block is its codes, then its scales. The CPU's kernels and those of CUDA compute with it.
 */
#ifndef ZEROTH_KERNELS_CPU_CODES_H
#define ZEROTH_KERNELS_CPU_CODES_H

#include "scalar.h"

#define ZR_SHARING 64                      /* elements with one scale */
#define ZR_SCALES  (ZR_BLOCK / ZR_SHARING) /* of a block */

/* Bytes of the codes of so many elements. */
ZR_INLINE int64_t zr_code_bytes(int32_t dtype, int64_t n)
{
	return dtype == ZR_NF4 ? n / 2 : n;
}

ZR_INLINE int64_t zr_coded_block(int32_t dtype)
{
	return zr_code_bytes(dtype, ZR_BLOCK) + ZR_SCALES * 4;
}

/* The values of NF4, ascending, and what is above which of the midpoints is the next one. */
#define ZR_NF4_VALUES                                                                              \
	-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,                  \
		-0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,         \
		0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,                  \
		0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,                   \
		0.7229568362236023f, 1.0f
#define ZR_NF4_MIDPOINTS                                                                           \
	-0.8480964004993439f, -0.6106329262256622f, -0.4599952697753906f, -0.33967943489551544f,   \
		-0.23460740596055984f, -0.13791173323988914f, -0.045525018125772476f,              \
		0.03979014977812767f, 0.1202552504837513f, 0.2035212516784668f,                    \
		0.2920137718319893f, 0.3893125355243683f, 0.5016634166240692f,                     \
		0.6427869200706482f, 0.8614784181118011f

ZR_INLINE float zr_nf4_value(uint32_t code)
{
	const float value[16] = { ZR_NF4_VALUES };
	return value[code];
}

/* Of x / its scale; 0 for NaN. */
ZR_INLINE uint32_t zr_nf4_code(float x)
{
	const float midpoint[15] = { ZR_NF4_MIDPOINTS };
	uint32_t code = 0;
	for (int k = 0; k < 15; k++)
		code += x > midpoint[k];
	return code;
}

/* The bits of a magnitude: they compare as the magnitudes do, with NaN above all. */
ZR_INLINE uint32_t zr_magnitude(float x)
{
	return zr_bits(x) & 0x7fffffffu;
}

/* The scale of elements whose largest magnitude is a. */
ZR_INLINE float zr_code_scale(int32_t dtype, uint32_t a)
{
	return dtype == ZR_NF4 ? zr_from_bits(a) : zr_from_bits(a) / 127;
}

/* What elements are multiplied by, or divided by, before their codes are found. */
ZR_INLINE float zr_nf4_factor(float scale)
{
	return scale == 0 ? 0 : 1 / scale;
}

ZR_INLINE float zr_int8_divisor(float scale)
{
	return scale == 0 ? 1 : scale;
}

/* Of x / its scale. */
ZR_INLINE int zr_int8_code(float x)
{
	float c = x > -127 ? x : -127;
	return (int)rintf(c < 127 ? c : 127);
}

#endif
