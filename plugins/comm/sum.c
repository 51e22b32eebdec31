/* SPDX-License-Identifier: Apache-2.0
 *
 * sum.c - copies and sums of what several ranks hold. `stream`: around the caches, for results
 * larger than them.
 *
 * to[i] = ((x_0[i] + x_1[i]) + x_2[i]) + ..., ranks ascending (invariant I1: the accumulator starts
 * as x_0, so that -0 stays -0). A chunk is read completely before it is written: `to` may be one of
 * the sources.
 */
#include "sum.h"

#include <string.h>
#include <zeroth/plugin.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define CHUNK 8192 /* bytes of the running sum: stays in the first-level cache */

#ifdef __SSE2__
/* `to` is 16-byte aligned, bytes a multiple of 64. */
static void stream_lines(char *to, const char *from, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += 64) {
		__m128i a = _mm_loadu_si128((const __m128i *)(from + i)),
			b = _mm_loadu_si128((const __m128i *)(from + i + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
		__m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));
		_mm_stream_si128((__m128i *)(to + i), a);
		_mm_stream_si128((__m128i *)(to + i + 16), b);
		_mm_stream_si128((__m128i *)(to + i + 32), c);
		_mm_stream_si128((__m128i *)(to + i + 48), d);
	}
}

static void fence(void)
{
	_mm_sfence(); /* streamed stores are ordered by nothing else */
}
#else
static void stream_lines(char *to, const char *from, uint64_t bytes)
{
	memcpy(to, from, bytes);
}

static void fence(void)
{
}
#endif

static void put(char *to, const char *from, uint64_t bytes, int stream)
{
	uint64_t head = (0 - (uintptr_t)to) & 63, body;
	if (!stream || bytes < 256) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(to, from, head);
	body = (bytes - head) & ~(uint64_t)63;
	stream_lines(to + head, from + head, body);
	memcpy(to + head + body, from + head + body, bytes - head - body);
}

void zl_copy(void *to, const void *from, uint64_t bytes, int stream)
{
	put(to, from, bytes, stream);
	if (stream)
		fence();
}

/* out[i] = a[i] + b[i] over n elements; 64 bytes at a time, as the compiler can do best. */
#define ADD(name, T) \
	static void name(void *out_, const void *a_, const void *b_, uint64_t n) \
	{ \
		typedef T wide __attribute__((vector_size(64), aligned(sizeof(T)), may_alias)); \
		T *out = out_; \
		const T *a = a_, *b = b_; \
		uint64_t i = 0; \
		for (; i + 64 / sizeof(T) <= n; i += 64 / sizeof(T)) \
			*(wide *)(out + i) = *(const wide *)(a + i) + *(const wide *)(b + i); \
		for (; i < n; i++) \
			out[i] = a[i] + b[i]; \
	}
ADD(add_f32, float)
ADD(add_f64, double)
ADD(add_i64, uint64_t) /* wraps around */

static void add(int32_t dtype, void *out, const void *a, const void *b, uint64_t bytes)
{
	if (dtype == ZR_F32)
		add_f32(out, a, b, bytes / sizeof(float));
	else if (dtype == ZR_F64)
		add_f64(out, a, b, bytes / sizeof(double));
	else
		add_i64(out, a, b, bytes / sizeof(uint64_t));
}

void zl_sum(int32_t dtype, char *const *to, int32_t n_to, const char *const *from, int32_t ranks,
	    uint64_t bytes, int stream)
{
	_Alignas(64) char acc[CHUNK];
	for (uint64_t i = 0; i < bytes; i += CHUNK) {
		uint64_t n = bytes - i < CHUNK ? bytes - i : CHUNK;
		add(dtype, acc, from[0] + i, from[1] + i, n);
		for (int32_t r = 2; r < ranks; r++)
			add(dtype, acc, acc, from[r] + i, n);
		for (int32_t k = 0; k < n_to; k++)
			put(to[k] + i, acc, n, stream);
	}
	if (stream)
		fence();
}
