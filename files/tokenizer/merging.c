/* SPDX-License-Identifier: Apache-2.0
 *
 * merging.c - the merges of a few symbols, one step at a time. A step asks for the memory that the
 * next one reads: while it comes, other words are merged.
 */
#include "files/tokenizer/parts.h"

#define FEW ZR_MERGING_MOST
#define PLACE_SHIFT 22 /* of a symbol's place, behind an id */
_Static_assert(ZR_TOKENIZER_IDS <= 1 << PLACE_SHIFT && FEW <= 1 << (32 - PLACE_SHIFT), "key");

/* A merge as a number: the smallest is that to be made next. */
static inline uint64_t key_of(uint64_t made, size_t at)
{
	return made | (uint64_t)at << PLACE_SHIFT;
}

static inline uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The smallest of n keys, a multiple of 4: four chains of comparisons run beside each other. */
static inline uint64_t smallest(const uint64_t *key, size_t n)
{
	uint64_t a = key[0], b = key[1], c = key[2], d = key[3];
	for (size_t i = 4; i < n; i += 4) {
		a = smaller(a, key[i]);
		b = smaller(b, key[i + 1]);
		c = smaller(c, key[i + 2]);
		d = smaller(d, key[i + 3]);
	}
	return smaller(smaller(a, b), smaller(c, d));
}

static const struct zr_merge nowhere = { ZR_NO_PAIR, ZR_NO_MERGE };

/* The next step reads the merge of two neighbours. */
static inline void ask(struct zr_merging *m, int which, const struct zr_merges *merges, size_t at,
		       size_t next)
{
	struct zr_asked *a = &m->asked[which];
	a->pair = zr_merges_pair((uint32_t)m->id[at], (uint32_t)m->id[next]);
	a->place = zr_merges_of(merges, a->pair);
	a->at = at;
	__builtin_prefetch(a->place);
}

static inline void ask_nothing(struct zr_merging *m, int which)
{
	m->asked[which] = (struct zr_asked){ .place = &nowhere, .at = FEW };
}

void zr_merging_start(struct zr_merging *m, const struct zr_merges *merges, int32_t *id, size_t n)
{
	m->id = id;
	m->n = n;
	m->keys = (n + 3) / 4 * 4;
	m->first = 1;
	for (size_t i = 0; i < n; i++) {
		m->next[i] = (uint8_t)(i + 1);
		m->before[i] = (uint8_t)(i - 1);
	}
	for (size_t i = 0; i + 1 < n; i++) {
		uint64_t pair = zr_merges_pair((uint32_t)id[i], (uint32_t)id[i + 1]);
		m->place[i] = zr_merges_of(merges, pair);
		__builtin_prefetch(m->place[i]);
	}
}

/* The merges of all neighbours. */
static void read_all(struct zr_merging *m)
{
	size_t n = m->n;
	for (size_t i = 0; i + 1 < n; i++) {
		uint64_t pair = zr_merges_pair((uint32_t)m->id[i], (uint32_t)m->id[i + 1]);
		m->key[i] = key_of(zr_merges_made(m->place[i], pair), i);
	}
	for (size_t i = n ? n - 1 : 0; i < m->keys; i++)
		m->key[i] = ZR_NO_MERGE;
	m->first = 0;
}

/* Those of two neighbours, or of one or none: what was asked for. */
static void read_asked(struct zr_merging *m)
{
	for (int i = 0; i < 2; i++) {
		const struct zr_asked *a = &m->asked[i];
		m->key[a->at] = key_of(zr_merges_made(a->place, a->pair), a->at);
	}
}

int zr_merging_step(struct zr_merging *m, const struct zr_merges *merges)
{
	if (m->first)
		read_all(m);
	else
		read_asked(m);
	uint64_t best = m->n ? smallest(m->key, m->keys) : ZR_NO_MERGE;
	if (best == ZR_NO_MERGE)
		return 0;
	size_t at = best >> PLACE_SHIFT & (FEW - 1), gone = m->next[at], after = m->next[gone];
	m->id[at] = (int32_t)(best & ((1u << PLACE_SHIFT) - 1));
	m->next[at] = (uint8_t)after;
	m->key[gone] = m->key[at] = ZR_NO_MERGE;
	ask_nothing(m, 0);
	ask_nothing(m, 1);
	if (at)
		ask(m, 0, merges, m->before[at], at);
	if (after < m->n) {
		m->before[after] = (uint8_t)at;
		ask(m, 1, merges, at, after);
	}
	return 1;
}

size_t zr_merging_end(struct zr_merging *m)
{
	size_t ids = 0;
	for (size_t i = 0; i < m->n; i = m->next[i])
		m->id[ids++] = m->id[i];
	return ids;
}
