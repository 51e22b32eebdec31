/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.c - accumulates the gradient of one slot, scalar: acc = or += g rounded to comm_dtype. The
 * first contribution is stored, not added to 0, so that -0 survives. Optionally measures each block
 * of ZR_BLOCK elements after that (sumsq.h).
 */
#include "sumsq.h"
#include "table.h"

static void measure(const zr_real *acc, int64_t n, double *sumsq, uint32_t *nonfinite)
{
	double chain[ZR_CHAINS] = { 0 };
	uint32_t bad = 0;

	for (int64_t j = 0; j < n; j++) {
		zr_chain(chain, j, acc[j]);
		bad += !isfinite(acc[j]);
	}
	*sumsq = zr_chains_meet(chain);
	*nonfinite = bad;
}

void ZR_SCALAR(fold)(const struct zr_op_fold *op, int64_t lo, int64_t hi)
{
	const zr_real *g = zr_reals(op->g);
	zr_real *acc = zr_reals(op->acc);

	for (int64_t b = lo; b < hi; b++) {
		int64_t from = b * ZR_BLOCK, to = from + ZR_BLOCK < op->n ? from + ZR_BLOCK : op->n;
		for (int64_t i = from; i < to; i++) {
			zr_real x = zr_rounded(g[i], op->comm_dtype);
			acc[i] = op->flags & ZR_OP_ACCUMULATE ? acc[i] + x : x;
		}
		if (op->sumsq)
			measure(acc + from, to - from, op->sumsq + b, op->nonfinite + b);
	}
}
