/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.c - the scalar matrix product, oracle of gemm.simd.c:
 *
 *   D[M,N] = op(A)[M,K] op(B)[K,N] + bias[N], optionally through GELU, or D += op(A) op(B)
 *
 * Every element is one sum over ascending k, rounded after each multiplication and each addition.
 */
#include "scalar.h"

#define ROWS 256 /* rows and columns summed at once, over so many k at a time */
#define COLS 64
#define DEPTH 256

struct room {
	zr_real b[DEPTH][COLS];  /* of op(B), widened: read once for all rows */
	zr_real sum[ROWS][COLS];
};
_Static_assert(sizeof(struct room) <= ZR_GEMM_SCRATCH, "scratch of gemm_tile");

void ZR_SCALAR(gemm_finish)(const struct zr_op_matmul *op, const zr_real *tile, int64_t ld,
			    int64_t rows, int64_t cols, const void *bias, void *d, void *pre)
{
	for (int64_t i = 0; i < rows; i++) {
		for (int64_t j = 0; j < cols; j++) {
			zr_real x = tile[i * ld + j];
			int64_t at = i * op->ldd + j;
			if (bias)
				x += zr_get(bias, j, op->b_dtype);
			if (op->flags & ZR_MM_ACCUMULATE)
				x = zr_get(d, at, op->d_dtype) + x;
			if (op->flags & ZR_MM_GELU) {
				if (pre)
					zr_put(pre, at, op->d_dtype, x);
				x = zr_gelu(x);
			}
			zr_put(d, at, op->d_dtype, x);
		}
	}
}

/* b[0..depth) = rows k0.. of op(B), columns from col0 on; 0 past the last */
static void pack(const struct zr_op_matmul *op, int64_t k0, int64_t depth, int64_t col0,
		 int64_t cols, zr_real (*b)[COLS])
{
	int64_t down = op->flags & ZR_MM_TRANS_B ? 1 : op->ldb,
		right = op->flags & ZR_MM_TRANS_B ? op->ldb : 1;
	for (int64_t k = 0; k < depth; k++)
		for (int64_t j = 0; j < COLS; j++)
			b[k][j] = j < cols ? zr_get(op->b, (k0 + k) * down + (col0 + j) * right,
						    op->b_dtype) :
					     0;
}

/* sum += row i of op(A), from k0 on, times b */
static void add_row(const struct zr_op_matmul *op, int64_t i, int64_t k0, int64_t depth,
		    zr_real (*restrict b)[COLS], zr_real *restrict sum)
{
	int64_t down = op->flags & ZR_MM_TRANS_A ? 1 : op->lda,
		right = op->flags & ZR_MM_TRANS_A ? op->lda : 1;
	for (int64_t k = 0; k < depth; k++) {
		zr_real a = zr_get(op->a, i * down + (k0 + k) * right, op->a_dtype);
		for (int64_t j = 0; j < COLS; j++)
			sum[j] += a * b[k][j];
	}
}

/* At most ROWS rows and COLS columns of the product. */
static void part(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
		 int64_t cols, struct room *room)
{
	int64_t at = row0 * op->ldd + col0;
	memset(room->sum, 0, sizeof room->sum);
	for (int64_t k = 0; k < op->k; k += DEPTH) {
		int64_t depth = op->k - k < DEPTH ? op->k - k : DEPTH;
		pack(op, k, depth, col0, cols, room->b);
		for (int64_t i = 0; i < rows; i++)
			add_row(op, row0 + i, k, depth, room->b, room->sum[i]);
	}
	ZR_SCALAR(gemm_finish)
	(op, room->sum[0], COLS, rows, cols, op->bias ? zr_at(op->bias, col0, op->b_dtype) : NULL,
	 zr_at(op->d, at, op->d_dtype), op->pre ? zr_at(op->pre, at, op->d_dtype) : NULL);
}

void ZR_SCALAR(gemm_tile)(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
			  int64_t cols, void *scratch)
{
	for (int64_t i = 0; i < rows; i += ROWS)
		for (int64_t j = 0; j < cols; j += COLS)
			part(op, row0 + i, rows - i < ROWS ? rows - i : ROWS, col0 + j,
			     cols - j < COLS ? cols - j : COLS, scratch);
}
