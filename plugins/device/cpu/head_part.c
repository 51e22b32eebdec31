/* SPDX-License-Identifier: Apache-2.0
 *
 * head_part.c - see head.h: products, losses and gradients of some rows and columns of the logits.
 * Those under a soft cap are kept for its slope, a row at a time, while they become their gradient.
 * Where products of bf16 have instructions of their own the gradient of the logits is rounded to
 * it, row by row in place.
 */
#include "head.h"

#include <string.h>

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
	return (struct cap){ .op = { .size = sizeof(struct zr_op_logit_cap),
				     .n = n,
				     .gain = o->logit_gain,
				     .softcap = o->softcap,
				     .x = logits },
			     .wanted = o->softcap > 0 || (o->logit_gain != 0 && o->logit_gain != 1),
			     .kept = cpu_scratch(c->d, worker) };
}

static void cap_logits(const struct cpu_head *c, struct cap *cap, int backward)
{
	if (!cap->wanted)
		return;
	if (!c->capped)
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
	const struct zr_op_cast op = { .size = sizeof op,
				       .n = c->columns,
				       .src = zr_array_at(ZR_F32, logits),
				       .dst = zr_array_at(c->grad_dtype, logits) };
	if (c->grad_dtype != ZR_F32)
		c->d->k->cast(&op, 0, op.n);
}

/* Elements between rows of the gradient. */
static int64_t grad_stride(const struct cpu_head *c)
{
	return c->stride * (c->grad_dtype == ZR_F32 ? 1 : 2);
}

/* Whether the target of a row is the likeliest; of a loss that is not a number it is not. */
static int is_right(const struct cpu_head *c, const float *logits, int32_t target, float loss)
{
	if (target < 0 || loss != loss)
		return 0;
	return c->d->k->softmax_right(logits, c->op->vocabulary, target);
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
	} else {
		memset(logits, 0, (size_t)o->vocabulary * sizeof *logits);
	}

	if (c->right)
		c->right[c->first + r] = is_right(c, logits, target, loss) ? weight : 0;
	if (o->dx)
		store_gradient(c, logits);
	return weight * loss;
}

/* ---- all rows, on all workers ---- */

typedef void row_fn(const struct cpu_head *c, int64_t r, int32_t worker);

struct rows {
	const struct cpu_head *c;
	row_fn *fn;
};

static void rows_item(void *arg, int64_t item, int32_t worker)
{
	const struct rows *j = arg;
	const int64_t lo = item * j->c->rows_per_item;
	const int64_t hi = cpu_min(lo + j->c->rows_per_item, j->c->rows);
	for (int64_t r = lo; r < hi; r++)
		j->fn(j->c, r, worker);
}

static void each_row(const struct cpu_head *c, row_fn *fn)
{
	struct rows job = { c, fn };
	cpu_parallel(c->d, cpu_ceil_div(c->rows, c->rows_per_item), rows_item, &job);
}

static void loss_of_row(const struct cpu_head *c, int64_t r, int32_t worker)
{
	c->op->loss[c->first + r] = row_loss(c, r, worker);
}

void cpu_head_rows(const struct cpu_head *c)
{
	each_row(c, loss_of_row);
}

/* The gradient of some columns of logits. */
static void gradient_of_row(const struct cpu_head *c, int64_t r, int32_t worker)
{
	const struct zr_op_head_loss *o = c->op;
	float *logits = c->logits + r * c->stride;
	int64_t at = c->first + r;
	struct cap cap = cap_of(c, logits, c->columns, worker);
	if (o->targets[at] < 0) {
		memset(logits, 0, (size_t)c->columns * sizeof *logits);
		return;
	}
	cap_logits(c, &cap, 1);
	c->d->k->softmax_part(logits, c->columns, o->targets[at] - c->column,
			      o->scale * weight_of(o, at), c->stats + 2 * at);
	cap_gradient(c, &cap, logits);
	store_gradient(c, logits);
}

void cpu_head_gradient(const struct cpu_head *c)
{
	each_row(c, gradient_of_row);
}

static void sums_of_row(const struct cpu_head *c, int64_t r, int32_t worker)
{
	const struct zr_op_head_loss *o = c->op;
	float *logits = c->logits + r * c->stride;
	const int64_t at = c->first + r, target = o->targets[at] - c->column;
	struct cap cap = cap_of(c, logits, c->columns, worker);
	if (o->targets[at] < 0)
		return;

	cap_logits(c, &cap, 0);
	c->d->k->softmax_sums(logits, c->columns, c->column > 0, c->stats + 2 * at);
	if (target >= 0 && target < c->columns)
		o->loss[at] = logits[target];
}

void cpu_head_sums(const struct cpu_head *c)
{
	each_row(c, sums_of_row);
}

void cpu_head_losses(const struct cpu_head *c)
{
	const struct zr_op_head_loss *o = c->op;
	for (int64_t at = c->first; at < c->first + c->rows; at++) {
		const float weight = weight_of(o, at);
		float loss = 0;
		if (o->targets[at] >= 0)
			loss = weight * c->d->k->softmax_end(c->stats + 2 * at, o->loss[at],
							     o->scale * weight);
		o->loss[at] = loss;
	}
}

/* ---- products ---- */

/* One of the two that logits are the sum of: x w^T or u v^T. */
struct factors {
	const void *rows, *matrix; /* [rows, width], [vocabulary, width] */
	int64_t width;
};

static struct factors full(const struct zr_op_head_loss *o)
{
	return (struct factors){ o->x, o->w, o->width };
}

static struct factors low(const struct zr_op_head_loss *o)
{
	return (struct factors){ o->u, o->v, zr_head_rank(o) };
}

/* logits = or += rows matrix^T */
static int project(const struct zr_ops *ops, const struct cpu_head *c, struct factors f, int add)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm,
		.flags = ZR_MM_TRANS_B | (add ? ZR_MM_ACCUMULATE : 0),
		.m = c->rows,
		.n = c->columns,
		.k = f.width,
		.a = zr_array_at(o->dtype, cpu_at(f.rows, o->dtype, c->first * f.width)),
		.lda = f.width,
		.b = zr_array_at(o->dtype, cpu_at(f.matrix, o->dtype, c->column * f.width)),
		.ldb = f.width,
		.d = zr_array_at(ZR_F32, c->logits),
		.ldd = c->stride,
	};
	return cpu_matmul_of(ops, &mm, c->rows, o->vocabulary);
}

int cpu_head_project(const struct zr_ops *ops, const struct cpu_head *c)
{
	int rc = project(ops, c, full(c->op), 0);
	if (rc || !zr_head_rank(c->op))
		return rc;

	return project(ops, c, low(c->op), 1);
}

/* d [rows, width] = or, fp32, += dlogits matrix */
static int grad_rows(const struct zr_ops *ops, const struct cpu_head *c, struct factors f, void *d,
		     int32_t dtype, int add)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm,
		.flags = add ? ZR_MM_ACCUMULATE : 0,
		.m = c->rows,
		.n = f.width,
		.k = c->columns,
		.a = zr_array_at(c->grad_dtype, c->logits),
		.lda = grad_stride(c),
		.b = zr_array_at(o->dtype, cpu_at(f.matrix, o->dtype, c->column * f.width)),
		.ldb = f.width,
		.d = zr_array_at(dtype, d),
		.ldd = f.width,
	};
	return cpu_matmul_of(ops, &mm, mm.m, mm.n);
}

int cpu_head_grad_x(const struct zr_ops *ops, const struct cpu_head *c, void *dx, int32_t dtype,
		    int add)
{
	return grad_rows(ops, c, full(c->op), dx, dtype, add);
}

/* d [columns, width] = or += dlogits^T rows; add: also for the first rows of a batch. */
static int grad_matrix(const struct zr_ops *ops, const struct cpu_head *c, struct factors f,
		       float *d, int add)
{
	const struct zr_op_head_loss *o = c->op;
	struct zr_op_matmul mm = {
		.size = sizeof mm,
		.flags = ZR_MM_TRANS_A | (c->first > 0 || add ? ZR_MM_ACCUMULATE : 0),
		.m = c->columns,
		.n = f.width,
		.k = c->rows,
		.a = zr_array_at(c->grad_dtype, c->logits),
		.lda = grad_stride(c),
		.b = zr_array_at(o->dtype, cpu_at(f.rows, o->dtype, c->first * f.width)),
		.ldb = f.width,
		.d = zr_array_at(ZR_F32, d),
		.ldd = f.width,
	};
	return cpu_matmul_of(ops, &mm, o->vocabulary, f.width);
}

int cpu_head_grad_w(const struct zr_ops *ops, const struct cpu_head *c, float *dw)
{
	return grad_matrix(ops, c, full(c->op), dw, (c->op->flags & ZR_OP_ACCUMULATE) != 0);
}

int cpu_head_grad_low(const struct zr_ops *ops, const struct cpu_head *c)
{
	const struct zr_op_head_loss *o = c->op;
	const int64_t r = zr_head_rank(o);
	if (!r)
		return ZR_OK;

	int rc = grad_rows(ops, c, low(o), cpu_at(o->du, o->dtype, c->first * r), o->dtype, 0);
	if (rc || !o->dv)
		return rc;

	return grad_matrix(ops, c, low(o), o->dv, (o->flags & ZR_OP_ACCUMULATE_DV) != 0);
}
