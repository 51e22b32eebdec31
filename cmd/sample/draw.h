/* SPDX-License-Identifier: Apache-2.0
 *
 * draw.h - the next token from logits, and text that ends at a stop string. Pure functions.
 */
#ifndef ZR_CMD_SAMPLE_DRAW_H
#define ZR_CMD_SAMPLE_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* Each draw uses one word of a counter-based generator, so a seed gives the same text again. */
struct zr_draw {
	double temperature; /* 0: the likeliest token */
	int64_t top_k;      /* only the likeliest; 0: all */
	double top_p;       /* of these the likeliest that have this share together; 1: all */
	uint64_t seed;
};

/* best[0..k) = the k tokens with the largest logits of n, the largest first; of equal ones the
 * lower token. 1 <= k <= n. */
void zr_draw_best(const float *logits, int64_t n, int64_t k, int32_t *best);

/* The i-th draw of the seed from n logits. best: [n], scratch. */
int32_t zr_draw_token(const struct zr_draw *how, const float *logits, int64_t n, uint64_t i,
		      int32_t *best);

/* Text that may end at one of some strings. What could be the start of one is held back. */
struct zr_stops {
	const char *const *text; /* [n], none is empty; borrowed */
	int n;
	char *held; /* [zr_stops_room] */
	size_t n_held;
};

size_t zr_stops_room(const struct zr_stops *s); /* bytes of held */

typedef int zr_stop_sink(void *arg, const char *p, size_t n); /* 0, or a code that ends it */

/* Sends what of n more bytes is no part of a stop string. Where one is complete *found is it, or
 * else NULL: neither it nor what is behind it is sent. Of two that end at the same byte the longer
 * one is found. Returns what the sink does. */
int zr_stops_write(struct zr_stops *s, const char *p, size_t n, zr_stop_sink *sink, void *arg,
		   const char **found);
int zr_stops_end(struct zr_stops *s, zr_stop_sink *sink, void *arg); /* sends what is held */

#endif
