/* SPDX-License-Identifier: Apache-2.0
 *
 * init.simd.c - init.c with vectors of random words and of fp64: the functions of rng.h and
 * elementary.h by the same operations in the same order, and so the same bits.
 */
#include "double_simd.h"
#include "table.h"

#define BATCH (2 * ZR_W) /* normals that one vrng makes */
#define LANES (ZR_W / 2) /* of doubles */

/* zr_normal() or zr_centered() of pairs of random words */
ZR_INLINE vd draw(vq pair, int uniform)
{
	const vd a = unsigned_to_double(pair & 0xffffffffu) + 0.5;
	if (uniform)
		return a * 0x1p-31 - 1.0;
	return vdsqrt(-2.0 * vlogd(a * 0x1p-32)) * vcos_turn(pair >> 32);
}

void ZR_SIMD(init)(const struct zr_op_init *op, int64_t lo, int64_t hi)
{
	const int uniform = !!(op->flags & ZR_INIT_OP_UNIFORM);
	uint64_t pair[BATCH];
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
			vistore((uint32_t *)pair + k * ZR_W, v[k]);
		for (int k = 0; k < BATCH; k += LANES) {
			vq w;
			memcpy(&w, pair + k, sizeof w);
			vdnarrow(value + k, op->mean + op->std * draw(w, uniform));
		}
		memcpy(op->dst + i, value + odd, (size_t)n * sizeof *value);
		i += n;
	}
}
