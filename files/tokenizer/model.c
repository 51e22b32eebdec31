/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - a word to ids, whatever the model. The ids of short words are remembered.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "files/tokenizer/parts.h"

#define CACHE_WORDS (1 << 17) /* a word has two places, of which the last two that came stay */
#define CACHE_BYTES 30
#define CACHE_IDS 8

/* As large as a line of the processor's cache. */
struct word {
	int32_t id[CACHE_IDS];
	uint8_t n, ids; /* n = 0: empty */
	char bytes[CACHE_BYTES];
};

struct zr_model_work {
	const struct zr_tokenizer *t;
	struct word *cache;
	struct zr_bpe_work *bpe;
	struct zr_trie_work trie;
};

struct zr_model_work *zr_model_open(const struct zr_tokenizer *t)
{
	struct zr_model_work *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->t = t;
	w->bpe = zr_bpe_open(t);
	w->cache = aligned_alloc(sizeof *w->cache, CACHE_WORDS * sizeof *w->cache);
	if (w->bpe && w->cache)
		return memset(w->cache, 0, CACHE_WORDS * sizeof *w->cache), w;
	zr_model_close(w);
	return NULL;
}

void zr_model_close(struct zr_model_work *w)
{
	if (!w)
		return;
	zr_bpe_close(w->bpe);
	free(w->trie.best);
	free(w->trie.id);
	free(w->cache);
	free(w);
}

static int64_t encode(struct zr_model_work *w, const char *p, size_t n, const int32_t **ids)
{
	switch (w->t->model) {
	case ZR_MODEL_UNIGRAM:
		return zr_unigram_encode(w->t, &w->trie, p, n, ids);
	case ZR_MODEL_WORDPIECE:
		return zr_wordpiece_encode(w->t, &w->trie, p, n, ids);
	default:
		return zr_bpe_encode(w->bpe, p, n, ids);
	}
}

static int is_word(const struct word *c, const char *p, size_t n)
{
	return c->n == n && !memcmp(c->bytes, p, n);
}

/* The first place of a word, with the word in it if it is remembered; else with the older one of
 * the two that were there. */
static struct word *find(struct zr_model_work *w, const char *p, size_t n)
{
	struct word *c = &w->cache[XXH3_64bits(p, n) & (CACHE_WORDS - 2)], first;
	if (is_word(c, p, n))
		return c;
	first = c[0];
	c[0] = c[1];
	c[1] = first;
	return c;
}

int64_t zr_model_word(struct zr_model_work *w, const char *p, size_t n, const int32_t **ids)
{
	struct word *c = NULL;
	if (n <= CACHE_BYTES) {
		c = find(w, p, n);
		*ids = c->id;
		if (is_word(c, p, n))
			return c->ids;
	}
	int64_t count = encode(w, p, n, ids);
	if (c && count >= 0 && count <= CACHE_IDS) {
		c->n = (uint8_t)n;
		c->ids = (uint8_t)count;
		memcpy(c->bytes, p, n);
		memcpy(c->id, *ids, (size_t)count * sizeof *c->id);
	}
	return count;
}
