/* SPDX-License-Identifier: Apache-2.0
 *
 * multiply.c - multiply-adds of registers, into more sums than latency times throughput of any
 * processor. The sums are variables, so they stay in registers, and an empty asm keeps their values
 * unknown.
 */
#include "multiply.h"

#include <stddef.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define SUMS 12

static volatile float sink;

static double in_c(int64_t rounds)
{
	float sum[SUMS * 4] = { 0 };
	const volatile float x = 0.5f;
	const float y = x;

	for (int64_t i = 0; i < rounds; i++)
		for (int k = 0; k < SUMS * 4; k++)
			sum[k] = sum[k] * y + y;
	for (int k = 0; k < SUMS * 4; k++)
		sink = sum[k];
	return 2.0 * (double)rounds * SUMS * 4;
}

#ifdef __x86_64__
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define KEEP(k)  __asm__ volatile("" : "+v"(s##k));
/* each: operations of one instruction */
#define MULTIPLY(name, features, T, ZERO, ADD, each, FIRST)                                        \
	__attribute__((target(features))) static double name(int64_t rounds)                       \
	{                                                                                          \
		T x = ZERO, s0 = x, s1 = x, s2 = x, s3 = x, s4 = x, s5 = x, s6 = x, s7 = x,        \
		  s8 = x, s9 = x, s10 = x, s11 = x;                                                \
		__asm__ volatile("" : "+v"(x));                                                    \
		for (int64_t i = 0; i < rounds; i++) {                                             \
			EACH(ADD)                                                                  \
			EACH(KEEP)                                                                 \
		}                                                                                  \
		sink = FIRST(s0);                                                                  \
		return (double)(each) * (double)rounds * SUMS;                                     \
	}
#define ADD256(k)    s##k = _mm256_fmadd_ps(x, x, s##k);
#define ADD512(k)    s##k = _mm512_fmadd_ps(x, x, s##k);
#define ADD_PAIRS(k) s##k = _mm512_dpbf16_ps(s##k, (__m512bh)x, (__m512bh)x);
#define FIRST512(s)  _mm_cvtss_f32(_mm512_castps512_ps128(s))
MULTIPLY(by_avx2, "avx2,fma", __m256, _mm256_setzero_ps(), ADD256, 2 * 8, _mm256_cvtss_f32)
MULTIPLY(by_avx512, "avx512f", __m512, _mm512_setzero_ps(), ADD512, 2 * 16, FIRST512)
MULTIPLY(by_pairs, "avx512f,avx512bf16", __m512, _mm512_setzero_ps(), ADD_PAIRS, 2 * 32, FIRST512)

#if __has_include(<amxbf16intrin.h>)
__attribute__((target("amx-tile,amx-bf16"))) static double by_tiles(int64_t rounds)
{
	static const struct {
		uint8_t palette, start_row, reserved[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} config = {
		1, 0, { 0 }, { 64, 64, 64, 64, 64, 64, 64, 64 }, { 16, 16, 16, 16, 16, 16, 16, 16 }
	};
	_tile_loadconfig(&config);
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	_tile_zero(4);
	_tile_zero(5);
	_tile_zero(6);
	_tile_zero(7);
	for (int64_t i = 0; i < rounds; i++) { /* each 16 x 16 sums of 32 products */
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}

	_tile_release();
	return 2.0 * 16 * 16 * 32 * 4 * (double)rounds;
}
#else
#define by_tiles NULL
#endif

zr_multiply_fn *zr_multiply_of(int bf16, const char *variant)
{
	if (bf16 && !strncmp(variant, "amx", 3))
		return by_tiles;
	if (bf16)
		return strncmp(variant, "avx512bf16", 10) ? NULL : by_pairs;
	if (__builtin_cpu_supports("avx512f"))
		return by_avx512;
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? by_avx2 : in_c;
}
#else
zr_multiply_fn *zr_multiply_of(int bf16, const char *variant)
{
	(void)variant;
	return bf16 ? NULL : in_c;
}
#endif
