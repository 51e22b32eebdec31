/* SPDX-License-Identifier: Apache-2.0
 *
 * head_blocks.c - the output projection with softmax cross entropy in blocks of the vocabulary. It
 * takes many rows at a time, so that weights and their gradient pass through memory once for all
 * of them, and not once for each chunk of rows: the logits of a block are computed twice, first for
 * the maximum and the sum of each row, then for the gradient. That pays where products are cheap
 * beside memory: on tile registers. There a sum is one chain, however a product is cut.
 */
#include "head.h"

#define ROWS 2048      /* at most */
#define COLUMNS 8192   /* at most: longer sums of dx might be split */
#define FEW_COLUMNS 1024
#define LARGE (1 << 24) /* weights that leave the caches between two chunks of rows */
#define ITEM_ELEMENTS 16384
_Static_assert(COLUMNS <= ITEM_ELEMENTS, "an item has a row");

struct blocks {
	int64_t rows, columns; /* at a time */
	float *dx;             /* [rows, width] in fp32 */
	float *stats;          /* [all rows][2], for when nobody wants them */
};

/* How much fits besides the sums of dx and the stats; 0 rows: too little. */
static struct blocks cut(const struct zr_op_head_loss *o, int64_t work)
{
	const int64_t chunks = cpu_ceil_div(o->rows, ROWS), fewest = 2 * 32;
	struct blocks b = { .rows = cpu_ceil_div(cpu_ceil_div(o->rows, chunks), 32) * 32 };
	for (; b.rows >= fewest; b.rows = b.rows / 64 * 32) {
		int64_t room = work - b.rows * o->width - 2 * o->rows - 32;
		b.columns = room / b.rows / 64 * 64;
		if (b.columns >= FEW_COLUMNS) {
			b.columns = cpu_min(b.columns, COLUMNS);
			return b;
		}
	}
	b.rows = 0;
	return b;
}

/* Whether weights pass through memory so often that logits are cheaper computed twice. */
static int gains(const struct zr_op_head_loss *o, int64_t chunks)
{
	return chunks > 2 || (chunks > 1 && o->vocabulary * o->width >= LARGE);
}

/* dx and dw of the rows. */
static int gradients(const struct zr_ops *ops, struct cpu_head *c, const struct blocks *b)
{
	const struct zr_op_head_loss *o = c->op;
	const int64_t first = o->n_rows ? o->first_row : 0,
		      end = o->n_rows ? first + o->n_rows : o->vocabulary;
	int rc = 0;
	for (c->column = first; !rc && c->column < end; c->column += b->columns) {
		c->columns = cpu_min(b->columns, end - c->column);
		rc = cpu_head_project(ops, c);
		if (rc)
			break;
		cpu_head_gradient(c);
		if (o->dx)
			rc = cpu_head_grad_x(ops, c, b->dx, ZR_F32, c->column > 0);
		if (!rc && o->dw)
			rc = cpu_head_grad_w(ops, c, o->dw + (c->column - first) * o->width);
	}
	return rc;
}

/* Losses and stats of the rows. */
static int losses(const struct zr_ops *ops, struct cpu_head *c, const struct blocks *b)
{
	const struct zr_op_head_loss *o = c->op;
	for (c->column = 0; c->column < o->vocabulary; c->column += b->columns) {
		c->columns = cpu_min(b->columns, o->vocabulary - c->column);
		int rc = cpu_head_project(ops, c);
		if (rc)
			return rc;
		cpu_head_sums(c);
	}
	cpu_head_losses(c);
	return 0;
}

/* dx of the rows, from the sums. */
static int store_dx(const struct zr_ops *ops, const struct cpu_head *c, const float *sums)
{
	const struct zr_op_head_loss *o = c->op;
	const struct zr_ops *plain = &ops->dev->ops;
	const struct zr_op_cast op = { .size = sizeof op, .src_dtype = ZR_F32,
				       .dst_dtype = o->dtype, .n = c->rows * o->width, .src = sums,
				       .dst = cpu_at(o->dx, o->dtype, c->first * o->width) };
	return plain->cast(plain, NULL, &op);
}

int cpu_head_blocks(const struct zr_ops *ops, const struct cpu_head *whole, int64_t work,
		    int64_t chunks, int *done)
{
	const struct zr_op_head_loss *o = whole->op;
	struct cpu_head c = *whole;
	struct blocks b = cut(o, work);
	int rc = 0;
	*done = ops->dev->isa == ZR_CPU_AMX && o->dtype == ZR_BF16 && (o->dx || o->n_rows) &&
		b.rows > 0 && b.columns < o->vocabulary && gains(o, chunks);
	if (!*done)
		return 0;
	b.stats = o->work;
	b.dx = b.stats + 2 * o->rows;
	c.logits = b.dx + (b.rows * o->width + 15) / 16 * 16;
	c.stride = b.columns;
	c.rows_per_item = ITEM_ELEMENTS / b.columns;
	c.stats = c.stats ? c.stats : b.stats;
	for (; !rc && c.first < o->rows; c.first += b.rows) {
		c.rows = cpu_min(b.rows, o->rows - c.first);
		if (!o->n_rows)
			rc = losses(ops, &c, &b);
		if (!rc)
			rc = gradients(ops, &c, &b);
		if (!rc && o->dx)
			rc = store_dx(ops, &c, b.dx);
	}
	return rc;
}
