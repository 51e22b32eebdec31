/* SPDX-License-Identifier: Apache-2.0
 *
 * llama_layers.c - Llama's embedding and head, and the functions of zr.model/1 that dispatch on the layer.
 *
 *   embedding: out = embed_tokens[token]
 *   head:      loss = cross entropy(norm(x) W^T), W the embedding if tied, else lm_head
 */
#include "llama.h"

struct head_work {
	void *ln;    /* [N, C] */
	float *rstd; /* [N] */
	void *dln;   /* [N, C], backward only */
	void *ops;
};

/* ---- embedding ---- */

static int embed_forward(const struct llama_pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_embedding op = { .size = sizeof op, .dtype = c->dtype, .batch = p->B, .length = p->T, .width = p->C,
				      .vocabulary = p->g->o->vocabulary, .tokens = c->tokens, .wte = c->param[EMBED_W],
				      .out = c->out };
	return c->ops->embedding(c->ops, c->stream, &op);
}

static int embed_backward(const struct llama_pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_embedding_bwd op = { .size = sizeof op, .flags = c->accumulate[EMBED_W] ? ZR_OP_ACCUMULATE_WTE : 0,
					  .dtype = c->dtype, .batch = p->B, .length = p->T, .width = p->C,
					  .vocabulary = p->g->o->vocabulary, .tokens = c->tokens, .dout = c->grad,
					  .dwte = c->dparam[EMBED_W] };
	return c->ops->embedding_bwd(c->ops, c->stream, &op);
}

/* ---- head ---- */

static struct zr_op_head_loss head_op(const struct llama_pass *p)
{
	const struct zr_layer_call *c = p->c;
	return (struct zr_op_head_loss){ .size = sizeof(struct zr_op_head_loss), .dtype = c->dtype,
					 .scale = c->grad_scale, .rows = p->N, .width = p->C,
					 .vocabulary = p->g->o->vocabulary, .targets = c->targets,
					 .loss = c->loss_rows, .loss_sum = c->loss_sum };
}

static uint64_t carve_head(const struct llama_pass *p, int backward, void *base, struct head_work *w)
{
	struct carver v = { (uintptr_t)base, 0 };
	const struct zr_ops *ops = p->c->ops;
	struct zr_op_head_loss loss = head_op(p);
	*w = (struct head_work){ .ln = llama_take_rows(&v, p, p->C) };
	w->rstd = carver_take(&v, (uint64_t)p->N * sizeof(float));
	if (backward)
		loss.dx = w->dln = llama_take_rows(&v, p, p->C);
	w->ops = carver_take(&v, carver_max(ops->head_loss_work(ops, &loss), backward ? llama_norm_bwd_work(p) : 0));
	return v.used;
}

/* norm and loss; with w->dln also the gradient w.r.t. the norm's output and the projection's weight */
static int head_loss(const struct llama_pass *p, const struct head_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_head_loss op = head_op(p);
	int rc = llama_norm(p, c->in, NORM_W, w->ln, w->rstd, p->N);
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

static int head_forward(const struct llama_pass *p)
{
	struct head_work w;
	carve_head(p, 0, p->c->work, &w);
	return head_loss(p, &w);
}

/* grad = 0: nothing flows in from above, and the norm's backward adds. The bits of 0 are those of fp32
 * whatever the type is; bytes() rounds the buffer up to whole fp32 elements. */
static int zero_grad(const struct llama_pass *p)
{
	const struct zr_layer_call *c = p->c;
	int64_t n = p->N * p->C;
	struct zr_op_init op = { .size = sizeof op, .n = llama_is16(p) ? (n + 1) / 2 : n, .dst = c->grad };
	return c->ops->init(c->ops, c->stream, &op);
}

static int head_backward(const struct llama_pass *p)
{
	struct head_work w;
	int rc;
	carve_head(p, 1, p->c->work, &w);
	if ((rc = head_loss(p, &w)) || (rc = zero_grad(p)))
		return rc;
	return llama_norm_bwd(p, w.dln, p->c->in, NORM_W, w.rstd, w.ops);
}

int llama_logits(struct zr_inst *g, const struct zr_layer_call *c, int64_t row, float *logits)
{
	struct llama_pass p = llama_unpack(g, c);
	struct zr_op_matmul op = llama_matmul_op(&p, ZR_MM_TRANS_B);
	struct head_work w;
	int rc;
	carve_head(&p, 0, c->work, &w);
	rc = llama_norm(&p, (const char *)c->in + row * p.C * (llama_is16(&p) ? 2 : 4), NORM_W, w.ln, w.rstd, 1);
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
	NEED(rmsnorm);
	NEED(rmsnorm_bwd);
	NEED(rmsnorm_bwd_work);
	NEED(rotary);
	NEED(attention);
	NEED(attention_bwd);
	NEED(attention_bwd_work);
	NEED(swiglu);
	NEED(swiglu_bwd);
	NEED(residual);
	NEED(bias_bwd);
	NEED(head_loss);
	NEED(head_loss_work);
	NEED(cast);
	NEED(init);
#undef NEED
	return missing ? zr_fail(g->host, ZR_ENOTSUP, "the device has no operation %s", missing) : ZR_OK;
}

int llama_bytes(struct zr_inst *g, int32_t layer, int64_t batch, int64_t length, int32_t dtype, const struct zr_ops *ops,
		struct zr_layer_bytes *out)
{
	struct zr_layer_call c = { .size = sizeof c, .layer = layer, .training = 1, .dtype = dtype, .batch = batch,
				   .length = length, .ops = ops };
	struct llama_pass p = llama_unpack(g, &c);
	struct carver row = { 0, 0 };
	struct head_work head;
	int rc = unsupported(g, ops);
	if (rc)
		return rc;
	if (length > g->o->context)
		return zr_fail(g->host, ZR_EINVAL, "sequences of %lld tokens are longer than context = %lld",
			       (long long)length, (long long)g->o->context);
	llama_take_rows(&row, &p, p.C);
	*out = (struct zr_layer_bytes){ .size = sizeof *out, .grad = row.used };
	if (layer <= g->o->layers)
		out->out = row.used;
	if (layer > g->o->layers) {
		out->work_fwd = carve_head(&p, 0, NULL, &head);
		out->work_bwd = carve_head(&p, 1, NULL, &head);
	} else if (layer > 0) {
		llama_block_bytes(&p, out);
	}
	return ZR_OK;
}

int llama_forward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct llama_pass p = llama_unpack(g, c);
	if (c->layer == 0)
		return embed_forward(&p);
	return c->layer <= g->o->layers ? llama_block_forward(&p) : head_forward(&p);
}

int llama_backward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct llama_pass p = llama_unpack(g, c);
	if (c->layer == 0)
		return embed_backward(&p);
	return c->layer <= g->o->layers ? llama_block_backward(&p) : head_backward(&p);
}
