/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - the output projection fused with softmax cross entropy, in chunks of rows: the fp32
 * logits of a chunk are computed, become their own gradient in place, and are spent on dx and dw
 * before the next chunk overwrites them. The logits of a whole batch never exist. Those under a
 * soft cap are kept for its slope, a row at a time, while they become their gradient. Some rows of
 * dw alone take their columns of the logits once more. Where products of bf16 have instructions of
 * their own the gradient of the logits is rounded to it, row by row in place. head_blocks.c cuts
 * columns instead.
 */
#include "head.h"

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

static int64_t work_floats(const struct zr_op_head_loss *o)
{
	return chunk_rows(o) * stride_of(o);
}

uint64_t cpu_head_loss_work(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	(void)ops;
	return (uint64_t)work_floats(o) * sizeof(float);
}

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

static struct cap cap_of(const struct cpu_head *c, float *logits, int64_t n, int32_t worker)
{
	const struct zr_op_head_loss *o = c->op;
	return (struct cap){ .op = { .size = sizeof(struct zr_op_logit_cap), .n = n,
				     .gain = o->logit_gain, .softcap = o->softcap, .x = logits },
			     .wanted = o->softcap > 0 || (o->logit_gain != 0 && o->logit_gain != 1),
			     .kept = cpu_scratch(c->d, worker) };
}

static void cap_logits(const struct cpu_head *c, struct cap *cap, int backward)
{
	if (!cap->wanted)
		return;
	c->d->k->logit_cap(&cap->op, 0, cap->op.n);
	if (backward && cap->op.softcap > 0)
		cap->op.x = memcpy(cap->kept, cap->op.x, (size_t)cap->op.n * sizeof(float));
}

static void cap_gradient(const struct cpu_head *c, const struct cap *cap, float *grad)
{
	if (cap->wanted)
		c->d->k->logit_cap_bwd(&cap->op, grad);
}

/* The gradient of a row as the products take it. Elements of half the size begin where the row
 * does: each is written after it and all before it were read. */
static void store_gradient(const struct cpu_head *c, float *logits)
{
	const struct zr_op_cast op = { .size = sizeof op, .src_dtype = ZR_F32,
				       .dst_dtype = c->grad_dtype, .n = c->columns,
				       .src = logits, .dst = logits };
	if (c->grad_dtype != ZR_F32)
		c->d->k->cast(&op, 0, op.n);
}

/* Elements between rows of the gradient. */
static int64_t grad_stride(const struct cpu_head *c)
{
	return c->stride * (c->grad_dtype == ZR_F32 ? 1 : 2);
}

/* Of row r of the chunk, whose logits become their gradient. */
static float row_loss(const struct cpu_head *c, int64_t r, int32_t worker)
{
	const struct zr_op_head_loss *o = c->op;
	float *logits = c->logits + r * c->stride;
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
	const struct cpu_head *c = arg;
	const struct zr_op_head_loss *o = c->op;
	int64_t lo = item * c->rows_per_item, hi = cpu_min(lo + c->rows_per_item, c->rows), r;
	for (r = lo; r < hi; r++)
		o->loss[c->first + r] = row_loss(c, r, worker);
}

/* The gradient of some columns of logits. */
static void part_item(void *arg, int64_t item, int32_t worker)
{
	const struct cpu_head *c = arg;
	const struct zr_op_head_loss *o = c->op;
	int64_t lo = item * c->rows_per_item, hi = cpu_min(lo + c->rows_per_item, c->rows), r;
	for (r = lo; r < hi; r++) {
		float *logits = c->logits + r * c->stride;
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

void cpu_head_gradient(const struct cpu_head *c)
{
	struct cpu_head job = *c;
	cpu_parallel(c->d, cpu_ceil_div(c->rows, c->rows_per_item), part_item, &job);
}

static void sums_item(void *arg, int64_t item, int32_t worker)
{
	const struct cpu_head *c = arg;
	const struct zr_op_head_loss *o = c->op;
	int64_t lo = item * c->rows_per_item, hi = cpu_min(lo + c->rows_per_item, c->rows), r;
	for (r = lo; r < hi; r++) {
		float *logits = c->logits + r * c->stride;
		const int64_t at = c->first + r, target = o->targets[at] - c->column;
		struct cap cap = cap_of(c, logits, c->columns, worker);
		if (o->targets[at] < 0)
			continue;
		cap_logits(c, &cap, 0);
		c->d->k->softmax_sums(logits, c->columns, c->column > 0, c->stats + 2 * at);
		if (target >= 0 && target < c->columns)
			o->loss[at] = logits[target];
	}
}

void cpu_head_sums(const struct cpu_head *c)
{
	struct cpu_head job = *c;
	cpu_parallel(c->d, cpu_ceil_div(c->rows, c->rows_per_item), sums_item, &job);
}

void cpu_head_losses(const struct cpu_head *c)
{
	const struct zr_op_head_loss *o = c->op;
	for (int64_t at = c->first; at < c->first + c->rows; at++) {
		const float weight = weight_of(o, at);
		o->loss[at] = o->targets[at] < 0 ? 0 :
				weight * c->d->k->softmax_end(c->stats + 2 * at, o->loss[at],
							      o->scale * weight);
	}
}

/* logits = x w^T */
int cpu_head_project(const struct zr_ops *ops, const struct cpu_head *c)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm, .flags = ZR_MM_TRANS_B, .a_dtype = o->dtype, .b_dtype = o->dtype,
		.d_dtype = ZR_F32, .m = c->rows, .n = c->columns, .k = o->width,
		.a = cpu_at(o->x, o->dtype, c->first * o->width), .lda = o->width,
		.b = cpu_at(o->w, o->dtype, c->column * o->width),
		.ldb = o->width, .d = c->logits, .ldd = c->stride,
	};
	return cpu_matmul_of(ops, &mm, c->rows, o->vocabulary);
}

int cpu_head_grad_x(const struct zr_ops *ops, const struct cpu_head *c, void *dx, int32_t dtype,
		    int add)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm, .flags = add ? ZR_MM_ACCUMULATE : 0,
		.a_dtype = c->grad_dtype, .b_dtype = o->dtype,
		.d_dtype = dtype, .m = c->rows, .n = o->width, .k = c->columns,
		.a = c->logits, .lda = grad_stride(c),
		.b = cpu_at(o->w, o->dtype, c->column * o->width), .ldb = o->width,
		.d = dx, .ldd = o->width,
	};
	return cpu_matmul_of(ops, &mm, mm.m, mm.n);
}

int cpu_head_grad_w(const struct zr_ops *ops, const struct cpu_head *c, float *dw)
{
	const struct zr_op_head_loss *o = c->op;
	int add = c->first > 0 || o->flags & ZR_OP_ACCUMULATE;
	struct zr_op_matmul mm = {
		.size = sizeof mm, .flags = ZR_MM_TRANS_A | (add ? ZR_MM_ACCUMULATE : 0),
		.a_dtype = c->grad_dtype, .b_dtype = o->dtype, .d_dtype = ZR_F32,
		.m = c->columns, .n = o->width, .k = c->rows,
		.a = c->logits, .lda = grad_stride(c),
		.b = cpu_at(o->x, o->dtype, c->first * o->width), .ldb = o->width,
		.d = dw, .ldd = o->width,
	};
	return cpu_matmul_of(ops, &mm, o->vocabulary, o->width);
}

struct cpu_head cpu_head_first(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	int stats = ZR_HAS(o, struct zr_op_head_loss, n_rows),
	    right = ZR_HAS(o, struct zr_op_head_loss, right) && !o->dx,
	    pairs = ops->dev->isa >= ZR_CPU_AVX512BF16 && o->dtype == ZR_BF16;
	return (struct cpu_head){ .d = ops->dev, .op = o, .columns = o->vocabulary,
			       .logits = o->work, .stride = stride_of(o),
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
	struct cpu_head c = cpu_head_first(ops, o);
	int64_t most = chunk_rows(o);
	int done = 0, rc = check(ops->dev, "head_loss_rows", o);
	(void)s;
	if (!rc)
		rc = cpu_head_blocks(ops, o, work_floats(o), cpu_ceil_div(o->rows, chunk_rows(o)),
				     &done);
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
static int head_loss(const struct zr_ops *ops, const struct zr_op_head_loss *o)
{
	struct cpu_head c = cpu_head_first(ops, o);
	int64_t most = chunk_rows(o);
	int rc = 0;
	for (; !rc && c.first < o->rows; c.first += most) {
		c.rows = cpu_min(most, o->rows - c.first);
		rc = cpu_head_project(ops, &c);
		if (rc)
			break;
		cpu_parallel(ops->dev, cpu_ceil_div(c.rows, c.rows_per_item), loss_item, &c);
		if (!o->dx)
			continue;
		rc = cpu_head_grad_x(ops, &c, cpu_at(o->dx, o->dtype, c.first * o->width), o->dtype,
				     0);
		if (!rc && o->dw)
			rc = cpu_head_grad_w(ops, &c, o->dw);
	}
	return rc;
}

int cpu_head_loss(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_head_loss *o)
{
	int done = 0, rc = check(ops->dev, "head_loss", o);
	(void)s;
	if (!rc)
		rc = cpu_head_blocks(ops, o, work_floats(o), cpu_ceil_div(o->rows, chunk_rows(o)),
				     &done);
	if (!rc && !done)
		rc = head_loss(ops, o);
	if (rc)
		return rc;
	*o->loss_sum = 0;
	for (int64_t r = 0; r < o->rows; r++)
		*o->loss_sum += (double)o->loss[r];
	return ZR_OK;
}
