/* SPDX-License-Identifier: Apache-2.0
 *
 * narrow.c - operands of products in 8 bits: copies in bf16, whose numbers are those that the 8
 * bits have. So the product is one of bf16, with the same sums.
 */
#include "cpu.h"

#include <narrow_work.h>

struct narrowing {
	const struct zr_inst *d;
	struct zr_narrowing n;
	int64_t cut;
};

uint64_t cpu_matmul_work(const struct zr_ops *ops, const struct zr_op_matmul *o)
{
	(void)ops;
	return zr_narrow_work(o);
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
	struct narrowing a = { .d = d, .n = zr_narrowing_of_a(op) };
	struct narrowing b = { .d = d, .n = zr_narrowing_of_b(op) };

	if (!(op->flags & ZR_MM_SAME_A))
		narrow_rows(&a);
	if (op->flags & ZR_MM_TRANS_B)
		narrow_rows(&b);
	else
		narrow_columns(&b);
	*op = zr_narrowed(op);
}
