/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.c - the scalar matrix product, oracle of gemm.simd.c:
 *
 *   D[M,N] = op(A)[M,K] op(B)[K,N] + bias[N], optionally through GELU, or D += op(A) op(B)
 *
 * Every element is one sum over ascending k, rounded after each multiplication and each addition.
 */
#include "scalar.h"

#define COLS 256 /* columns summed at once */

void ZR_SCALAR(gemm_finish)(const struct zr_op_matmul *op, const zr_real *tile, int64_t ld, int64_t rows,
			    int64_t cols, const void *bias, void *d, void *pre)
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

/* sum[0..cols) = row i of the product, columns from col0 on */
static void row_sums(const struct zr_op_matmul *op, int64_t i, int64_t col0, int64_t cols, zr_real *sum)
{
	int64_t b_step = op->flags & ZR_MM_TRANS_B ? op->ldb : 1;
	for (int64_t j = 0; j < cols; j++)
		sum[j] = 0;
	for (int64_t k = 0; k < op->k; k++) {
		zr_real a = zr_get(op->a, op->flags & ZR_MM_TRANS_A ? k * op->lda + i : i * op->lda + k, op->a_dtype);
		int64_t b = op->flags & ZR_MM_TRANS_B ? col0 * op->ldb + k : k * op->ldb + col0;
		if (op->b_dtype == ZR_F32 && b_step == 1 && !ZR_REAL_IS_F64) {
			const float *row = (const float *)op->b + b;
			for (int64_t j = 0; j < cols; j++)
				sum[j] += a * row[j];
		} else {
			for (int64_t j = 0; j < cols; j++)
				sum[j] += a * zr_get(op->b, b + j * b_step, op->b_dtype);
		}
	}
}

void ZR_SCALAR(gemm_tile)(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
			  void *scratch)
{
	zr_real *sum = scratch;
	for (int64_t i = row0; i < row0 + rows; i++) {
		for (int64_t j = col0; j < col0 + cols; j += COLS) {
			int64_t n = col0 + cols - j < COLS ? col0 + cols - j : COLS, at = i * op->ldd + j;
			row_sums(op, i, j, n, sum);
			ZR_SCALAR(gemm_finish)(op, sum, n, 1, n,
					       op->bias ? zr_at(op->bias, j, op->b_dtype) : NULL,
					       zr_at(op->d, at, op->d_dtype),
					       op->pre ? zr_at(op->pre, at, op->d_dtype) : NULL);
		}
	}
}
