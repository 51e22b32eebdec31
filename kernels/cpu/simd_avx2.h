/* SPDX-License-Identifier: Apache-2.0
 *
 * simd_avx2.h - the vectors of simd.h for AVX2 with FMA and F16C. Included by simd.h only.
 */
#ifndef ZEROTH_KERNELS_CPU_SIMD_AVX2_H
#define ZEROTH_KERNELS_CPU_SIMD_AVX2_H

#define ZR_W 8
typedef __m256 vf;
typedef __m256i vi;
typedef __m256d vd;
typedef __m128i vh;

/* ---- load and store -------------------------------------------------------------- */

ZR_INLINE vi vmask(int n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

ZR_INLINE vf vset(float x)
{
	return _mm256_set1_ps(x);
}
ZR_INLINE vf vload_f32(const float *p)
{
	return _mm256_loadu_ps(p);
}
ZR_INLINE void vstore_f32(float *p, vf x)
{
	_mm256_storeu_ps(p, x);
}
ZR_INLINE vf vload_f32_n(const float *p, int n)
{
	return _mm256_maskload_ps(p, vmask(n));
}
ZR_INLINE void vstore_f32_n(float *p, vf x, int n)
{
	_mm256_maskstore_ps(p, vmask(n), x);
}

ZR_INLINE vh vhload(const uint16_t *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}
ZR_INLINE void vhstore(uint16_t *p, vh h)
{
	_mm_storeu_si128((__m128i *)p, h);
}

/* There is no 16-bit mask: the tail goes through a staged vector. */
ZR_INLINE vh vhload_n(const uint16_t *p, int n)
{
	uint16_t t[8] = { 0 };
	for (int i = 0; i < n; i++)
		t[i] = p[i];
	return vhload(t);
}

ZR_INLINE void vhstore_n(uint16_t *p, vh h, int n)
{
	uint16_t t[8];
	vhstore(t, h);
	for (int i = 0; i < n; i++)
		p[i] = t[i];
}

ZR_INLINE vi viwiden(vh h)
{
	return _mm256_cvtepu16_epi32(h);
}

/* the low halves of the lanes */
ZR_INLINE vh vinarrow(vi x)
{
	x = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
	return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

ZR_INLINE vf vwiden(vh h)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(viwiden(h), 16));
}

/* bits of zr_bf16_with */
ZR_INLINE vh vnarrow_with(vf x, vi add)
{
	vi u = _mm256_castps_si256(x), nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
	vi r = _mm256_add_epi32(u, add);
	r = _mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x00400000)), nan);
	r = _mm256_srli_epi32(r, 16);
	return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}

/* bits of zr_master24 */
ZR_INLINE vf vround24(vf x)
{
	vi u = _mm256_castps_si256(x), nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
	vi r = _mm256_add_epi32(u, _mm256_set1_epi32(0x80));
	r = _mm256_and_si256(r, _mm256_set1_epi32(~0xff));
	r = _mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x00400000)), nan);
	return _mm256_castsi256_ps(r);
}

/* values and bits of zr_from_f16, zr_f16 */
ZR_INLINE vf vwiden_f16(vh h)
{
	return _mm256_cvtph_ps(h);
}
ZR_INLINE vh vnarrow_f16(vf x)
{
	return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* 8-bit integers, unsigned; the low bytes of the lanes */
ZR_INLINE vi vbload(const uint8_t *p)
{
	return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
ZR_INLINE void vbstore(uint8_t *p, vi x)
{
	vi q = _mm256_and_si256(x, _mm256_set1_epi32(0xff));
	vh h = _mm_packus_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
	_mm_storel_epi64((__m128i *)p, _mm_packus_epi16(h, h));
}

/* 8-bit integers, signed or not, as floats */
ZR_INLINE vf vload_i8(const uint8_t *p)
{
	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
ZR_INLINE vf vload_u8(const uint8_t *p)
{
	return _mm256_cvtepi32_ps(vbload(p));
}

/* rounded to integers, their low 8 bits */
ZR_INLINE void vstore_8(uint8_t *p, vf x)
{
	vbstore(p, _mm256_cvtps_epi32(x));
}

/* 4 vectors, rounded to integers and cut to what 8 bits hold but at least `least`, signed or not;
 * of magnitudes from 2^31 on the code is unspecified */
ZR_INLINE vi vpack16(vf a, vf b)
{
	return _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
}
ZR_INLINE void vstore_packed(uint8_t *p, vi x) /* packing leaves the halves interleaved */
{
	vi order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	_mm256_storeu_si256((__m256i *)p, _mm256_permutevar8x32_epi32(x, order));
}
ZR_INLINE void vstore_i8(uint8_t *p, const vf *x, int8_t least)
{
	vi q = _mm256_packs_epi16(vpack16(x[0], x[1]), vpack16(x[2], x[3]));
	vstore_packed(p, _mm256_max_epi8(q, _mm256_set1_epi8(least)));
}
ZR_INLINE void vstore_u8(uint8_t *p, const vf *x, uint8_t least)
{
	vi q = _mm256_packus_epi16(vpack16(x[0], x[1]), vpack16(x[2], x[3]));
	vstore_packed(p, _mm256_max_epu8(q, _mm256_set1_epi8((char)least)));
}

/* ---- arithmetic ------------------------------------------------------------------ */

ZR_INLINE vf vfma(vf a, vf b, vf c)
{
	return _mm256_fmadd_ps(a, b, c);
} /* a b + c */
ZR_INLINE vf vquotient8(vf a, vf b)
{
	return a / b;
} /* of integers of 8 bits */
ZR_INLINE vf vsqrt(vf x)
{
	return _mm256_sqrt_ps(x);
}
ZR_INLINE vf vmin(vf a, vf b)
{
	return _mm256_min_ps(a, b);
} /* a < b ? a : b: a NaN in b stays */
ZR_INLINE vf vmax(vf a, vf b)
{
	return _mm256_max_ps(a, b);
}
ZR_INLINE vf vabs(vf x)
{
	return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

/* 1 or -1 by the sign of x; 0 and NaN as they are */
ZR_INLINE vf vsign(vf x)
{
	vf one = _mm256_or_ps(_mm256_and_ps(x, vset(-0.0f)), vset(1));
	return _mm256_blendv_ps(one, x, _mm256_cmp_ps(x, vset(0), _CMP_EQ_UQ));
}

/* x 2^n, n an integer in [-126, 128]: in two factors, since 2^128 is none */
ZR_INLINE vf vscale2(vf x, vf n)
{
	vi e = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(e, 1), bias = _mm256_set1_epi32(127);
	vi rest = _mm256_sub_epi32(e, half);
	return x * _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)) *
	       _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
}

/* The same of n in [-126, 127]. */
ZR_INLINE vf vscale2_small(vf x, vf n)
{
	vi e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
	return x * _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}

/* x, 0 in the lanes where a < b */
ZR_INLINE vf vzero_where_less(vf x, vf a, vf b)
{
	return _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ), x);
}

/* x in the lanes where a < b, `other` in the rest */
ZR_INLINE vf vselect_less(vf a, vf b, vf x, vf other)
{
	return _mm256_blendv_ps(other, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

ZR_INLINE int vall_equal(vf a, vf b)
{
	return !_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ));
}

/* x in the first n lanes, `other` in the rest */
ZR_INLINE vf vfirst(vf x, int n, vf other)
{
	return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(vmask(n)));
}

/* lanes l and l + 4, then + 2, + 1 */
ZR_INLINE float vsum(vf x)
{
	__m128 q = _mm256_castps256_ps128(x) + _mm256_extractf128_ps(x, 1);
	q = q + _mm_movehl_ps(q, q);
	return _mm_cvtss_f32(q) + _mm_cvtss_f32(_mm_movehdup_ps(q));
}

ZR_INLINE float vmaxh(vf x)
{
	__m128 q = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	q = _mm_max_ps(q, _mm_movehl_ps(q, q));
	return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

/* ---- doubles --------------------------------------------------------------------- */

ZR_INLINE vd vdset(double x)
{
	return _mm256_set1_pd(x);
}
ZR_INLINE vd vdlow(vf x)
{
	return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}
ZR_INLINE vd vdhigh(vf x)
{
	return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}
ZR_INLINE void vdstore(double *p, vd x)
{
	_mm256_storeu_pd(p, x);
}
/* as floats, each rounded once */
ZR_INLINE void vdnarrow(float *p, vd x)
{
	_mm_storeu_ps(p, _mm256_cvtpd_ps(x));
}
ZR_INLINE vd vdsqrt(vd x)
{
	return _mm256_sqrt_pd(x);
}

/* ---- 32-bit integers ------------------------------------------------------------- */

ZR_INLINE vi viset(uint32_t x)
{
	return _mm256_set1_epi32((int)x);
}
ZR_INLINE vi vixor(vi a, vi b)
{
	return _mm256_xor_si256(a, b);
}
ZR_INLINE vi vior(vi a, vi b)
{
	return _mm256_or_si256(a, b);
}
ZR_INLINE vi visub(vi a, vi b)
{
	return _mm256_sub_epi32(a, b);
}
ZR_INLINE vi vishl(vi a, int k)
{
	return _mm256_slli_epi32(a, k);
}
ZR_INLINE vi vishr(vi a, int k)
{
	return _mm256_srli_epi32(a, k);
}
ZR_INLINE vi vbits(vf x)
{
	return _mm256_castps_si256(x);
}
ZR_INLINE vf vfrom_bits(vi x)
{
	return _mm256_castsi256_ps(x);
}
ZR_INLINE vi viload(const uint32_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}
ZR_INLINE void vistore(uint32_t *p, vi x)
{
	_mm256_storeu_si256((__m256i *)p, x);
}

/* x, x+1, x+2, ... */
ZR_INLINE vi viota(uint32_t x)
{
	return _mm256_add_epi32(viset(x), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* unsigned; the largest of all lanes */
ZR_INLINE vi vimax(vi a, vi b)
{
	return _mm256_max_epu32(a, b);
}
ZR_INLINE uint32_t vimaxh(vi x)
{
	__m128i q = _mm_max_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
	q = _mm_max_epu32(q, _mm_shuffle_epi32(q, 0x4e));
	q = _mm_max_epu32(q, _mm_shuffle_epi32(q, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(q);
}

/* of each of 8 vectors */
ZR_INLINE __m256i vimaxh8(const vi *x)
{
	vi pair[4], four[2];
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++)
		pair[k] = vimax(_mm256_unpacklo_epi32(x[2 * k], x[2 * k + 1]),
				_mm256_unpackhi_epi32(x[2 * k], x[2 * k + 1]));
#pragma GCC unroll 2
	for (int k = 0; k < 2; k++)
		four[k] = vimax(_mm256_unpacklo_epi64(pair[2 * k], pair[2 * k + 1]),
				_mm256_unpackhi_epi64(pair[2 * k], pair[2 * k + 1]));
	return vimax(_mm256_permute2x128_si256(four[0], four[1], 0x20),
		     _mm256_permute2x128_si256(four[0], four[1], 0x31));
}

/* all ones where a >= b, unsigned */
ZR_INLINE vi vi_not_below(vi a, vi b)
{
	return _mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a);
}

/* hi + 1 where lo wrapped below first */
ZR_INLINE vi vicarry(vi hi, vi lo, uint32_t first)
{
	return _mm256_add_epi32(hi, _mm256_add_epi32(viset(1), vi_not_below(lo, viset(first))));
}

/* a * m in 64 bits */
ZR_INLINE void vimul_wide(vi a, uint32_t m, vi *hi, vi *lo)
{
	vi even = _mm256_mul_epu32(a, viset(m)),
	   odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), viset(m));
	*lo = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
	*hi = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

/* out[0..4) = a[0] b[0] c[0] d[0] a[1] b[1] ... */
ZR_INLINE void vi_interleave4(vi a, vi b, vi c, vi d, vi out[4])
{
	vi ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
	vi cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
	/* q[k], 128-bit part j: lane 4j+k of a, b, c, d */
	vi q0 = _mm256_unpacklo_epi64(ab0, cd0), q1 = _mm256_unpackhi_epi64(ab0, cd0);
	vi q2 = _mm256_unpacklo_epi64(ab1, cd1), q3 = _mm256_unpackhi_epi64(ab1, cd1);
	out[0] = _mm256_permute2x128_si256(q0, q1, 0x20);
	out[1] = _mm256_permute2x128_si256(q2, q3, 0x20);
	out[2] = _mm256_permute2x128_si256(q0, q1, 0x31);
	out[3] = _mm256_permute2x128_si256(q2, q3, 0x31);
}

ZR_INLINE vf vzero_where_word_below(vf x, vi word, uint32_t below)
{
	return _mm256_and_ps(_mm256_castsi256_ps(vi_not_below(word, viset(below))), x);
}

/* Number of NaN and infinities among the lanes. */
ZR_INLINE uint32_t vnonfinite(vf x)
{
	vi exponent = _mm256_and_si256(_mm256_castps_si256(x), viset(0x7f800000u));
	vi bad = _mm256_cmpeq_epi32(exponent, viset(0x7f800000u));
	return (uint32_t)__builtin_popcount((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(bad)));
}

/* ---- codes of 4 bits -------------------------------------------------------------- */

/* count, and one more where x is above y */
ZR_INLINE vi vicount_above(vi count, vf x, vf y)
{
	return _mm256_sub_epi32(count, _mm256_castps_si256(_mm256_cmp_ps(x, y, _CMP_GT_OQ)));
}

/* of each byte the high bits, then the low ones */
ZR_INLINE vi viload_u4(const uint8_t *p)
{
	int32_t bytes;
	memcpy(&bytes, p, sizeof bytes);
	__m128i b = _mm_cvtsi32_si128(bytes), low = _mm_set1_epi8(15);
	__m128i high = _mm_and_si128(_mm_srli_epi16(b, 4), low);
	return _mm256_cvtepu8_epi32(_mm_unpacklo_epi8(high, _mm_and_si128(b, low)));
}

struct vtable16 {
	vf low, high;
};

ZR_INLINE struct vtable16 vtable16(const float *p)
{
	return (struct vtable16){ vload_f32(p), vload_f32(p + 8) };
}

ZR_INLINE vf vlookup16(const struct vtable16 *t, vi i)
{
	vf low = _mm256_permutevar8x32_ps(t->low, i), high = _mm256_permutevar8x32_ps(t->high, i);
	return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}

#endif
