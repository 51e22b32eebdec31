/* SPDX-License-Identifier: Apache-2.0
 *
 * sequence.h - a batch of one sequence, to look at what a run learns. [main]
 */
#ifndef ZR_CMD_SEQUENCE_H
#define ZR_CMD_SEQUENCE_H

#include "core/setup.h"

/* A batch of one sequence of a split, slot 0 of `slots`, with room for what the data plugin fills.
 * Free b->inputs, which has all of that room. */
int zr_sequence_batch(const struct zr_setup *s, int32_t split, int64_t slots, struct zr_batch *b,
		      struct zr_error *err);

#endif
