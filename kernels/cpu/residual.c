/* SPDX-License-Identifier: Apache-2.0
 *
 * residual.c - out = a + dropout(gain b) over n elements, scalar; a may be absent. Which elements
 * are kept is a function of the generator's key and the element's index alone (invariant I1).
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(residual)(const struct zr_op_residual *op, int64_t lo, int64_t hi)
{
	uint32_t below = zr_drop_below(op->dropout), word[4];
	zr_real scale = zr_drop_scale(op->dropout), gain = zr_gain(op->gain);

	for (int64_t i = lo; i < hi; i++) {
		zr_real b = zr_get(op->b, i, op->dtype) * gain;
		if (op->dropout > 0) {
			const uint64_t e = (uint64_t)(op->first + i);
			if (i == lo || e % 4 == 0)
				zr_rng_block(&op->rng, e / 4, word);
			b = word[e % 4] >= below ? b * scale : 0;
		}
		if (op->a)
			b = zr_get(op->a, i, op->dtype) + b;
		zr_put(op->out, i, op->dtype, b);
	}
}
