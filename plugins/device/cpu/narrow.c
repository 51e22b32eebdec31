/* SPDX-License-Identifier: Apache-2.0
 *
 * narrow.c - operands of products in 8 bits: copies in bf16, whose numbers are those that the 8
 * bits have. So the product is one of bf16, with the same sums.
 */
#include "cpu.h"

struct narrowing {
	const struct zr_inst *d;
	struct zr_narrowing n;
	int64_t cut;
};

static uint64_t copy_bytes(int64_t rows, int64_t width)
{
	return (zr_bytes_of(ZR_BF16, rows * width) + 63) / 64 * 64;
}

uint64_t cpu_matmul_work(const struct zr_ops *ops, const struct zr_op_matmul *o)
{
	(void)ops;
	if (!(o->flags & ZR_MM_FP8))
		return 0;
	return copy_bytes(o->m, o->k) + copy_bytes(o->k, o->n);
}

static void rows_item(void *arg, int64_t item, int32_t worker)
{
	const struct narrowing *j = arg;
	const int64_t lo = item * j->cut;
	(void)worker;
	j->d->k->narrow_rows(&j->n, lo, cpu_min(lo + j->cut, j->n.rows));
}

static void columns_item(void *arg, int64_t item, int32_t worker)
{
	const struct narrowing *j = arg;
	const int64_t lo = item * j->cut;
	(void)worker;
	j->d->k->narrow_columns(&j->n, lo, cpu_min(lo + j->cut, j->n.width));
}

static void narrow_rows(struct narrowing *j)
{
	j->cut = 1 + (1 << 15) / (j->n.width + 1);
	cpu_parallel(j->d, cpu_ceil_div(j->n.rows, j->cut), rows_item, j);
}

static void narrow_columns(struct narrowing *j)
{
	j->cut = ZR_NARROW_COLUMNS;
	cpu_parallel(j->d, cpu_ceil_div(j->n.width, j->cut), columns_item, j);
}

void cpu_narrow(const struct zr_inst *d, struct zr_op_matmul *op)
{
	const int rows_of_b = (op->flags & ZR_MM_TRANS_B) != 0;
	struct narrowing a = { .d = d,
			       .n = { .rows = op->m,
				      .width = op->k,
				      .ld = op->lda,
				      .from = op->a.data,
				      .to = op->work,
				      .e5m2 = (op->flags & ZR_MM_E5M2_A) != 0 } };
	struct narrowing b = { .d = d,
			       .n = { .rows = rows_of_b ? op->n : op->k,
				      .width = rows_of_b ? op->k : op->n,
				      .ld = op->ldb,
				      .from = op->b.data,
				      .to = (char *)op->work + copy_bytes(op->m, op->k) } };

	if (!(op->flags & ZR_MM_SAME_A))
		narrow_rows(&a);
	if (rows_of_b)
		narrow_rows(&b);
	else
		narrow_columns(&b);

	op->flags &= ~(ZR_MM_FP8 | ZR_MM_E5M2_A | ZR_MM_SAME_A);
	op->a = zr_array_at(ZR_BF16, a.n.to);
	op->lda = a.n.width;
	op->b = zr_array_at(ZR_BF16, b.n.to);
	op->ldb = b.n.width;
}
