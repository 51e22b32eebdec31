/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax.h - what a row of logits is known by, block after block: stats[0], the maximum, and
 * stats[1], the sum of exp(x - maximum).
 */
#ifndef ZEROTH_KERNELS_CPU_SOFTMAX_H
#define ZEROTH_KERNELS_CPU_SOFTMAX_H

#include "scalar.h"

/* What the exponentials of a block are relative to: its maximum, or 0 where that is -infinity: they
 * are 0 then. */
static inline zr_real zr_softmax_base(zr_real max)
{
	return max == -INFINITY ? 0 : max;
}

/* stats = those of a block, max and sum; with `add` together with those of the blocks before. */
static inline void zr_softmax_join(zr_real *stats, int add, zr_real max, zr_real sum)
{
	if (add) {
		const zr_real most = max > stats[0] || max != max ? max : stats[0];
		sum = stats[1] * zr_exp(stats[0] - most) + sum * zr_exp(max - most);
		max = most;
	}
	stats[0] = max;
	stats[1] = sum;
}

#endif
