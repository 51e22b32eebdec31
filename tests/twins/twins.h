/* SPDX-License-Identifier: Apache-2.0
 *
 * twins.h - what kernels of bf16 compute, in C, an element at a time and in the same order: the
 * oracles of their bits.
 */
#ifndef ZR_TESTS_TWINS_TWINS_H
#define ZR_TESTS_TWINS_TWINS_H

#include "cpu/attention_tiles.h"
#include "cpu/bf16_pairs.h"

/* As attention and attention_bwd of kernels.h say, of operations in pairs. Scratch and sums are
 * those of the scalar kernels, zr_attention_bwd_sum_scalar ends a backward. */
void zr_attention_twin(const struct zr_op_attention *o, int64_t lo, int64_t hi, void *scratch);
void zr_attention_bwd_twin(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo,
			   int64_t hi, void *scratch, float *delta, float *sums);

/* The same of operations in tiles. */
void zr_attention_tiles_twin(const struct zr_op_attention *o, int64_t lo, int64_t hi,
			     void *scratch);
void zr_attention_bwd_tiles_twin(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo,
				 int64_t hi, void *scratch, float *delta, float *sums);

/* The matrix product of one tile as kernels.h says of gemm_tile, in the order of bf16_pairs.h, with
 * tile registers or without. a and b are bf16. */
void zr_gemm_tile_twin(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
		       int tiles, int64_t row0, int64_t rows, int64_t col0, int64_t cols);

#endif
