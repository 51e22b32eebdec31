/* SPDX-License-Identifier: Apache-2.0
 *
 * merging.c - the merges of words of few symbols, several words in turns: a step of one asks for
 * the memory that its next step reads, and while that comes the others have theirs.
 */
#include "files/tokenizer/parts.h"

/* A merge as a number, rank * SYMBOLS + place: the smallest is to be made next. */
#define SYMBOLS (ZR_MERGING_MOST + 2)
#define NO_RANK (INT32_MAX / SYMBOLS) /* no merge */
#define NONE    (NO_RANK * SYMBOLS)   /* and larger keys */
_Static_assert(ZR_MERGES_MOST <= NO_RANK, "key");
_Static_assert(SYMBOLS == 64, "a multiple of BLOCK");

typedef int32_t lanes __attribute__((vector_size(16)));
#define BLOCK 16 /* keys that are compared at a time */

static inline lanes smaller(lanes a, lanes b)
{
	lanes less = a < b;
	return (a & less) | (b & ~less);
}

static inline int32_t smallest_of(const int32_t *key, size_t n)
{
	const lanes *k = (const lanes *)key;

	lanes a = smaller(smaller(k[0], k[1]), smaller(k[2], k[3]));
	for (k += 4; n > BLOCK; n -= BLOCK, k += 4)
		a = smaller(a, smaller(smaller(k[0], k[1]), smaller(k[2], k[3])));
	int32_t x = a[0] < a[1] ? a[0] : a[1], y = a[2] < a[3] ? a[2] : a[3];
	return x < y ? x : y;
}

/* The next step reads the merge of two neighbours. The first and the last place have no symbol, and
 * so no merge. */
static inline void ask(struct zr_merging *m, int which, const struct zr_merges *merges, uint32_t at)
{
	struct zr_asked *a = &m->asked[which];
	a->pair = zr_merges_pair(merges, m->id[at], m->id[m->next[at]]);
	a->place = zr_merges_of(merges, a->pair);
	a->at = at;
	__builtin_prefetch(a->place);
}

static inline void answer(struct zr_merging *m, const struct zr_merges *merges,
			  const uint64_t *place, uint64_t pair, uint32_t at)
{
	uint32_t rank = zr_merges_rank(merges, *place, pair, NO_RANK);
	m->key[at] = (int32_t)(rank * SYMBOLS | at);
}

static void start(struct zr_merging *m, const struct zr_merges *merges, struct zr_merging_word *w)
{
	size_t n = w->n;

	m->word = w;
	m->keys = (n + BLOCK) / BLOCK * BLOCK;
	m->first = 1;
	for (size_t i = 0; i < m->keys; i++)
		m->key[i] = NONE;
	m->id[0] = m->id[n + 1] = zr_merges_no_id(merges);
	m->next[0] = 1;
	for (size_t i = 1; i <= n; i++) {
		m->id[i] = (uint32_t)w->id[i - 1];
		m->next[i] = (uint8_t)(i + 1);
		m->before[i] = (uint8_t)(i - 1);
	}

	for (size_t i = 1; i < n; i++) {
		m->place[i] = zr_merges_of(merges, zr_merges_pair(merges, m->id[i], m->id[i + 1]));
		__builtin_prefetch(m->place[i]);
	}
}

static void answer_all(struct zr_merging *m, const struct zr_merges *merges)
{
	for (uint32_t i = 1; i < m->word->n; i++)
		answer(m, merges, m->place[i], zr_merges_pair(merges, m->id[i], m->id[i + 1]), i);
	m->first = 0;
}

static inline void answer_asked(struct zr_merging *m, const struct zr_merges *merges)
{
	if (m->first)
		answer_all(m, merges);
	else
		for (int i = 0; i < 2; i++)
			answer(m, merges, m->asked[i].place, m->asked[i].pair, m->asked[i].at);
}

/* 0: there is no more. */
static inline int step(struct zr_merging *m, const struct zr_merges *merges)
{
	int32_t best = smallest_of(m->key, m->keys);
	if (best >= NONE)
		return 0;

	uint32_t at = (uint32_t)best % SYMBOLS, gone = m->next[at], after = m->next[gone];
	m->id[at] = merges->id[best / SYMBOLS];
	m->key[gone] = NONE;
	m->next[at] = (uint8_t)after;
	m->before[after] = (uint8_t)at;
	ask(m, 0, merges, m->before[at]);
	ask(m, 1, merges, at);
	return 1;
}

static void end(struct zr_merging *m)
{
	struct zr_merging_word *w = m->word;
	size_t ids = 0;
	for (size_t i = 1; i <= w->n; i = m->next[i])
		w->id[ids++] = (int32_t)m->id[i];
	w->n = ids;
}

void zr_merge_word(struct zr_merging *m, const struct zr_merges *of, struct zr_merging_word *word,
		   size_t words)
{
	const struct zr_merges copy = *of, *merges = &copy; /* which no store changes */
	struct zr_merging *turn[ZR_MERGING_TURNS];
	struct zr_merging_word *last = word + words;
	size_t n = 0;

	for (; n < ZR_MERGING_TURNS && word < last; n++)
		start(turn[n] = &m[n], merges, word++);
	while (n) {
		for (size_t i = 0; i < n; i++)
			answer_asked(turn[i], merges);
		size_t still = 0;
		for (size_t i = 0; i < n; i++) {
			turn[still] = turn[i];
			if (step(turn[i], merges)) {
				still++;
				continue;
			}

			end(turn[i]);
			if (word < last)
				start(turn[still++], merges, word++);
		}

		n = still;
	}
}
