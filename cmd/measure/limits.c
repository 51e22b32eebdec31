/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.c - what processors and memory allow: code that does nothing but what is measured.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "core/session.h"
#include "multiply.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define ROUNDS 4096

/* ---- multiply-adds --------------------------------------------------------------- */

/* Longer than other measurements: all of these are compared with it. */
static double time_limit(struct zr_bench *b, int (*fn)(void *), void *arg)
{
	const double seconds = b->seconds;
	b->seconds *= 5;
	const double t = zr_bench_time(b, fn, arg);
	b->seconds = seconds;
	return t;
}

struct fma {
	struct zr_bench *b;
	zr_multiply_fn *fn;
	double work;
};

static void fma_item(void *arg, int64_t item, int32_t worker)
{
	struct fma *f = arg;
	double work = f->fn(ROUNDS);
	(void)worker;
	if (!item)
		f->work = work;
}

static int fma_all(void *arg)
{
	struct fma *f = arg;
	zr_pool_run(f->b->s->facts.process.pool, zr_pool_size(f->b->s->facts.process.pool),
		    fma_item, f);
	return 0;
}

double zr_bench_fma(struct zr_bench *b, int bf16)
{
	struct fma f = { .b = b, .fn = zr_multiply_of(bf16, b->s->facts.device_info.variant) };
	const double one = 1;

	if (!f.fn || !b->s->facts.device_info.host_ops)
		return 0;

	double t = time_limit(b, fma_all, &f);
	double rate = t > 0 ? f.work * zr_pool_size(b->s->facts.process.pool) / t : 0;
	zr_bench_note(b, bf16 ? "limit.fma.bf16" : "limit.fma.fp32", &one, 1, rate, 1, "FLOP/s", 0,
		      1);
	return rate;
}

/* ---- memory ---------------------------------------------------------------------- */

#define COPY_BYTES (64ull << 20)
#define COPY_CUT   (1ull << 20)

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
	zr_pool_run(c->b->s->facts.process.pool, COPY_BYTES / COPY_CUT, copy_cut, c);
	return 0;
}

double zr_bench_copy(struct zr_bench *b)
{
	struct copy c = { .b = b, .to = NULL };
	const double at = COPY_BYTES;

	if (!b->s->facts.device_info.host_ops)
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
