/* SPDX-License-Identifier: Apache-2.0
 *
 * experts.c - what a mixture of experts does to tokens and to rows, scalar: the routing, the
 * weighed sum over a token's experts, and the backward of the weights.
 */
#include "route.h"
#include "table.h"

#define LANES 16 /* of dot products */

void ZR_SCALAR(route)(const struct zr_op_route *op, int64_t lo, int64_t hi)
{
	for (int64_t r = lo; r < hi; r++)
		zr_route_token(op, r);
}

void ZR_SCALAR(route_bwd)(const struct zr_op_route_bwd *op, int64_t lo, int64_t hi)
{
	for (int64_t r = lo; r < hi; r++)
		zr_route_token_bwd(op, r);
}

void ZR_SCALAR(expert_combine)(const struct zr_op_expert_combine *op, int64_t lo, int64_t hi)
{
	const zr_real *weights = op->weights ? zr_reals(op->weights) : NULL;

	for (int64_t r = lo; r < hi; r++)
		for (int64_t c = 0; c < op->width; c++) {
			zr_real sum = 0;
			for (int64_t i = r * op->k; i < (r + 1) * op->k; i++) {
				zr_real y = zr_get(op->y, op->where[i] * op->width + c, op->dtype);
				sum += weights ? weights[i] * y : y;
			}
			zr_put(op->out, r * op->width + c, op->out_dtype, sum);
		}
}

void ZR_SCALAR(expert_weigh)(const struct zr_op_expert_weigh *op, int64_t lo, int64_t hi)
{
	for (int64_t s = lo; s < hi; s++) {
		const int64_t place = op->order ? op->order[s] : s;
		zr_real lane[LANES] = { 0 }, weight = zr_reals(op->weights)[place];
		for (int64_t c = 0; c < op->width; c++) {
			int64_t at = s * op->width + c;
			zr_real x = zr_get(op->x, at, op->dtype);
			zr_real dy = zr_get(op->dy, at, op->dtype);
			lane[c % LANES] += x * dy;
			zr_put(op->x, at, op->dtype, x * weight);
			zr_put(op->dy, at, op->dtype, dy * weight);
		}

		for (int n = LANES / 2; n > 0; n /= 2)
			for (int l = 0; l < n; l++)
				lane[l] += lane[l + n];
		zr_reals(op->dweights)[place] = lane[0];
	}
}
