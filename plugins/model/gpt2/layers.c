/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c - GPT-2's embedding and head, and the functions of zr.model/1 that dispatch on the
 * layer.
 *
 *   embedding: out = drop(wte[token] + wpe[position])      dropout site 0
 *   head:      loss = cross entropy(ln_f(x) wte^T)
 */
#include "gpt2.h"
#include "plugins/model/head.h"

/* ---- embedding ---- */

static int embed_forward(const struct gpt2_pass *p)
{
	const struct zr_layer_call *c = p->c;
	const struct gpt2_opts *o = p->g->o;
	struct zr_op_embedding op = { .size = sizeof op, .dtype = c->dtype, .batch = p->B,
				      .length = p->T, .width = p->C, .vocabulary = o->vocabulary,
				      .positions = o->context, .tokens = c->tokens,
				      .wte = c->param[WTE], .wpe = c->param[WPE], .out = c->out,
				      .position = c->positions };
	int rc = c->ops->embedding(c->ops, c->stream, &op);
	if (!rc && p->dropout > 0)
		rc = gpt2_residual(p, 0, NULL, c->out, c->out);
	return rc;
}

static int embed_backward(const struct gpt2_pass *p)
{
	const struct zr_layer_call *c = p->c;
	const struct gpt2_opts *o = p->g->o;
	struct zr_op_embedding_bwd op = { .size = sizeof op, .dtype = c->dtype, .batch = p->B,
					  .length = p->T, .width = p->C,
					  .vocabulary = o->vocabulary, .positions = o->context,
					  .tokens = c->tokens, .dout = c->grad,
					  .dwte = c->dparam[WTE], .dwpe = c->dparam[WPE],
					  .position = c->positions };
	int some = ZR_HAS(c, struct zr_layer_call, n_rows) && c->n_rows, rc = ZR_OK;
	op.flags = (c->accumulate[WTE] ? ZR_OP_ACCUMULATE_WTE : 0) |
		   (c->accumulate[WPE] ? ZR_OP_ACCUMULATE_WPE : 0);
	if (some) { /* the call before has dropped */
		op.first_row = c->first_row;
		op.n_rows = c->n_rows;
		return c->ops->embedding_bwd_rows(c->ops, c->stream, &op);
	}
	if (p->dropout > 0)
		rc = gpt2_residual(p, 0, NULL, c->grad, c->grad);
	return rc ? rc : c->ops->embedding_bwd(c->ops, c->stream, &op);
}

/* ---- head ---- */

static int head_norm(const void *pass, const void *x, void *y, float *stats, int64_t rows)
{
	const struct gpt2_pass *p = pass;
	return gpt2_norm(p, x, LNF_W, y, stats, stats + p->N, rows);
}

static int head_norm_bwd(const void *pass, const void *dy, const float *stats, void *work)
{
	const struct gpt2_pass *p = pass;
	return gpt2_norm_bwd(p, dy, p->c->in, LNF_W, stats, stats + p->N, work);
}

static struct head head_of(const struct gpt2_pass *p)
{
	return (struct head){ .c = p->c, .rows = p->N, .width = p->C,
			      .vocabulary = p->g->o->vocabulary, .weight = HEAD_W, .stats = 2,
			      .norm_bwd_work = gpt2_norm_bwd_work(p), .pass = p, .norm = head_norm,
			      .norm_bwd = head_norm_bwd };
}

int gpt2_logits(struct zr_inst *g, const struct zr_layer_call *c, int64_t row, float *logits)
{
	struct gpt2_pass p = gpt2_unpack(g, c);
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
	return missing ? zr_fail(g->host, ZR_ENOTSUP, "the device has no operation %s", missing) :
			 ZR_OK;
}

int gpt2_bytes(struct zr_inst *g, int32_t layer, int64_t batch, int64_t length, int32_t dtype,
	       const struct zr_ops *ops, struct zr_layer_bytes *out)
{
	struct zr_layer_call c = { .size = sizeof c, .layer = layer, .training = 1, .dtype = dtype,
				   .batch = batch, .length = length, .ops = ops };
	struct gpt2_pass p = gpt2_unpack(g, &c);
	struct carver row = { 0, 0 };
	int rc = unsupported(g, ops);
	if (rc)
		return rc;
	if (length > g->o->context)
		return zr_fail(g->host, ZR_EINVAL,
			       "sequences of %lld tokens are longer than context = %lld",
			       (long long)length, (long long)g->o->context);
	gpt2_take_rows(&row, &p, p.C);
	*out = (struct zr_layer_bytes){ .size = sizeof *out, .grad = row.used };
	if (layer <= g->o->layers)
		out->out = row.used;
	if (layer > g->o->layers) {
		struct head head = head_of(&p);
		out->work_fwd = head_work(&head, 0);
		out->work_bwd = head_work(&head, 1);
		out->rows_of = head_rows_of(&head);
	} else if (layer > 0) {
		gpt2_block_bytes(&p, out);
	} else if (ZR_HAS(ops, struct zr_ops, embedding_bwd_rows) && ops->embedding_bwd_rows) {
		out->rows_of = 1 + WTE;
	}
	return ZR_OK;
}

int gpt2_forward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct gpt2_pass p = gpt2_unpack(g, c);
	if (c->layer == 0)
		return embed_forward(&p);
	if (c->layer <= g->o->layers)
		return gpt2_block_forward(&p);
	struct head head = head_of(&p);
	return head_forward(&head);
}

int gpt2_backward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct gpt2_pass p = gpt2_unpack(g, c);
	if (c->layer == 0)
		return embed_backward(&p);
	if (c->layer <= g->o->layers)
		return gpt2_block_backward(&p);
	struct head head = head_of(&p);
	return head_backward(&head);
}
