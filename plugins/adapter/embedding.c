/* SPDX-License-Identifier: Apache-2.0
 *
 * embedding.c - an embedding with an adapter: a row of W for each token, and of A, which is
 * [r, tokens] as PEFT stores it, a column.
 *
 *   forward:   out = W[token] + s A^T[token] B^T      nothing is dropped
 *   backward:  dA^T[token] += s dout B;  dB = s dout^T A^T[token]
 *
 * A is transposed for each call. Its gradient is made as that of an embedding of r columns, in
 * index order, and transposed back.
 */
#include "maps.h"

static uint64_t up(uint64_t n)
{
	return (n + 63) / 64 * 64;
}

struct lora_embedding_place lora_embedding_at(const struct lora_layer *l,
					      const struct zr_layer_call *c, char *work,
					      uint64_t *bytes)
{
	struct lora_embedding_place at = { 0 };
	uint64_t n = 0;

	for (int32_t i = 0; i < l->n; i++) {
		const struct lora_map *m = l->use[i].map;
		if (m->embeds)
			n = (uint64_t)(m->in * m->r); /* a layer has one */
	}

	const uint64_t rows = up(zr_bytes_of(c->dtype, (int64_t)n)), sums = up(n * sizeof(float));
	at.rows = (char *)((uintptr_t)work + *bytes);
	at.sums = (char *)((uintptr_t)at.rows + rows);
	*bytes += rows + sums;
	return at;
}

/* to [columns, rows] = from [rows, columns]^T */
static int transpose(const struct lora_wrapped *w, int64_t rows, int64_t columns,
		     struct zr_array from, struct zr_array to)
{
	const struct zr_op_cast_heads op = { .size = sizeof op,
					     .rows = columns,
					     .heads = rows,
					     .head_dim = 1,
					     .src_stride = 1,
					     .src_head = columns,
					     .dst_stride = rows,
					     .dst_head = 1,
					     .src = from,
					     .dst = to };

	return w->c->ops->cast_heads(w->c->ops, w->c->stream, &op);
}

/* low [N, r] = A^T[tokens] */
static int look_up(const struct lora_wrapped *w, const struct lora_use *u,
		   const struct zr_op_embedding *op, void *low)
{
	const int32_t type = w->c->dtype;
	const struct lora_map *m = u->map;
	struct zr_op_embedding lookup = *op;

	int rc = transpose(w, m->r, m->in, zr_array_at(type, w->c->param[u->a]),
			   zr_array_at(type, w->at.embedding.rows));
	if (rc)
		return rc;

	lookup.width = m->r;
	lookup.wte = w->at.embedding.rows;
	lookup.wpe = NULL;
	lookup.out = low;
	return w->c->ops->embedding(w->c->ops, w->c->stream, &lookup);
}

int lora_embedding(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_embedding *op)
{
	const struct lora_wrapped *w = (const struct lora_wrapped *)(uintptr_t)ops;
	const struct zr_layer_call *c = w->c;
	const int32_t i = lora_use_of(w, op->wte, 0);
	int rc = c->ops->embedding(c->ops, s, op);
	if (rc || i < 0)
		return rc;

	const struct lora_use *u = &w->l->use[i];
	const int64_t rows = op->batch * op->length, width = u->map->out;
	void *low = w->at.low + (uint64_t)u->kept * w->at.each;

	rc = look_up(w, u, op, low);
	if (!rc)
		rc = lora_product(w, ZR_MM_TRANS_B | ZR_MM_EACH_ROW, rows, width, u->map->r, low,
				  c->param[u->a + 1], zr_array_at(c->dtype, w->at.dropped));
	if (rc)
		return rc;

	struct zr_op_residual add = { .size = sizeof add,
				      .dtype = c->dtype,
				      .n = rows * width,
				      .a = op->out,
				      .b = w->at.dropped,
				      .out = op->out,
				      .gain = u->map->scale };
	return c->ops->residual(c->ops, s, &add);
}

/* dA, of what is added to each token's row of A^T. */
static int gradient_of_a(const struct lora_wrapped *w, const struct lora_use *u,
			 const struct zr_op_embedding_bwd *op)
{
	const struct zr_layer_call *c = w->c;
	const struct lora_map *m = u->map;
	const int64_t rows = op->batch * op->length;
	const struct zr_array da = zr_array_at(ZR_F32, c->dparam[u->a]);
	const struct zr_array sums = zr_array_at(ZR_F32, w->at.embedding.sums);
	void *dlow = w->at.dlow + (uint64_t)u->kept * w->at.each;
	struct zr_op_embedding_bwd lookup = *op;

	int rc = lora_product(w, 0, rows, m->r, m->out, op->dout, c->param[u->a + 1],
			      zr_array_at(c->dtype, dlow));
	if (!rc)
		rc = lora_scale(w, m, rows, m->r, m->scale, 0, dlow, w->at.scaled);
	if (!rc && c->accumulate[u->a])
		rc = transpose(w, m->r, m->in, da, sums);
	if (rc)
		return rc;

	lookup.flags = c->accumulate[u->a] ? ZR_OP_ACCUMULATE_WTE : 0;
	lookup.width = m->r;
	lookup.dout = w->at.scaled;
	lookup.dwte = w->at.embedding.sums;
	lookup.dwpe = NULL;
	rc = c->ops->embedding_bwd(c->ops, c->stream, &lookup);
	if (rc)
		return rc;

	return transpose(w, m->in, m->r, sums, da);
}

static int gradient_of_b(const struct lora_wrapped *w, const struct lora_use *u,
			 const struct zr_op_embedding_bwd *op)
{
	const struct zr_layer_call *c = w->c;
	const struct lora_map *m = u->map;
	const int64_t rows = op->batch * op->length;
	const uint32_t add = c->accumulate[u->a + 1] ? ZR_MM_ACCUMULATE : 0;
	const void *low = w->at.low + (uint64_t)u->kept * w->at.each;

	int rc = lora_scale(w, m, rows, m->r, m->scale, 0, low, w->at.scaled);
	if (rc)
		return rc;

	return lora_product(w, ZR_MM_TRANS_A | add, m->out, m->r, rows, op->dout, w->at.scaled,
			    zr_array_at(ZR_F32, c->dparam[u->a + 1]));
}

int lora_embedding_bwd(const struct zr_ops *ops, struct zr_stream *s,
		       const struct zr_op_embedding_bwd *op)
{
	const struct lora_wrapped *w = (const struct lora_wrapped *)(uintptr_t)ops;
	const int32_t i = lora_marked(op->dwte);
	struct zr_op_embedding_bwd rest = *op;
	int rc = ZR_OK;
	if (i < 0)
		return w->c->ops->embedding_bwd(w->c->ops, s, op);

	const struct lora_use *u = &w->l->use[i];
	if (w->c->dparam[u->a])
		rc = gradient_of_a(w, u, op);
	if (!rc && w->c->dparam[u->a + 1])
		rc = gradient_of_b(w, u, op);
	if (rc || !op->dwpe)
		return rc;

	rest.dwte = NULL;
	return w->c->ops->embedding_bwd(w->c->ops, s, &rest);
}
