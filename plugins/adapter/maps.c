/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.c - the layers of the model, with a table of operations in which matmul knows the adapted
 * weights. Of a product with W as its operand b it makes one with a low-rank update:
 *
 *   forward:   y = x W + s (x' A^T) B^T + bias             x' = drop(x)
 *   backward:  dx = dy W^T + drop'(s (dy B) A)
 *
 * and of the product that is W's gradient, which the model makes of x and dy, since it is given a
 * place for it, dA = s (dy B)^T x' and dB = s dy^T (x' A^T). No product has the size of W. x' A^T
 * is kept from the forward, dy B for the second of the two products of dy.
 */
#include "maps.h"

#include <stddef.h>
#include <string.h>

static uint64_t up(uint64_t n)
{
	return (n + 63) / 64 * 64;
}

static int64_t element(const struct zr_layer_call *c)
{
	return (int64_t)zr_bytes_of(c->dtype, 1);
}

static uint64_t larger(uint64_t a, int64_t b)
{
	return a > (uint64_t)b ? a : (uint64_t)b;
}

static struct lora_place carve(const struct zr_inst *inst, const struct lora_layer *l,
			       const struct zr_layer_call *c, struct zr_layer_bytes *bytes)
{
	const uint64_t rows = (uint64_t)(c->batch * c->length), e = (uint64_t)element(c);
	struct lora_place at = { .low = c->saved, .dlow = c->work };
	uint64_t r = 0, wide = 0;

	for (int32_t i = 0; i < l->n; i++) {
		const struct lora_map *m = l->use[i].map;
		if (l->use[i].kept < 0)
			continue;
		r = larger(r, m->r);
		if (m->embeds)
			wide = larger(wide, m->out);
		else if (inst->o.dropout > 0 || m->heads)
			wide = larger(wide, m->in);
	}

	at.each = up(rows * r * e);
	at.scaled = (char *)((uintptr_t)at.dlow + (uint64_t)l->kept * at.each);
	at.dropped = (char *)((uintptr_t)at.scaled + at.each);
	bytes->saved = (uint64_t)l->kept * at.each;
	bytes->work_fwd = bytes->saved + at.each + up(rows * wide * e);
	at.embedding = lora_embedding_at(l, c, (char *)at.dlow, &bytes->work_fwd);
	if (l->heads) { /* the last layer keeps nothing */
		at.low = (char *)((uintptr_t)at.dlow + bytes->work_fwd);
		bytes->work_fwd += bytes->saved;
		bytes->saved = 0;
	}

	at.experts = lora_experts_at(inst, l, c, (char *)at.dlow, &bytes->work_fwd);
	return at;
}

void lora_add_bytes(const struct zr_inst *inst, const struct lora_layer *l,
		    const struct zr_layer_call *c, struct zr_layer_bytes *out)
{
	struct zr_layer_bytes own;
	carve(inst, l, c, &own);
	out->saved += own.saved;
	out->offsets_at += own.saved; /* what the model keeps lies behind */
	out->work_fwd += own.work_fwd;
	out->work_bwd += own.work_fwd;
}

/* ---- products ------------------------------------------------------------------------------- */

/* dy B, which has been made for the other product of dy, or is made for it, too. */
static int lower_gradient(struct lora_wrapped *w, int32_t i, const void *dy, int64_t rows,
			  int for_gradient)
{
	const struct lora_use *u = &w->l->use[i];
	struct lora_made *made = &w->made[u->kept];
	if (made->dy == dy && made->rows == rows && made->for_gradient != for_gradient) {
		made->dy = NULL;
		return ZR_OK;
	}

	*made = (struct lora_made){ dy, rows, for_gradient };
	return lora_product(w, 0, rows, u->map->r, u->map->out, dy, w->c->param[u->a + 1],
			    zr_array_at(w->c->dtype, w->at.dlow + (uint64_t)u->kept * w->at.each));
}

static int forward(struct lora_wrapped *w, int32_t i, const struct zr_op_matmul *op)
{
	const struct lora_use *u = &w->l->use[i];
	const struct lora_map *m = u->map;
	const uint32_t each = op->flags & ZR_MM_EACH_ROW;
	void *low = w->at.low + (uint64_t)u->kept * w->at.each;
	const void *x = op->a.data;
	int rc = lora_drop(w, m, op->m, &x);

	if (!rc)
		rc = lora_product(w, ZR_MM_TRANS_B | each, op->m, m->r, m->in, x, w->c->param[u->a],
				  zr_array_at(w->c->dtype, low));
	if (rc)
		return rc;

	return lora_updated(w, m, ZR_LR_TRANS_V, 0, low, w->c->param[u->a + 1], op);
}

static int backward(struct lora_wrapped *w, int32_t i, const struct zr_op_matmul *op)
{
	const struct lora_use *u = &w->l->use[i];
	const float dropout = lora_drops(w->inst, w->c) ? (float)w->inst->o.dropout : 0;
	const void *dlow = w->at.dlow + (uint64_t)u->kept * w->at.each;
	int rc = lower_gradient(w, i, op->a.data, op->m, 0);

	if (rc)
		return rc;

	return lora_updated(w, u->map, 0, dropout, dlow, w->c->param[u->a], op);
}

/* dA and dB; x and dy are the operands of the product that would be W's gradient. */
static int gradients(struct lora_wrapped *w, int32_t i, const struct zr_op_matmul *op)
{
	const struct zr_layer_call *c = w->c;
	const struct lora_use *u = &w->l->use[i];
	const struct lora_map *m = u->map;
	const int out_in = m->weight->map == ZR_MAP_OUT_IN;
	const void *dy = out_in ? op->a.data : op->b.data;
	const void *x = out_in ? op->b.data : op->a.data;
	const void *low = w->at.low + (uint64_t)u->kept * w->at.each;
	const void *dlow = w->at.dlow + (uint64_t)u->kept * w->at.each;
	float *da = c->dparam[u->a], *db = c->dparam[u->a + 1];
	const uint32_t flags = ZR_MM_TRANS_A | (c->accumulate[u->a] ? ZR_MM_ACCUMULATE : 0);
	int rc = lora_drop(w, m, op->k, &x);

	if (!rc)
		rc = lower_gradient(w, i, dy, op->k, 1);
	if (!rc)
		rc = lora_scale(w, m, op->k, m->r, m->scale, 0, dlow, w->at.scaled);
	if (!rc && da)
		rc = lora_product(w, flags, m->r, m->in, op->k, w->at.scaled, x,
				  zr_array_at(ZR_F32, da));
	if (!rc)
		rc = lora_scale(w, m, op->k, m->r, m->scale, 0, low, w->at.scaled);
	if (!rc && db)
		rc = lora_product(w, flags, m->out, m->r, op->k, dy, w->at.scaled,
				  zr_array_at(ZR_F32, db));

	return rc;
}

/* A product with the weight of a map. */
static int mapped(struct lora_wrapped *w, int32_t i, const struct zr_op_matmul *op)
{
	const struct zr_tensor *weight = w->l->use[i].map->weight;
	const int transposed = (op->flags & ZR_MM_TRANS_B) != 0;

	if (op->lda != op->k)
		return zr_fail(w->inst->h, ZR_ENOTSUP, "%s: a product with gaps between its rows",
			       weight->name);
	if (w->l->use[i].map->heads)
		return lora_head_logits(w, i, op);
	if (transposed == (weight->map == ZR_MAP_OUT_IN))
		return forward(w, i, op);

	return backward(w, i, op);
}

static int matmul(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_matmul *op)
{
	struct lora_wrapped *w = (struct lora_wrapped *)(uintptr_t)ops;
	int32_t i = lora_marked(op->d.data);
	if (i >= 0)
		return gradients(w, i, op);

	i = lora_use_of(w, op->b.data, 0);
	if (i < 0)
		return w->c->ops->matmul(w->c->ops, s, op);

	return mapped(w, i, op);
}

/* ---- calls ---------------------------------------------------------------------------------- */

struct call {
	struct lora_wrapped w;
	struct zr_layer_call c;
	float *dparam[LORA_TENSORS];
};

static int embeds(const struct lora_layer *l)
{
	for (int32_t i = 0; i < l->n; i++)
		if (l->use[i].map->embeds)
			return 1;

	return 0;
}

/* The call as the model is to see it: what it keeps and its scratch lie behind ours. */
static void wrap(struct zr_inst *inst, const struct zr_layer_call *c, int backward_, struct call *k)
{
	const struct lora_layer *l = &inst->layer[c->layer];
	size_t known = c->ops->size;
	if (known > sizeof k->w.ops)
		known = sizeof k->w.ops;
	struct zr_layer_bytes own;
	k->w = (struct lora_wrapped){ .inst = inst, .c = c, .l = l };
	memcpy(&k->w.ops, c->ops, known);
	k->w.ops.size = (uint32_t)known;
	k->w.ops.matmul = matmul;
	if (embeds(l)) {
		k->w.ops.embedding = lora_embedding;
		k->w.ops.embedding_bwd = lora_embedding_bwd;
	}

	if (l->heads)
		k->w.ops.head_loss = lora_head_loss;
	if (l->n > l->kept) {
		k->w.ops.matmul_grouped = lora_grouped;
		k->w.ops.matmul_grouped_dw = lora_grouped_dw;
	}

	k->c = *c;
	if (!l->n)
		return;

	k->c.ops = &k->w.ops;
	k->c.flags &= ~ZR_CALL_TOUCHING;
	k->w.at = carve(inst, l, c, &own);
	k->c.saved = (char *)c->saved + own.saved;
	k->c.work = (char *)c->work + own.work_fwd;
	for (int32_t i = 0; i < l->tensors && backward_; i++)
		k->dparam[i] = c->dparam[i];
	for (int32_t i = 0; i < l->n && backward_; i++)
		if (c->dparam[l->use[i].a] || c->dparam[l->use[i].a + 1])
			k->dparam[l->use[i].weight] = lora_mark(i);
	k->c.dparam = k->dparam;
}

int lora_call(struct zr_inst *inst, const struct zr_layer_call *c, int backward_)
{
	struct call k;
	wrap(inst, c, backward_, &k);
	if (backward_)
		return inst->model->backward(inst->base, &k.c);

	return inst->model->forward(inst->base, &k.c);
}

int lora_logits(struct zr_inst *inst, const struct zr_layer_call *c, int64_t row, float *logits)
{
	struct call k;
	wrap(inst, c, 0, &k);
	return inst->model->logits(inst->base, &k.c, row, logits);
}
