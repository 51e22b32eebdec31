/* SPDX-License-Identifier: Apache-2.0
 *
 * round_stochastic.c - fp32 to bf16 with stochastic rounding, scalar: 16 random bits are added
 * below the cut. If a value lies the fraction r / 2^16 above one bf16 towards the next in
 * magnitude, r of the 2^16 possible additions carry.
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(round_stochastic)(const struct zr_op_round_stochastic *op, int64_t lo, int64_t hi)
{
	const zr_real *src = zr_reals(op->src);
	uint32_t w[4];

	for (int64_t i = lo; i < hi; i++) {
		uint64_t e = (uint64_t)(op->first + i);
		if (i == lo || e % 4 == 0)
			zr_rng_block(&op->rng, e / 4, w);
		op->dst[i] = zr_bf16_with((float)src[i], w[e % 4] >> 16);
	}
}
