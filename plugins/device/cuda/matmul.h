/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul.h - a product as cuBLASLt describes it, for the two files that ask it for some: matmul.c
 * for operands of 16 and 32 bits, fp8.c for those of 8.
 */
#ifndef ZR_DEVICE_CUDA_MATMUL_H
#define ZR_DEVICE_CUDA_MATMUL_H

#include "cuda.h"

/* Whether the library that this was compiled with knows scales of rows and columns: from 12.9
 * on. */
#if CUBLAS_VERSION >= 120900
#define CUDA_SCALES_ROWS 1
#else
#define CUDA_SCALES_ROWS 0
#endif

/* Opaque structs on the stack: a step allocates nothing. */
struct product {
	cublasLtMatmulDescOpaque_t desc;
	cublasLtMatrixLayoutOpaque_t a, b, d; /* of its A and B: ours the other way round */
};

cublasStatus_t cuda_product_set(struct product *p, cublasLtMatmulDescAttributes_t what,
				const void *value, size_t size);
/* Bias and GELU, as the operation has them. */
cublasStatus_t cuda_product_epilogue(struct product *p, const struct zr_op_matmul *op);
/* trans: the other way round. */
cublasStatus_t cuda_product_layout(cublasLtMatrixLayoutOpaque_t *l, int32_t dtype, int64_t rows,
				   int64_t cols, int64_t ld, int trans);
/* What an algorithm may use, and what its operands are aligned to. */
cublasStatus_t cuda_product_prefer(cublasLtMatmulPreferenceOpaque_t *p,
				   const struct zr_op_matmul *op);
/* Whether a status says that cuBLASLt does not compute such a product; others say that something is
 * broken. */
int cuda_product_is_refusal(cublasStatus_t s);

struct cuda_shape cuda_shape_of(const struct zr_op_matmul *op);
/* The place of a shape: its own, or the one that it takes. A full table forgets who is there. */
struct cuda_choice *cuda_choice_of(const struct zr_inst *d, const struct cuda_shape *shape);

/* fp8.c: a product in 8 bits, without GELU. What is left to do is `rest`: a product in bf16, or
 * nothing, then its size is 0. */
int cuda_fp8(struct zr_inst *d, struct zr_stream *s, const struct zr_op_matmul *op,
	     struct zr_op_matmul *rest);

#endif
