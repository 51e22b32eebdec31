/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c - Llama's embedding and head, and the functions of zr.model/1 that dispatch on the
 * layer.
 *
 *   embedding: out = embed_tokens[token]
 *   head:      loss = cross entropy(norm(x) W^T), W the embedding if tied, else lm_head
 */
#include "plugins/model/head.h"
#include "llama.h"

/* ---- embedding ---- */

static int embed_forward(const struct llama_pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_embedding op = { .size = sizeof op, .dtype = c->dtype, .batch = p->B,
				      .length = p->T, .width = p->C,
				      .vocabulary = p->g->o->vocabulary, .tokens = c->tokens,
				      .wte = c->param[EMBED_W], .out = c->out };
	return c->ops->embedding(c->ops, c->stream, &op);
}

static int embed_backward(const struct llama_pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_embedding_bwd op = { .size = sizeof op,
					  .flags = c->accumulate[EMBED_W] ? ZR_OP_ACCUMULATE_WTE :
									    0,
					  .dtype = c->dtype,
					  .batch = p->B,
					  .length = p->T,
					  .width = p->C,
					  .vocabulary = p->g->o->vocabulary,
					  .tokens = c->tokens,
					  .dout = c->grad,
					  .dwte = c->dparam[EMBED_W] };
	if (ZR_HAS(c, struct zr_layer_call, n_rows) && c->n_rows) {
		op.first_row = c->first_row;
		op.n_rows = c->n_rows;
		return c->ops->embedding_bwd_rows(c->ops, c->stream, &op);
	}
	return c->ops->embedding_bwd(c->ops, c->stream, &op);
}

/* ---- head ---- */

static int head_norm(const void *pass, const void *x, void *y, float *stats, int64_t rows)
{
	return llama_norm(pass, x, NORM_W, y, stats, rows);
}

static int head_norm_bwd(const void *pass, const void *dy, const float *stats, void *work)
{
	const struct llama_pass *p = pass;
	return llama_norm_bwd(p, dy, p->c->in, NORM_W, stats, work);
}

static struct head head_of(const struct llama_pass *p)
{
	return (struct head){ .c = p->c, .rows = p->N, .width = p->C,
			      .vocabulary = p->g->o->vocabulary, .weight = HEAD_W, .stats = 1,
			      .norm_bwd_work = llama_norm_bwd_work(p), .pass = p, .norm = head_norm,
			      .norm_bwd = head_norm_bwd };
}

int llama_logits(struct zr_inst *g, const struct zr_layer_call *c, int64_t row, float *logits)
{
	struct llama_pass p = llama_unpack(g, c);
	struct head head = head_of(&p);
	return head_logits(&head, row, logits);
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
	return missing ? zr_fail(g->host, ZR_ENOTSUP, "the device has no operation %s", missing) :
			 ZR_OK;
}

int llama_bytes(struct zr_inst *g, int32_t layer, int64_t batch, int64_t length, int32_t dtype,
		const struct zr_ops *ops, struct zr_layer_bytes *out)
{
	struct zr_layer_call c = { .size = sizeof c, .layer = layer, .training = 1, .dtype = dtype,
				   .batch = batch, .length = length, .ops = ops };
	struct llama_pass p = llama_unpack(g, &c);
	struct carver row = { 0, 0 };
	int rc = unsupported(g, ops);
	if (rc)
		return rc;
	if (length > g->o->context)
		return zr_fail(g->host, ZR_EINVAL,
			       "sequences of %lld tokens are longer than context = %lld",
			       (long long)length, (long long)g->o->context);
	llama_take_rows(&row, &p, p.C);
	*out = (struct zr_layer_bytes){ .size = sizeof *out, .grad = row.used };
	if (layer <= g->o->layers)
		out->out = row.used;
	if (layer > g->o->layers) {
		struct head head = head_of(&p);
		out->work_fwd = head_work(&head, 0);
		out->work_bwd = head_work(&head, 1);
		out->rows_of = head_rows_of(&head);
	} else if (layer > 0) {
		llama_block_bytes(&p, out);
	} else if (ZR_HAS(ops, struct zr_ops, embedding_bwd_rows) && ops->embedding_bwd_rows) {
		out->rows_of = 1 + EMBED_W;
	}
	return ZR_OK;
}

int llama_forward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct llama_pass p = llama_unpack(g, c);
	if (c->layer == 0)
		return embed_forward(&p);
	if (c->layer <= g->o->layers)
		return llama_block_forward(&p);
	struct head head = head_of(&p);
	return head_forward(&head);
}

int llama_backward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct llama_pass p = llama_unpack(g, c);
	if (c->layer == 0)
		return embed_backward(&p);
	if (c->layer <= g->o->layers)
		return llama_block_backward(&p);
	struct head head = head_of(&p);
	return head_backward(&head);
}
