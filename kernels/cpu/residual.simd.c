/* SPDX-License-Identifier: Apache-2.0
 *
 * residual.simd.c - residual.c with vectors, same bits. One batch of random words serves 4 vectors.
 */
#include "simd.h"
#include "table.h"

struct drop {
	uint32_t below;
	float scale, gain;
};

ZR_INLINE struct drop factors(const struct zr_op_residual *op)
{
	return (struct drop){ zr_drop_below(op->dropout), zr_drop_scale(op->dropout),
			      zr_gain(op->gain) };
}

/* word == NULL: nothing is dropped */
ZR_INLINE void lanes(const struct zr_op_residual *op, int64_t i, const vi *word, struct drop drop,
		     int32_t dtype, int n)
{
	vf x = vload_n(op->b, i, dtype, n) * vset(drop.gain);

	if (word)
		x = vdrop(x, *word, drop.below, drop.scale);
	if (op->a)
		x = vload_n(op->a, i, dtype, n) + x;
	vstore_n(op->out, i, dtype, x, n);
}

ZR_INLINE void plain(const struct zr_op_residual *op, int64_t lo, int64_t hi, int32_t dtype)
{
	const struct drop none = factors(op);
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		lanes(op, i, NULL, none, dtype, ZR_W);
	if (i < hi)
		lanes(op, i, NULL, none, dtype, (int)(hi - i));
}

/* Words of the 4 ZR_W elements from `element` on, which may be within a block of the stream. */
ZR_INLINE void words_from(const struct zr_rng *rng, uint64_t element, vi word[4])
{
	uint32_t all[5 * ZR_W];
	vi next[4];

	vrng(rng, element / 4, word);
	if (element % 4 == 0)
		return;

	vrng(rng, element / 4 + ZR_W, next);
	for (int k = 0; k < 4; k++)
		vistore(all + k * ZR_W, word[k]);
	vistore(all + 4 * ZR_W, next[0]);
	for (int k = 0; k < 4; k++)
		word[k] = viload(all + element % 4 + k * ZR_W);
}

ZR_INLINE void dropped(const struct zr_op_residual *op, int64_t lo, int64_t hi, int32_t dtype)
{
	const struct drop drop = factors(op);
	vi word[4];

	for (int64_t i = lo; i < hi; i += 4 * ZR_W) {
		words_from(&op->rng, (uint64_t)(op->first + i), word);
		if (i + 4 * ZR_W <= hi)
			for (int k = 0; k < 4; k++)
				lanes(op, i + k * ZR_W, word + k, drop, dtype, ZR_W);
		else
			for (int64_t k = 0; i + k * ZR_W < hi; k++)
				lanes(op, i + k * ZR_W, word + k, drop, dtype,
				      vlanes(hi - i - k * ZR_W));
	}
}

void ZR_SIMD(residual)(const struct zr_op_residual *op, int64_t lo, int64_t hi)
{
	if (op->dropout > 0)
		ZR_BY_DTYPE(op->dtype, dropped, op, lo, hi);
	else
		ZR_BY_DTYPE(op->dtype, plain, op, lo, hi);
}
