/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c - operations of the device with the arguments that all of Llama's layers share.
 */
#include "llama.h"

int llama_norm(const struct llama_pass *p, const void *x, int gamma, void *y, float *rstd,
	       int64_t rows)
{
	struct zr_op_rmsnorm op = { .size = sizeof op, .dtype = p->c->dtype, .rows = rows,
				    .width = p->C, .eps = (float)p->g->o->norm_eps, .x = x,
				    .gamma = p->c->param[gamma], .y = y, .rstd = rstd };
	return p->c->ops->rmsnorm(p->c->ops, p->c->stream, &op);
}

static struct zr_op_rmsnorm_bwd norm_bwd_op(const struct llama_pass *p)
{
	return (struct zr_op_rmsnorm_bwd){ .size = sizeof(struct zr_op_rmsnorm_bwd),
					   .dtype = p->c->dtype, .rows = p->N, .width = p->C };
}

/* Before the operation's work lies what a frozen gamma would have got: it computes that in any
 * case. */
static uint64_t unwanted(const struct llama_pass *p)
{
	return ((uint64_t)p->C * sizeof(float) + 63) / 64 * 64;
}

uint64_t llama_norm_bwd_work(const struct llama_pass *p)
{
	struct zr_op_rmsnorm_bwd op = norm_bwd_op(p);
	return unwanted(p) + p->c->ops->rmsnorm_bwd_work(p->c->ops, &op);
}

int llama_norm_bwd(const struct llama_pass *p, const void *dy, const void *x, int gamma,
		   const float *rstd, void *work)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_rmsnorm_bwd op = norm_bwd_op(p);
	op.flags = c->accumulate[gamma] ? ZR_OP_ACCUMULATE : 0;
	op.dy = dy;
	op.x = x;
	op.gamma = c->param[gamma];
	op.rstd = rstd;
	op.dx = c->grad;
	op.dgamma = c->dparam[gamma] ? c->dparam[gamma] : work;
	op.work = (char *)work + unwanted(p);
	return c->ops->rmsnorm_bwd(c->ops, c->stream, &op);
}

struct zr_op_matmul llama_matmul_op(const struct llama_pass *p, uint32_t flags)
{
	int32_t t = p->c->dtype;
	return (struct zr_op_matmul){ .size = sizeof(struct zr_op_matmul), .flags = flags,
				      .a_dtype = t, .b_dtype = t, .d_dtype = t };
}

int llama_linear(const struct llama_pass *p, struct llama_map l, const void *x, void *y)
{
	uint32_t each = p->c->flags & ZR_CALL_EACH_ROW ? ZR_MM_EACH_ROW : 0;
	struct zr_op_matmul op = llama_matmul_op(p, each | ZR_MM_TRANS_B);
	op.m = p->N;
	op.n = l.to;
	op.k = l.from;
	op.a = x;
	op.lda = op.ldb = l.from;
	op.b = p->c->param[l.weight];
	op.bias = l.bias ? p->c->param[l.bias] : NULL;
	op.d = y;
	op.ldd = l.stride ? l.stride : l.to;
	return p->c->ops->matmul(p->c->ops, p->c->stream, &op);
}

static struct zr_op_matmul dx_op(const struct llama_pass *p, struct llama_map l, const void *dy,
				 void *dx)
{
	struct zr_op_matmul op = llama_matmul_op(p, 0);
	op.m = p->N;
	op.n = l.from;
	op.k = l.to;
	op.a = dy;
	op.lda = l.to;
	op.b = p->c->param[l.weight];
	op.ldb = op.ldd = l.from;
	op.d = dx;
	return op;
}

int llama_linear_dx(const struct llama_pass *p, struct llama_map l, const void *dy, void *dx)
{
	struct zr_op_matmul op = dx_op(p, l, dy, dx);
	return p->c->ops->matmul(p->c->ops, p->c->stream, &op);
}

int llama_linear_dx_add(const struct llama_pass *p, struct llama_map l, const void *dy, float *sum,
			int add)
{
	struct zr_op_matmul op = dx_op(p, l, dy, sum);
	op.flags = add ? ZR_MM_ACCUMULATE : 0;
	op.d_dtype = ZR_F32;
	return p->c->ops->matmul(p->c->ops, p->c->stream, &op);
}

int llama_linear_dw(const struct llama_pass *p, struct llama_map l, const void *x, const void *dy)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_matmul op = llama_matmul_op(
		p, ZR_MM_TRANS_A | (c->accumulate[l.weight] ? ZR_MM_ACCUMULATE : 0));
	struct zr_op_bias_bwd bias = {
		.size = sizeof bias, .dtype = c->dtype, .rows = p->N, .width = l.to, .dy = dy
	};
	int rc = ZR_OK;
	op.m = l.to;
	op.n = l.from;
	op.k = p->N;
	op.a = dy;
	op.lda = l.to;
	op.b = x;
	op.ldb = op.ldd = l.from;
	op.d = c->dparam[l.weight];
	op.d_dtype = ZR_F32;
	if (op.d)
		rc = c->ops->matmul(c->ops, c->stream, &op);
	if (rc || !l.bias || !c->dparam[l.bias])
		return rc;
	bias.flags = c->accumulate[l.bias] ? ZR_OP_ACCUMULATE : 0;
	bias.db = c->dparam[l.bias];
	return c->ops->bias_bwd(c->ops, c->stream, &bias);
}

int llama_rotate(const struct llama_pass *p, uint32_t flags, void *x, int64_t heads,
		 int64_t stride)
{
	struct zr_op_rotary op = { .size = sizeof op, .flags = flags, .dtype = p->c->dtype,
				   .batch = p->B, .length = p->T, .heads = heads, .head_dim = p->D,
				   .stride = stride, .x = x, .out = x,
				   .position = p->c->positions };
	int64_t i;
	for (i = 0; i < p->D / 2; i++)
		op.frequency[i] = p->g->frequency[i];
	return p->c->ops->rotary(p->c->ops, p->c->stream, &op);
}

int llama_add(const struct llama_pass *p, const void *a, void *out)
{
	struct zr_op_residual op = { .size = sizeof op, .dtype = p->c->dtype, .n = p->N * p->C,
				     .a = a, .b = out, .out = out };
	return p->c->ops->residual(p->c->ops, p->c->stream, &op);
}
