/* SPDX-License-Identifier: Apache-2.0
 *
 * narrow_work.h - the work of a product in 8 bits (ZR_MM_FP8): room for both operands in bf16,
 * op(A) first. All devices take as much, so that a plan for a card needs no card.
 */
#ifndef ZEROTH_KERNELS_NARROW_WORK_H
#define ZEROTH_KERNELS_NARROW_WORK_H

#include <kernels.h>

/* Bytes rounded up, so that what lies behind them is aligned. */
static inline uint64_t zr_narrow_up(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* Bytes of an operand of n elements. */
static inline uint64_t zr_narrow_bytes(int64_t n)
{
	return zr_narrow_up(zr_bytes_of(ZR_BF16, n));
}

static inline uint64_t zr_narrow_work(const struct zr_op_matmul *op)
{
	if (!(op->flags & ZR_MM_FP8))
		return 0;
	return zr_narrow_bytes(op->m * op->k) + zr_narrow_bytes(op->k * op->n);
}

static inline struct zr_narrowing zr_narrowing_of_a(const struct zr_op_matmul *op)
{
	struct zr_narrowing a = { .rows = op->m,
				  .width = op->k,
				  .ld = op->lda,
				  .from = op->a.data,
				  .to = op->work,
				  .e5m2 = (op->flags & ZR_MM_E5M2_A) != 0 };
	return a;
}

/* With ZR_MM_TRANS_B its rows share a power of two, else its columns do. */
static inline struct zr_narrowing zr_narrowing_of_b(const struct zr_op_matmul *op)
{
	struct zr_narrowing b = { .rows = op->k,
				  .width = op->n,
				  .ld = op->ldb,
				  .from = op->b.data,
				  .to = (char *)op->work + zr_narrow_bytes(op->m * op->k) };
	if (op->flags & ZR_MM_TRANS_B) {
		b.rows = op->n;
		b.width = op->k;
	}
	return b;
}

/* The product in bf16 of what both have become. */
static inline struct zr_op_matmul zr_narrowed(const struct zr_op_matmul *op)
{
	const struct zr_narrowing a = zr_narrowing_of_a(op), b = zr_narrowing_of_b(op);
	struct zr_op_matmul to = *op;
	to.flags &= ~(ZR_MM_FP8 | ZR_MM_E5M2_A | ZR_MM_SAME_A);
	to.a = zr_array_at(ZR_BF16, a.to);
	to.lda = a.width;
	to.b = zr_array_at(ZR_BF16, b.to);
	to.ldb = b.width;
	return to;
}

#endif
