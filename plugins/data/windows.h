/* SPDX-License-Identifier: Apache-2.0
 *
 * windows.h - how a stream of tokens becomes sequences. A sequence of length T is a window of T + 1
 * tokens; windows start every T tokens, so that each token is predicted once. One epoch visits
 * every window once.
 *
 * Training with random order: epoch e starts its first window at a phase of [0, T) and visits the
 * windows in an order that both depend on (seed, e) only; sequence g of the run, counted over all
 * steps and slots, is visit g % n of epoch g / n. Nothing is kept between calls: a resumed run, or
 * one with another number of ranks, draws the same sequences. Validation, and order = sequential:
 * in order from the start.
 */
#ifndef ZR_DATA_WINDOWS_H
#define ZR_DATA_WINDOWS_H

#include <zeroth/data.h>

enum { ORDER_RANDOM, ORDER_SEQUENTIAL };
extern const char *const windows_orders[]; /* choices of the option `order` */

struct windows {
	int64_t length; /* T; 0: not prepared */
	int64_t n;      /* windows per epoch */
	int64_t tail;   /* targets behind the last whole window, in order from the start */
	int64_t phases; /* the first window starts at one of 0 .. phases - 1 */
	int shuffled;
};

/* A key of two numbers, and the place of x in the permutation of [0, n) that a key chooses.
 * [pure] */
uint64_t windows_key(uint64_t a, uint64_t b);
int64_t windows_permute(int64_t x, int64_t n, uint64_t key);

/* Cuts a stream of `tokens`. Returns the tokens that one window needs if there are fewer, else
 * 0. */
int64_t windows_cut(struct windows *w, int64_t tokens, int64_t length, int order);

/* Windows that hold all targets, the last of which may not be whole. */
static inline int64_t windows_once(const struct windows *w)
{
	return w->n + (w->tail > 0);
}

/* What people call a split. */
static inline const char *windows_split(int32_t split)
{
	return split == ZR_SPLIT_VAL ? "validation" : "training";
}

/* Reads n tokens from position `at` of a split. */
typedef int windows_read(struct zr_inst *inst, int32_t split, int64_t at, int64_t n, int32_t *to);

/* Fills a batch from w[split]. */
int windows_batch(const struct zr_host *h, const struct windows w[2], const struct zr_batch *b,
		  windows_read *read, struct zr_inst *inst);

#endif
