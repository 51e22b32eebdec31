/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose_simd.h - units of 32 bits that lie one after the other in each of ZR_W rows, turned
 * into vectors across the rows, four at a time; and units that are pairs of two rows.
 */
#ifndef ZEROTH_KERNELS_CPU_TRANSPOSE_SIMD_H
#define ZEROTH_KERNELS_CPU_TRANSPOSE_SIMD_H

#include "simd.h"

/* Four vectors whose 128-bit parts are transposed as 4 x 4 matrices. */
ZR_INLINE void transpose_parts(vf r[4])
{
#if ZR_W == 16
	__m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1])),
		b = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3]));
	__m512d c = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1])),
		d = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
	r[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
	r[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
	r[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
	r[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
#else
	__m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(r[0], r[1])),
		b = _mm256_castps_pd(_mm256_unpacklo_ps(r[2], r[3]));
	__m256d c = _mm256_castps_pd(_mm256_unpackhi_ps(r[0], r[1])),
		d = _mm256_castps_pd(_mm256_unpackhi_ps(r[2], r[3]));
	r[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
	r[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
	r[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(c, d));
	r[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(c, d));
#endif
}

/* Four units of each of ZR_W / 4 rows, 4 rows apart; rows are `bytes` apart. */
ZR_INLINE vf load_parts(const void *rows, int64_t bytes)
{
	const char *p = rows;
#if ZR_W == 16
	__m512 v = _mm512_castps128_ps512(_mm_loadu_ps((const float *)p));
	v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps((const float *)(p + 4 * bytes)));
	v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps((const float *)(p + 8 * bytes)));
	return _mm512_mask_broadcast_f32x4(v, 0xf000,
					   _mm_loadu_ps((const float *)(p + 12 * bytes)));
#else
	return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps((const float *)p)),
				    _mm_loadu_ps((const float *)(p + 4 * bytes)), 1);
#endif
}

/* Four units of each of ZR_W rows, `bytes` apart: r[j] gets unit j of all rows. */
ZR_INLINE void load_columns(const void *rows, int64_t bytes, vf r[4])
{
	UNROLL for (int j = 0; j < 4; j++) r[j] = load_parts((const char *)rows + j * bytes, bytes);
	transpose_parts(r);
}

/* Each half of the lanes to a place of its own. */
ZR_INLINE void vstore_halves(float *low, float *high, vf x)
{
#if ZR_W == 16
	_mm256_storeu_ps(low, _mm512_castps512_ps256(x));
	_mm256_storeu_ps(high, _mm512_extractf32x8_ps(x, 1));
#else
	_mm_storeu_ps(low, _mm256_castps256_ps128(x));
	_mm_storeu_ps(high, _mm256_extractf128_ps(x, 1));
#endif
}

#ifdef ZR_PAIRS
/* Pairs of n <= ZR_W columns: low[j] at k, high[j] at k + 1, which is NULL past the last. */
ZR_INLINE vi interleave(const uint16_t *low, const uint16_t *high, int n)
{
	const vi order = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
					  8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32,
					  0);
	vh x = n == ZR_W ? vhload(low) : vhload_n(low, n), y = _mm256_setzero_si256();
	if (high)
		y = n == ZR_W ? vhload(high) : vhload_n(high, n);
	return _mm512_permutex2var_epi16(_mm512_castsi256_si512(x), order,
					 _mm512_castsi256_si512(y));
}
#endif

#endif
