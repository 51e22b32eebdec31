/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - words to ids, by any model, with a memory of words; and the model WordPiece. Only
 * files/tokenizer/ and its tests include it.
 */
#ifndef ZR_TOKENIZER_MODEL_H
#define ZR_TOKENIZER_MODEL_H

#include "files/tokenizer/buf.h"

struct zr_memo;
struct zr_tokenizer;

enum { ZR_MODEL_BPE, ZR_MODEL_UNIGRAM, ZR_MODEL_WORDPIECE, ZR_MODELS };

struct zr_model_work; /* what one thread needs */
/* Takes the ids of a word, or of a part of one: of n bytes from `start` on. 0 or a negative
 * code. */
typedef int zr_model_sink(void *arg, const int32_t *ids, size_t count, uint64_t start, size_t n);

struct zr_model_work *zr_model_open(const struct zr_tokenizer *t, zr_model_sink *sink, void *arg);
void zr_model_close(struct zr_model_work *w); /* NULL is fine */
/* Puts a word of n > 0 bytes, the first of which is byte `start`. Its ids may wait for those of
 * other words; until zr_model_flush its bytes stay where they are. 0, ZR_ENOMEM, ZR_ENOTSUP of
 * zr_bpe_encode, or what the sink returns. */
int zr_model_put(struct zr_model_work *w, const char *p, size_t n, uint64_t start);
int zr_model_flush(struct zr_model_work *w);            /* the ids that wait go to the sink */
int zr_model_lacking(const struct zr_model_work *w);    /* zr_bpe_lacking */
struct zr_memo *zr_model_memo(struct zr_model_work *w); /* of words; others may use it too */

/* ---- wordpiece.c ---- */

#define ZR_WORDPIECES 64 /* words at a time */

/* A word, and where it is read while its tokens are looked for. */
struct zr_wordpiece {
	const char *p;
	size_t n;
	int32_t *id; /* [count] its ids, valid until the next call */
	int64_t count;
	size_t at, next, end; /* where a token starts, the next character, where the longest ends */
	uint32_t place, c;    /* zr_trie_place of that character */
};
/* The ids of up to ZR_WORDPIECES words of n > 0 bytes, all of them together. 0 or ZR_ENOMEM. */
int zr_wordpiece_encode(const struct zr_tokenizer *t, struct zr_ids *ids, struct zr_wordpiece *word,
			size_t words);

#endif
