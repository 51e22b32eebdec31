/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_few.h - a product of few rows in the bits of gemm_tiles.simd.c.
 */
#ifndef ZEROTH_KERNELS_CPU_GEMM_FEW_H
#define ZEROTH_KERNELS_CPU_GEMM_FEW_H

#include "simd.h"

#define ZR_FEW_ROWS 8    /* up to here vectors are faster than tiles */
#define ZR_FEW_K    2048 /* elements of K that are widened at once */

/* c (rows <= ZR_FEW_ROWS, ldc apart) = or += the product of bf16 operands for rows row0.. and
 * columns col0.., over all of K > 0. `a` has room for ZR_FEW_ROWS x ZR_FEW_K floats. */
void ZR_SIMD(gemm_few)(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
		       int64_t cols, float *c, int64_t ldc, int add, float *a);

#endif
