/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.c - what processors and memory allow: code that does nothing but what is measured.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core/session.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define ROUNDS 4096
#define CHAINS 12 /* independent sums: more than latency times throughput of any processor */

/* ---- multiply-adds --------------------------------------------------------------- */

static volatile float sink;

/* Longer than other measurements: all of these are compared with it. */
static double time_limit(struct zr_bench *b, int (*fn)(void *), void *arg)
{
	const double seconds = b->seconds;
	b->seconds *= 5;
	const double t = zr_bench_time(b, fn, arg);
	b->seconds = seconds;
	return t;
}

/* Each does ROUNDS x CHAINS multiply-adds of a register and returns operations. */
typedef double fma_fn(void);

static double fma_plain(void)
{
	float sum[CHAINS * 4] = { 0 };
	const volatile float x = 0.5f;
	const float y = x;
	for (int i = 0; i < ROUNDS; i++)
		for (int k = 0; k < CHAINS * 4; k++)
			sum[k] = sum[k] * y + y;
	for (int k = 0; k < CHAINS * 4; k++)
		sink = sum[k];
	return 2.0 * ROUNDS * CHAINS * 4;
}

#ifdef __x86_64__
/* Sums that are variables stay in registers; the empty asm keeps their values unknown. */
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define KEEP(k) __asm__ volatile("" : "+v"(s##k));
#define FMA_BODY(T, ZERO, ADD, WIDTH, STORE)                                                       \
	T x = ZERO, s0 = x, s1 = x, s2 = x, s3 = x, s4 = x, s5 = x, s6 = x, s7 = x, s8 = x,        \
	  s9 = x, s10 = x, s11 = x;                                                                \
	__asm__ volatile("" : "+v"(x));                                                            \
	for (int i = 0; i < ROUNDS; i++) {                                                         \
		EACH(ADD)                                                                          \
		EACH(KEEP)                                                                         \
	}                                                                                          \
	sink = STORE(s0);                                                                          \
	return (double)(WIDTH) * ROUNDS * CHAINS

#define ADD256(k) s##k = _mm256_fmadd_ps(x, x, s##k);
#define ADD512(k) s##k = _mm512_fmadd_ps(x, x, s##k);
#define ADD512_BF16(k) s##k = _mm512_dpbf16_ps(s##k, (__m512bh)x, (__m512bh)x);
#define FIRST512(s) _mm_cvtss_f32(_mm512_castps512_ps128(s))

__attribute__((target("avx2,fma"))) static double fma_avx2(void)
{
	FMA_BODY(__m256, _mm256_setzero_ps(), ADD256, 2 * 8, _mm256_cvtss_f32);
}

__attribute__((target("avx512f"))) static double fma_avx512(void)
{
	FMA_BODY(__m512, _mm512_setzero_ps(), ADD512, 2 * 16, FIRST512);
}

__attribute__((target("avx512f,avx512bf16"))) static double fma_avx512_bf16(void)
{
	FMA_BODY(__m512, _mm512_setzero_ps(), ADD512_BF16, 2 * 32, FIRST512);
}

/* The tile registers of AMX, whose use the device has asked the system for. */
#if __has_include(<amxbf16intrin.h>)
__attribute__((target("amx-tile,amx-bf16"))) static double fma_tiles(void)
{
	static const struct {
		uint8_t palette, start_row, reserved[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} config = { 1, 0, { 0 }, { 64, 64, 64, 64, 64, 64, 64, 64 },
		     { 16, 16, 16, 16, 16, 16, 16, 16 } };
	_tile_loadconfig(&config);
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	_tile_zero(4);
	_tile_zero(5);
	_tile_zero(6);
	_tile_zero(7);
	for (int i = 0; i < ROUNDS; i++) { /* each 16 x 16 sums of 32 products */
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_release();
	return 2.0 * 16 * 16 * 32 * 4 * ROUNDS;
}
#else
#define fma_tiles NULL
#endif

/* Of bf16: by what the device's kernels, called `variant`, multiply it with, or NULL. */
static fma_fn *choose(int bf16, const char *variant)
{
	const int wide = __builtin_cpu_supports("avx512f");
	if (bf16 && !strncmp(variant, "amx", 3))
		return fma_tiles;
	if (bf16)
		return strncmp(variant, "avx512bf16", 10) ? NULL : fma_avx512_bf16;
	return wide ? fma_avx512 :
	       __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? fma_avx2 :
										 fma_plain;
}
#else
static fma_fn *choose(int bf16, const char *variant)
{
	(void)variant;
	return bf16 ? NULL : fma_plain;
}
#endif

struct fma {
	struct zr_bench *b;
	fma_fn *fn;
	double work;
};

static void fma_item(void *arg, int64_t item, int32_t worker)
{
	struct fma *f = arg;
	double work = f->fn();
	(void)worker;
	if (!item)
		f->work = work;
}

static int fma_all(void *arg)
{
	struct fma *f = arg;
	zr_pool_run(f->b->s->process.pool, zr_pool_size(f->b->s->process.pool), fma_item, f);
	return 0;
}

double zr_bench_fma(struct zr_bench *b, int bf16)
{
	struct fma f = { .b = b, .fn = choose(bf16, b->s->device_info.variant) };
	const double one = 1;
	if (!f.fn || !b->s->device_info.host_ops)
		return 0;
	double t = time_limit(b, fma_all, &f);
	double rate = t > 0 ? f.work * zr_pool_size(b->s->process.pool) / t : 0;
	zr_bench_note(b, bf16 ? "limit.fma.bf16" : "limit.fma.fp32", &one, 1, rate, 1, "FLOP/s", 0,
		      1);
	return rate;
}

/* ---- memory ---------------------------------------------------------------------- */

#define COPY_BYTES (64ull << 20)
#define COPY_CUT (1ull << 20)

struct copy {
	struct zr_bench *b;
	char *to;
	const char *from;
};

/* Past the caches where the processor has such stores: a store then reads nothing. */
static void copy_cut(void *arg, int64_t item, int32_t worker)
{
	const struct copy *c = arg;
	char *to = c->to + (uint64_t)item * COPY_CUT;
	const char *from = c->from + (uint64_t)item * COPY_CUT;
	(void)worker;
#ifdef __x86_64__
	for (uint64_t i = 0; i < COPY_CUT; i += 64) {
		const __m128i *s = (const __m128i *)(const void *)(from + i);
		__m128i *d = (__m128i *)(void *)(to + i);
		_mm_stream_si128(d, _mm_load_si128(s));
		_mm_stream_si128(d + 1, _mm_load_si128(s + 1));
		_mm_stream_si128(d + 2, _mm_load_si128(s + 2));
		_mm_stream_si128(d + 3, _mm_load_si128(s + 3));
	}
	_mm_sfence();
#else
	memcpy(to, from, COPY_CUT);
#endif
}

static int copy_all(void *arg)
{
	struct copy *c = arg;
	zr_pool_run(c->b->s->process.pool, COPY_BYTES / COPY_CUT, copy_cut, c);
	return 0;
}

double zr_bench_copy(struct zr_bench *b)
{
	struct copy c = { .b = b, .to = NULL };
	const double at = COPY_BYTES;
	if (!b->s->device_info.host_ops)
		return 0;
	char *all = aligned_alloc(4096, 2 * COPY_BYTES);
	if (!all)
		return 0;
	memset(all, 1, 2 * COPY_BYTES);
	c.to = all;
	c.from = all + COPY_BYTES;
	double t = time_limit(b, copy_all, &c);
	free(all);
	zr_bench_note(b, "limit.copy", &at, 1, at, t, "B/s", 0, 1);
	return t > 0 ? at / t : 0;
}
