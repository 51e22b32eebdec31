/* SPDX-License-Identifier: Apache-2.0
 *
 * sum.c - copies and sums of what several ranks hold. `stream`: around the caches, for results
 * larger than them. A result that is one of the sources never is: its lines were just read, so to
 * go around the caches would save nothing, and the next reader would find them in memory only.
 *
 * to[i] = ((x_0[i] + x_1[i]) + x_2[i]) + ..., ranks ascending (invariant I1: the accumulator starts
 * as x_0, so that -0 stays -0). A chunk is read completely before it is written: `to` may be one of
 * the sources.
 *
 * Pages are read in turns: a processor reads ahead in each page by itself, so that more bytes are
 * on their way from memory than if they were read one after the other.
 */
#include "sum.h"

#include <string.h>
#include <zeroth/plugin.h>

#ifdef __SSE2__
#include <emmintrin.h>
#define AROUND(to, k, x) _mm_stream_si128((__m128i *)(to) + k, (__m128i)(x))
#define FENCE()          _mm_sfence() /* streamed stores are ordered by nothing else */
#else
#define AROUND(to, k, x) memcpy((char *)(to) + 16 * k, &(x), 16)
#define FENCE()          (void)0
#endif

#define PAGE  4096u
#define PAIR  128u       /* bytes of a page in a turn: two cache lines */
#define CHUNK (2 * PAGE) /* bytes of the running sum: stays in the first-level cache */
#define PAGES 4          /* read in turns where nothing is kept in between */
#define LEAST 256u       /* bytes worth going around the caches */

/* Sums of `bytes` bytes from byte `at` of the sources on; of one source: a copy. */
struct sum {
	char *to;
	const char *const *from; /* [ranks] */
	uint64_t at, bytes;
	int32_t ranks;
	int pages;  /* read in turns */
	int stream; /* `to` is at a multiple of 16 */
};

/* pair_: of the 128 bytes at byte i. Bytes of private memory may lie anywhere. */
#define SUM(name, T)                                                                               \
	typedef T name##_x __attribute__((vector_size(16)));                                       \
	typedef name##_x name##_at __attribute__((aligned(1), may_alias));                         \
	typedef T name##_one __attribute__((aligned(1), may_alias));                               \
	static inline void pair_##name(const struct sum *s, uint64_t i)                            \
	{                                                                                          \
		const name##_at *p = (const name##_at *)(s->from[0] + s->at + i);                  \
		name##_x a = p[0], b = p[1], c = p[2], d = p[3];                                   \
		name##_x e = p[4], f = p[5], g = p[6], h = p[7];                                   \
		for (int32_t r = 1; r < s->ranks; r++) {                                           \
			p = (const name##_at *)(s->from[r] + s->at + i);                           \
			a += p[0];                                                                 \
			b += p[1];                                                                 \
			c += p[2];                                                                 \
			d += p[3];                                                                 \
			e += p[4];                                                                 \
			f += p[5];                                                                 \
			g += p[6];                                                                 \
			h += p[7];                                                                 \
		}                                                                                  \
		name##_at *to = (name##_at *)(s->to + i);                                          \
		if (s->stream) {                                                                   \
			AROUND(to, 0, a);                                                          \
			AROUND(to, 1, b);                                                          \
			AROUND(to, 2, c);                                                          \
			AROUND(to, 3, d);                                                          \
			AROUND(to, 4, e);                                                          \
			AROUND(to, 5, f);                                                          \
			AROUND(to, 6, g);                                                          \
			AROUND(to, 7, h);                                                          \
		} else {                                                                           \
			to[0] = a;                                                                 \
			to[1] = b;                                                                 \
			to[2] = c;                                                                 \
			to[3] = d;                                                                 \
			to[4] = e;                                                                 \
			to[5] = f;                                                                 \
			to[6] = g;                                                                 \
			to[7] = h;                                                                 \
		}                                                                                  \
	}                                                                                          \
	static void name(const struct sum *s)                                                      \
	{                                                                                          \
		const uint64_t block = (uint64_t)s->pages * PAGE;                                  \
		uint64_t i = 0;                                                                    \
		for (; i + block <= s->bytes; i += block)                                          \
			for (uint64_t k = i; k < i + PAGE; k += PAIR)                              \
				for (uint64_t j = k; j < k + block; j += PAGE)                     \
					pair_##name(s, j);                                         \
		for (; i + PAIR <= s->bytes; i += PAIR)                                            \
			pair_##name(s, i);                                                         \
		for (; i < s->bytes; i += sizeof(T)) {                                             \
			T x = *(const name##_one *)(s->from[0] + s->at + i);                       \
			for (int32_t r = 1; r < s->ranks; r++)                                     \
				x += *(const name##_one *)(s->from[r] + s->at + i);                \
			*(name##_one *)(s->to + i) = x;                                            \
		}                                                                                  \
	}
SUM(sum_f32, float)
SUM(sum_f64, double)
SUM(sum_i64, uint64_t) /* wraps around */

static void sum(int32_t dtype, const struct sum *s)
{
	if (dtype == ZR_F32)
		sum_f32(s);
	else if (dtype == ZR_F64)
		sum_f64(s);
	else
		sum_i64(s);
}

/* Bytes from p to the next cache line. */
static uint64_t to_line(const void *p)
{
	return (0 - (uintptr_t)p) & 63;
}

static void put(char *to, const char *from, uint64_t bytes, int stream)
{
	const uint64_t head = to_line(to), body = (bytes - head) & ~(uint64_t)63;
	if (!stream || bytes < LEAST) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(to, from, head);
	sum_i64(&(struct sum){ .to = to + head,
			       .from = &from,
			       .at = head,
			       .bytes = body,
			       .ranks = 1,
			       .pages = PAGES,
			       .stream = 1 });
	memcpy(to + head + body, from + head + body, bytes - head - body);
}

void zl_copy(void *to, const void *from, uint64_t bytes, int stream)
{
	put(to, from, bytes, stream);
	if (stream)
		FENCE();
}

static int is_source(const char *to, const char *const *from, int32_t ranks)
{
	for (int32_t r = 0; r < ranks; r++)
		if (from[r] == to)
			return 1;
	return 0;
}

/* One result, around the caches. */
static void stream_sum(int32_t dtype, char *to, const char *const *from, int32_t ranks,
		       uint64_t bytes)
{
	const uint64_t head = to_line(to);
	sum(dtype,
	    &(struct sum){ .to = to, .from = from, .bytes = head, .ranks = ranks, .pages = 1 });
	sum(dtype, &(struct sum){ .to = to + head,
				  .from = from,
				  .at = head,
				  .bytes = bytes - head,
				  .ranks = ranks,
				  .pages = PAGES,
				  .stream = 1 });
	FENCE();
}

void zl_sum(int32_t dtype, char *const *to, int32_t n_to, const char *const *from, int32_t ranks,
	    uint64_t bytes, int stream)
{
	const uint64_t element = zr_bytes_of(dtype, 1);
	_Alignas(64) char acc[CHUNK];
	struct sum s = { .to = acc, .from = from, .ranks = ranks, .pages = CHUNK / PAGE };
	for (int32_t k = 0; stream && k < n_to; k++)
		stream = !is_source(to[k], from, ranks);
	/* an element across two lines would be cut where the first line ends */
	if (stream && n_to == 1 && bytes >= LEAST && to_line(to[0]) % element == 0) {
		stream_sum(dtype, to[0], from, ranks, bytes);
		return;
	}
	for (; s.at < bytes; s.at += CHUNK) {
		s.bytes = CHUNK;
		if (bytes - s.at < CHUNK)
			s.bytes = bytes - s.at;
		sum(dtype, &s);
		for (int32_t k = 0; k < n_to; k++)
			put(to[k] + s.at, acc, s.bytes, stream);
	}

	if (stream)
		FENCE();
}
