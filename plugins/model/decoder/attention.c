/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - the attention branch of a block:
 *
 *   x2 = x + drop(gain norm(attention(turn(norm(q)), turn(norm(k)), v) Wo + bo)),
 *   q, k, v linear maps of norm(x)
 *
 * turn: rotary positions. Each of the norms, and turn, is there where the family has it.
 */
#include "decoder.h"

#include <math.h>

/* What a token keeps in the cache: k and v, or the row of q, k and v. */
static int64_t cache_width(const struct pass *p)
{
	if (has(p, QKV_W))
		return qkv_width(p);

	return 2 * p->K * p->D;
}

uint64_t cache_bytes(const struct pass *p, int64_t tokens)
{
	return activations(p, tokens * cache_width(p));
}

static double score_gain(const struct pass *p)
{
	double gain = p->o->score_gain;
	if (gain > 0)
		return gain;

	return 1 / sqrt((double)p->o->score_width);
}

static struct zr_op_attention attention_op(const struct pass *p, const struct block_saved *s)
{
	int64_t before = p->c->past * s->kv_stride; /* of the tokens that the cache has */

	return (struct zr_op_attention){
		.size = sizeof(struct zr_op_attention),
		.dtype = p->c->dtype,
		.first = (int32_t)p->c->past,
		.batch = p->B,
		.length = p->c->past + p->T,
		.heads = p->H,
		.kv_heads = p->K,
		.head_dim = p->D,
		.q_stride = s->q_stride,
		.k_stride = s->kv_stride,
		.v_stride = s->kv_stride,
		.out_stride = p->H * p->D,
		.scale = (float)score_gain(p),
		.dropout = p->dropout,
		.rng = site(p, 0),
		.q = s->q,
		.k = skip(p, s->k, -before),
		.v = skip(p, s->v, -before),
		.out = s->att,
		.lse = s->lse,
		.starts = p->c->starts,
		.window = is_local(p->g, block_of(p)) ? p->o->window : 0,
		.softcap = (float)p->o->score_softcap,
		.q_head = s->q_head,
		.k_head = s->kv_head,
		.v_head = s->kv_head,
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
		return (struct inputs){ 1,
					{ map_of(p, QKV_W, QKV_B, p->C, qkv_width(p)) },
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

static int project(const struct pass *p, const struct block_saved *s, const struct block_work *w,
		   const void *x)
{
	struct inputs in = inputs_of(p, w);
	int normed = has(p, Q_NORM_W), i, rc = ZR_OK;
	void *y[] = { normed ? s->q_raw : s->q, normed ? s->k_raw : s->k, s->v };

	if (in.n == 1)
		return linear(p, in.map[0], x, s->qkv, NULL);
	if (!normed)
		in.map[1].stride = s->kv_stride;
	in.map[2].stride = s->kv_stride;
	for (i = 0; !rc && i < in.n; i++)
		rc = linear(p, in.map[i], x, y[i], NULL);

	return rc;
}

static int turn(const struct pass *p, uint32_t flags, const struct block_saved *s, void *q, void *k)
{
	int rc;

	if (p->f->positions || !is_turned(p->g, block_of(p)))
		return ZR_OK;

	rc = rotate(p, flags, q, p->H, s->q_stride, s->q_head);
	if (rc)
		return rc;

	return rotate(p, flags, k, p->K, s->kv_stride, s->kv_head);
}

/* From what the maps gave to what attention reads. */
static int norm_and_turn(const struct pass *p, const struct block_saved *s)
{
	const int *at = p->g->at;
	int rc;

	if (has(p, Q_NORM_W) &&
	    ((rc = heads_norm(p, at[Q_NORM_W], p->H, s->q_raw, s->q, s->q_stride, s->q_stats)) ||
	     (rc = heads_norm(p, at[K_NORM_W], p->K, s->k_raw, s->k, s->kv_stride, s->k_stats))))
		return rc;

	return turn(p, 0, s, s->q, s->k);
}

int attention_forward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	const int *at = p->g->at;
	struct zr_op_attention att = attention_op(p, s);
	const void *x;

	att.max_scores = c->max_scores;
	if (has(p, NORM1_W))
		x = w->ln;
	else
		x = c->in;
	void *o = has(p, AFTER1_W) ? s->o : s->x2;
	int rc = ZR_OK;
	if (has(p, NORM1_W))
		rc = norm(p, at[NORM1_W], c->in, w->ln, s->stats1, p->N);
	if (rc || (rc = project(p, s, w, x)) || (rc = norm_and_turn(p, s)) ||
	    (rc = c->ops->attention(c->ops, c->stream, &att)) ||
	    (rc = linear(p, map_o(p), s->att, o, NULL)))
		return rc;
	if (has(p, AFTER1_W))
		rc = norm(p, at[AFTER1_W], s->o, s->x2, s->after_stats1, p->N);
	if (rc)
		return rc;

	return residual(p, 1, c->in, s->x2, s->x2);
}

/* The gradients w.r.t. what the maps gave, from that w.r.t. the branch's output. */
static int scores_backward(const struct pass *p, const struct block_saved *s,
			   const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	const int *at = p->g->at;
	struct zr_op_attention_bwd op = { .size = sizeof op,
					  .fwd = attention_op(p, s),
					  .dout = w->datt,
					  .dq = w->dq,
					  .dk = w->dk,
					  .dv = w->dv,
					  .work = w->ops };
	const void *dy;
	int rc;

	if ((rc = branch_gradient(p, 1, AFTER1_W, s->o, s->after_stats1, w, &dy)) ||
	    (rc = linear_dw(p, map_o(p), s->att, dy)) || (rc = linear_dx(p, map_o(p), dy, w->datt)))
		return rc;
	if (has(p, Q_NORM_W) && (rc = norm_and_turn(p, s)))
		return rc;
	if ((rc = c->ops->attention_bwd(c->ops, c->stream, &op)) ||
	    (rc = turn(p, ZR_ROTARY_BACK, s, w->dq, w->dk)))
		return rc;
	if (!has(p, Q_NORM_W))
		return ZR_OK;

	rc = heads_norm_bwd(p, at[Q_NORM_W], p->H, w->dq, s->q_raw, s->q_stats, w->ops);
	if (rc)
		return rc;

	return heads_norm_bwd(p, at[K_NORM_W], p->K, w->dk, s->k_raw, s->k_stats, w->ops);
}

int attention_backward(const struct pass *p, const struct block_saved *s,
		       const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct inputs in = inputs_of(p, w);
	const void *x;

	if (has(p, NORM1_W))
		x = w->ln;
	else
		x = c->in;
	int rc = scores_backward(p, s, w);
	if (!rc && has(p, NORM1_W))
		rc = norm(p, p->g->at[NORM1_W], c->in, w->ln, s->stats1, p->N);
	if (rc || (rc = inputs_backward(p, &in, x, w->sum, w->dln)))
		return rc;

	return input_gradient(p, NORM1_W, c->in, s->stats1, w);
}
