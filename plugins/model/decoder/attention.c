/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - the attention branch of a block:
 *
 *   x2 = x + drop(attention(turn(q), turn(k), v) Wo + bo),  q, k, v linear maps of norm(x)
 *
 * turn: rotary positions, where the family has them.
 */
#include "decoder.h"

#include <math.h>

/* What a token keeps in the cache: k and v, or the row of q, k and v. */
static int64_t cache_width(const struct pass *p)
{
	return (2 * p->K + (has(p, QKV_W) ? p->H : 0)) * p->D;
}

uint64_t cache_bytes(const struct pass *p, int64_t tokens)
{
	return activations(p, tokens * cache_width(p));
}

static struct zr_op_attention attention_op(const struct pass *p, const struct block_saved *s)
{
	int64_t before = p->c->past * s->kv_stride; /* of the tokens that the cache has */
	return (struct zr_op_attention){
		.size = sizeof(struct zr_op_attention), .dtype = p->c->dtype,
		.first = (int32_t)p->c->past, .batch = p->B, .length = p->c->past + p->T,
		.heads = p->H, .kv_heads = p->K, .head_dim = p->D, .q_stride = s->q_stride,
		.k_stride = s->kv_stride, .v_stride = s->kv_stride, .out_stride = p->H * p->D,
		.scale = (float)(rope_gain(p->o) / sqrt((double)p->D)), .dropout = p->dropout,
		.rng = site(p, 0), .q = s->q, .k = skip(p, s->k, -before),
		.v = skip(p, s->v, -before), .out = s->att, .lse = s->lse, .starts = p->c->starts,
	};
}

uint64_t attention_bwd_work(const struct pass *p, const struct block_saved *s)
{
	struct zr_op_attention_bwd op = { .size = sizeof op, .fwd = attention_op(p, s) };
	return p->c->ops->attention_bwd_work(p->c->ops, &op);
}

/* The maps from norm(x); dy is the backward's. */
static struct inputs inputs_of(const struct pass *p, const struct block_work *w)
{
	int64_t q = p->H * p->D, kv = p->K * p->D;
	if (has(p, QKV_W))
		return (struct inputs){ 1, { map_of(p, QKV_W, QKV_B, p->C, q + 2 * kv) },
					{ w->dqkv } };
	return (struct inputs){ 3,
				{ map_of(p, Q_W, Q_B, p->C, q), map_of(p, K_W, K_B, p->C, kv),
				  map_of(p, V_W, V_B, p->C, kv) },
				{ w->dq, w->dk, w->dv } };
}

static struct map map_o(const struct pass *p)
{
	return map_of(p, O_W, O_B, p->H * p->D, p->C);
}

static int project(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	struct inputs in = inputs_of(p, w);
	void *y[] = { s->q, s->k, s->v };
	int i, rc = ZR_OK;
	for (i = 0; !rc && i < in.n; i++) {
		in.map[i].stride = i ? s->kv_stride : s->q_stride;
		rc = linear(p, in.map[i], w->ln, in.n == 1 ? s->qkv : y[i], NULL);
	}
	return rc;
}

static int turn(const struct pass *p, uint32_t flags, void *q, int64_t q_stride, void *k,
		int64_t k_stride)
{
	int rc;
	if (p->f->positions)
		return ZR_OK;
	rc = rotate(p, flags, q, p->H, q_stride);
	return rc ? rc : rotate(p, flags, k, p->K, k_stride);
}

int attention_forward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_attention att = attention_op(p, s);
	int rc;
	if ((rc = norm(p, p->g->at[NORM1_W], c->in, w->ln, s->stats1, p->N)) ||
	    (rc = project(p, s, w)) ||
	    (rc = turn(p, 0, s->q, s->q_stride, s->k, s->kv_stride)) ||
	    (rc = c->ops->attention(c->ops, c->stream, &att)) ||
	    (rc = linear(p, map_o(p), s->att, s->x2, NULL)))
		return rc;
	return residual(p, 1, c->in, s->x2, s->x2);
}

/* dq, dk, dv, before they were turned, from the gradient w.r.t. the branch's output */
static int scores_backward(const struct pass *p, const struct block_saved *s,
			   const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_attention_bwd op = { .size = sizeof op, .fwd = attention_op(p, s),
					  .dout = w->datt, .dq = w->dq, .dk = w->dk, .dv = w->dv,
					  .work = w->ops };
	const void *dy;
	int rc;
	if ((rc = branch_gradient(p, 1, w, &dy)) || (rc = linear_dw(p, map_o(p), s->att, dy)) ||
	    (rc = linear_dx(p, map_o(p), dy, w->datt)) ||
	    (rc = c->ops->attention_bwd(c->ops, c->stream, &op)))
		return rc;
	return turn(p, ZR_ROTARY_BACK, w->dq, s->q_stride, w->dk, s->kv_stride);
}

int attention_backward(const struct pass *p, const struct block_saved *s,
		       const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct inputs in = inputs_of(p, w);
	int rc, weight = p->g->at[NORM1_W];
	if ((rc = scores_backward(p, s, w)) ||
	    (rc = norm(p, weight, c->in, w->ln, s->stats1, p->N)) ||
	    (rc = inputs_backward(p, &in, w->ln, w->sum, w->dln)))
		return rc;
	return norm_bwd(p, weight, w->dln, c->in, s->stats1, w->ops);
}
