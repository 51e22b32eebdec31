/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h - the CPU kernels: pure functions on memory that their caller owns, no state, no
 * allocation, no thread of their own. The operations and their formulas are those of
 * <zeroth/device.h>; a kernel computes one range [lo, hi) of an operation, and its caller splits
 * the operation into ranges and runs them in parallel. kernels.def says what the range of each
 * counts: rows, columns, elements, blocks or heads. The caller splits at places that depend only on
 * the shapes. A kernel's result for an index does not depend on the range that contains it, except
 * where a comment says "partial": there the ranges are part of the arithmetic (invariant I1).
 *
 * One table per variant. kernels/cpu/<op>.c is the readable oracle: plain C, also compiled with
 * ZR_REAL=double for finite differences. kernels/cpu/<op>.simd.c is compiled once per vector
 * instruction set through simd.h. Kernel sources include this header (and simd.h) only.
 */
#ifndef ZEROTH_KERNELS_H
#define ZEROTH_KERNELS_H

#include <zeroth/device.h>

#include <fold.h>

/* Rows of dwte that are wanted. */
static inline int64_t zr_wte_first(const struct zr_op_embedding_bwd *op)
{
	if (!ZR_HAS(op, struct zr_op_embedding_bwd, n_rows) || !op->n_rows)
		return 0;
	return op->first_row;
}

static inline int64_t zr_wte_rows(const struct zr_op_embedding_bwd *op)
{
	if (!ZR_HAS(op, struct zr_op_embedding_bwd, n_rows) || !op->n_rows)
		return op->vocabulary;
	return op->n_rows;
}

/* U V in fp32, the product that a low-rank update scales and adds; its d is the caller's. */
static inline struct zr_op_matmul zr_low_rank_product(const struct zr_op_matmul_low_rank *l)
{
	const int trans = (l->flags & ZR_LR_TRANS_V) != 0;
	struct zr_op_matmul op = l->product;
	op.flags = trans ? ZR_MM_TRANS_B : 0;
	op.k = op.lda = l->r;
	op.ldb = trans ? l->r : op.n;
	op.a = zr_array_at(op.a.dtype, l->u);
	op.b = zr_array_at(op.b.dtype, l->v);
	op.d = zr_array_at(ZR_F32, NULL);
	op.pre = NULL;
	op.bias = NULL;
	return op;
}

/* A matrix in bf16 [rows][ld], of which `width` columns count, and where it becomes one of numbers
 * of 8 bits, in bf16 [rows][width]: see ZR_MM_FP8. Rows share a power of two, or columns do. */
struct zr_narrowing {
	int64_t rows, width, ld;
	const void *from;
	void *to;
	int32_t e5m2, rsv; /* e5m2: 0: E4M3 */
};

#define ZR_NARROW_COLUMNS 64

#define ZR_LN_TILE      64         /* rows per partial of layernorm_bwd and rmsnorm_bwd */
#define ZR_GEMM_SCRATCH (4u << 20) /* bytes of scratch that gemm_tile may use, per worker */

/* Rows that gemm_tile on tile registers takes at once, if there are so many: the more, the fewer
 * times B is read and packed. More than 256 if K is so short that packed rows fill less than half
 * of a second-level cache: then no sums but complete ones are stored. */
static inline int64_t zr_gemm_rows_at_once(int64_t k)
{
	const int64_t words = 192 * 1024, row = (k + 31) / 32 * 16;
	if (k > 768)
		return 256;
	return row * 1024 <= words ? 1024 : words / row / 32 * 32;
}

/* What each does, and what its range counts, is said in kernels.def. */
struct zr_cpu_kernels {
	const char *name; /* "scalar", "avx2", "avx512", "avx512bf16", "amx" */
#define REAL                        float
#define KERNEL(returns, name, args) returns(*name) args;
#define PRODUCT(...)                KERNEL(__VA_ARGS__)
#define SCALAR(...)                 KERNEL(__VA_ARGS__)
#include "kernels.def"
#undef REAL
};

/* Instruction sets in ascending order. Those after AVX-512 are for products and attention
 * of bf16 operands: the bits of all other operations are those of AVX-512. */
#define ZR_CPU_SCALAR     0
#define ZR_CPU_AVX2       1
#define ZR_CPU_AVX512     2
#define ZR_CPU_AVX512BF16 3
#define ZR_CPU_AMX        4
#define ZR_CPU_BEST       ZR_CPU_AMX

/* The best instruction set of this processor and operating system; the name of the first feature
 * that `isa` needs and that is missing here, or NULL; the kernels of an instruction set that misses
 * nothing. A processor that has the instructions of `isa` but sums otherwise than the twins of its
 * kernels in C lacks ZR_CPU_OTHER_SUMS. */
#define ZR_CPU_OTHER_SUMS "products of bf16 that are summed as documented"
int32_t zr_cpu_best(void);
/* Of those up to isa. slow_pairs: vdpbf16ps multiplies no more per cycle than FMA of fp32, so that
 * avx512bf16 gains nothing. */
int32_t zr_cpu_best_of(int32_t isa, int slow_pairs);
const char *zr_cpu_missing(int32_t isa);
const struct zr_cpu_kernels *zr_cpu_variant(int32_t isa);

extern const struct zr_cpu_kernels zr_cpu_scalar;
extern const struct zr_cpu_kernels zr_cpu_avx2;       /* x86-64 with AVX2, FMA and F16C */
extern const struct zr_cpu_kernels zr_cpu_avx512;     /* x86-64 with AVX-512 F, BW, DQ, VL */
extern const struct zr_cpu_kernels zr_cpu_avx512bf16; /* and AVX512_BF16 */
extern const struct zr_cpu_kernels zr_cpu_amx;        /* and AMX-TILE, AMX-BF16 */

#endif
