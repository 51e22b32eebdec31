/* SPDX-License-Identifier: Apache-2.0
 *
 * init.simd.c - init.c with vectors of random words; the normals are the scalar function's, same
 * bits.
 */
#include "simd.h"
#include "table.h"

#define BATCH (2 * ZR_W) /* normals that one vrng makes */

void ZR_SIMD(init)(const struct zr_op_init *op, int64_t lo, int64_t hi)
{
	uint32_t word[2 * BATCH];
	float value[BATCH];
	vi v[4];

	for (int64_t i = lo; op->std == 0 && i < hi; i++)
		op->dst[i] = (float)op->mean;
	if (op->std == 0)
		return;
	for (int64_t i = lo; i < hi;) {
		int64_t odd = (op->first + i) % 2, n = hi - i < BATCH - odd ? hi - i : BATCH - odd;
		vrng(&op->rng, (uint64_t)(op->first + i) / 2, v);
		for (int k = 0; k < 4; k++)
			vistore(word + k * ZR_W, v[k]);
		for (int k = 0; k < BATCH; k++)
			value[k] = (float)(op->mean +
					   op->std * (op->flags & ZR_INIT_OP_UNIFORM ?
							      zr_centered(word[2 * k]) :
							      zr_normal(word[2 * k],
									word[2 * k + 1])));
		memcpy(op->dst + i, value + odd, (size_t)n * sizeof *value);
		i += n;
	}
}
