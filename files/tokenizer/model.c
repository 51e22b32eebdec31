/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - a word to ids, whatever the model. The ids of short words, or
 * of their parts, are remembered.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "files/tokenizer/parts.h"

#define CACHE_WORDS (1 << 17) /* a word has two places, of which the last two that came stay */
#define CACHE_BYTES 30
#define LARGE_PAGE (1 << 21)
#define WAITING 64
#define CACHE_IDS 8

/* As large as a line of the processor's cache. */
struct word {
	int32_t id[CACHE_IDS];
	uint8_t n, ids; /* n = 0: empty */
	char bytes[CACHE_BYTES];
};

/* A word, or a part of one, whose place comes into the processor's cache while others are read. */
struct part {
	const char *p;
	size_t n;
	uint64_t start;
	int first; /* of what was put */
	struct word *place; /* NULL: it is not remembered */
	int32_t id;         /* that is all of it; -1: others may be */
};

struct zr_model_work {
	const struct zr_tokenizer *t;
	struct word *cache;
	struct zr_bpe_work *bpe;
	struct zr_unigram_work unigram;
	struct zr_ids wordpiece;
	zr_model_sink *sink;
	void *arg;
	struct part part[WAITING];
	size_t n;
};

static struct word *open_cache(void)
{
	size_t bytes = CACHE_WORDS * sizeof(struct word);
	struct word *cache = aligned_alloc(LARGE_PAGE, bytes);
	if (!cache)
		return NULL;
	madvise(cache, bytes, MADV_HUGEPAGE); /* words are all over it */
	return memset(cache, 0, bytes);
}

struct zr_model_work *zr_model_open(const struct zr_tokenizer *t, zr_model_sink *sink, void *arg)
{
	struct zr_model_work *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->t = t;
	w->sink = sink;
	w->arg = arg;
	w->bpe = zr_bpe_open(t);
	w->cache = open_cache();
	if (w->bpe && w->cache)
		return w;
	zr_model_close(w);
	return NULL;
}

void zr_model_close(struct zr_model_work *w)
{
	if (!w)
		return;
	zr_bpe_close(w->bpe);
	free(w->unigram.place);
	free(w->unigram.ids.id);
	free(w->wordpiece.id);
	free(w->cache);
	free(w);
}

int zr_ids_room(struct zr_ids *ids, size_t n)
{
	if (n <= ids->room)
		return 0;
	free(ids->id);
	for (ids->room = 1024; ids->room < n; ids->room *= 2)
		;
	ids->id = malloc(ids->room * sizeof *ids->id);
	ids->room = ids->id ? ids->room : 0;
	return ids->id ? 0 : ZR_ENOMEM;
}

static int64_t encode(struct zr_model_work *w, const char *p, size_t n, const int32_t **ids)
{
	switch (w->t->model) {
	case ZR_MODEL_UNIGRAM:
		return zr_unigram_encode(w->t, &w->unigram, p, n, ids);
	case ZR_MODEL_WORDPIECE:
		return zr_wordpiece_encode(w->t, &w->wordpiece, p, n, ids);
	default:
		return zr_bpe_encode(w->bpe, p, n, ids);
	}
}

/* ---- the memory of words ---- */

static inline uint64_t bytes_at(const char *p, size_t n)
{
	uint64_t x = 0;
	memcpy(&x, p, n);
	return x;
}

static inline uint64_t mix(uint64_t x, uint64_t y)
{
	x = (x ^ y) * UINT64_C(0x9e3779b97f4a7c15);
	return x ^ x >> 29;
}

/* Of n <= CACHE_BYTES bytes. */
static inline uint64_t hash(const char *p, size_t n)
{
	uint64_t h = n;
	for (; n >= 8; p += 8, n -= 8)
		h = mix(h, bytes_at(p, 8));
	if (n >= 4)
		h = mix(h, bytes_at(p, 4) << 32 | bytes_at(p + n - 4, 4));
	else if (n)
		h = mix(h, bytes_at(p, 1) << 16 | bytes_at(p + n / 2, 1) << 8 |
				   bytes_at(p + n - 1, 1));
	return mix(h, h >> 32);
}

static inline int is_word(const struct word *c, const char *p, size_t n)
{
	const char *q = c->bytes;
	if (c->n != n)
		return 0;
	if (n < 4)
		return p[0] == q[0] && p[n / 2] == q[n / 2] && p[n - 1] == q[n - 1];
	if (n < 8)
		return bytes_at(p, 4) == bytes_at(q, 4) &&
		       bytes_at(p + n - 4, 4) == bytes_at(q + n - 4, 4);
	for (size_t i = 0; i + 8 < n; i += 8)
		if (bytes_at(p + i, 8) != bytes_at(q + i, 8))
			return 0;
	return bytes_at(p + n - 8, 8) == bytes_at(q + n - 8, 8);
}

/* The ids of a word that may be in one of two places. */
static int64_t look_up(struct zr_model_work *w, struct word *c, const char *p, size_t n,
		       const int32_t **ids)
{
	c += !is_word(c, p, n) && is_word(c + 1, p, n);
	*ids = c->id;
	if (is_word(c, p, n) &&
	    (!w->t->apart || zr_unigram_add(w->t, &w->unigram, c->id, c->ids)))
		return c->ids;
	int64_t count = encode(w, p, n, ids);
	if (count >= 0 && count <= CACHE_IDS && (!w->t->apart || w->unigram.sure)) {
		c[1] = c[0];
		c->n = (uint8_t)n;
		c->ids = (uint8_t)count;
		memcpy(c->bytes, p, n);
		memcpy(c->id, *ids, (size_t)count * sizeof *c->id);
	}
	return count;
}

/* ---- words that wait ---- */

int zr_model_flush(struct zr_model_work *w)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < w->n; i++) {
		const struct part *o = &w->part[i];
		const int32_t *ids = &o->id;
		w->unigram.sum = o->first ? 0 : w->unigram.sum;
		int64_t count = o->id >= 0 ? 1 :
				o->place   ? look_up(w, o->place, o->p, o->n, &ids) :
					     encode(w, o->p, o->n, &ids);
		rc = count < 0 ? (int)count : w->sink(w->arg, ids, (size_t)count, o->start, o->n);
	}
	w->n = 0;
	return rc;
}

int zr_model_put(struct zr_model_work *w, const char *p, size_t n, uint64_t start)
{
	const struct zr_joins *joins = w->t->bpe.joins;
	int first = 1;
	for (size_t len; n; p += len, n -= len, start += len, first = 0) {
		struct part *o = &w->part[w->n++];
		*o = (struct part){ .p = p, .id = -1, .start = start, .first = first };
		len = joins	  ? zr_joins_part(joins, p, n, &o->id) :
		      w->t->apart ? zr_unigram_part(p, n) :
				    n;
		o->n = len;
		if (o->id < 0 && len <= CACHE_BYTES) {
			o->place = &w->cache[hash(p, len) & (CACHE_WORDS - 2)];
			__builtin_prefetch(o->place);
		}
		int rc = w->n == WAITING ? zr_model_flush(w) : 0;
		if (rc)
			return rc;
	}
	return 0;
}
