/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2_layers.c - GPT-2's embedding and head, and the functions of zr.model/1 that dispatch on the layer.
 *
 *   embedding: out = drop(wte[token] + wpe[position])      dropout site 0
 *   head:      loss = cross entropy(ln_f(x) wte^T)
 */
#include "gpt2.h"

struct head_work {
	void *ln;           /* [N, C] */
	float *mean, *rstd; /* [N] */
	void *dln;          /* [N, C], backward only */
	void *ops;
};

/* ---- embedding ---- */

static int embed_forward(const struct gpt2_pass *p)
{
	const struct zr_layer_call *c = p->c;
	const struct gpt2_opts *o = p->g->o;
	struct zr_op_embedding op = { .size = sizeof op, .dtype = c->dtype, .batch = p->B, .length = p->T,
				      .width = p->C, .vocabulary = o->vocabulary, .positions = o->context,
				      .tokens = c->tokens, .wte = c->param[WTE], .wpe = c->param[WPE], .out = c->out };
	int rc = c->ops->embedding(c->ops, c->stream, &op);
	if (!rc && p->dropout > 0)
		rc = gpt2_residual(p, 0, NULL, c->out, c->out);
	return rc;
}

static int embed_backward(const struct gpt2_pass *p)
{
	const struct zr_layer_call *c = p->c;
	const struct gpt2_opts *o = p->g->o;
	struct zr_op_embedding_bwd op = { .size = sizeof op, .dtype = c->dtype, .batch = p->B, .length = p->T,
					  .width = p->C, .vocabulary = o->vocabulary, .positions = o->context,
					  .tokens = c->tokens, .dout = c->grad, .dwte = c->dparam[WTE],
					  .dwpe = c->dparam[WPE] };
	int rc = p->dropout > 0 ? gpt2_residual(p, 0, NULL, c->grad, c->grad) : ZR_OK;
	op.flags = (c->accumulate[WTE] ? ZR_OP_ACCUMULATE_WTE : 0) | (c->accumulate[WPE] ? ZR_OP_ACCUMULATE_WPE : 0);
	return rc ? rc : c->ops->embedding_bwd(c->ops, c->stream, &op);
}

/* ---- head ---- */

static struct zr_op_head_loss head_op(const struct gpt2_pass *p)
{
	const struct zr_layer_call *c = p->c;
	return (struct zr_op_head_loss){ .size = sizeof(struct zr_op_head_loss), .dtype = c->dtype,
					 .scale = c->grad_scale, .rows = p->N, .width = p->C,
					 .vocabulary = p->g->o->vocabulary, .targets = c->targets,
					 .loss = c->loss_rows, .loss_sum = c->loss_sum };
}

static uint64_t carve_head(const struct gpt2_pass *p, int backward, void *base, struct head_work *w)
{
	struct carver v = { (uintptr_t)base, 0 };
	const struct zr_ops *ops = p->c->ops;
	struct zr_op_head_loss loss = head_op(p);
	*w = (struct head_work){ .ln = gpt2_take_rows(&v, p, p->C) };
	w->mean = carver_take(&v, (uint64_t)p->N * sizeof(float));
	w->rstd = carver_take(&v, (uint64_t)p->N * sizeof(float));
	if (backward)
		loss.dx = w->dln = gpt2_take_rows(&v, p, p->C);
	w->ops = carver_take(&v, carver_max(ops->head_loss_work(ops, &loss), backward ? gpt2_norm_bwd_work(p) : 0));
	return v.used;
}

/* ln_f and the loss; with w->dln also the gradient w.r.t. ln_f's output and the projection's weight */
static int head_loss(const struct gpt2_pass *p, const struct head_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_head_loss op = head_op(p);
	int rc = gpt2_norm(p, c->in, LNF_W, w->ln, w->mean, w->rstd, p->N);
	op.x = w->ln;
	op.w = c->param[HEAD_W];
	op.work = w->ops;
	if (w->dln) {
		op.flags = c->accumulate[HEAD_W] ? ZR_OP_ACCUMULATE : 0;
		op.dx = w->dln;
		op.dw = c->dparam[HEAD_W];
	}
	return rc ? rc : c->ops->head_loss(c->ops, c->stream, &op);
}

static int head_forward(const struct gpt2_pass *p)
{
	struct head_work w;
	carve_head(p, 0, p->c->work, &w);
	return head_loss(p, &w);
}

/* grad = 0: nothing flows in from above, and the norm's backward adds. The bits of 0 are those of fp32
 * whatever the type is; bytes() rounds the buffer up to whole fp32 elements. */
static int zero_grad(const struct gpt2_pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_init op = { .size = sizeof op, .n = (int64_t)(((uint64_t)(p->N * p->C) * gpt2_element(p) + 3) / 4),
				 .rng = gpt2_site(p, 0), .dst = c->grad };
	return c->ops->init(c->ops, c->stream, &op);
}

static int head_backward(const struct gpt2_pass *p)
{
	struct head_work w;
	int rc;
	carve_head(p, 1, p->c->work, &w);
	if ((rc = head_loss(p, &w)) || (rc = zero_grad(p)))
		return rc;
	return gpt2_norm_bwd(p, w.dln, p->c->in, LNF_W, w.mean, w.rstd, w.ops);
}

int gpt2_logits(struct zr_inst *g, const struct zr_layer_call *c, int64_t row, float *logits)
{
	struct gpt2_pass p = gpt2_unpack(g, c);
	struct zr_op_matmul op = gpt2_matmul_op(&p, ZR_MM_TRANS_B);
	struct head_work w;
	int rc;
	carve_head(&p, 0, c->work, &w);
	rc = gpt2_norm(&p, (const char *)c->in + (uint64_t)(row * p.C) * gpt2_element(&p), LNF_W, w.ln, w.mean, w.rstd, 1);
	op.m = 1;
	op.n = op.ldd = g->o->vocabulary;
	op.k = op.lda = op.ldb = p.C;
	op.a = w.ln;
	op.b = c->param[HEAD_W];
	op.d = logits;
	op.d_dtype = ZR_F32;
	return rc ? rc : c->ops->matmul(c->ops, c->stream, &op);
}

/* ---- entry points ---- */

static int unsupported(const struct zr_inst *g, const struct zr_ops *ops)
{
	const char *missing = NULL;
#define NEED(op) \
	if (!ZR_HAS(ops, struct zr_ops, op) || !ops->op) \
		missing = #op
	NEED(matmul);
	NEED(embedding);
	NEED(embedding_bwd);
	NEED(layernorm);
	NEED(layernorm_bwd);
	NEED(layernorm_bwd_work);
	NEED(attention);
	NEED(attention_bwd);
	NEED(attention_bwd_work);
	NEED(gelu_bwd);
	NEED(residual);
	NEED(bias_bwd);
	NEED(head_loss);
	NEED(head_loss_work);
	NEED(init);
#undef NEED
	return missing ? zr_fail(g->host, ZR_ENOTSUP, "the device has no operation %s", missing) : ZR_OK;
}

int gpt2_bytes(struct zr_inst *g, int32_t layer, int64_t batch, int64_t length, int32_t dtype, const struct zr_ops *ops,
	       struct zr_layer_bytes *out)
{
	struct zr_layer_call c = { .size = sizeof c, .layer = layer, .training = 1, .dtype = dtype, .batch = batch,
				   .length = length, .ops = ops };
	struct gpt2_pass p = gpt2_unpack(g, &c);
	struct carver row = { 0, 0 };
	struct head_work head;
	int rc = unsupported(g, ops);
	if (rc)
		return rc;
	if (length > g->o->context)
		return zr_fail(g->host, ZR_EINVAL, "sequences of %lld tokens are longer than context = %lld",
			       (long long)length, (long long)g->o->context);
	gpt2_take_rows(&row, &p, p.C);
	*out = (struct zr_layer_bytes){ .size = sizeof *out, .grad = row.used };
	if (layer <= g->o->layers)
		out->out = row.used;
	if (layer > g->o->layers) {
		out->work_fwd = carve_head(&p, 0, NULL, &head);
		out->work_bwd = carve_head(&p, 1, NULL, &head);
	} else if (layer > 0) {
		gpt2_block_bytes(&p, out);
	}
	return ZR_OK;
}

int gpt2_forward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct gpt2_pass p = gpt2_unpack(g, c);
	if (c->layer == 0)
		return embed_forward(&p);
	return c->layer <= g->o->layers ? gpt2_block_forward(&p) : head_forward(&p);
}

int gpt2_backward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct gpt2_pass p = gpt2_unpack(g, c);
	if (c->layer == 0)
		return embed_backward(&p);
	return c->layer <= g->o->layers ? gpt2_block_backward(&p) : head_backward(&p);
}
