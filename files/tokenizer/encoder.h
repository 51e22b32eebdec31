/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder.h - what encoder.c and chunks.c share: see parts.h.
 */
#ifndef ZR_TOKENIZER_ENCODER_H
#define ZR_TOKENIZER_ENCODER_H

#include "files/tokenizer/parts.h"

#define RAW 0
#define NORMALIZED 1
#define OUT 4096 /* ids handed on at a time */

struct zr_encoder {
	const struct zr_tokenizer *t;
	zr_token_sink *sink;
	void *arg;
	struct zr_model_work *model;
	struct zr_match *match;
	struct zr_error *err;   /* of the call under way */
	struct zr_buf raw, text; /* bytes that may be part of a character; whole characters */
	struct zr_buf held[2];  /* RAW, NORMALIZED: text that may be part of an added token */
	int in_word[2];         /* whether the text before that ends in a word */
	struct zr_buf composing; /* text that may be changed by what follows */
	size_t enough_to_normalize; /* bytes of it that are worth another try */
	struct zr_buf normalized;   /* what the steps made of it */
	struct zr_buf section;  /* text that is not split yet */
	size_t enough;          /* bytes of `section` that are worth another try */
	struct zr_buf prefixed, spaced;
	struct zr_buf alphabet; /* a piece in ByteLevel's characters */
	struct zr_buf bytes;	/* a word of it */
	int in_alphabet;	/* the piece under way is in them */
	int begun;              /* the section has text */
	int normalizing;        /* it has text for the normalizer */
	int not_first;          /* it is not the document's first */
	uint64_t replaced;
	int32_t out[OUT];
	size_t n_out;
	struct zr_chunks *chunks; /* NULL: what is between two gaps has no ids of its own */
	int keeping;            /* ids go to zr_chunks_keep */
	struct zr_marks marks;
	const char *origin;     /* a byte that went into the section */
	uint64_t origin_at;     /* which */
};

static inline int no_memory(struct zr_encoder *e)
{
	return zr_err(e->err, ZR_ENOMEM, "out of memory");
}

/* Of the functions below those that return int: 0 or a negative code. */

int zr_encoder_emit(struct zr_encoder *e, const int32_t *ids, size_t n);
/* The next n bytes of a section's normalized text. */
int zr_encoder_split(struct zr_encoder *e, const char *p, size_t n, int final);
/* By steps: p[0..n), which nothing that follows changes. */
int zr_encoder_normalize(struct zr_encoder *e, const char *p, size_t n, int final);
/* What is settled of the section, with these. */
int zr_encoder_by_steps(struct zr_encoder *e, const char *p, size_t n, int final);

/* ---- chunks.c ---- */

int zr_chunks_open(struct zr_encoder *e); /* e->chunks, where there are any; ZR_ENOMEM */
void zr_chunks_close(struct zr_chunks *k); /* NULL is fine */
/* The next n bytes of a section. */
int zr_chunks_normalize(struct zr_encoder *e, const char *p, size_t n, int final);
/* Ids of the chunk that has the text at `start`. */
int zr_chunks_keep(struct zr_encoder *e, const int32_t *ids, size_t count, uint64_t start);

#endif
