/* SPDX-License-Identifier: Apache-2.0
 *
 * init.c - initial values, scalar: dst[i] = mean + std * N(0,1) by Box-Muller on words 2e and 2e+1
 * of the stream, or U(-1,1) on word 2e, e = first + i: a function of (seed, site, element), in
 * fp64, rounded once. A block of four words makes elements 2k and 2k+1.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(init)(const struct zr_op_init *op, int64_t lo, int64_t hi)
{
	zr_real *dst = zr_reals(op->dst);
	uint32_t w[4];

	for (int64_t i = lo; i < hi; i++) {
		uint64_t e = (uint64_t)(op->first + i);
		if (op->std == 0) {
			dst[i] = (zr_real)op->mean;
			continue;
		}
		if (i == lo || e % 2 == 0)
			zr_rng_block(&op->rng, e / 2, w);
		const double x = op->flags & ZR_INIT_OP_UNIFORM ?
					 zr_centered(w[e % 2 * 2]) :
					 zr_normal(w[e % 2 * 2], w[e % 2 * 2 + 1]);
		dst[i] = (zr_real)(op->mean + op->std * x);
	}
}
