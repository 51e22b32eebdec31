/* SPDX-License-Identifier: Apache-2.0
 *
 * rotary.simd.c - rotary.c with vectors over the pairs of a head; cosines and sines are the scalar
 * functions', same bits.
 */
#include "simd.h"
#include "table.h"

struct angles {
	float cosine[ZR_ROTARY_PAIRS], sine[ZR_ROTARY_PAIRS];
};

static void fill(const struct zr_op_rotary *op, int64_t half, int64_t position, struct angles *t)
{
	const float gain = zr_gain(op->gain);

	for (int64_t i = 0; i < half; i++) {
		float a = (float)position * op->frequency[i], sine = zr_sin(a);
		t->cosine[i] = zr_cos(a) * gain;
		t->sine[i] = (op->flags & ZR_ROTARY_BACK ? -sine : sine) * gain;
	}
}

/* pairs i .. i + n of the head at element `at` */
ZR_INLINE void turn(const struct zr_op_rotary *op, const struct angles *t, int64_t at, int64_t half,
		    int64_t i, int32_t dtype, int n)
{
	int64_t other = at + half;
	vf a = vload_n(op->x, at + i, dtype, n), b = vload_n(op->x, other + i, dtype, n);
	vf cosine = vload_n(t->cosine, i, ZR_F32, n), sine = vload_n(t->sine, i, ZR_F32, n);

	vstore_n(op->out, at + i, dtype, vfma(a, cosine, vset(-1) * (b * sine)), n);
	vstore_n(op->out, other + i, dtype, vfma(b, cosine, a * sine), n);
}

ZR_INLINE void body(const struct zr_op_rotary *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t dim = op->rotary_dim ? op->rotary_dim : op->head_dim, half = dim / 2, i;
	int64_t head = op->head_stride ? op->head_stride : op->head_dim;
	size_t rest = (size_t)((op->head_dim - dim) * zr_size(dtype));
	struct angles t;

	for (int64_t r = lo; r < hi; r++) {
		fill(op, half, zr_position(op->position, r, op->length), &t);
		for (int64_t h = 0; h < op->heads; h++) {
			int64_t at = r * op->stride + h * head;
			for (i = 0; i + ZR_W <= half; i += ZR_W)
				turn(op, &t, at, half, i, dtype, ZR_W);
			if (i < half)
				turn(op, &t, at, half, i, dtype, (int)(half - i));
			if (rest && op->out != op->x)
				memcpy(zr_at(op->out, at + dim, dtype),
				       zr_at(op->x, at + dim, dtype), rest);
		}
	}
}

void ZR_SIMD(rotary)(const struct zr_op_rotary *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, body, op, lo, hi);
}
