/* SPDX-License-Identifier: Apache-2.0
 *
 * unigram.h - the model Unigram: the way through a word whose tokens have the largest sum of
 * scores. Only files/tokenizer/ and its tests include it.
 */
#ifndef ZR_TOKENIZER_UNIGRAM_H
#define ZR_TOKENIZER_UNIGRAM_H

#include "files/tokenizer/buf.h"

struct zr_tokenizer;

/* A place between two characters, and the best way to it. */
struct zr_unigram_place {
	double score;
	double second; /* of the second best way */
	uint32_t from; /* the place where the way's last token starts */
	int32_t id;    /* that token */
	uint32_t c;    /* the character behind the place */
	uint32_t at;   /* bytes of the word before the place */
};

#define ZR_AHEAD       32 /* places whose tokens are looked for together */
#define ZR_AHEAD_DEPTH 16 /* characters of a token that are looked for so */

/* The tokens that start at the places from `first` on. They are looked for together, so that the
 * processor waits for the memory of all of them at once. */
struct zr_unigram_ahead {
	size_t first, n;
	uint32_t length[ZR_AHEAD];            /* how many characters have been followed */
	uint32_t node[ZR_AHEAD];              /* where longer tokens go on; 0: there are none */
	int32_t id[ZR_AHEAD][ZR_AHEAD_DEPTH]; /* the token of k + 1 characters; -1: none */
};

struct zr_unigram_work {
	struct zr_unigram_place *place; /* [room]; characters are read up to place n */
	size_t room, n;
	struct zr_unigram_ahead ahead;
	size_t farthest; /* the last place that a token ends at */
	struct zr_ids ids;
	double sum; /* of the scores before a word; behind it, with its own */
	int sure;   /* the word would have the same ids behind another sum */
};

/* The ids of a word of n > 0 bytes, valid until the next call; returns their number, or
 * ZR_ENOMEM. */
int64_t zr_unigram_encode(const struct zr_tokenizer *t, struct zr_unigram_work *w, const char *p,
			  size_t n, const int32_t **ids);

/* Whether each word has ids of its own, because no token goes on behind a word. */
int zr_unigram_apart(const struct zr_tokenizer *t);
size_t zr_unigram_part(const char *p, size_t n); /* bytes of the first word, with its spaces */
/* Adds the scores of a word's ids, which are remembered, to the sum. 0: behind this sum the word
 * may have others. */
int zr_unigram_add(const struct zr_tokenizer *t, struct zr_unigram_work *w, const int32_t *ids,
		   size_t n);

#endif
