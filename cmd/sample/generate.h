/* SPDX-License-Identifier: Apache-2.0
 *
 * generate.h - text from a model, token by token. What the model keeps of the tokens so far stands
 * in its cache: a new token costs one row, and a text that begins as the one before costs what is
 * new in it. [main]
 */
#ifndef ZR_CMD_SAMPLE_GENERATE_H
#define ZR_CMD_SAMPLE_GENERATE_H

#include "cmd/sample/draw.h"
#include "cmd/sample/token_text.h"

struct zr_session;

enum zr_ended { ZR_ENDED_LENGTH, ZR_ENDED_EOS, ZR_ENDED_STOP };
extern const char *const zr_ended_names[];

#define ZR_EOS_MOST 16

/* The caller fills the first part, zr_generator_open the rest. */
struct zr_generator {
	struct zr_session *session; /* borrowed */
	struct zr_token_text *text; /* borrowed */
	struct zr_draw draw;
	struct zr_stops stops;    /* text and n */
	int32_t eos[ZR_EOS_MOST]; /* tokens that end a text */
	int n_eos;
	int64_t most; /* tokens of a text */
	int cached;   /* the session has a cache */

	int64_t context;
	int64_t near;    /* with more tokens than this all keys differ (LongRoPE) */
	int far;         /* 1: the cache has the keys of more tokens than `near` */
	int32_t *window; /* [context] the tokens that the model sees */
	int64_t n, kept; /* of which the cache has the first ones */
	float *logits;
	int32_t *best;
};

int zr_generator_open(struct zr_generator *g, struct zr_error *err);
void zr_generator_close(struct zr_generator *g);

/* The tokens that a text begins with, at least one. Of more than the context it takes the last
 * ones. */
void zr_generator_begin(struct zr_generator *g, const int32_t *tokens, int64_t n);

/* A text that is drawn. */
struct zr_drawn {
	zr_stop_sink *sink; /* gets the text, as it is drawn; 0, or a code that ends it */
	void *arg;
	uint64_t number; /* of the text: each has draws of its own */
	/* filled: */
	int32_t *tokens; /* [most] or NULL */
	int64_t n;       /* without one that ended it */
	enum zr_ended ended;
};

int zr_generate(struct zr_generator *g, struct zr_drawn *d, struct zr_error *err);

#endif
