/* SPDX-License-Identifier: Apache-2.0
 *
 * moments8.h - moments in 8 bits, as struct zr_op_adamw says: blocks of ZR_MOMENT8_BYTES, of codes
 * and of a scale per group of ZR_MOMENT8_GROUP elements. The arithmetic is that of FlashOptim
 * (arXiv 2602.23349), but for three things: a scale that would be 0 or infinite in fp16 is the
 * smallest or largest that is not; codes are relative to the scale that is stored, not to the
 * number that was rounded to it; and a root has a code of at least 1, as m / eps would be a step
 * out of all proportion.
 *
 * A group in which something is not finite has the scale NaN: all of it reads as NaN.
 */
#ifndef ZEROTH_KERNELS_CPU_MOMENTS8_H
#define ZEROTH_KERNELS_CPU_MOMENTS8_H

#include "scalar.h"

#define ZR_SCALE8_NAN     0x7e00u
#define ZR_SCALE8_MOST    0x7bffu /* ZR_SCALE8_LARGEST */
#define ZR_SCALE8_LARGEST 65504.0f

/* Of the group that element i of `moments` is in; i counts from the start of a block. */
ZR_INLINE uint8_t *zr_codes8(const void *moments, int64_t i)
{
	return (uint8_t *)(uintptr_t)moments + i / ZR_BLOCK * ZR_MOMENT8_BYTES + i % ZR_BLOCK;
}

ZR_INLINE uint16_t *zr_scale8(const void *moments, int64_t i)
{
	char *block = (char *)(uintptr_t)moments + i / ZR_BLOCK * ZR_MOMENT8_BYTES;
	return (uint16_t *)(void *)(block + ZR_BLOCK) + i % ZR_BLOCK / ZR_MOMENT8_GROUP;
}

/* The larger of `most` and the bits of |x|: those of a NaN or an infinity are above all numbers. */
ZR_INLINE uint32_t zr_most8(uint32_t most, float x)
{
	uint32_t bits = zr_bits(x) & 0x7fffffffu;
	return bits > most ? bits : most;
}

/* The scale, in fp16, of a group whose largest magnitude has these bits. */
ZR_INLINE uint16_t zr_scale8_of(uint32_t most)
{
	uint16_t h;
	if (most >= 0x7f800000u)
		return ZR_SCALE8_NAN;
	h = zr_f16(zr_from_bits(most));
	if (h > ZR_SCALE8_MOST)
		return ZR_SCALE8_MOST;
	return h == 0 && most != 0 ? 1 : h;
}

ZR_INLINE float zr_between8(float least, float x, float most)
{
	float y = x < most ? x : most;
	return y > least ? y : least;
}

/* The nearest integer, ties to even. */
ZR_INLINE int zr_nearest8(float x)
{
	return (int)((x + (float)ZR_ROUND_MAGIC) - (float)ZR_ROUND_MAGIC);
}

/* m and its code: q = 127 * 2x/(1 + |x|) of x = m / scale, x = y/(2 - |y|) of y = q / 127. */
ZR_INLINE float zr_signed8(int q, float scale)
{
	return scale * ((float)q / (float)(254 - (q < 0 ? -q : q)));
}

ZR_INLINE int zr_signed8_rounded(float q)
{
	return zr_nearest8(zr_between8(-127, q, 127));
}
ZR_INLINE int zr_signed8_code(float m, float scale)
{
	return zr_signed8_rounded(254 * (m / (scale + (m < 0 ? -m : m))));
}

/* The root of v and its code: q = 255 * root / scale. */
ZR_INLINE float zr_root8(int q, float scale)
{
	return (float)q * (scale / 255);
}

ZR_INLINE int zr_root8_code(float root, float scale)
{
	return zr_nearest8(zr_between8(1, root * (255 / scale), 255));
}

/* Elements of the group that starts at element i, of those below hi. */
ZR_INLINE int zr_group8(int64_t i, int64_t hi)
{
	return hi - i < ZR_MOMENT8_GROUP ? (int)(hi - i) : ZR_MOMENT8_GROUP;
}

/* n moments of the group that starts at element i, from storage to x and back. root: they are kept
 * as square roots. */
ZR_INLINE void zr_get8(const void *moments, int64_t i, int n, int root, float *x)
{
	const uint8_t *code = zr_codes8(moments, i);
	float scale = zr_from_f16(*zr_scale8(moments, i));
	for (int k = 0; k < n; k++) {
		float y = root ? zr_root8(code[k], scale) : zr_signed8((int8_t)code[k], scale);
		x[k] = root ? y * y : y;
	}
}

ZR_INLINE void zr_put8(void *moments, int64_t i, int n, int root, const float *x)
{
	uint8_t *code = zr_codes8(moments, i);
	float y[ZR_MOMENT8_GROUP], scale;
	uint32_t most = 0;

	for (int k = 0; k < n; k++) {
		y[k] = root ? (float)zr_sqrt((zr_real)x[k]) : x[k];
		most = zr_most8(most, y[k]);
	}

	*zr_scale8(moments, i) = zr_scale8_of(most);
	scale = zr_from_f16(zr_scale8_of(most));
	for (int k = 0; k < n; k++) {
		int c; /* 0 in groups of zeros, and in those that read as NaN */
		if (!(scale > 0))
			c = 0;
		else if (root)
			c = zr_root8_code(y[k], scale);
		else
			c = zr_signed8_code(y[k], scale);
		code[k] = (uint8_t)c;
	}
}

#endif
