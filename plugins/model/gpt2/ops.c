/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c - operations of the device with the arguments that all of GPT-2's layers share.
 */
#include "gpt2.h"

#define EPS 1e-5f /* of every layer norm */

int gpt2_norm(const struct gpt2_pass *p, const void *x, int gamma, void *y, float *mean,
	      float *rstd, int64_t rows)
{
	struct zr_op_layernorm op = { .size = sizeof op, .dtype = p->c->dtype, .rows = rows,
				      .width = p->C, .eps = EPS, .x = x,
				      .gamma = p->c->param[gamma], .beta = p->c->param[gamma + 1],
				      .y = y, .mean = mean, .rstd = rstd };
	return p->c->ops->layernorm(p->c->ops, p->c->stream, &op);
}

static struct zr_op_layernorm_bwd norm_bwd_op(const struct gpt2_pass *p)
{
	return (struct zr_op_layernorm_bwd){ .size = sizeof(struct zr_op_layernorm_bwd),
					     .dtype = p->c->dtype, .rows = p->N, .width = p->C };
}

/* Before the operation's work lies what a frozen gamma and beta would have got: it computes both in
 * any case. */
static uint64_t unwanted(const struct gpt2_pass *p)
{
	return ((uint64_t)p->C * sizeof(float) + 63) / 64 * 64;
}

uint64_t gpt2_norm_bwd_work(const struct gpt2_pass *p)
{
	struct zr_op_layernorm_bwd op = norm_bwd_op(p);
	return 2 * unwanted(p) + p->c->ops->layernorm_bwd_work(p->c->ops, &op);
}

int gpt2_norm_bwd(const struct gpt2_pass *p, const void *dy, const void *x, int gamma,
		  const float *mean, const float *rstd, void *work)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_layernorm_bwd op = norm_bwd_op(p);
	float *gone = work, *gone_too = (float *)((char *)work + unwanted(p));
	/* a unit is accumulated as a whole: beta as gamma */
	op.flags = c->accumulate[gamma] ? ZR_OP_ACCUMULATE : 0;
	op.dy = dy;
	op.x = x;
	op.gamma = c->param[gamma];
	op.mean = mean;
	op.rstd = rstd;
	op.dx = c->grad;
	op.dgamma = c->dparam[gamma] ? c->dparam[gamma] : gone;
	op.dbeta = c->dparam[gamma + 1] ? c->dparam[gamma + 1] : gone_too;
	op.work = (char *)work + 2 * unwanted(p);
	return c->ops->layernorm_bwd(c->ops, c->stream, &op);
}

struct zr_op_matmul gpt2_matmul_op(const struct gpt2_pass *p, uint32_t flags)
{
	int32_t t = p->c->dtype;
	return (struct zr_op_matmul){ .size = sizeof(struct zr_op_matmul), .flags = flags,
				      .a_dtype = t, .b_dtype = t, .d_dtype = t };
}

int gpt2_linear(const struct gpt2_pass *p, struct gpt2_linear l, const void *x, void *y, void *pre)
{
	uint32_t each = p->c->flags & ZR_CALL_EACH_ROW ? ZR_MM_EACH_ROW : 0;
	struct zr_op_matmul op = gpt2_matmul_op(p, each | (pre ? ZR_MM_GELU : 0));
	op.m = p->N;
	op.n = l.to;
	op.k = l.from;
	op.a = x;
	op.lda = l.from;
	op.b = p->c->param[l.weight];
	op.ldb = op.ldd = l.to;
	op.bias = p->c->param[l.weight + 1];
	op.d = y;
	op.pre = pre;
	return p->c->ops->matmul(p->c->ops, p->c->stream, &op);
}

int gpt2_linear_dx(const struct gpt2_pass *p, struct gpt2_linear l, const void *dy, void *dx)
{
	struct zr_op_matmul op = gpt2_matmul_op(p, ZR_MM_TRANS_B);
	op.m = p->N;
	op.n = l.from;
	op.k = l.to;
	op.a = dy;
	op.lda = op.ldb = l.to;
	op.b = p->c->param[l.weight];
	op.d = dx;
	op.ldd = l.from;
	return p->c->ops->matmul(p->c->ops, p->c->stream, &op);
}

int gpt2_linear_dw(const struct gpt2_pass *p, struct gpt2_linear l, const void *x, const void *dy)
{
	const struct zr_layer_call *c = p->c;
	const uint8_t *add = &c->accumulate[l.weight];
	struct zr_op_matmul op = gpt2_matmul_op(p, ZR_MM_TRANS_A | (add[0] ? ZR_MM_ACCUMULATE : 0));
	struct zr_op_bias_bwd bias = { .size = sizeof bias, .flags = add[1] ? ZR_OP_ACCUMULATE : 0,
				       .dtype = c->dtype, .rows = p->N, .width = l.to, .dy = dy,
				       .db = c->dparam[l.weight + 1] };
	int rc = ZR_OK;
	op.m = l.from;
	op.n = l.to;
	op.k = p->N;
	op.a = x;
	op.lda = l.from;
	op.b = dy;
	op.ldb = op.ldd = l.to;
	op.d = c->dparam[l.weight];
	op.d_dtype = ZR_F32;
	if (op.d)
		rc = c->ops->matmul(c->ops, c->stream, &op);
	return rc || !bias.db ? rc : c->ops->bias_bwd(c->ops, c->stream, &bias);
}

struct zr_rng gpt2_site(const struct gpt2_pass *p, int n)
{
	struct zr_rng r = p->c->rng;
	r.site = (uint32_t)p->c->layer * 8 + (uint32_t)n;
	return r;
}

int gpt2_residual(const struct gpt2_pass *p, int n, const void *a, const void *b, void *out)
{
	struct zr_op_residual op = { .size = sizeof op, .dtype = p->c->dtype, .dropout = p->dropout,
				     .n = p->N * p->C, .rng = gpt2_site(p, n), .a = a, .b = b,
				     .out = out };
	return p->c->ops->residual(p->c->ops, p->c->stream, &op);
}
