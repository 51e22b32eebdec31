/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - see head.h. Loss and gradient come from one operation, which goes over the vocabulary in
 * chunks of rows.
 */
#include "head.h"

#include "carver.h"

struct work {
	void *y;      /* [rows, width], the norm's output */
	float *stats; /* [stats][rows] */
	void *dy;     /* [rows, width], backward only */
	float *loss;  /* [rows][2], likewise: stats of head_loss */
	void *ops;
};

static uint64_t element(const struct head *h)
{
	return h->c->dtype == ZR_F32 ? 4 : 2;
}

static struct zr_op_head_loss loss_op(const struct head *h)
{
	const struct zr_layer_call *c = h->c;
	return (struct zr_op_head_loss){ .size = sizeof(struct zr_op_head_loss), .dtype = c->dtype,
					 .scale = c->grad_scale, .rows = h->rows, .width = h->width,
					 .vocabulary = h->vocabulary, .targets = c->targets,
					 .loss = c->loss_rows, .loss_sum = c->loss_sum,
					 .weights = c->weights };
}

static uint64_t carve(const struct head *h, int backward, void *base, struct work *w)
{
	struct carver v = { (uintptr_t)base, 0 };
	uint64_t bytes = (uint64_t)(h->rows * h->width) * element(h);
	struct zr_op_head_loss op = loss_op(h);
	*w = (struct work){ .y = carver_take(&v, bytes) };
	w->stats = carver_take(&v, (uint64_t)(h->stats * h->rows) * sizeof(float));
	if (backward) {
		op.dx = w->dy = carver_take(&v, bytes);
		w->loss = carver_take(&v, (uint64_t)(2 * h->rows) * sizeof(float));
	}
	w->ops = carver_take(&v, carver_max(h->c->ops->head_loss_work(h->c->ops, &op),
					    backward ? h->norm_bwd_work : 0));
	return v.used;
}

uint64_t head_work(const struct head *h, int backward)
{
	struct work w;
	return carve(h, backward, NULL, &w);
}

/* The loss; with w->dy also the gradients w.r.t. the norm's output and W. */
static int loss(const struct head *h, const struct work *w)
{
	const struct zr_layer_call *c = h->c;
	struct zr_op_head_loss op = loss_op(h);
	int rc = h->norm(h->pass, c->in, w->y, w->stats, h->rows);
	op.x = w->y;
	op.w = c->param[h->weight];
	op.work = w->ops;
	if (!w->dy && ZR_HAS(c, struct zr_layer_call, right_rows))
		op.right = c->right_rows;
	if (w->dy) {
		op.flags = c->accumulate[h->weight] ? ZR_OP_ACCUMULATE : 0;
		op.dx = w->dy;
		op.dw = c->dparam[h->weight];
		op.stats = w->loss;
	}
	return rc ? rc : c->ops->head_loss(c->ops, c->stream, &op);
}

int head_forward(const struct head *h)
{
	struct work w;
	carve(h, 0, h->c->work, &w);
	return loss(h, &w);
}

/* grad = 0: nothing flows in from above, and the norm's backward adds. The bits of 0 are those of
 * fp32 whatever the type is; bytes() of the models rounds the buffer up to whole fp32 elements. */
static int zero_grad(const struct head *h)
{
	const struct zr_layer_call *c = h->c;
	struct zr_op_init op = { .size = sizeof op,
				 .n = (int64_t)(((uint64_t)(h->rows * h->width) * element(h) + 3) /
						4),
				 .dst = c->grad };
	return c->ops->init(c->ops, c->stream, &op);
}

/* Some rows of the gradient w.r.t. W, from what head_backward left in the work. */
static int rows_of_w(const struct head *h, const struct work *w)
{
	const struct zr_layer_call *c = h->c;
	struct zr_op_head_loss op = loss_op(h);
	op.flags = c->accumulate[h->weight] ? ZR_OP_ACCUMULATE : 0;
	op.x = w->y;
	op.w = c->param[h->weight];
	op.dw = c->dparam[h->weight];
	op.work = w->ops;
	op.stats = w->loss;
	op.first_row = c->first_row;
	op.n_rows = c->n_rows;
	return c->ops->head_loss_rows(c->ops, c->stream, &op);
}

uint32_t head_rows_of(const struct head *h)
{
	const struct zr_ops *ops = h->c->ops;
	return ZR_HAS(ops, struct zr_ops, head_loss_rows) && ops->head_loss_rows ?
		       1 + (uint32_t)h->weight :
		       0;
}

int head_backward(const struct head *h)
{
	struct work w;
	int rc;
	carve(h, 1, h->c->work, &w);
	if (ZR_HAS(h->c, struct zr_layer_call, n_rows) && h->c->n_rows)
		return rows_of_w(h, &w);
	if ((rc = loss(h, &w)) || (rc = zero_grad(h)))
		return rc;
	return h->norm_bwd(h->pass, w.dy, w.stats, w.ops);
}

int head_logits(const struct head *h, int64_t row, float *logits)
{
	const struct zr_layer_call *c = h->c;
	struct zr_op_matmul op = { .size = sizeof op, .flags = ZR_MM_TRANS_B, .a_dtype = c->dtype,
				   .b_dtype = c->dtype, .d_dtype = ZR_F32, .m = 1,
				   .n = h->vocabulary, .k = h->width, .lda = h->width,
				   .ldb = h->width, .ldd = h->vocabulary, .b = c->param[h->weight],
				   .d = logits };
	struct work w;
	int rc;
	carve(h, 0, c->work, &w);
	rc = h->norm(h->pass, (const char *)c->in + (uint64_t)(row * h->width) * element(h), w.y,
		     w.stats, 1);
	op.a = w.y;
	return rc ? rc : c->ops->matmul(c->ops, c->stream, &op);
}
