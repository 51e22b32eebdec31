/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.h - what several contributions in one fold are to each other: see struct zr_op_fold.
 */
#ifndef ZEROTH_KERNELS_FOLD_H
#define ZEROTH_KERNELS_FOLD_H

#include <zeroth/device.h>

/* How a fold adds: its contributions, and of the levels of a tree those that one call has. */
struct zr_fold_shape {
	int32_t number, from, to;
	int32_t levels, inside;
};

#define ZR_FOLD_LEVELS 24 /* of a tree, at most */

static inline int32_t zr_log2_of(int32_t power)
{
	int32_t log2 = 0;
	while (power >> (log2 + 1))
		log2++;
	return log2;
}

/* Whether more than g, of fp32, is added to acc. */
static inline int zr_folds_many(const struct zr_op_fold *op)
{
	if (!ZR_HAS(op, struct zr_op_fold, to_apart) || op->number <= 0)
		return 0;
	return op->number > 1 || op->group > 1 || op->each || (op->from && op->from != ZR_F32) ||
	       (op->to && op->to != ZR_F32);
}

static inline struct zr_fold_shape zr_fold_shape_of(const struct zr_op_fold *op)
{
	struct zr_fold_shape s;
	s.number = op->number;
	s.from = op->from ? op->from : ZR_F32;
	s.to = op->to ? op->to : ZR_F32;
	s.levels = zr_log2_of(op->group > 1 ? op->group : 1);
	s.inside = zr_log2_of(op->number);
	if (s.inside > s.levels)
		s.inside = s.levels;
	return s;
}

#endif
