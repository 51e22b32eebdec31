/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c - the embedding, the instance, and the functions of zr.model/1 that dispatch on the
 * layer.
 *
 *   embedding: out = drop(gain * (tokens[token] + positions[position]))   dropout site 0
 */
#include "head.h"
#include "plugin.h"

#include <string.h>

/* ---- embedding ---- */

/* As the classes of Gemma do it, a factor of bf16's activations is rounded to bf16, too. */
static float embed_gain(const struct pass *p)
{
	float gain = (float)p->o->embed_gain;
	uint32_t bits;

	if (p->c->dtype != ZR_BF16)
		return gain;

	memcpy(&bits, &gain, sizeof bits);
	bits = (bits + 0x8000) & 0xffff0000;
	memcpy(&gain, &bits, sizeof bits);
	return gain;
}

static int embed_forward(const struct pass *p)
{
	const struct zr_layer_call *c = p->c;
	int learned = p->f->positions != NULL;
	struct zr_op_embedding op = { .size = sizeof op,
				      .dtype = c->dtype,
				      .batch = p->B,
				      .length = p->T,
				      .width = p->C,
				      .vocabulary = p->o->vocabulary,
				      .tokens = c->tokens,
				      .wte = c->param[TOKENS_W],
				      .out = c->out };
	int rc;

	if (learned) {
		op.positions = p->o->context;
		op.wpe = c->param[POSITIONS_W];
		op.position = c->positions;
	}

	rc = c->ops->embedding(c->ops, c->stream, &op);
	if (!rc && p->o->embed_gain > 0)
		rc = add(p, NULL, embed_gain(p), c->out, c->out);
	if (!rc && p->dropout > 0)
		rc = residual(p, 0, NULL, c->out, c->out);
	if (rc)
		return rc;

	return moe_clear_sums(p);
}

static int embed_backward(const struct pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_embedding_bwd op = { .size = sizeof op,
					  .dtype = c->dtype,
					  .batch = p->B,
					  .length = p->T,
					  .width = p->C,
					  .vocabulary = p->o->vocabulary,
					  .tokens = c->tokens,
					  .dout = c->grad,
					  .dwte = c->dparam[TOKENS_W] };
	int some = ZR_HAS(c, struct zr_layer_call, n_rows) && c->n_rows, rc = ZR_OK;

	op.flags = c->accumulate[TOKENS_W] ? ZR_OP_ACCUMULATE_WTE : 0;
	if (p->f->positions) {
		if (c->accumulate[POSITIONS_W])
			op.flags |= ZR_OP_ACCUMULATE_WPE;
		op.positions = p->o->context;
		op.dwpe = c->dparam[POSITIONS_W];
		op.position = c->positions;
	}

	if (some) { /* the call before has dropped */
		op.first_row = c->first_row;
		op.n_rows = c->n_rows;
		return c->ops->embedding_bwd_rows(c->ops, c->stream, &op);
	}

	if (p->dropout > 0)
		rc = residual(p, 0, NULL, c->grad, c->grad);
	if (!rc && p->o->embed_gain > 0)
		rc = add(p, NULL, embed_gain(p), c->grad, c->grad);
	if (rc)
		return rc;

	return c->ops->embedding_bwd(c->ops, c->stream, &op);
}

/* ---- entry points ---- */

static int unsupported(const struct zr_inst *g, const struct zr_ops *ops)
{
	const char *missing = NULL;

#define NEED(op)                                                                                   \
	if (!ZR_HAS(ops, struct zr_ops, op) || !ops->op)                                           \
	missing = #op
	NEED(matmul);
	NEED(embedding);
	NEED(embedding_bwd);
	NEED(attention);
	NEED(attention_bwd);
	NEED(attention_bwd_work);
	NEED(residual);
	NEED(bias_bwd);
	NEED(head_loss);
	NEED(head_loss_work);
	NEED(cast);
	NEED(init);
	if (g->f->norm_kind == NORM_LAYER) {
		NEED(layernorm);
		NEED(layernorm_bwd);
		NEED(layernorm_bwd_work);
	} else {
		NEED(rmsnorm);
		NEED(rmsnorm_bwd);
		NEED(rmsnorm_bwd_work);
	}

	if (g->o->experts) {
		NEED(route);
		NEED(route_bwd);
		NEED(expert_rows);
		NEED(expert_combine);
		NEED(expert_weigh);
		NEED(matmul_grouped);
		NEED(matmul_grouped_dw);
		NEED(router_losses);
	}

	if (g->at[GATE_W] >= 0 || g->at[GATE_UP_W] >= 0 || g->o->experts) {
		NEED(swiglu);
		NEED(swiglu_bwd);
	} else {
		NEED(gelu_bwd);
	}
	if (!g->f->positions)
		NEED(rotary);
	if (g->slices > 1)
		NEED(cast_heads);
	if (g->o->logit_softcap > 0 || g->o->logit_divisor > 0)
		NEED(logit_cap);
#undef NEED
	if (missing)
		return zr_fail(g->host, ZR_ENOTSUP, "the device has no operation %s", missing);
	if (g->fp8 && (!ZR_HAS(ops, struct zr_ops, matmul_work) || !ops->matmul_work))
		return zr_fail(g->host, ZR_ENOTSUP,
			       "the device has no products in 8 bits: set [precision] products = "
			       "bf16");

	return ZR_OK;
}

static int decoder_bytes(struct zr_inst *g, int32_t layer, int64_t batch, int64_t length,
			 int32_t dtype, const struct zr_ops *ops, struct zr_layer_bytes *out)
{
	struct zr_layer_call c = { .size = sizeof c,
				   .layer = layer,
				   .training = 1,
				   .dtype = dtype,
				   .batch = batch,
				   .length = length,
				   .slot_rows = length * g->slices,
				   .parts = g->slices > 1 ? ALL_PARTS : 0,
				   .ops = ops };
	const int touching = ZR_HAS(out, struct zr_layer_bytes, touching) && out->touching;
	const int lean = ZR_HAS(out, struct zr_layer_bytes, wants_lean) && out->wants_lean &&
			 layer > 0 && layer <= g->o->layers && block_can_be_lean(g);
	struct carver row = { 0, 0 };
	struct pass p;
	int rc = unsupported(g, ops);

	if (rc)
		return rc;
	if (c.slot_rows > g->o->context)
		return zr_fail(g->host, ZR_EINVAL,
			       "sequences of %lld tokens are longer than context = %lld",
			       (long long)c.slot_rows, (long long)g->o->context);

	if (touching)
		c.flags |= ZR_CALL_TOUCHING;
	p = unpack(g, &c);
	p.lean = lean;
	*out = (struct zr_layer_bytes){ .size = sizeof *out, .is_lean = (uint32_t)lean };
	take_rows(&row, &p, p.C);
	if (layer == g->o->layers && g->slices > 1) {
		out->sums_at = row.used;
		out->sums = moe_bytes_behind(&p);
	}

	carver_take(&row, moe_bytes_behind(&p));
	out->grad = row.used;
	if (layer <= g->o->layers)
		out->out = row.used;
	if (layer > g->o->layers)
		head_bytes(&p, out);
	else if (layer > 0)
		block_bytes(&p, out);
	else if (ZR_HAS(ops, struct zr_ops, embedding_bwd_rows) && ops->embedding_bwd_rows)
		out->rows_of = 1 + TOKENS_W;

	return ZR_OK;
}

static int decoder_forward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct pass p = unpack(g, c);

	if (c->layer == 0)
		return embed_forward(&p);
	if (c->layer <= g->o->layers)
		return block_forward(&p);

	return head_forward(&p);
}

static int decoder_backward(struct zr_inst *g, const struct zr_layer_call *c)
{
	struct pass p = unpack(g, c);

	if (c->layer == 0)
		return embed_backward(&p);
	if (c->layer <= g->o->layers)
		return block_backward(&p);

	return head_backward(&p);
}

static int decoder_logits(struct zr_inst *g, const struct zr_layer_call *c, int64_t row,
			  float *logits)
{
	struct pass p = unpack(g, c);
	return head_logits(&p, row, logits);
}

const struct zr_model_v1 decoder_model = {
	.size = sizeof decoder_model,
	.declare = decoder_declare,
	.bytes = decoder_bytes,
	.forward = decoder_forward,
	.backward = decoder_backward,
	.logits = decoder_logits,
};

/* ---- instance ---- */

void decoder_destroy(struct zr_inst *g)
{
	decl_free(g->host, &g->decl);
	g->host->release(g->host, g->meta.list);
	g->host->release(g->host, g);
}

int decoder_create(const struct zr_host *h, const struct family *f, const void *opts,
		   struct zr_inst **out)
{
	struct zr_inst *g = h->alloc(h, sizeof *g, "model");
	int rc;

	if (!g)
		return zr_fail(h, ZR_ENOMEM, "no memory for the model's description");

	g->host = h;
	g->o = opts;
	g->slices = 1;
	if (!g->o->tied && f->untied)
		g->f = f->untied;
	else
		g->f = f;
	decoder_places(g);
	rc = decoder_declare_all(g);
	if (rc)
		zr_fail(h, rc, "no memory for the model's description");
	if (!rc)
		rc = decoder_kinds(h, g->o, g->kind);
	g->rope_dim = rope_dim(g->o);
	if (!rc && !f->positions)
		rc = rope_set_up(h, g->o, g->rope);
	if (!rc && (rc = decoder_config(g, &g->meta)))
		zr_fail(h, rc, "no memory for the model's description");
	if (rc) {
		decoder_destroy(g);
		return rc;
	}

	*out = g;
	return ZR_OK;
}
