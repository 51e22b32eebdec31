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

static void fill(const struct zr_op_rotary *op, int64_t position, struct angles *t)
{
	for (int64_t i = 0; i < op->head_dim / 2; i++) {
		float a = (float)position * op->frequency[i], sine = zr_sin(a);
		t->cosine[i] = zr_cos(a);
		t->sine[i] = op->flags & ZR_ROTARY_BACK ? -sine : sine;
	}
}

/* pairs i .. i + n of the head at element `at` */
ZR_INLINE void turn(const struct zr_op_rotary *op, const struct angles *t, int64_t at, int64_t i,
		    int32_t dtype, int n)
{
	int64_t other = at + op->head_dim / 2;
	vf a = vload_n(op->x, at + i, dtype, n), b = vload_n(op->x, other + i, dtype, n);
	vf cosine = vload_n(t->cosine, i, ZR_F32, n), sine = vload_n(t->sine, i, ZR_F32, n);

	vstore_n(op->out, at + i, dtype, vfma(a, cosine, vset(-1) * (b * sine)), n);
	vstore_n(op->out, other + i, dtype, vfma(b, cosine, a * sine), n);
}

ZR_INLINE void body(const struct zr_op_rotary *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t half = op->head_dim / 2, i;
	struct angles t;

	for (int64_t r = lo; r < hi; r++) {
		fill(op, zr_position(op->position, r, op->length), &t);
		for (int64_t h = 0; h < op->heads; h++) {
			int64_t at = r * op->stride + h * op->head_dim;
			for (i = 0; i + ZR_W <= half; i += ZR_W)
				turn(op, &t, at, i, dtype, ZR_W);
			if (i < half)
				turn(op, &t, at, i, dtype, (int)(half - i));
		}
	}
}

void ZR_SIMD(rotary)(const struct zr_op_rotary *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, body, op, lo, hi);
}
