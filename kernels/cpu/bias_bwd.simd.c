/* SPDX-License-Identifier: Apache-2.0
 *
 * bias_bwd.simd.c - bias_bwd.c with vectors over columns, same additions in the same order, same
 * bits.
 */
#include "simd.h"
#include "table.h"

#define TILE 64 /* rows, part of the arithmetic, as in bias_bwd.c */
#define WIDE 4  /* vectors of columns side by side: a cache line or more of each row */

/* n vectors of columns from c; the last has `last` lanes */
ZR_INLINE void columns(const struct zr_op_bias_bwd *op, int64_t c, int32_t dtype, int n, int last)
{
	vf sum[WIDE], tile[WIDE];

	for (int k = 0; k < n; k++)
		sum[k] = vset(0);
	for (int64_t from = 0; from < op->rows; from += TILE) {
		int64_t to = from + TILE < op->rows ? from + TILE : op->rows;
		for (int k = 0; k < n; k++)
			tile[k] = vset(0);
		for (int64_t r = from; r < to; r++)
			for (int k = 0; k < n; k++)
				tile[k] = tile[k] + vload_n(op->dy, r * op->width + c + k * ZR_W,
							    dtype, k < n - 1 ? ZR_W : last);
		for (int k = 0; k < n; k++)
			sum[k] = sum[k] + tile[k];
	}

	for (int k = 0; k < n; k++) {
		int lanes = k < n - 1 ? ZR_W : last;
		if (op->flags & ZR_OP_ACCUMULATE)
			sum[k] = vload_n(op->db, c + k * ZR_W, ZR_F32, lanes) + sum[k];
		vstore_n(op->db, c + k * ZR_W, ZR_F32, sum[k], lanes);
	}
}

ZR_INLINE void body(const struct zr_op_bias_bwd *op, int64_t lo, int64_t hi, int32_t dtype)
{
	int64_t c = lo;

	for (; c + WIDE * ZR_W <= hi; c += WIDE * ZR_W)
		columns(op, c, dtype, WIDE, ZR_W);
	for (; c < hi; c += ZR_W)
		columns(op, c, dtype, 1, vlanes(hi - c));
}

void ZR_SIMD(bias_bwd)(const struct zr_op_bias_bwd *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dtype, body, op, lo, hi);
}
