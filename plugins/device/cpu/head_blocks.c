/* SPDX-License-Identifier: Apache-2.0
 *
 * head_blocks.c - the output projection with softmax cross entropy in blocks of the vocabulary. It
 * takes many rows at a time, so that weights and their gradient pass through memory once for all
 * of them, and not once for each chunk of rows: the logits of a block are computed twice, first for
 * the maximum and the sum of each row, then for the gradient, unless there is room to keep them.
 * That pays where products are cheap beside memory: on tile registers. There a sum is one chain,
 * however a product is cut.
 */
#include "head.h"

#define ROWS          2048 /* at most */
#define COLUMNS       4032 /* at most: longer sums of dx might be split */
#define FEW_COLUMNS   1024
#define MOST_WORK     (16 << 20) /* floats */
#define LARGE         (1 << 24)  /* weights that leave the caches between two chunks of rows */
#define ITEM_ELEMENTS 16384
_Static_assert(COLUMNS <= ITEM_ELEMENTS, "an item has a row");

struct blocks {
	int64_t rows, columns; /* at a time */
	int64_t kept;          /* blocks whose logits are kept for the gradient, the first ones */
	float *logits;         /* [rows, columns] of each of these, then of the other blocks */
	float *dx;             /* [rows, width] in fp32 */
	float *stats;          /* [all rows][2], for when nobody wants them */
};

/* Rows at a time, if they fit. */
static int64_t most_rows(const struct zr_op_head_loss *o)
{
	return cpu_ceil_div(cpu_ceil_div(o->rows, cpu_ceil_div(o->rows, ROWS)), 32) * 32;
}

static int64_t most_columns(const struct zr_op_head_loss *o)
{
	return cpu_min(cpu_ceil_div(o->vocabulary, 64) * 64, COLUMNS);
}

/* Floats besides logits: sums of dx and stats. */
static int64_t beside(const struct zr_op_head_loss *o, int64_t rows)
{
	return rows * o->width + 2 * o->rows + 32;
}

/* How much fits; 0 rows: too little. */
static struct blocks cut(const struct zr_op_head_loss *o, int64_t work)
{
	const int64_t fewest = 2 * 32;
	struct blocks b = { .rows = most_rows(o) };
	for (; b.rows >= fewest; b.rows = b.rows / 64 * 32) {
		const int64_t room = (work - beside(o, b.rows)) / b.rows;
		b.columns = cpu_min(room / 64 * 64, most_columns(o));
		if (b.columns >= cpu_min(FEW_COLUMNS, o->vocabulary)) {
			const int64_t all = cpu_ceil_div(o->vocabulary, b.columns);
			b.kept = room / b.columns >= all ? all : room / b.columns - 1;
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

/* Whether the shape and the instruction set gain by blocks. */
static int suits(const struct zr_ops *ops, const struct zr_op_head_loss *o, int64_t chunks)
{
	return ops->dev->isa == ZR_CPU_AMX && o->dtype == ZR_BF16 && !zr_head_rank(o) &&
	       gains(o, chunks);
}

int64_t cpu_head_blocks_work(const struct zr_ops *ops, const struct zr_op_head_loss *o,
			     int64_t chunks)
{
	const int64_t columns = most_columns(o), rows = most_rows(o);
	const int64_t all = rows * cpu_ceil_div(o->vocabulary, columns) * columns;
	return suits(ops, o, chunks) ? cpu_min(all + beside(o, rows), MOST_WORK) : 0;
}

/* Where the logits of the block go. */
static float *place_of(const struct blocks *b, int64_t block)
{
	return b->logits + cpu_min(block, b->kept) * b->rows * b->columns;
}

/* dx and dw of the rows. */
static int gradients(const struct zr_ops *ops, struct cpu_head *c, const struct blocks *b)
{
	const struct zr_op_head_loss *o = c->op;
	int64_t first = 0, end = o->vocabulary, kept = b->kept;
	int rc = 0;
	if (o->n_rows) {
		first = o->first_row;
		end = first + o->n_rows;
		kept = 0;
	}

	c->column = first;
	for (int64_t i = 0; !rc && c->column < end; i++, c->column += b->columns) {
		c->columns = cpu_min(b->columns, end - c->column);
		c->logits = place_of(b, i);
		c->capped = i < kept; /* for the losses */
		if (!c->capped) {
			rc = cpu_head_project(ops, c);
			if (rc)
				break;
		}

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
	c->column = 0;
	c->capped = 0;
	for (int64_t i = 0; c->column < o->vocabulary; i++, c->column += b->columns) {
		c->columns = cpu_min(b->columns, o->vocabulary - c->column);
		c->logits = place_of(b, i);
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
	const struct zr_op_cast op = { .size = sizeof op,
				       .n = c->rows * o->width,
				       .src = zr_array_at(ZR_F32, sums),
				       .dst = zr_array_at(o->dtype, cpu_at(o->dx, o->dtype,
									   c->first * o->width)) };
	return plain->cast(plain, NULL, &op);
}

int cpu_head_blocks(const struct zr_ops *ops, const struct cpu_head *whole, int64_t work,
		    int64_t chunks, int *done)
{
	const struct zr_op_head_loss *o = whole->op;
	struct cpu_head c = *whole;
	struct blocks b = cut(o, work);
	int rc = 0;
	*done = suits(ops, o, chunks) && (o->dx || o->n_rows) && b.rows > 0;
	if (!*done)
		return 0;

	b.stats = o->work;
	b.dx = b.stats + 2 * o->rows;
	b.logits = b.dx + (b.rows * o->width + 15) / 16 * 16;
	c.stride = b.columns;
	c.rows_per_item = ITEM_ELEMENTS / b.columns;
	if (!c.stats)
		c.stats = b.stats;
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
