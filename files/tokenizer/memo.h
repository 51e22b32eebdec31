/* SPDX-License-Identifier: Apache-2.0
 *
 * memo.h - the ids of short texts, of which those that came last are remembered: a text has two
 * places, of which the last two that came stay.
 */
#ifndef ZR_TOKENIZER_MEMO_H
#define ZR_TOKENIZER_MEMO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ZR_MEMO_BYTES 30
#define ZR_MEMO_IDS   8
#define ZR_MEMO_TEXTS (1 << 17)

enum { ZR_MEMO_WORD, ZR_MEMO_CHUNK = 0x80 }; /* kinds of texts; what is of one is none of another */

/* As large as a line of the processor's cache. */
struct zr_memo {
	int32_t id[ZR_MEMO_IDS];
	uint8_t n, ids; /* n: with the kind; 0: empty */
	char bytes[ZR_MEMO_BYTES];
};

struct zr_memo *zr_memo_open(void);    /* [ZR_MEMO_TEXTS]; NULL: there is no memory */
void zr_memo_close(struct zr_memo *m); /* NULL is fine */
/* At the place of a text. */
void zr_memo_put(struct zr_memo *at, int kind, const char *p, size_t n, const int32_t *ids,
		 size_t count);

static inline uint64_t zr_memo_bytes(const char *p, size_t n)
{
	uint64_t x = 0;
	memcpy(&x, p, n);
	return x;
}

static inline uint64_t zr_memo_mix(uint64_t x, uint64_t y)
{
	x = (x ^ y) * UINT64_C(0x9e3779b97f4a7c15);
	return x ^ x >> 29;
}

static inline uint64_t zr_memo_hash(int kind, const char *p, size_t n)
{
	uint64_t h = n | (unsigned)kind;

	for (; n >= 8; p += 8, n -= 8)
		h = zr_memo_mix(h, zr_memo_bytes(p, 8));
	if (n >= 4)
		h = zr_memo_mix(h, zr_memo_bytes(p, 4) << 32 | zr_memo_bytes(p + n - 4, 4));
	else if (n)
		h = zr_memo_mix(h, zr_memo_bytes(p, 1) << 16 | zr_memo_bytes(p + n / 2, 1) << 8 |
					   zr_memo_bytes(p + n - 1, 1));

	return zr_memo_mix(h, h >> 32);
}

/* The place of a text of 1 to ZR_MEMO_BYTES bytes, which comes into the processor's cache. */
static inline struct zr_memo *zr_memo_place(struct zr_memo *m, int kind, const char *p, size_t n)
{
	m += zr_memo_hash(kind, p, n) & (ZR_MEMO_TEXTS - 2);
	__builtin_prefetch(m);
	__builtin_prefetch(m + 1);
	return m;
}

static inline int zr_memo_is(const struct zr_memo *m, int kind, const char *p, size_t n)
{
	const char *q = m->bytes;

	if (m->n != (n | (unsigned)kind))
		return 0;
	if (n < 4)
		return p[0] == q[0] && p[n / 2] == q[n / 2] && p[n - 1] == q[n - 1];
	if (n < 8)
		return zr_memo_bytes(p, 4) == zr_memo_bytes(q, 4) &&
		       zr_memo_bytes(p + n - 4, 4) == zr_memo_bytes(q + n - 4, 4);

	for (size_t i = 0; i + 8 < n; i += 8)
		if (zr_memo_bytes(p + i, 8) != zr_memo_bytes(q + i, 8))
			return 0;

	return zr_memo_bytes(p + n - 8, 8) == zr_memo_bytes(q + n - 8, 8);
}

/* What is remembered of a text with this place; NULL: nothing. */
static inline const struct zr_memo *zr_memo_find(const struct zr_memo *at, int kind, const char *p,
						 size_t n)
{
	if (zr_memo_is(at, kind, p, n))
		return at;
	if (zr_memo_is(at + 1, kind, p, n))
		return at + 1;

	return NULL;
}

#endif
