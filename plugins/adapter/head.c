/* SPDX-License-Identifier: Apache-2.0
 *
 * head.c - the output projection with an adapter:
 *
 *   logits = x W^T + u B^T     u = s x' A^T                          x' = drop(x)
 *   backward:  du = dlogits B;  dx += drop'(s du A);  dA = s du^T x';  dB = dlogits^T u
 *
 * The device adds u B^T to the logits of each chunk, and gives du and dB. The last layer's forward
 * and backward are one call, so nothing is kept.
 */
#include "maps.h"

/* low [rows, r] = x' A^T */
static int lower(const struct lora_wrapped *w, const struct lora_use *u, uint32_t flags,
		 int64_t rows, const void *x, void *low)
{
	return lora_product(w, ZR_MM_TRANS_B | flags, rows, u->map->r, u->map->in, x,
			    w->c->param[u->a], zr_array_at(w->c->dtype, low));
}

int lora_head_logits(const struct lora_wrapped *w, int32_t i, const struct zr_op_matmul *op)
{
	const struct lora_use *u = &w->l->use[i];
	const void *x = op->a.data;
	int rc = lora_drop(w, u->map, op->m, &x);

	if (!rc)
		rc = lower(w, u, op->flags & ZR_MM_EACH_ROW, op->m, x, w->at.low);
	if (rc)
		return rc;

	return lora_updated(w, u->map, ZR_LR_TRANS_V, 0, w->at.low, w->c->param[u->a + 1], op);
}

/* dx += drop'(s du A), of s du in at.scaled */
static int add_to_dx(const struct lora_wrapped *w, const struct lora_use *u, int64_t rows, void *dx)
{
	const struct zr_layer_call *c = w->c;
	const struct lora_map *m = u->map;

	int rc = lora_product(w, 0, rows, m->in, m->r, w->at.scaled, c->param[u->a],
			      zr_array_at(c->dtype, w->at.dropped));
	if (rc)
		return rc;

	struct zr_op_residual add = { .size = sizeof add,
				      .dtype = c->dtype,
				      .n = rows * m->in,
				      .rng = lora_rng(w, m),
				      .a = dx,
				      .b = w->at.dropped,
				      .out = dx,
				      .first = c->slot_first * m->in };
	if (lora_drops(w->inst, c))
		add.dropout = (float)w->inst->o.dropout;
	return c->ops->residual(c->ops, c->stream, &add);
}

/* What is left to do once the device has given du and dB. */
static int gradients(const struct lora_wrapped *w, const struct lora_use *u,
		     const struct zr_op_head_loss *op, const void *x)
{
	const struct zr_layer_call *c = w->c;
	const struct lora_map *m = u->map;
	const uint32_t add = c->accumulate[u->a] ? ZR_MM_ACCUMULATE : 0;

	int rc = lora_scale(w, m, op->rows, m->r, m->scale, 0, op->du, w->at.scaled);
	if (!rc && c->dparam[u->a])
		rc = lora_product(w, ZR_MM_TRANS_A | add, m->r, m->in, op->rows, w->at.scaled, x,
				  zr_array_at(ZR_F32, c->dparam[u->a]));
	if (rc)
		return rc;

	return add_to_dx(w, u, op->rows, op->dx);
}

/* The operation with what the adapter adds. */
static struct zr_op_head_loss with_adapter(const struct lora_wrapped *w, const struct lora_use *u,
					   const struct zr_op_head_loss *of)
{
	const struct zr_layer_call *c = w->c;
	const size_t known = of->size < sizeof *of ? of->size : sizeof *of;
	struct zr_op_head_loss op = { 0 };

	memcpy(&op, of, known);
	op.size = sizeof op;
	op.r = u->map->r;
	op.u = w->at.scaled;
	op.v = c->param[u->a + 1];
	op.du = w->at.dlow;
	if (lora_marked(op.dw) >= 0)
		op.dw = NULL;
	if (!op.dx)
		return op;

	op.dv = c->dparam[u->a + 1];
	if (c->accumulate[u->a + 1])
		op.flags |= ZR_OP_ACCUMULATE_DV;
	return op;
}

int lora_head_loss(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_head_loss *of)
{
	const struct lora_wrapped *w = (const struct lora_wrapped *)(uintptr_t)ops;
	const struct zr_layer_call *c = w->c;
	const int32_t i = lora_use_of(w, of->w, 0);
	if (i < 0)
		return c->ops->head_loss(c->ops, s, of);

	const struct lora_use *u = &w->l->use[i];
	const struct lora_map *m = u->map;
	const struct zr_op_head_loss op = with_adapter(w, u, of);
	const void *x = of->x;

	int rc = lora_drop(w, m, op.rows, &x);
	if (!rc)
		rc = lower(w, u, 0, op.rows, x, w->at.low);
	if (!rc)
		rc = lora_scale(w, m, op.rows, op.r, m->scale, 0, w->at.low, w->at.scaled);
	if (!rc)
		rc = c->ops->head_loss(c->ops, s, &op);
	if (rc || !op.dx)
		return rc;

	return gradients(w, u, &op, x);
}
