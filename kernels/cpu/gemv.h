/* SPDX-License-Identifier: Apache-2.0
 *
 * gemv.h - a product of one row: what gemm.simd.c does where a tile has no more.
 */
#ifndef ZEROTH_KERNELS_CPU_GEMV_H
#define ZEROTH_KERNELS_CPU_GEMV_H

#include "simd.h"

/* c[0..cols) = or += row `row` of op(A) times columns col0.. of op(B): over blocks of kb of K in
 * ascending order, the sum of chains over ascending k, as in gemm.simd.c. With ZR_PAIRS kb counts
 * pairs. 0: not done, B has another type than fp32 and bf16. */
int ZR_SIMD(gemv)(const struct zr_op_matmul *op, int64_t row, int64_t col0, int64_t cols,
		  int64_t kb, float *c, int add);

#endif
