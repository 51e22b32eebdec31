/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - see head.h. Loss and gradient come from one operation, which goes over the vocabulary in
 * chunks of rows.
 */
#include "head.h"

#define NORM_W 0 /* in param[]; its bias, where there is one, follows */

/* The output projection in param[]. */
static int projection(const struct pass *p)
{
	return p->f->norm_bias ? 2 : 1;
}

struct work {
	void *y;      /* [N, C], the norm's output */
	float *stats; /* [norm_stats][N] */
	void *dy;     /* [N, C], backward only */
	float *loss;  /* [N][2], likewise: stats of head_loss */
	void *ops;
};

static float gain(const struct pass *p)
{
	double divisor = p->o->logit_divisor;
	if (divisor > 0)
		return (float)(1 / divisor);

	return 0;
}

static struct zr_op_head_loss loss_op(const struct pass *p)
{
	const struct zr_layer_call *c = p->c;

	return (struct zr_op_head_loss){ .size = sizeof(struct zr_op_head_loss),
					 .dtype = c->dtype,
					 .scale = c->grad_scale,
					 .rows = p->N,
					 .width = p->C,
					 .vocabulary = p->o->vocabulary,
					 .targets = c->targets,
					 .loss = c->loss_rows,
					 .loss_sum = c->loss_sum,
					 .weights = c->weights,
					 .logit_gain = gain(p),
					 .softcap = (float)p->o->logit_softcap };
}

static uint64_t carve(const struct pass *p, int backward, void *base, struct work *w)
{
	struct carver v = { (uintptr_t)base, 0 };
	struct zr_op_head_loss op = loss_op(p);

	*w = (struct work){ .y = take_rows(&v, p, p->C) };
	w->stats = carver_take(&v, (uint64_t)(norm_stats(p) * p->N) * sizeof(float));
	if (backward) {
		op.dx = w->dy = take_rows(&v, p, p->C);
		w->loss = carver_take(&v, (uint64_t)(2 * p->N) * sizeof(float));
	}

	w->ops = carver_take(&v, carver_max(p->c->ops->head_loss_work(p->c->ops, &op),
					    backward ? norm_bwd_work(p) : 0));

	return v.used;
}

void head_bytes(const struct pass *p, struct zr_layer_bytes *out)
{
	const struct zr_ops *ops = p->c->ops;
	struct work w;

	out->work_fwd = carve(p, 0, NULL, &w);
	out->work_bwd = carve(p, 1, NULL, &w);
	if (ZR_HAS(ops, struct zr_ops, head_loss_rows) && ops->head_loss_rows)
		out->rows_of = 1 + (uint32_t)projection(p);
}

/* The loss; with w->dy also the gradients w.r.t. the norm's output and W. */
static int loss(const struct pass *p, const struct work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_head_loss op = loss_op(p);
	int rc = norm(p, NORM_W, c->in, w->y, w->stats, p->N), W = projection(p);

	op.x = w->y;
	op.w = c->param[W];
	op.work = w->ops;
	if (!w->dy && ZR_HAS(c, struct zr_layer_call, right_rows))
		op.right = c->right_rows;
	if (w->dy) {
		op.flags = c->accumulate[W] ? ZR_OP_ACCUMULATE : 0;
		op.dx = w->dy;
		op.dw = c->dparam[W];
		op.stats = w->loss;
	}

	if (rc)
		return rc;

	return c->ops->head_loss(c->ops, c->stream, &op);
}

int head_forward(const struct pass *p)
{
	struct work w;
	carve(p, 0, p->c->work, &w);
	return loss(p, &w);
}

/* grad = 0: nothing flows in from above, and the norm's backward adds. The bits of 0 are those of
 * fp32 whatever the type is; the buffer has whole fp32 elements, since carver_take rounds it up. */
static int zero_grad(const struct pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_init op = { .size = sizeof op,
				 .n = (int64_t)((activations(p, p->N * p->C) + 3) / 4),
				 .dst = c->grad };

	return c->ops->init(c->ops, c->stream, &op);
}

/* Some rows of the gradient w.r.t. W, from what head_backward left in the work. */
static int rows_of_w(const struct pass *p, const struct work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_head_loss op = loss_op(p);
	int W = projection(p);

	op.flags = c->accumulate[W] ? ZR_OP_ACCUMULATE : 0;
	op.x = w->y;
	op.w = c->param[W];
	op.dw = c->dparam[W];
	op.work = w->ops;
	op.stats = w->loss;
	op.first_row = c->first_row;
	op.n_rows = c->n_rows;
	return c->ops->head_loss_rows(c->ops, c->stream, &op);
}

int head_backward(const struct pass *p)
{
	struct work w;
	int rc;

	carve(p, 1, p->c->work, &w);
	if (ZR_HAS(p->c, struct zr_layer_call, n_rows) && p->c->n_rows)
		return rows_of_w(p, &w);
	if ((rc = loss(p, &w)) || (rc = zero_grad(p)) || (rc = moe_losses(p)))
		return rc;

	return norm_bwd(p, NORM_W, w.dy, p->c->in, w.stats, w.ops);
}

int head_logits(const struct pass *p, int64_t row, float *logits)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = ZR_MM_TRANS_B,
				   .m = 1,
				   .n = p->o->vocabulary,
				   .k = p->C,
				   .lda = p->C,
				   .ldb = p->C,
				   .ldd = p->o->vocabulary,
				   .b = zr_array_at(c->dtype, c->param[projection(p)]),
				   .d = zr_array_at(ZR_F32, logits) };
	struct zr_op_logit_cap cap = { .size = sizeof cap,
				       .n = p->o->vocabulary,
				       .gain = gain(p),
				       .softcap = (float)p->o->logit_softcap,
				       .x = logits };
	struct work w;
	int rc;

	carve(p, 0, c->work, &w);
	op.a = zr_array_at(c->dtype, w.y);
	if ((rc = norm(p, NORM_W, skip(p, c->in, row * p->C), w.y, w.stats, 1)) ||
	    (rc = c->ops->matmul(c->ops, c->stream, &op)) || !(cap.gain > 0 || cap.softcap > 0))
		return rc;

	return c->ops->logit_cap(c->ops, c->stream, &cap);
}
