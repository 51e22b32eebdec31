/* SPDX-License-Identifier: Apache-2.0
 *
 * merges.h - the merges of BPE, and words that they merge. Only files/tokenizer/ and its tests
 * include it.
 */
#ifndef ZR_TOKENIZER_MERGES_H
#define ZR_TOKENIZER_MERGES_H

#include <stddef.h>
#include <stdint.h>

/* The merges by their pair; see merges.c. A merge is one number, so that all of them are near:
 * rank << 2 * bits | pair, where a pair is left << bits | right. */
struct zr_merges {
	uint64_t *place;        /* [places] merges; ZR_NO_MERGE: the place is empty */
	uint32_t *id;           /* [n] what they make, by rank */
	uint16_t *displacement; /* by the first bits of the hash */
	uint64_t places, factor;
	unsigned group_shift, bits;
	uint64_t *list; /* [n] merges in the order of ranks, until zr_merges_ready */
	size_t n;
};

/* ---- merges.c ---- */

#define ZR_MERGES_MOST (1 << 24) /* ranks */
/* How many merges there may be of tokens with ids below `ids`: 2^18 if that is 2^22. */
size_t zr_merges_most(size_t ids);
int zr_merges_room(struct zr_merges *m, size_t n, size_t ids); /* 0 or ZR_ENOMEM */
/* The next one; its rank is how many came before. */
void zr_merges_put(struct zr_merges *m, uint32_t left, uint32_t right, uint32_t id);
/* When all are put. 0, ZR_ENOMEM, or ZR_EINVAL: more than 256 of one pair, or pairs that were
 * chosen so that their hashes are the same. */
int zr_merges_ready(struct zr_merges *m);
void zr_merges_free(struct zr_merges *m);

static inline uint64_t zr_merges_hash(const struct zr_merges *m, uint64_t pair)
{
	return (pair ^ pair >> 20) * m->factor;
}

static inline uint64_t *zr_merges_place(const struct zr_merges *m, uint64_t hash,
					uint32_t displacement)
{
	uint64_t x = (hash ^ displacement) * UINT64_C(0xbf58476d1ce4e5b9);
	return &m->place[(x >> 32) * m->places >> 32];
}

#define ZR_NO_MERGE UINT64_MAX
#define ZR_NO_RANK  UINT32_MAX

/* No token has this id, so that no merge has it. */
static inline uint32_t zr_merges_no_id(const struct zr_merges *m)
{
	return (1u << m->bits) - 1;
}

static inline uint64_t zr_merges_pair(const struct zr_merges *m, uint32_t left, uint32_t right)
{
	return (uint64_t)left << m->bits | right;
}

static inline uint64_t zr_merges_pair_of(const struct zr_merges *m, uint64_t merge)
{
	return merge & ((UINT64_C(1) << 2 * m->bits) - 1);
}

/* The place where the merge of a pair is, if it has one. */
static inline const uint64_t *zr_merges_of(const struct zr_merges *m, uint64_t pair)
{
	uint64_t hash = zr_merges_hash(m, pair);
	return zr_merges_place(m, hash, m->displacement[hash >> m->group_shift]);
}

/* The rank of the merge in a place if it is of this pair, else `otherwise`: without a branch, which
 * would often be guessed wrong. */
static inline uint32_t zr_merges_rank(const struct zr_merges *m, uint64_t merge, uint64_t pair,
				      uint32_t otherwise)
{
	uint64_t x = merge ^ pair;
	if (zr_merges_pair_of(m, x))
		return otherwise;

	return (uint32_t)(x >> 2 * m->bits);
}

/* ZR_NO_RANK: there is no merge of these. */
static inline uint32_t zr_merges_find(const struct zr_merges *m, uint32_t left, uint32_t right)
{
	uint64_t pair = zr_merges_pair(m, left, right);
	return zr_merges_rank(m, *zr_merges_of(m, pair), pair, ZR_NO_RANK);
}

/* ---- merging.c ---- */

#define ZR_MERGING_MOST  62 /* symbols of a word */
#define ZR_MERGING_TURNS 16 /* words at a time */

struct zr_merging_word {
	int32_t *id; /* [n] symbols, which become its ids */
	size_t n;    /* up to ZR_MERGING_MOST; then of the ids */
};
struct zr_asked {
	uint64_t pair;
	const uint64_t *place;
	uint32_t at; /* of the pair's first symbol */
};
/* A word under way. Its symbols have the places 1 to n. */
struct zr_merging {
	/* of the merge with the next one */
	int32_t key[ZR_MERGING_MOST + 2] __attribute__((aligned(16)));
	uint32_t id[ZR_MERGING_MOST + 2];
	uint8_t next[ZR_MERGING_MOST + 2], before[ZR_MERGING_MOST + 2];
	struct zr_merging_word *word;
	size_t keys;
	int first; /* the next step reads all merges */
	const uint64_t *place[ZR_MERGING_MOST + 2];
	struct zr_asked asked[2]; /* or these */
};
/* Merges the symbols of words. m: [ZR_MERGING_TURNS], of which nothing is kept. */
void zr_merge_word(struct zr_merging *m, const struct zr_merges *merges,
		   struct zr_merging_word *word, size_t words);

#endif
