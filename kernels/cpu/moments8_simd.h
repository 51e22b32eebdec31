/* SPDX-License-Identifier: Apache-2.0
 *
 * moments8_simd.h - groups of moments8.h with vectors, same operations, same bits. A kernel takes
 * ZR_GROUPS8 groups of a block at a time, in passes over all of them: in a pass the chain from load
 * to store is short, and the processor works on many vectors at once. What is not that many groups,
 * at the ends of a range, it stages.
 */
#ifndef ZEROTH_KERNELS_CPU_MOMENTS8_SIMD_H
#define ZEROTH_KERNELS_CPU_MOMENTS8_SIMD_H

#include "moments8.h"
#include "simd.h"

#define ZR_GROUPS8 8
#define ZR_SOME8   (ZR_GROUPS8 * ZR_MOMENT8_GROUP)
#define ZR_V8      (ZR_MOMENT8_GROUP / ZR_W)

/* A number of each of the groups: one in a register, for arithmetic, one in memory, to spread. */
typedef __m256 v8;
struct groups8 {
	float x[ZR_GROUPS8];
};

ZR_INLINE struct groups8 vgroups8(v8 x)
{
	struct groups8 s;
	_mm256_storeu_ps(s.x, x);
	return s;
}

/* Elements from i on that are taken at a time: ZR_SOME8 of a block, or what is left of these. */
ZR_INLINE int vsome8(int64_t i, int64_t hi)
{
	int64_t most = ZR_SOME8 - i % ZR_SOME8;
	return (int)(hi - i < most ? hi - i : most);
}

/* ---- scales ---------------------------------------------------------------------- */

ZR_INLINE v8 vscales8(const uint16_t *from)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

/* Lanes of all ones or zeros, in 16 bits. */
ZR_INLINE __m128i vhalve8(__m256i x)
{
	return _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

/* Puts the scales of groups whose largest magnitudes are in lanes of x, as zr_scale8_of. */
ZR_INLINE v8 vput_scales8(uint16_t *to, const vi *x)
{
	__m256i most = vimaxh8(x), infinity = _mm256_set1_epi32(0x7f800000);
	__m128i finite = vhalve8(_mm256_cmpgt_epi32(infinity, most));
	__m128i some = vhalve8(_mm256_cmpgt_epi32(most, _mm256_setzero_si256()));
	__m128i h = _mm256_cvtps_ph(_mm256_castsi256_ps(most), _MM_FROUND_TO_NEAREST_INT);

	h = _mm_min_epu16(h, _mm_set1_epi16(ZR_SCALE8_MOST));
	h = _mm_max_epu16(h, _mm_and_si128(some, _mm_set1_epi16(1)));
	h = _mm_blendv_epi8(_mm_set1_epi16(ZR_SCALE8_NAN), h, finite);
	_mm_storeu_si128((__m128i *)to, h);
	return _mm256_cvtph_ps(h);
}

/* The largest magnitude of a group in each lane, as bits. */
ZR_INLINE vi vmost8(const vf *x)
{
	vi most = vbits(vabs(x[0]));
#pragma GCC unroll 4
	for (int k = 1; k < ZR_V8; k++)
		most = vimax(most, vbits(vabs(x[k])));
	return most;
}

/* The same of roots: none is negative or -0, and only a NaN has a sign. */
ZR_INLINE vi vmost_root8(const vf *x)
{
	vi most = vbits(x[0]);
#pragma GCC unroll 4
	for (int k = 1; k < ZR_V8; k++)
		most = vimax(most, vbits(x[k]));
	return vbits(vabs(vfrom_bits(most)));
}

/* ---- first moments ----------------------------------------------------------------- */

/* Of a group. */
ZR_INLINE void vgroup_signed8(vf *x, const uint8_t *code, float scale)
{
#pragma GCC unroll 4
	for (int k = 0; k < ZR_V8; k++) {
		vf q = vload_i8(code + k * ZR_W);
		x[k] = vset(scale) * vquotient8(q, vset(254) - vabs(q));
	}
}

/* ---- roots of second moments ------------------------------------------------------- */

/* A vector of roots of second moments; `each` is a 255th of the group's scale. */
ZR_INLINE vf vroot8(const uint8_t *code, float each)
{
	return vload_u8(code) * vset(each);
}

/* Codes of 4 vectors of roots from i on; per: 255 divided by the scales of groups. Of roots that
 * are not above twice their scale, as all are unless the scale is the largest that there is: what
 * is above 255 is cut in storing. */
ZR_INLINE void vcode_root8(uint8_t *code, const vf *root, int i, const struct groups8 *per)
{
	vf y[4];
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++)
		y[k] = root[k] * vset(per->x[(i + k * ZR_W) / ZR_MOMENT8_GROUP]);
	vstore_u8(code + i, y, 1);
}

/* ---- passes over ZR_SOME8 elements ------------------------------------------------- */

/* No codes where there is no scale. */
ZR_INLINE void vclear8(uint8_t *code, v8 scale)
{
	int some = _mm256_movemask_ps(_mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_GT_OQ));
	for (int g = 0; some != 255 && g < ZR_GROUPS8; g++)
		if (!(some >> g & 1))
			memset(code + g * ZR_MOMENT8_GROUP, 0, ZR_MOMENT8_GROUP);
}

/* The scales, and 254 in place of 0: a 254th of each is added to what divides. */
ZR_INLINE v8 vdivisors8(v8 scale)
{
	v8 zero = _mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_EQ_OQ);
	return _mm256_blendv_ps(scale, _mm256_set1_ps(254), zero);
}

/* Whether one of the scales is the largest that there is. */
ZR_INLINE int vsome_largest8(v8 scale)
{
	v8 largest = _mm256_set1_ps(ZR_SCALE8_LARGEST);
	return _mm256_movemask_ps(_mm256_cmp_ps(scale, largest, _CMP_GE_OQ));
}

/* 4 vectors. */
ZR_INLINE void vload4(vf *y, const float *x)
{
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++)
		y[k] = vload_f32(x + k * ZR_W);
}

ZR_INLINE void vput_signed8(uint8_t *code, const float *x, v8 scale)
{
	struct groups8 s = vgroups8(scale);

	for (int i = 0; i < ZR_SOME8; i += 4 * ZR_W) {
		vf m[4];
		vload4(m, x + i);
#pragma GCC unroll 4
		for (int k = 0; k < 4; k++) {
			vf largest = vset(s.x[(i + k * ZR_W) / ZR_MOMENT8_GROUP]);
			m[k] = vset(254) * (m[k] / (largest + vabs(m[k])));
		}
		vstore_i8(code + i, m, -127);
	}

	vclear8(code, scale);
}

ZR_INLINE void vput_root8(uint8_t *code, const float *x, v8 scale)
{
	struct groups8 per = vgroups8(255 / scale);

	for (int i = 0; i < ZR_SOME8; i += 4 * ZR_W) {
		vf root[4];
		vload4(root, x + i);
#pragma GCC unroll 4
		for (int k = 0; k < 4; k++)
			root[k] = vmin(root[k], vset(2 * ZR_SCALE8_LARGEST));
		vcode_root8(code, root, i, &per);
	}

	vclear8(code, scale);
}

#endif
