/* SPDX-License-Identifier: Apache-2.0
 *
 * bias_bwd.c - db[c] = or += the sum over rows of dy[M, N], scalar. It sums 64 rows at a time, rows
 * ascending, and adds these sums in order: two levels keep the rounding error of long columns
 * small.
 */
#include "scalar.h"
#include "table.h"

#define TILE 64 /* part of the arithmetic, as in bias_bwd.simd.c */

void ZR_SCALAR(bias_bwd)(const struct zr_op_bias_bwd *op, int64_t lo, int64_t hi)
{
	zr_real *db = zr_reals(op->db);

	for (int64_t c = lo; c < hi; c++) {
		zr_real sum = 0;
		for (int64_t from = 0; from < op->rows; from += TILE) {
			int64_t to = from + TILE < op->rows ? from + TILE : op->rows;
			zr_real tile = 0;
			for (int64_t r = from; r < to; r++)
				tile += zr_get(op->dy, r * op->width + c, op->dtype);
			sum += tile;
		}

		db[c] = op->flags & ZR_OP_ACCUMULATE ? db[c] + sum : sum;
	}
}
