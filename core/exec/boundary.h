/* SPDX-License-Identifier: Apache-2.0
 *
 * boundary.h - what ranks tell each other once per step, in one small exchange: loss and norm as
 * exact sums, the first tensor with non-finite gradients, whether one of them was asked to stop.
 * Merged in rank order, the same on all. The decision of the step, which follows from it, is here
 * as well.
 */
#ifndef ZR_CORE_BOUNDARY_H
#define ZR_CORE_BOUNDARY_H

#include "core/base/exact.h"

/* All members int64_t: it travels as such. */
struct zr_boundary {
	struct zr_exact loss;     /* sum of the token losses of this rank's slots */
	struct zr_exact aux_loss; /* sum of the means of its slots */
	struct zr_exact norm;     /* sum of squares of the blocks that it owns */
	int64_t bad_tensor;       /* first with non-finite numbers, INT64_MAX: none */
	int64_t bad_rank;         /* of it */
	int64_t stop;             /* signal number, 0: none */
	int64_t check;            /* anything that must be equal on all ranks */
};

/* What a step decides: from this its update takes its scalars. */
struct zr_decided {
	struct zr_boundary boundary; /* what this rank says, and after the exchange all */
	double targets;              /* sum of the weights of all targets of the step */
	double grad_mult;            /* makes the mean gradient, clipped, from what was summed */
	int64_t update;              /* number of the update to come, from 1 on */
	double lr[];                 /* [n_param_groups] of it */
};

#endif
