/* SPDX-License-Identifier: Apache-2.0
 *
 * rotary.c - rotary position embedding, scalar: rotates the halves of the first D elements of each
 * head of row r, as complex numbers, by a = its position * frequency[i], i < D/2; its backward
 * rotates by -a. Each angle is an fp32 product, because pretrained models have learnt long
 * sequences with this rounding. Its cosine and sine are used for all heads of the row.
 */
#include "scalar.h"
#include "table.h"

static void turn_head(const struct zr_op_rotary *op, int64_t at, int64_t dim, const zr_real *cosine,
		      const zr_real *sine)
{
	int64_t half = dim / 2;

	for (int64_t i = 0; i < half; i++) {
		zr_real a = zr_get(op->x, at + i, op->dtype),
			b = zr_get(op->x, at + half + i, op->dtype);
		zr_put(op->out, at + i, op->dtype, zr_fma(a, cosine[i], -(b * sine[i])));
		zr_put(op->out, at + half + i, op->dtype, zr_fma(b, cosine[i], a * sine[i]));
	}

	if (op->out != op->x)
		memcpy(zr_at(op->out, at + dim, op->dtype), zr_at(op->x, at + dim, op->dtype),
		       (size_t)((op->head_dim - dim) * zr_size(op->dtype)));
}

void ZR_SCALAR(rotary)(const struct zr_op_rotary *op, int64_t lo, int64_t hi)
{
	int64_t dim = op->rotary_dim ? op->rotary_dim : op->head_dim;
	int64_t head = op->head_stride ? op->head_stride : op->head_dim;
	zr_real cosine[ZR_ROTARY_PAIRS], sine[ZR_ROTARY_PAIRS], gain = zr_gain(op->gain);

	for (int64_t r = lo; r < hi; r++) {
		for (int64_t i = 0; i < dim / 2; i++) {
			float a =
				(float)zr_position(op->position, r, op->length) * op->frequency[i];
			cosine[i] = zr_cos(a) * gain;
			sine[i] = (op->flags & ZR_ROTARY_BACK ? -zr_sin(a) : zr_sin(a)) * gain;
		}

		for (int64_t h = 0; h < op->heads; h++)
			turn_head(op, r * op->stride + h * head, dim, cosine, sine);
	}
}
