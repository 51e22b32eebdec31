/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder.h - what the stages of an encoder share: see parts.h.
 *
 *   encoder.c: raw text -> encoder_added.c -> chunks.c or encoder_normalize.c -> encoder_added.c
 *           -> encoder_split.c
 */
#ifndef ZR_TOKENIZER_ENCODER_H
#define ZR_TOKENIZER_ENCODER_H

#include "files/tokenizer/parts.h"

#define RAW        0
#define NORMALIZED 1
#define OUT        4096 /* ids handed on at a time */

/* Of the functions below those that return int: 0 or a negative code. */

/* start: where the text of these ids starts. */
typedef int zr_encoder_keep(struct zr_encoder *e, const int32_t *ids, size_t count, uint64_t start);
/* A stage takes the next n bytes of a section; final: its last ones. */
typedef int zr_encoder_stage(struct zr_encoder *e, const char *p, size_t n, int final);

struct zr_encoder {
	const struct zr_tokenizer *t;
	zr_token_sink *sink;
	void *arg;
	struct zr_model_work *model;
	struct zr_match *match;
	struct zr_error *err;       /* of the call under way */
	struct zr_buf raw, text;    /* bytes that may be part of a character; whole characters */
	struct zr_buf held[2];      /* RAW, NORMALIZED: text that may be part of an added token */
	int in_word[2];             /* whether the text before that ends in a word */
	struct zr_buf composing;    /* text that may be changed by what follows */
	size_t enough_to_normalize; /* bytes of it that are worth another try */
	struct zr_buf normalized;   /* what the steps made of it */
	struct zr_buf section;      /* text that is not split yet */
	size_t enough;              /* bytes of `section` that are worth another try */
	struct zr_buf prefixed, spaced;
	struct zr_buf written; /* a piece in ByteLevel's characters, or with U+2581 for spaces */
	struct zr_buf bytes;   /* a word of it */
	int in_alphabet, in_marks; /* the piece under way is written so */
	int begun;                 /* the section has text */
	int normalizing;           /* it has text for the normalizer */
	int not_first;             /* it is not the document's first */
	struct zr_utf8_bad bad;
	uint64_t given;        /* bytes of the document */
	uint64_t lacking[256]; /* 1 + where one without a token is first; 0: nowhere yet */
	int32_t out[OUT];
	size_t n_out;
	struct zr_chunks *chunks; /* NULL: what is between two gaps has no ids of its own */
	zr_encoder_keep *keep;    /* takes the ids of words; NULL: they go on */
	struct zr_marks marks;
	const char *origin; /* a byte that went into the section */
	uint64_t origin_at; /* which */
};

static inline int no_memory(struct zr_encoder *e)
{
	return zr_no_memory(e->err);
}

/* 0 if n bytes, which nothing has split, may be held; else it says that they are too many. */
static inline int zr_encoder_limit(struct zr_encoder *e, size_t n)
{
	if (n <= ZR_TOKENIZER_PIECE)
		return 0;

	return zr_err(e->err, ZR_EINVAL,
		      "more than %u MiB of text that the pre-tokenizer does not split",
		      ZR_TOKENIZER_PIECE >> 20);
}

/* ---- encoder_lacking.c: byte-level vocabularies in which some bytes have no token ---- */

/* Looks at the next n bytes of a document; 0, or ZR_ENOTSUP with what is said of them. */
int zr_encoder_look(struct zr_encoder *e, const unsigned char *p, size_t n);
/* Says what the model failed with. */
int zr_encoder_model_failed(struct zr_encoder *e, int rc);

/* n bytes of `stage` go to the next one, where there are `held` already. */
static inline int zr_encoder_pass(struct zr_encoder *e, int stage, size_t n, size_t held,
				  zr_marks_map *map, const char *p)
{
	const uint64_t to = e->marks.at[stage + 1] + held;
	if (zr_marks_pass(&e->marks, stage, n, to, map, e, p))
		return no_memory(e);

	return 0;
}

/* ---- encoder_split.c ---- */

int zr_encoder_emit(struct zr_encoder *e, const int32_t *ids, size_t n);
int zr_encoder_flush(struct zr_encoder *e); /* what was emitted goes to the sink */
zr_model_sink zr_encoder_take;              /* the ids of a word, or of a part of one */
zr_encoder_stage zr_encoder_split;          /* normalized text, without added tokens */

/* ---- encoder_added.c ---- */

/* The tokens of added[which]; what is between them goes to `next`. */
int zr_encoder_extract(struct zr_encoder *e, int which, zr_encoder_stage *next, const char *p,
		       size_t n, int final);

/* ---- encoder_normalize.c ---- */

zr_encoder_stage zr_encoder_normalized; /* text that is normalized already */
zr_encoder_stage zr_encoder_spaces;     /* spaces as the normalizer has them */
zr_encoder_stage zr_encoder_form;       /* form C */
zr_encoder_stage zr_encoder_normalize;  /* by steps: what nothing that follows changes */
zr_encoder_stage zr_encoder_by_steps;   /* what is settled of the section, with these */

/* ---- chunks.c ---- */

int zr_chunks_open(struct zr_encoder *e);  /* e->chunks, where there are any; ZR_ENOMEM */
void zr_chunks_close(struct zr_chunks *k); /* NULL is fine */
zr_encoder_stage zr_chunks_normalize;

#endif
