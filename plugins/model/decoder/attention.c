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
	if (in_one_row(p))
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
	return (struct zr_op_attention){
		.size = sizeof(struct zr_op_attention),
		.dtype = p->c->dtype,
		.first = (int32_t)p->first,
		.batch = p->B,
		.length = p->first + p->T,
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
		.k = s->first_k,
		.v = s->first_v,
		.out = s->att,
		.lse = s->lse,
		.starts = p->c->starts,
		.window = is_local(p->g, block_of(p)) ? p->o->window : 0,
		.softcap = (float)p->o->score_softcap,
		.q_head = s->q_head,
		.k_head = s->kv_head,
		.v_head = s->kv_head,
		.all_heads = p->by_heads ? (int32_t)p->o->heads : 0,
		.first_head = p->by_heads ? (int32_t)(p->c->head_share * p->H) : 0,
		.drop_rows = p->sequence,
		.key_sums = p->sliced ? p->c->key_sums : NULL,
	};
}

uint64_t attention_bwd_work(const struct pass *p, const struct block_saved *s)
{
	struct zr_op_attention_bwd op = { .size = sizeof op, .fwd = attention_op(p, s) };
	const struct zr_ops *ops = p->c->ops;
	uint64_t most = 0;

	for (; op.fwd.length <= p->sequence; op.fwd.length += p->T) {
		op.fwd.first = (int32_t)(op.fwd.length - p->T);
		most = carver_max(most, ops->attention_bwd_work(ops, &op));
	}

	return most;
}

static struct map joint_map(const struct pass *p)
{
	return map_of(p, Q_W, Q_B, p->C, qkv_width(p));
}

/* Maps of queries, keys and values from norm(x); dy is the backward's. */
static struct inputs three_maps(const struct pass *p, const struct block_work *w)
{
	int64_t q = p->H * p->D, kv = p->K * p->D;

	return (struct inputs){ 3,
				{ map_of(p, Q_W, Q_B, p->C, q), map_of(p, K_W, K_B, p->C, kv),
				  map_of(p, V_W, V_B, p->C, kv) },
				{ w->dq, w->dk, w->dv } };
}

/* The same as one, where they are one. */
static struct inputs inputs_of(const struct pass *p, const struct block_work *w)
{
	struct map joint = joint_map(p);

	if (has(p, QKV_W))
		joint = map_of(p, QKV_W, QKV_B, p->C, qkv_width(p));
	else if (!p->joint_qkv)
		return three_maps(p, w);

	return (struct inputs){ 1, { joint }, { w->dqkv } };
}

static struct map map_o(const struct pass *p)
{
	return map_of(p, O_W, O_B, p->H * p->D, p->C);
}

static int project(const struct pass *p, const struct block_saved *s, const struct block_work *w,
		   const void *x)
{
	struct inputs in = three_maps(p, w);
	int normed = has(p, Q_NORM_W), i, rc;
	void *y[] = { normed ? s->q_raw : s->q, normed ? s->k_raw : s->k, s->v };

	if (s->qkv && (has(p, QKV_W) || p->joint_qkv))
		return linear(p, inputs_of(p, w).map[0], x, s->qkv, NULL);
	if (!normed) {
		in.map[0].stride = s->q_stride;
		in.map[1].stride = s->kv_stride;
	}
	in.map[2].stride = s->kv_stride;
	rc = linear(p, in.map[0], x, y[0], NULL);
	for (i = 1; !rc && i < in.n; i++)
		rc = linear_again(p, in.map[i], x, y[i]);

	return rc;
}

static int is_rotated(const struct pass *p)
{
	return !p->f->positions && is_turned(p->g, block_of(p));
}

/* From what the maps gave to what attention reads. */
static int finish_queries(const struct pass *p, const struct block_saved *s)
{
	const int norm = p->g->at[Q_NORM_W];
	int rc = ZR_OK;

	if (norm >= 0)
		rc = heads_norm(p, norm, p->H, s->q_raw, s->q, s->q_stride, s->q_stats);
	if (rc || !is_rotated(p))
		return rc;

	return rotate(p, 0, s->q, p->H, s->q_stride, s->q_head);
}

static int finish_keys(const struct pass *p, const struct block_saved *s)
{
	const int norm = p->g->at[K_NORM_W];
	int rc = ZR_OK;

	if (norm >= 0)
		rc = heads_norm(p, norm, p->K, s->k_raw, s->k, s->kv_stride, s->k_stats);
	if (rc || !is_rotated(p))
		return rc;

	return rotate(p, 0, s->k, p->K, s->kv_stride, s->kv_head);
}

/* What the maps from it read: the block's input, or its norm. */
static const void *source(const struct pass *p, const struct block_work *w)
{
	if (has(p, NORM1_W))
		return w->ln;

	return p->c->in;
}

static int norm_source(const struct pass *p, const struct block_saved *s,
		       const struct block_work *w)
{
	if (has(p, NORM1_W))
		return norm(p, p->g->at[NORM1_W], p->c->in, w->ln, s->stats1, p->N);

	return ZR_OK;
}

/* ---- forward ---- */

/* Queries that have norms are kept as they were before, so attention itself makes them, where it
 * has all heads of these rows. */
static int makes_queries(const struct pass *p)
{
	return has(p, Q_NORM_W) && !p->by_heads;
}

static int before_forward(const struct pass *p, const struct block_saved *s,
			  const struct block_work *w)
{
	int rc = norm_source(p, s, w);

	if (!rc)
		rc = project(p, s, w, source(p, w));
	if (!rc)
		rc = finish_keys(p, s);
	if (rc || makes_queries(p))
		return rc;

	return finish_queries(p, s);
}

static int attend_forward(const struct pass *p, const struct block_saved *s)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_attention op = attention_op(p, s);
	int rc = ZR_OK;

	if (c->max_scores)
		op.max_scores = c->max_scores + op.first_head;
	if (makes_queries(p))
		rc = finish_queries(p, s);
	if (rc)
		return rc;

	return c->ops->attention(c->ops, c->stream, &op);
}

static int after_forward(const struct pass *p, const struct block_saved *s)
{
	void *o = has(p, AFTER1_W) ? s->o : s->x2;
	int rc = linear(p, map_o(p), s->att, o, NULL);

	if (!rc && has(p, AFTER1_W))
		rc = norm(p, p->g->at[AFTER1_W], s->o, s->x2, s->after_stats1, p->N);
	if (rc)
		return rc;

	return residual(p, 1, p->c->in, s->x2, s->x2);
}

int attention_forward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	int rc = ZR_OK;

	if (p->parts & ZR_PART_BEFORE)
		rc = before_forward(p, s, w);
	if (!rc && p->parts & ZR_PART_ATTEND)
		rc = attend_forward(p, s);
	if (!rc && p->parts & ZR_PART_AFTER)
		rc = after_forward(p, s);

	return rc;
}

/* ---- backward ---- */

int output_backward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const void *dy;
	int rc = branch_gradient(p, 1, AFTER1_W, s->o, s->after_stats1, w, &dy);

	if (!rc)
		rc = linear_dw(p, map_o(p), s->att, dy);
	if (rc)
		return rc;

	return linear_dx(p, map_o(p), dy, w->datt);
}

int attend_backward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_attention_bwd op = { .size = sizeof op,
					  .fwd = attention_op(p, s),
					  .dout = w->datt,
					  .dq = w->held_dq,
					  .dk = w->dk,
					  .dv = w->dv,
					  .work = w->ops };
	int rc = ZR_OK;

	if (makes_queries(p))
		rc = finish_queries(p, s);
	if (!rc && has(p, Q_NORM_W) && !p->sliced)
		rc = finish_keys(p, s);
	if (rc)
		return rc;

	return c->ops->attention_bwd(c->ops, c->stream, &op);
}

/* What all queries of the sequence gave to keys (which: 0) or values (1), rounded to dk or dv. */
static int round_sums(const struct pass *p, const struct block_saved *s, int which, void *to)
{
	const struct zr_layer_call *c = p->c;
	const int64_t kv = p->K * p->D;
	struct zr_op_cast_heads op = { .size = sizeof op,
				       .rows = p->N,
				       .heads = p->K,
				       .head_dim = p->D,
				       .src_stride = 2 * kv,
				       .src_head = p->D,
				       .dst_stride = dkv_stride(p),
				       .dst_head = s->kv_head,
				       .src = zr_array_at(ZR_F32, c->key_sums + which * kv),
				       .dst = zr_array_at(c->dtype, to) };

	return c->ops->cast_heads(c->ops, c->stream, &op);
}

/* Gradients w.r.t. what attention read become those w.r.t. what the maps gave. */
static int heads_backward(const struct pass *p, const struct block_saved *s,
			  const struct block_work *w)
{
	const int *at = p->g->at;
	int rc = ZR_OK;

	if (is_rotated(p))
		rc = rotate(p, ZR_ROTARY_BACK, w->dq, p->H, dq_stride(p), s->q_head);
	if (!rc && is_rotated(p))
		rc = rotate(p, ZR_ROTARY_BACK, w->dk, p->K, dkv_stride(p), s->kv_head);
	if (rc || !has(p, Q_NORM_W))
		return rc;

	rc = heads_norm_bwd(p, at[Q_NORM_W], p->H, w->dq, s->q_raw, s->q_stats, w->ops);
	if (rc)
		return rc;

	return heads_norm_bwd(p, at[K_NORM_W], p->K, w->dk, s->k_raw, s->k_stats, w->ops);
}

int sums_backward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	int rc = round_sums(p, s, 0, w->dk);
	if (rc)
		return rc;

	return round_sums(p, s, 1, w->dv);
}

/* Gradients w.r.t. some heads of the rows, for the map that gave them. */
static int take_apart(const struct pass *p, const void *from, int64_t heads, void *to)
{
	struct zr_op_cast_heads op = { .size = sizeof op,
				       .rows = p->N,
				       .heads = heads,
				       .head_dim = p->D,
				       .src_stride = qkv_width(p),
				       .src_head = p->D,
				       .dst_stride = heads * p->D,
				       .dst_head = p->D,
				       .src = zr_array_at(p->c->dtype, from),
				       .dst = zr_array_at(p->c->dtype, to) };

	return p->c->ops->cast_heads(p->c->ops, p->c->stream, &op);
}

static int take_rows_apart(const struct pass *p, const struct block_work *w)
{
	const void *held = p->c->held;
	int rc = take_apart(p, held, p->H, w->dq);

	if (!rc)
		rc = take_apart(p, skip(p, held, p->H * p->D), p->K, w->dk);
	if (rc)
		return rc;

	return take_apart(p, skip(p, held, (p->H + p->K) * p->D), p->K, w->dv);
}

/* Gradients w.r.t. queries that come by themselves, beside those w.r.t. keys and values. */
static int put_queries(const struct pass *p, const struct block_work *w)
{
	struct zr_op_cast_heads op = { .size = sizeof op,
				       .rows = p->N,
				       .heads = p->H,
				       .head_dim = p->D,
				       .src_stride = p->H * p->D,
				       .src_head = p->D,
				       .dst_stride = dq_stride(p),
				       .dst_head = p->D,
				       .src = zr_array_at(p->c->dtype, w->held_dq),
				       .dst = zr_array_at(p->c->dtype, w->dq) };

	return p->c->ops->cast_heads(p->c->ops, p->c->stream, &op);
}

int before_backward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	struct inputs in = inputs_of(p, w);
	int rc = ZR_OK;

	if (p->by_heads && !gradients_in_one_row(p))
		rc = take_rows_apart(p, w);
	if (p->joint_qkv && queries_come_apart(p))
		rc = put_queries(p, w);
	if (!rc)
		rc = heads_backward(p, s, w);
	if (!rc)
		rc = norm_source(p, s, w);
	if (!rc)
		rc = inputs_backward(p, &in, source(p, w), w->sum, w->dln);
	if (rc)
		return rc;

	return input_gradient(p, NORM1_W, p->c->in, s->stats1, w);
}
