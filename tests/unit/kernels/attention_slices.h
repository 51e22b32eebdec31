/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_slices.h - a problem of attention_case.h computed in parts: slices of its queries, each
 * with the keys up to its end, or some of its heads.
 */
#ifndef ZEROTH_TESTS_ATTENTION_SLICES_H
#define ZEROTH_TESTS_ATTENTION_SLICES_H

#include "attention_case.h"

/* The backward into key_sums: those of p, to be freed. */
float *key_sums(const struct variant *v, struct problem *p);

/* Slices of a sequence that end at `ends`, the last one at its length, have the bits of the whole
 * forward and of its dq, but for the signs of zeros. The gradients of k and v that key_sums gets
 * are those that dk and dv get, not rounded; over all slices they sum to those of the whole. */
void assert_slices(const struct variant *v, struct problem *p, const int64_t *ends, int n);

/* The same of slices around one query, tiles' ends and the last query. */
void assert_slices_anywhere(const struct variant *v, struct problem *p);

/* Each key-value head with the query heads that share it, computed alone, has the bits that it has
 * among all. */
void assert_heads_alone(const struct variant *v, struct problem *p);

#endif
