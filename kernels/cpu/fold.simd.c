/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.simd.c - fold.c with vectors, same bits: the 16 chains of a block's sum of squares are the
 * lanes of 16 / ZR_W pairs of double vectors.
 */
#include "simd.h"
#include "table.h"

#define PARTS (16 / ZR_W) /* vectors of floats that make 16 elements */

struct measure {
	vd chain[2 * PARTS];
	uint32_t bad;
};

ZR_INLINE void add_squares(struct measure *s, int part, vf x)
{
	vd low = vdlow(x), high = vdhigh(x);

	s->chain[2 * part] = s->chain[2 * part] + low * low;
	s->chain[2 * part + 1] = s->chain[2 * part + 1] + high * high;
	s->bad += vnonfinite(x);
}

static void finish(const struct measure *s, double *sumsq, uint32_t *nonfinite)
{
	double chain[16];

	for (int k = 0; k < 2 * PARTS; k++)
		vdstore(chain + k * ZR_W / 2, s->chain[k]);
	for (int half = 8; half > 0; half /= 2)
		for (int l = 0; l < half; l++)
			chain[l] += chain[l + half];
	*sumsq = chain[0];
	*nonfinite = s->bad;
}

/* One vector of n elements from i, part `part` of its 16. */
ZR_INLINE void add(const struct zr_op_fold *op, struct measure *s, int64_t i, int part, int n, int32_t dtype)
{
	vf x = vround(vload_n(op->g, i, ZR_F32, n), dtype);

	if (op->flags & ZR_OP_ACCUMULATE)
		x = vload_n(op->acc, i, ZR_F32, n) + x;
	vstore_n(op->acc, i, ZR_F32, x, n);
	if (op->sumsq)
		add_squares(s, part, x);
}

ZR_INLINE void fold_block(const struct zr_op_fold *op, int64_t b, int32_t dtype)
{
	int64_t i = b * ZR_BLOCK, to = i + ZR_BLOCK < op->n ? i + ZR_BLOCK : op->n;
	struct measure s = { .bad = 0 };

	for (int k = 0; k < 2 * PARTS; k++)
		s.chain[k] = vdset(0);
	for (; i + 16 <= to; i += 16)
		for (int part = 0; part < PARTS; part++)
			add(op, &s, i + part * ZR_W, part, ZR_W, dtype);
	for (int part = 0; i < to; i += ZR_W, part++)
		add(op, &s, i, part, vlanes(to - i), dtype);
	if (op->sumsq)
		finish(&s, op->sumsq + b, op->nonfinite + b);
}

void ZR_SIMD(fold)(const struct zr_op_fold *op, int64_t lo, int64_t hi)
{
	for (int64_t b = lo; b < hi; b++)
		ZR_BY_DTYPE(op->comm_dtype, fold_block, op, b);
}
