/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - the output projection fused with softmax cross entropy, in chunks of rows: the fp32
 * logits of a chunk are computed, become their own gradient in place, and are spent on dx and dw
 * before the next chunk overwrites them. The logits of a whole batch never exist. Those under a soft
 * cap are kept for its slope, a row at a time, while they become their gradient. Some rows of dw
 * alone take their columns of the logits once more. Where products of bf16 have instructions of
 * their own the gradient of the logits is rounded to it, row by row in place.
 */
#include "cpu.h"

#include <string.h>

#define CHUNK_BYTES (32ll << 20) /* of logits */
#define CHUNK_ROWS 512
#define CHUNK_MIN 32
#define ITEM_ELEMENTS 16384

/* Floats between rows of logits: whole cache lines. */
static int64_t stride_of(const struct zr_op_head_loss *o)
{
	return cpu_ceil_div(o->vocabulary, 16) * 16;
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

/* Rows of a chunk, of nearly equal chunks. */
static int64_t chunk_rows(const struct zr_op_head_loss *o)
{
	int64_t fit = CHUNK_BYTES / (stride_of(o) * (int64_t)sizeof(float));
	int64_t most = o->rows >= 2 * CHUNK_MIN ? o->rows / 2 : o->rows;
	int64_t rows = clamp(cpu_min(clamp(fit, CHUNK_MIN, CHUNK_ROWS), most), 1, CHUNK_ROWS);
	return cpu_ceil_div(o->rows, cpu_ceil_div(o->rows, rows));
}

uint64_t cpu_head_loss_work(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	(void)ops;
	return (uint64_t)(chunk_rows(o) * stride_of(o)) * sizeof(float);
}

struct chunk {
	const struct zr_inst *d;
	const struct zr_op_head_loss *op;
	int64_t first, rows, rows_per_item;
	int64_t column, columns; /* of the logits */
	float *stats, *right;    /* NULL: not wanted */
	float *logits;
	int32_t grad_dtype;      /* of the logits once they are their gradient */
};

static float weight_of(const struct zr_op_head_loss *o, int64_t r)
{
	return o->weights ? o->weights[r] : 1;
}

/* What is done to n logits of a row after the product; `kept`: room for n, if a soft cap is. */
struct cap {
	struct zr_op_logit_cap op;
	int wanted;
	float *kept;
};

static struct cap cap_of(const struct chunk *c, float *logits, int64_t n, int32_t worker)
{
	const struct zr_op_head_loss *o = c->op;
	return (struct cap){ .op = { .size = sizeof(struct zr_op_logit_cap), .n = n,
				     .gain = o->logit_gain, .softcap = o->softcap, .x = logits },
			     .wanted = o->softcap > 0 || (o->logit_gain != 0 && o->logit_gain != 1),
			     .kept = cpu_scratch(c->d, worker) };
}

static void cap_logits(const struct chunk *c, struct cap *cap, int backward)
{
	if (!cap->wanted)
		return;
	c->d->k->logit_cap(&cap->op, 0, cap->op.n);
	if (backward && cap->op.softcap > 0)
		cap->op.x = memcpy(cap->kept, cap->op.x, (size_t)cap->op.n * sizeof(float));
}

static void cap_gradient(const struct chunk *c, const struct cap *cap, float *grad)
{
	if (cap->wanted)
		c->d->k->logit_cap_bwd(&cap->op, grad);
}

/* The gradient of a row as the products take it. Elements of half the size begin where the row
 * does: each is written after it and all before it were read. */
static void store_gradient(const struct chunk *c, float *logits)
{
	const struct zr_op_cast op = { .size = sizeof op, .src_dtype = ZR_F32,
				       .dst_dtype = c->grad_dtype, .n = c->columns,
				       .src = logits, .dst = logits };
	if (c->grad_dtype != ZR_F32)
		c->d->k->cast(&op, 0, op.n);
}

/* Elements between rows of the gradient. */
static int64_t grad_stride(const struct chunk *c)
{
	return stride_of(c->op) * (c->grad_dtype == ZR_F32 ? 1 : 2);
}

/* Of row r of the chunk, whose logits become their gradient. */
static float row_loss(const struct chunk *c, int64_t r, int32_t worker)
{
	const struct zr_op_head_loss *o = c->op;
	float *logits = c->logits + r * stride_of(o);
	float weight = weight_of(o, c->first + r);
	float *stats = c->stats ? c->stats + 2 * (c->first + r) : NULL;
	int32_t target = o->targets[c->first + r];
	struct cap cap = cap_of(c, logits, o->vocabulary, worker);
	float loss = 0;
	if (target >= 0) {
		cap_logits(c, &cap, o->dx != NULL);
		loss = c->d->k->softmax_loss(logits, o->vocabulary, target, o->dx != NULL,
					     o->scale * weight, stats);
		if (o->dx)
			cap_gradient(c, &cap, logits);
	} else
		memset(logits, 0, (size_t)o->vocabulary * sizeof *logits);
	if (c->right)
		c->right[c->first + r] = target >= 0 && loss == loss &&
			c->d->k->softmax_right(logits, o->vocabulary, target) ? weight : 0;
	if (o->dx)
		store_gradient(c, logits);
	return weight * loss;
}

static void loss_item(void *arg, int64_t item, int32_t worker)
{
	const struct chunk *c = arg;
	const struct zr_op_head_loss *o = c->op;
	int64_t lo = item * c->rows_per_item, hi = cpu_min(lo + c->rows_per_item, c->rows), r;
	for (r = lo; r < hi; r++)
		o->loss[c->first + r] = row_loss(c, r, worker);
}

/* The gradient of some columns of logits. */
static void part_item(void *arg, int64_t item, int32_t worker)
{
	const struct chunk *c = arg;
	const struct zr_op_head_loss *o = c->op;
	int64_t lo = item * c->rows_per_item, hi = cpu_min(lo + c->rows_per_item, c->rows), r;
	for (r = lo; r < hi; r++) {
		float *logits = c->logits + r * stride_of(o);
		int64_t at = c->first + r;
		struct cap cap = cap_of(c, logits, c->columns, worker);
		if (o->targets[at] < 0) {
			memset(logits, 0, (size_t)c->columns * sizeof *logits);
			continue;
		}
		cap_logits(c, &cap, 1);
		c->d->k->softmax_part(logits, c->columns, o->targets[at] - c->column,
				      o->scale * weight_of(o, at), c->stats + 2 * at);
		cap_gradient(c, &cap, logits);
		store_gradient(c, logits);
	}
}

/* logits = x w^T */
static int project(const struct zr_ops *ops, const struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm, .flags = ZR_MM_TRANS_B, .a_dtype = o->dtype, .b_dtype = o->dtype,
		.d_dtype = ZR_F32, .m = c->rows, .n = c->columns, .k = o->width,
		.a = cpu_at(o->x, o->dtype, c->first * o->width), .lda = o->width,
		.b = cpu_at(o->w, o->dtype, c->column * o->width),
		.ldb = o->width, .d = c->logits, .ldd = stride_of(o),
	};
	return cpu_matmul_of(ops, &mm, c->rows, o->vocabulary);
}

/* dx = dlogits w */
static int grad_x(const struct zr_ops *ops, struct zr_stream *s, const struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm, .a_dtype = c->grad_dtype, .b_dtype = o->dtype,
		.d_dtype = o->dtype, .m = c->rows, .n = o->width, .k = o->vocabulary,
		.a = c->logits, .lda = grad_stride(c),
		.b = o->w, .ldb = o->width,
		.d = cpu_at(o->dx, o->dtype, c->first * o->width), .ldd = o->width,
	};
	return cpu_matmul(ops, s, &mm);
}

/* dw = or += dlogits^T x */
static int grad_w(const struct zr_ops *ops, const struct chunk *c)
{
	const struct zr_op_head_loss *o = c->op;
	int add = c->first > 0 || o->flags & ZR_OP_ACCUMULATE;
	struct zr_op_matmul mm = {
		.size = sizeof mm, .flags = ZR_MM_TRANS_A | (add ? ZR_MM_ACCUMULATE : 0),
		.a_dtype = c->grad_dtype, .b_dtype = o->dtype, .d_dtype = ZR_F32,
		.m = c->columns, .n = o->width, .k = c->rows,
		.a = c->logits, .lda = grad_stride(c),
		.b = cpu_at(o->x, o->dtype, c->first * o->width), .ldb = o->width,
		.d = o->dw, .ldd = o->width,
	};
	return cpu_matmul_of(ops, &mm, o->vocabulary, o->width);
}

static struct chunk first_chunk(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	int stats = ZR_HAS(o, struct zr_op_head_loss, n_rows),
	    right = ZR_HAS(o, struct zr_op_head_loss, right) && !o->dx,
	    pairs = ops->dev->isa >= ZR_CPU_AVX512BF16 && o->dtype == ZR_BF16;
	return (struct chunk){ .d = ops->dev, .op = o, .columns = o->vocabulary, .logits = o->work,
			       .rows_per_item = clamp(ITEM_ELEMENTS / o->vocabulary, 1,
						      chunk_rows(o)),
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
	struct chunk c = first_chunk(ops, o);
	int64_t most = chunk_rows(o);
	int rc = check(ops->dev, "head_loss_rows", o);
	(void)s;
	c.column = o->first_row;
	c.columns = o->n_rows;
	for (; !rc && c.first < o->rows; c.first += most) {
		c.rows = cpu_min(most, o->rows - c.first);
		rc = project(ops, &c);
		if (rc)
			break;
		cpu_parallel(ops->dev, cpu_ceil_div(c.rows, c.rows_per_item), part_item, &c);
		rc = grad_w(ops, &c);
	}
	return rc;
}

int cpu_head_loss(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_head_loss *o)
{
	struct chunk c = first_chunk(ops, o);
	int64_t most = chunk_rows(o), per_item = c.rows_per_item, r;
	int rc = check(ops->dev, "head_loss", o);
	for (; !rc && c.first < o->rows; c.first += most) {
		c.rows = cpu_min(most, o->rows - c.first);
		rc = project(ops, &c);
		if (rc)
			break;
		cpu_parallel(ops->dev, cpu_ceil_div(c.rows, per_item), loss_item, &c);
		if (!o->dx)
			continue;
		rc = grad_x(ops, s, &c);
		if (!rc && o->dw)
			rc = grad_w(ops, &c);
	}
	if (rc)
		return rc;
	*o->loss_sum = 0;
	for (r = 0; r < o->rows; r++)
		*o->loss_sum += (double)o->loss[r];
	return ZR_OK;
}
