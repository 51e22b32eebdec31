/* SPDX-License-Identifier: Apache-2.0
 *
 * slices.h - [train] slices and sequence_ranks: the rows of a sequence are cut into slices, which
 * are computed one by one whatever the number of ranks is. What the slices of a micro-batch give to
 * a sum is added as a balanced binary tree whose leaves are slices 0, K-1, 1, K-2, ...: so each
 * rank has leaves that follow each other, as many early slices as late ones, and their sum is one
 * node of the tree.
 */
#ifndef ZR_CORE_SLICES_H
#define ZR_CORE_SLICES_H

#include "core/config/config.h"

#define ZR_MOST_SLICES (1 << 15)

struct zr_slices {
	int32_t n;           /* of a sequence; 1: it is not cut */
	int32_t ranks, rank; /* that share a sequence; this one's number among them */
	int32_t here;        /* slices of a rank */
	int64_t rows;        /* of a slice, once the length of sequences is known */
	int by_heads;        /* 1: for attention a rank has all rows, of a share of the heads */
};

/* Slices that follow each other. */
struct zr_slice_run {
	int32_t first, n;
};

/* Whether layers are called slice by slice. */
static inline int zr_sliced(const struct zr_slices *z)
{
	return z->n > 1;
}

/* The slice that is a leaf of the tree. */
static inline int32_t zr_slice_of_leaf(const struct zr_slices *z, int32_t leaf)
{
	return leaf % 2 ? z->n - 1 - leaf / 2 : leaf / 2;
}

/* Those of a rank, ascending: one run or, as the second one, slices of the sequence's other half.
 * Returns how many runs there are. */
int zr_slice_runs(const struct zr_slices *z, int32_t rank, struct zr_slice_run run[2]);

/* The i-th of this rank's slices, ascending; and which of them a slice is. */
int32_t zr_slice_at(const struct zr_slices *z, int32_t i);
int32_t zr_slice_place(const struct zr_slices *z, int32_t slice);

/* From [train]: refuses what cannot be, naming what could. ranks: of the training. */
int zr_slices_choose(const struct zr_config *cfg, const struct zr_train_opts *t, int32_t ranks,
		     int32_t rank, struct zr_slices *out, struct zr_error *err);

/* Once the batch is known: the rows of a slice. */
int zr_slices_fit(const struct zr_config *cfg, int64_t micro, int64_t length, struct zr_slices *z,
		  struct zr_error *err);

#endif
