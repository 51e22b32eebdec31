/* SPDX-License-Identifier: Apache-2.0
 *
 * bpe.h - the model BPE: symbols of a word, which merges join. Only files/tokenizer/ and its tests
 * include it.
 */
#ifndef ZR_TOKENIZER_BPE_H
#define ZR_TOKENIZER_BPE_H

#include "files/tokenizer/merges.h"

struct zr_tokenizer;

struct zr_bpe {
	struct zr_merges merges;
	/* [whole_mask + 1] ids by the hash of their bytes; -1: empty. NULL: it is not needed */
	int32_t *whole;
	size_t whole_mask;
	int ignore_merges;      /* a word that is a token is that token */
	int characters;         /* merges begin with characters, not with bytes */
	int lacks;              /* merges begin with bytes, of which some have no token */
	int fuse_unknown;       /* neighbours without a token are one unknown token */
	int32_t *character;     /* [ZR_BMP] tokens of single characters, -1: none; or NULL */
	struct zr_joins *joins; /* NULL: words are merged whole */
};

/* ---- bpe.c ---- */

struct zr_bpe_work; /* what one thread needs: symbols, candidates */

/* Fills `whole` and `character`, for ignore_merges and characters. 0 or ZR_ENOMEM. */
int zr_bpe_index(struct zr_tokenizer *t);
struct zr_bpe_work *zr_bpe_open(const struct zr_tokenizer *t);
void zr_bpe_close(struct zr_bpe_work *w); /* NULL is fine */

/* The ids of one word; returns their number, or ZR_ENOMEM, or ZR_ENOTSUP: a byte of the word has no
 * token, and the vocabulary has no unknown token. */
int64_t zr_bpe_encode(struct zr_bpe_work *w, const char *p, size_t n, const int32_t **ids);
int zr_bpe_lacking(const struct zr_bpe_work *w); /* the byte of ZR_ENOTSUP */

/* Words that are merged together. Each is expected first; then all are merged; then their ids are
 * asked for, in the same order, and once more after zr_bpe_expect_again. */
int zr_bpe_expect(struct zr_bpe_work *w, const char *p, size_t n); /* 0: too long, or too many */
void zr_bpe_merge_expected(struct zr_bpe_work *w);
int64_t zr_bpe_expected(struct zr_bpe_work *w, const int32_t **ids);
void zr_bpe_expect_again(struct zr_bpe_work *w);
void zr_bpe_expect_none(struct zr_bpe_work *w);

/* ---- joins.c: where words may be cut, because no merge joins what is there ---- */

/* From the merges and the vocabulary. *out is NULL where merges may join anything. 0 or
 * ZR_ENOMEM. */
int zr_joins_open(const struct zr_tokenizer *t, struct zr_joins **out);
void zr_joins_close(struct zr_joins *j); /* NULL is fine */

#define ZR_JOINS_IDS 24
/* How many bytes of a word p[0..n), n > 0, come before a place that no merge crosses. *count: how
 * many ids they have, if nothing joins their characters; 0: merges have to say. */
size_t zr_joins_part(const struct zr_joins *j, const char *p, size_t n, int32_t ids[ZR_JOINS_IDS],
		     int *count);

#endif
