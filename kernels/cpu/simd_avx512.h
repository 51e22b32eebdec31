/* SPDX-License-Identifier: Apache-2.0
 *
 * simd_avx512.h - the vectors of simd.h for AVX-512 F, BW, DQ, VL. Included by simd.h only.
 */
#ifndef ZEROTH_KERNELS_CPU_SIMD_AVX512_H
#define ZEROTH_KERNELS_CPU_SIMD_AVX512_H

#define ZR_W 16
typedef __m512 vf;
typedef __m512i vi;
typedef __m512d vd;
typedef __m256i vh;

/* ---- load and store -------------------------------------------------------------- */

ZR_INLINE vf vset(float x)
{
	return _mm512_set1_ps(x);
}
ZR_INLINE vf vload_f32(const float *p)
{
	return _mm512_loadu_ps(p);
}
ZR_INLINE void vstore_f32(float *p, vf x)
{
	_mm512_storeu_ps(p, x);
}
ZR_INLINE __mmask16 vmask(int n)
{
	return (__mmask16)((1u << n) - 1);
}
ZR_INLINE vf vload_f32_n(const float *p, int n)
{
	return _mm512_maskz_loadu_ps(vmask(n), p);
}
ZR_INLINE void vstore_f32_n(float *p, vf x, int n)
{
	_mm512_mask_storeu_ps(p, vmask(n), x);
}

ZR_INLINE vh vhload(const uint16_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}
ZR_INLINE void vhstore(uint16_t *p, vh h)
{
	_mm256_storeu_si256((__m256i *)p, h);
}
ZR_INLINE vh vhload_n(const uint16_t *p, int n)
{
	return _mm256_maskz_loadu_epi16(vmask(n), p);
}
ZR_INLINE void vhstore_n(uint16_t *p, vh h, int n)
{
	_mm256_mask_storeu_epi16(p, vmask(n), h);
}

ZR_INLINE vi viwiden(vh h)
{
	return _mm512_cvtepu16_epi32(h);
}
ZR_INLINE vh vinarrow(vi x)
{
	return _mm512_cvtepi32_epi16(x);
} /* the low halves of the lanes */
ZR_INLINE vf vwiden(vh h)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(viwiden(h), 16));
}

/* bits of zr_bf16_with */
ZR_INLINE vh vnarrow_with(vf x, vi add)
{
	vi u = _mm512_castps_si512(x);
	__mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
	vi r = _mm512_add_epi32(u, add);
	r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x00400000));
	return vinarrow(_mm512_srli_epi32(r, 16));
}

/* bits of zr_master24 */
ZR_INLINE vf vround24(vf x)
{
	vi u = _mm512_castps_si512(x);
	__mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
	vi r = _mm512_add_epi32(u, _mm512_set1_epi32(0x80));
	r = _mm512_and_si512(r, _mm512_set1_epi32(~0xff));
	return _mm512_castsi512_ps(_mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x00400000)));
}

/* values and bits of zr_from_f16, zr_f16 */
ZR_INLINE vf vwiden_f16(vh h)
{
	return _mm512_cvtph_ps(h);
}
ZR_INLINE vh vnarrow_f16(vf x)
{
	return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* 8-bit integers, unsigned; the low bytes of the lanes */
ZR_INLINE vi vbload(const uint8_t *p)
{
	return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
ZR_INLINE void vbstore(uint8_t *p, vi x)
{
	_mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x));
}

/* 8-bit integers, signed or not, as floats */
ZR_INLINE vf vload_i8(const uint8_t *p)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
ZR_INLINE vf vload_u8(const uint8_t *p)
{
	return _mm512_cvtepi32_ps(vbload(p));
}

/* rounded to integers, their low 8 bits */
ZR_INLINE void vstore_8(uint8_t *p, vf x)
{
	vbstore(p, _mm512_cvtps_epi32(x));
}

/* 4 vectors, rounded to integers and cut to what 8 bits hold but at least `least`, signed or not;
 * of magnitudes from 2^31 on the code is unspecified */
ZR_INLINE vi vpack16(vf a, vf b)
{
	return _mm512_packs_epi32(_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
}
ZR_INLINE void vstore_packed(uint8_t *p, vi x) /* packing leaves the quarters interleaved */
{
	vi order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	_mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, x));
}
ZR_INLINE void vstore_i8(uint8_t *p, const vf *x, int8_t least)
{
	vi q = _mm512_packs_epi16(vpack16(x[0], x[1]), vpack16(x[2], x[3]));
	vstore_packed(p, _mm512_max_epi8(q, _mm512_set1_epi8(least)));
}
ZR_INLINE void vstore_u8(uint8_t *p, const vf *x, uint8_t least)
{
	vi q = _mm512_packus_epi16(vpack16(x[0], x[1]), vpack16(x[2], x[3]));
	vstore_packed(p, _mm512_max_epu8(q, _mm512_set1_epi8((char)least)));
}

/* ---- arithmetic ------------------------------------------------------------------ */

ZR_INLINE vf vfma(vf a, vf b, vf c)
{
	return _mm512_fmadd_ps(a, b, c);
} /* a b + c */
/* a / b, the same bits, of integers of 8 bits, b from 126 to 254: codes are not to wait for other
 * divisions. r is 1 / b but for 2^-23.5 of it, y the quotient but for 2^-22.5, and its remainder is
 * exact: what is rounded last differs from the quotient by less than 2^-45 of it. A quotient is
 * 2^-33 of itself or more away from where rounding changes. */
ZR_INLINE vf vquotient8(vf a, vf b)
{
	vf r = _mm512_rcp14_ps(b), y;
	r = vfma(_mm512_fnmadd_ps(b, r, vset(1)), r, r);
	y = a * r;
	return vfma(_mm512_fnmadd_ps(b, y, a), r, y);
}
ZR_INLINE vf vsqrt(vf x)
{
	return _mm512_sqrt_ps(x);
}
ZR_INLINE vf vmin(vf a, vf b)
{
	return _mm512_min_ps(a, b);
} /* a < b ? a : b: a NaN in b stays */
ZR_INLINE vf vmax(vf a, vf b)
{
	return _mm512_max_ps(a, b);
}
ZR_INLINE vf vabs(vf x)
{
	return _mm512_abs_ps(x);
}

/* 1 or -1 by the sign of x; 0 and NaN as they are */
ZR_INLINE vf vsign(vf x)
{
	vf one = _mm512_or_ps(_mm512_and_ps(x, vset(-0.0f)), vset(1));
	return _mm512_mask_mov_ps(one, _mm512_cmp_ps_mask(x, vset(0), _CMP_EQ_UQ), x);
}
ZR_INLINE vf vscale2(vf x, vf n)
{
	return _mm512_scalef_ps(x, n);
} /* x 2^n, n an integer */
ZR_INLINE vf vscale2_small(vf x, vf n)
{
	return vscale2(x, n);
}

/* x, 0 in the lanes where a < b */
ZR_INLINE vf vzero_where_less(vf x, vf a, vf b)
{
	return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), x);
}

/* x in the lanes where a < b, `other` in the rest */
ZR_INLINE vf vselect_less(vf a, vf b, vf x, vf other)
{
	return _mm512_mask_mov_ps(other, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), x);
}

ZR_INLINE int vall_equal(vf a, vf b)
{
	return !_mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
}

/* x in the first n lanes, `other` in the rest */
ZR_INLINE vf vfirst(vf x, int n, vf other)
{
	return _mm512_mask_mov_ps(other, vmask(n), x);
}

/* lanes l and l + 8, then + 4, + 2, + 1 */
ZR_INLINE float vsum(vf x)
{
	__m256 h = _mm512_castps512_ps256(x) + _mm512_extractf32x8_ps(x, 1);
	__m128 q = _mm256_castps256_ps128(h) + _mm256_extractf128_ps(h, 1);
	q = q + _mm_movehl_ps(q, q);
	return _mm_cvtss_f32(q) + _mm_cvtss_f32(_mm_movehdup_ps(q));
}

ZR_INLINE float vmaxh(vf x)
{
	__m256 h = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
	__m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
	q = _mm_max_ps(q, _mm_movehl_ps(q, q));
	return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

/* ---- doubles --------------------------------------------------------------------- */

ZR_INLINE vd vdset(double x)
{
	return _mm512_set1_pd(x);
}
ZR_INLINE vd vdlow(vf x)
{
	return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}
ZR_INLINE vd vdhigh(vf x)
{
	return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}
ZR_INLINE void vdstore(double *p, vd x)
{
	_mm512_storeu_pd(p, x);
}
/* as floats, each rounded once */
ZR_INLINE void vdnarrow(float *p, vd x)
{
	_mm256_storeu_ps(p, _mm512_cvtpd_ps(x));
}
ZR_INLINE vd vdsqrt(vd x)
{
	return _mm512_sqrt_pd(x);
}

/* ---- 32-bit integers ------------------------------------------------------------- */

ZR_INLINE vi viset(uint32_t x)
{
	return _mm512_set1_epi32((int)x);
}
ZR_INLINE vi vixor(vi a, vi b)
{
	return _mm512_xor_si512(a, b);
}
ZR_INLINE vi vior(vi a, vi b)
{
	return _mm512_or_si512(a, b);
}
ZR_INLINE vi visub(vi a, vi b)
{
	return _mm512_sub_epi32(a, b);
}
ZR_INLINE vi vishl(vi a, int k)
{
	return _mm512_slli_epi32(a, (unsigned)k);
}
ZR_INLINE vi vishr(vi a, int k)
{
	return _mm512_srli_epi32(a, (unsigned)k);
}
ZR_INLINE vi vbits(vf x)
{
	return _mm512_castps_si512(x);
}
ZR_INLINE vf vfrom_bits(vi x)
{
	return _mm512_castsi512_ps(x);
}
ZR_INLINE vi viload(const uint32_t *p)
{
	return _mm512_loadu_si512(p);
}
ZR_INLINE void vistore(uint32_t *p, vi x)
{
	_mm512_storeu_si512(p, x);
}

/* x, x+1, x+2, ... */
ZR_INLINE vi viota(uint32_t x)
{
	return _mm512_add_epi32(viset(x), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
							    12, 13, 14, 15));
}

/* unsigned; the largest of all lanes */
ZR_INLINE vi vimax(vi a, vi b)
{
	return _mm512_max_epu32(a, b);
}
ZR_INLINE uint32_t vimaxh(vi x)
{
	return _mm512_reduce_max_epu32(x);
}

/* of each of 8 vectors */
ZR_INLINE __m256i vimaxh8(const vi *x)
{
	vi pair[4], four[2], all;
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++)
		pair[k] = vimax(_mm512_unpacklo_epi32(x[2 * k], x[2 * k + 1]),
				_mm512_unpackhi_epi32(x[2 * k], x[2 * k + 1]));
#pragma GCC unroll 2
	for (int k = 0; k < 2; k++)
		four[k] = vimax(_mm512_unpacklo_epi64(pair[2 * k], pair[2 * k + 1]),
				_mm512_unpackhi_epi64(pair[2 * k], pair[2 * k + 1]));
	all = vimax(_mm512_shuffle_i64x2(four[0], four[1], 0x44),
		    _mm512_shuffle_i64x2(four[0], four[1], 0xee));
	all = vimax(all, _mm512_shuffle_i64x2(all, all, 0xb1));
	return _mm512_castsi512_si256(_mm512_shuffle_i64x2(all, all, 0x88));
}

/* hi + 1 where lo wrapped below first */
ZR_INLINE vi vicarry(vi hi, vi lo, uint32_t first)
{
	return _mm512_mask_add_epi32(hi, _mm512_cmplt_epu32_mask(lo, viset(first)), hi, viset(1));
}

/* a * m in 64 bits */
ZR_INLINE void vimul_wide(vi a, uint32_t m, vi *hi, vi *lo)
{
	vi even = _mm512_mul_epu32(a, viset(m)),
	   odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), viset(m));
	*lo = _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
	*hi = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
}

/* out[0..4) = a[0] b[0] c[0] d[0] a[1] b[1] ... */
ZR_INLINE void vi_interleave4(vi a, vi b, vi c, vi d, vi out[4])
{
	vi ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
	vi cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);
	/* q[k], 128-bit part j: lane 4j+k of a, b, c, d; then a transpose of 4 x 4 parts */
	vi q0 = _mm512_unpacklo_epi64(ab0, cd0), q1 = _mm512_unpackhi_epi64(ab0, cd0);
	vi q2 = _mm512_unpacklo_epi64(ab1, cd1), q3 = _mm512_unpackhi_epi64(ab1, cd1);
	vi e0 = _mm512_shuffle_i32x4(q0, q1, 0x44), e1 = _mm512_shuffle_i32x4(q2, q3, 0x44);
	vi e2 = _mm512_shuffle_i32x4(q0, q1, 0xee), e3 = _mm512_shuffle_i32x4(q2, q3, 0xee);
	out[0] = _mm512_shuffle_i32x4(e0, e1, 0x88);
	out[1] = _mm512_shuffle_i32x4(e0, e1, 0xdd);
	out[2] = _mm512_shuffle_i32x4(e2, e3, 0x88);
	out[3] = _mm512_shuffle_i32x4(e2, e3, 0xdd);
}

ZR_INLINE vf vzero_where_word_below(vf x, vi word, uint32_t below)
{
	return _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(word, viset(below)), x);
}

/* Number of NaN and infinities among the lanes. */
ZR_INLINE uint32_t vnonfinite(vf x)
{
	return (uint32_t)__builtin_popcount(_mm512_fpclass_ps_mask(x, 0x01 | 0x08 | 0x10 | 0x80));
}

/* ---- two vectors at a time --------------------------------------------------------- */

/* The words of both, the even (0) or odd (1) ones. */
ZR_INLINE vi vwords2(vi a, vi b, int odd)
{
	vi i = _mm512_add_epi32(viset(0x00020000u + 0x00010001u * (uint32_t)odd),
				_mm512_mullo_epi32(viota(0), viset(0x00040004u)));
	return _mm512_permutex2var_epi16(a, i, b);
}

/* bits of zr_bf16; returns 0, and stores nothing, if one is a NaN. around: around the caches, if p
 * is a whole line. */
ZR_INLINE int vstore_bf16_2(uint16_t *p, const vf *x, int around)
{
	vi half = viset(0x8000), both;
	if (_mm512_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q))
		return 0;
	both = vwords2(_mm512_add_epi32(vbits(x[0]), half), _mm512_add_epi32(vbits(x[1]), half), 1);
	if (around && (uintptr_t)p % 64 == 0)
		_mm512_stream_si512((void *)p, both);
	else
		_mm512_storeu_si512(p, both);
	return 1;
}

/* zr_master_joined and zr_master_split; split returns 0, and stores nothing, if one is a NaN */
ZR_INLINE void vjoined_2(const uint16_t *lowp, vi low, vf *x)
{
	vi high = _mm512_add_epi16(_mm512_loadu_si512(lowp), _mm512_srai_epi16(low, 15));
	vi i = _mm512_add_epi32(viset(0x00200000u),
				_mm512_mullo_epi32(viota(0), viset(0x00010001u)));
	x[0] = vfrom_bits(_mm512_permutex2var_epi16(low, i, high));
	i = _mm512_add_epi32(i, viset(0x00100010u));
	x[1] = vfrom_bits(_mm512_permutex2var_epi16(low, i, high));
}
ZR_INLINE void vjoined8_2(const uint16_t *lowp, const uint8_t *rem, vf *x)
{
	vi low = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)rem));
	vjoined_2(lowp, _mm512_slli_epi16(low, 8), x);
}
ZR_INLINE void vjoined16_2(const uint16_t *lowp, const uint16_t *rem, vf *x)
{
	vjoined_2(lowp, _mm512_loadu_si512(rem), x);
}
/* a and b: the bits of both; returns their low halves, the rounded high ones go to lowp */
ZR_INLINE vi vsplit_2(uint16_t *lowp, vi a, vi b)
{
	vi low = vwords2(a, b, 0), high = vwords2(a, b, 1);
	_mm512_storeu_si512(lowp, _mm512_add_epi16(high, _mm512_srli_epi16(low, 15)));
	return low;
}
ZR_INLINE int vsplit8_2(uint16_t *lowp, uint8_t *rem, const vf *x)
{
	vi low, half = viset(0x80);
	if (_mm512_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q))
		return 0;
	low = vsplit_2(lowp, _mm512_add_epi32(vbits(x[0]), half),
		       _mm512_add_epi32(vbits(x[1]), half));
	_mm256_storeu_si256((__m256i *)(void *)rem,
			    _mm512_cvtepi16_epi8(_mm512_srli_epi16(low, 8)));
	return 1;
}
ZR_INLINE int vsplit16_2(uint16_t *lowp, uint16_t *rem, const vf *x)
{
	if (_mm512_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q))
		return 0;
	_mm512_storeu_si512(rem, vsplit_2(lowp, vbits(x[0]), vbits(x[1])));
	return 1;
}

/* ---- codes of 4 bits -------------------------------------------------------------- */

/* count, and one more where x is above y */
ZR_INLINE vi vicount_above(vi count, vf x, vf y)
{
	return _mm512_mask_add_epi32(count, _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ), count, viset(1));
}

/* of each byte the high bits, then the low ones */
ZR_INLINE vi viload_u4(const uint8_t *p)
{
	__m128i b = _mm_loadl_epi64((const __m128i *)(const void *)p), low = _mm_set1_epi8(15);
	__m128i high = _mm_and_si128(_mm_srli_epi16(b, 4), low);
	return _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(high, _mm_and_si128(b, low)));
}

struct vtable16 {
	vf all;
};

ZR_INLINE struct vtable16 vtable16(const float *p)
{
	return (struct vtable16){ vload_f32(p) };
}

ZR_INLINE vf vlookup16(const struct vtable16 *t, vi i)
{
	return _mm512_permutexvar_ps(i, t->all);
}

#endif
