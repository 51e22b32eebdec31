/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - the output projection fused with softmax cross entropy, in chunks of rows: the fp32
 * logits of a chunk are computed, become their own gradient in place, and are spent on dx and dw
 * before the next chunk overwrites them. The logits of a large batch never exist. Some rows of dw
 * alone take their columns of the logits once more. head_blocks.c cuts columns instead.
 */
#include "head.h"

#include <string.h>

#define CHUNK_BYTES   (32ll << 20) /* of logits */
#define CHUNK_ROWS    512
#define CHUNK_MIN     32
#define ITEM_ELEMENTS 16384

/* Floats between rows of logits: whole cache lines. */
static int64_t stride_of(const struct zr_op_head_loss *o)
{
	return cpu_ceil_div(o->vocabulary, 16) * 16;
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
	if (x < lo)
		return lo;
	if (x > hi)
		return hi;
	return x;
}

/* Rows of a chunk, of nearly equal chunks. */
static int64_t chunk_rows(const struct zr_op_head_loss *o)
{
	int64_t fit = CHUNK_BYTES / (stride_of(o) * (int64_t)sizeof(float));
	int64_t most = o->rows >= 2 * CHUNK_MIN ? o->rows / 2 : o->rows;
	int64_t rows = clamp(cpu_min(clamp(fit, CHUNK_MIN, CHUNK_ROWS), most), 1, CHUNK_ROWS);
	return cpu_ceil_div(o->rows, cpu_ceil_div(o->rows, rows));
}

static int64_t chunks_of(const struct zr_op_head_loss *o)
{
	return cpu_ceil_div(o->rows, chunk_rows(o));
}

static int64_t work_floats(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	const int64_t rows = chunk_rows(o) * stride_of(o),
		      blocks = cpu_head_blocks_work(ops, o, chunks_of(o));
	return rows > blocks ? rows : blocks;
}

uint64_t cpu_head_loss_work(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	return (uint64_t)work_floats(ops, o) * sizeof(float);
}

/* Without rows yet, all columns. */
static struct cpu_head whole(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	int stats = ZR_HAS(o, struct zr_op_head_loss, n_rows),
	    right = ZR_HAS(o, struct zr_op_head_loss, right) && !o->dx,
	    pairs = ops->dev->isa >= ZR_CPU_AVX512BF16 && o->dtype == ZR_BF16;
	return (struct cpu_head){ .d = ops->dev,
				  .op = o,
				  .columns = o->vocabulary,
				  .logits = o->work,
				  .stride = stride_of(o),
				  .rows_per_item =
					  clamp(ITEM_ELEMENTS / o->vocabulary, 1, chunk_rows(o)),
				  .stats = stats ? o->stats : NULL,
				  .grad_dtype = pairs ? ZR_BF16 : ZR_F32,
				  .right = right ? o->right : NULL };
}

static int check(const struct zr_inst *d, const char *op, const struct zr_op_head_loss *o)
{
	const int64_t most = CPU_SCRATCH / (int64_t)sizeof(float);
	int rc = zr_check_head(d->h, op, o);
	if (!rc && o->softcap > 0 && o->vocabulary > most)
		rc = zr_fail(d->h, ZR_ENOTSUP, "%s: of %lld logits under a soft cap %lld are kept",
			     op, (long long)o->vocabulary, (long long)most);
	return rc;
}

int cpu_head_loss_rows(const struct zr_ops *ops, struct zr_stream *s,
		       const struct zr_op_head_loss *o)
{
	int done = 0, rc = check(ops->dev, "head_loss_rows", o);
	(void)s;
	if (rc)
		return rc;

	struct cpu_head c = whole(ops, o);
	const int64_t most = chunk_rows(o);
	rc = cpu_head_blocks(ops, &c, work_floats(ops, o), chunks_of(o), &done);
	if (done)
		return rc;

	c.column = o->first_row;
	c.columns = o->n_rows;
	for (; !rc && c.first < o->rows; c.first += most) {
		c.rows = cpu_min(most, o->rows - c.first);
		rc = cpu_head_project(ops, &c);
		if (rc)
			break;
		cpu_head_gradient(&c);
		rc = cpu_head_grad_w(ops, &c, o->dw);
	}
	return rc;
}

/* In chunks of rows. */
static int head_loss(const struct zr_ops *ops, struct cpu_head c)
{
	const struct zr_op_head_loss *o = c.op;
	const int64_t most = chunk_rows(o);
	int rc = 0;
	for (; !rc && c.first < o->rows; c.first += most) {
		c.rows = cpu_min(most, o->rows - c.first);
		rc = cpu_head_project(ops, &c);
		if (rc)
			break;
		cpu_head_rows(&c);
		if (!o->dx)
			continue;
		rc = cpu_head_grad_x(ops, &c, cpu_at(o->dx, o->dtype, c.first * o->width), o->dtype,
				     0);
		if (!rc && o->dw)
			rc = cpu_head_grad_w(ops, &c, o->dw);
		if (!rc)
			rc = cpu_head_grad_low(ops, &c);
	}
	return rc;
}

int cpu_head_loss(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_head_loss *o)
{
	int done = 0, rc = check(ops->dev, "head_loss", o);
	(void)s;
	if (rc)
		return rc;

	const struct cpu_head c = whole(ops, o);
	rc = cpu_head_blocks(ops, &c, work_floats(ops, o), chunks_of(o), &done);
	if (!rc && !done)
		rc = head_loss(ops, c);
	if (rc)
		return rc;

	*o->loss_sum = 0;
	for (int64_t r = 0; r < o->rows; r++)
		*o->loss_sum += (double)o->loss[r];
	return ZR_OK;
}
