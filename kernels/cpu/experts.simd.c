/* SPDX-License-Identifier: Apache-2.0
 *
 * experts.simd.c - experts.c with vectors, same bits.
 */
#include "simd.h"
#include "table.h"

#define LANES 16 /* of dot products */

ZR_INLINE void combine_lanes(const struct zr_op_expert_combine *op, int64_t r, int64_t c,
			     int32_t dtype, int n)
{
	vf sum = vset(0);

	for (int64_t i = r * op->k; i < (r + 1) * op->k; i++) {
		vf y = vload_n(op->y, op->where[i] * op->width + c, dtype, n);
		if (op->weights)
			y = vset(op->weights[i]) * y;
		sum = sum + y;
	}
	vstore_n(op->out, r * op->width + c, op->out_dtype, sum, n);
}

ZR_INLINE void combine(const struct zr_op_expert_combine *op, int64_t lo, int64_t hi, int32_t dtype)
{
	for (int64_t r = lo; r < hi; r++) {
		int64_t c = 0;
		for (; c + ZR_W <= op->width; c += ZR_W)
			combine_lanes(op, r, c, dtype, ZR_W);
		if (c < op->width)
			combine_lanes(op, r, c, dtype, (int)(op->width - c));
	}
}

void ZR_SIMD(expert_combine)(const struct zr_op_expert_combine *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, combine, op, lo, hi);
}

/* n elements from `at` on; their products are added to lanes. */
ZR_INLINE vf weigh_lanes(const struct zr_op_expert_weigh *op, int64_t at, vf weight, vf sum,
			 int32_t dtype, int n)
{
	vf x = vload_n(op->x, at, dtype, n), dy = vload_n(op->dy, at, dtype, n);

	vstore_n(op->x, at, dtype, x * weight, n);
	vstore_n(op->dy, at, dtype, dy * weight, n);
	return sum + x * dy;
}

ZR_INLINE void weigh(const struct zr_op_expert_weigh *op, int64_t lo, int64_t hi, int32_t dtype)
{
	for (int64_t s = lo; s < hi; s++) {
		const int64_t row = s * op->width;
		const int64_t place = op->order ? op->order[s] : s;
		const vf weight = vset(op->weights[place]);
		vf sum[LANES / ZR_W];
		float lane[LANES];
		int64_t c = 0;

		for (int v = 0; v < LANES / ZR_W; v++)
			sum[v] = vset(0);
		for (; c + LANES <= op->width; c += LANES)
			for (int v = 0; v < LANES / ZR_W; v++)
				sum[v] = weigh_lanes(op, row + c + v * ZR_W, weight, sum[v], dtype,
						     ZR_W);
		for (int v = 0; c < op->width; v++, c += ZR_W)
			sum[v] = weigh_lanes(op, row + c, weight, sum[v], dtype,
					     vlanes(op->width - c));
		for (int v = 0; v < LANES / ZR_W; v++)
			vstore_f32(lane + v * ZR_W, sum[v]);
		for (int n = LANES / 2; n > 0; n /= 2)
			for (int l = 0; l < n; l++)
				lane[l] += lane[l + n];
		op->dweights[place] = lane[0];
	}
}

void ZR_SIMD(expert_weigh)(const struct zr_op_expert_weigh *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, weigh, op, lo, hi);
}
