/* SPDX-License-Identifier: Apache-2.0
 *
 * block.c - forward and backward of a transformer block:
 *
 *   x2 = x + attention(rotary(norm(x) Wq^T + bq), rotary(norm(x) Wk^T + bk),
 *                      norm(x) Wv^T + bv) Wo^T
 *   out = x2 + (silu(norm(x2) Wgate^T) * (norm(x2) Wup^T)) Wdown^T
 *
 * Kept from its forward to its backward, per token: q and k after their rotation and v, (H + 2K) D;
 * attention's output H D; x2 C; gate and up 2F; lse H; the factors of both norms 2. The outputs of
 * the norms and of SwiGLU are computed again.
 *
 * With a cache k and v are there, side by side: the rows of all tokens so far, of which this call
 * adds its own.
 */
#include "llama.h"

#include <math.h>

struct block_saved {
	float *rstd1, *rstd2;      /* [N] */
	float *lse;                /* [B, H, T] */
	void *q, *k, *v;           /* [N, H D], [N, K D], [N, K D] */
	int64_t kv_stride;         /* elements between rows of k and of v */
	void *att, *x2, *gate, *up; /* [N, H D], [N, C], [N, F], [N, F] */
};

struct block_work {
	void *ln;  /* [N, C] output of a norm */
	void *act; /* [N, F] output of SwiGLU */
	/* backward only: */
	void *dgate, *dup;   /* [N, F] */
	void *dq, *dk, *dv;  /* [N, H D], [N, K D], [N, K D] */
	void *datt;          /* [N, H D] */
	void *dln;           /* [N, C] gradient w.r.t. ln */
	float *sum;          /* [N, C] the same in fp32; dln itself where that is fp32 */
	void *ops;           /* scratch of operations, one at a time */
};

/* Of n tokens. */
static uint64_t cache_bytes(const struct llama_pass *p, int64_t n)
{
	return (uint64_t)(n * 2 * p->K * p->D) * (llama_is16(p) ? 2 : 4);
}

static uint64_t carve_saved(const struct llama_pass *p, void *base, struct block_saved *s)
{
	struct carver v = { (uintptr_t)base, 0 };
	uint64_t stat = (uint64_t)p->N * sizeof(float);
	s->rstd1 = carver_take(&v, stat);
	s->rstd2 = carver_take(&v, stat);
	s->lse = carver_take(&v, stat * (uint64_t)p->H);
	s->q = llama_take_rows(&v, p, p->H * p->D);
	s->k = llama_take_rows(&v, p, p->K * p->D);
	s->v = llama_take_rows(&v, p, p->K * p->D);
	s->att = llama_take_rows(&v, p, p->H * p->D);
	s->x2 = llama_take_rows(&v, p, p->C);
	s->gate = llama_take_rows(&v, p, p->F);
	s->up = llama_take_rows(&v, p, p->F);
	s->kv_stride = p->K * p->D;
	if (p->c->cache) {
		s->k = (char *)p->c->cache + cache_bytes(p, p->c->past);
		s->v = (char *)s->k + cache_bytes(p, 1) / 2;
		s->kv_stride *= 2;
	}
	return v.used;
}

static struct zr_op_attention attention_op(const struct llama_pass *p, const struct block_saved *s)
{
	uint64_t before = cache_bytes(p, p->c->past); /* in k and in v */
	return (struct zr_op_attention){
		.size = sizeof(struct zr_op_attention), .dtype = p->c->dtype,
		.first = (int32_t)p->c->past, .batch = p->B, .length = p->c->past + p->T,
		.heads = p->H, .kv_heads = p->K, .head_dim = p->D,
		.q_stride = p->H * p->D, .k_stride = s->kv_stride, .v_stride = s->kv_stride,
		.out_stride = p->H * p->D,
		.scale = (float)(llama_rope_gain(p->g->o) / sqrt((double)p->D)), .q = s->q,
		.k = s->k ? (char *)s->k - before : NULL, .v = s->v ? (char *)s->v - before : NULL,
		.out = s->att, .lse = s->lse, .starts = p->c->starts,
	};
}

static struct llama_map map_q(const struct llama_pass *p)
{
	return (struct llama_map){ Q_W, p->g->o->qkv_bias ? Q_B : 0, p->C, p->H * p->D, 0 };
}

static struct llama_map map_k(const struct llama_pass *p)
{
	return (struct llama_map){ K_W, p->g->o->qkv_bias ? K_B : 0, p->C, p->K * p->D, 0 };
}

static struct llama_map map_v(const struct llama_pass *p)
{
	return (struct llama_map){ V_W, p->g->o->qkv_bias ? V_B : 0, p->C, p->K * p->D, 0 };
}

static struct llama_map map_o(const struct llama_pass *p)
{
	return (struct llama_map){ O_W, 0, p->H * p->D, p->C, 0 };
}
static struct llama_map map_gate(const struct llama_pass *p)
{
	return (struct llama_map){ GATE_W, 0, p->C, p->F, 0 };
}
static struct llama_map map_up(const struct llama_pass *p)
{
	return (struct llama_map){ UP_W, 0, p->C, p->F, 0 };
}
static struct llama_map map_down(const struct llama_pass *p)
{
	return (struct llama_map){ DOWN_W, 0, p->F, p->C, 0 };
}

static uint64_t carve_forward(const struct llama_pass *p, void *base, struct block_work *w)
{
	struct carver v = { (uintptr_t)base, 0 };
	*w = (struct block_work){ .ln = llama_take_rows(&v, p, p->C) };
	w->act = llama_take_rows(&v, p, p->F);
	return v.used;
}

/* What attention's backward uses lies where the feed-forward part's was; that one is done first.
 * ln, dln and sum lie where act was: it is used up before they are written. So is datt before
 * dln. */
static uint64_t carve_backward(const struct llama_pass *p, void *base, struct block_work *w)
{
	struct carver ffn = { (uintptr_t)base, 0 }, att = ffn, low, high;
	const struct zr_ops *ops = p->c->ops;
	struct zr_op_attention_bwd att_op = { .size = sizeof att_op,
					      .fwd = attention_op(p, &(struct block_saved){ 0 }) };
	*w = (struct block_work){ .dgate = llama_take_rows(&ffn, p, p->F) };
	w->dup = llama_take_rows(&ffn, p, p->F);
	w->dq = llama_take_rows(&att, p, p->H * p->D);
	w->dk = llama_take_rows(&att, p, p->K * p->D);
	w->dv = llama_take_rows(&att, p, p->K * p->D);
	low = high = (struct carver){ (uintptr_t)base, carver_max(ffn.used, att.used) };
	w->act = llama_take_rows(&low, p, p->F);
	w->ln = llama_take_rows(&high, p, p->C);
	w->dln = w->datt = llama_take_rows(&high, p, p->C > p->H * p->D ? p->C : p->H * p->D);
	w->sum = llama_is16(p) ? carver_take(&high, (uint64_t)(p->N * p->C) * sizeof(float)) :
				 w->dln;
	low.used = carver_max(low.used, high.used);
	w->ops = carver_take(
		&low, carver_max(llama_norm_bwd_work(p), ops->attention_bwd_work(ops, &att_op)));
	return low.used;
}

void llama_block_bytes(const struct llama_pass *p, struct zr_layer_bytes *out)
{
	struct block_saved s;
	struct block_work w;
	out->saved = carve_saved(p, NULL, &s);
	out->work_fwd = carve_forward(p, NULL, &w);
	out->work_bwd = carve_backward(p, NULL, &w);
	out->cache = cache_bytes(p, p->N);
}

static int attention_forward(const struct llama_pass *p, const struct block_saved *s,
			     const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_attention att = attention_op(p, s);
	struct llama_map k = map_k(p), v = map_v(p);
	int rc;
	k.stride = v.stride = s->kv_stride;
	if ((rc = llama_norm(p, c->in, LN1_W, w->ln, s->rstd1, p->N)) ||
	    (rc = llama_linear(p, map_q(p), w->ln, s->q)) ||
	    (rc = llama_linear(p, k, w->ln, s->k)) || (rc = llama_linear(p, v, w->ln, s->v)) ||
	    (rc = llama_rotate(p, 0, s->q, p->H, p->H * p->D)) ||
	    (rc = llama_rotate(p, 0, s->k, p->K, s->kv_stride)) ||
	    (rc = c->ops->attention(c->ops, c->stream, &att)) ||
	    (rc = llama_linear(p, map_o(p), s->att, s->x2)))
		return rc;
	return llama_add(p, c->in, s->x2);
}

static int ffn_forward(const struct llama_pass *p, const struct block_saved *s,
		       const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_swiglu glu = { .size = sizeof glu, .dtype = c->dtype, .n = p->N * p->F,
				    .gate = s->gate, .up = s->up, .out = w->act };
	int rc;
	if ((rc = llama_norm(p, s->x2, LN2_W, w->ln, s->rstd2, p->N)) ||
	    (rc = llama_linear(p, map_gate(p), w->ln, s->gate)) ||
	    (rc = llama_linear(p, map_up(p), w->ln, s->up)) ||
	    (rc = c->ops->swiglu(c->ops, c->stream, &glu)) ||
	    (rc = llama_linear(p, map_down(p), w->act, c->out)))
		return rc;
	return llama_add(p, s->x2, c->out);
}

int llama_block_forward(const struct llama_pass *p)
{
	struct block_saved s;
	struct block_work w;
	int rc;
	carve_saved(p, p->c->saved, &s);
	carve_forward(p, p->c->work, &w);
	rc = attention_forward(p, &s, &w);
	return rc ? rc : ffn_forward(p, &s, &w);
}

/* dln = sum, rounded */
static int round_sum(const struct llama_pass *p, const struct block_work *w)
{
	struct zr_op_cast op = { .size = sizeof op, .dst_dtype = p->c->dtype, .src_dtype = ZR_F32,
				 .n = p->N * p->C, .src = w->sum, .dst = w->dln };
	return llama_is16(p) ? p->c->ops->cast(p->c->ops, p->c->stream, &op) : ZR_OK;
}

static int ffn_backward(const struct llama_pass *p, const struct block_saved *s,
			const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_swiglu_bwd glu = { .size = sizeof glu, .dtype = c->dtype, .n = p->N * p->F,
					.dy = w->dgate, .gate = s->gate, .up = s->up,
					.dgate = w->dgate, .dup = w->dup, .act = w->act };
	int rc;
	if ((rc = llama_linear_dx(p, map_down(p), c->grad, w->dgate)) ||
	    (rc = c->ops->swiglu_bwd(c->ops, c->stream, &glu)) ||
	    (rc = llama_linear_dw(p, map_down(p), w->act, c->grad)) ||
	    (rc = llama_norm(p, s->x2, LN2_W, w->ln, s->rstd2, p->N)) ||
	    (rc = llama_linear_dw(p, map_gate(p), w->ln, w->dgate)) ||
	    (rc = llama_linear_dw(p, map_up(p), w->ln, w->dup)) ||
	    (rc = llama_linear_dx_add(p, map_gate(p), w->dgate, w->sum, 0)) ||
	    (rc = llama_linear_dx_add(p, map_up(p), w->dup, w->sum, 1)) ||
	    (rc = round_sum(p, w)))
		return rc;
	return llama_norm_bwd(p, w->dln, s->x2, LN2_W, s->rstd2, w->ops);
}

/* dq, dk, dv, before the rotation, from the gradient w.r.t. the block's output */
static int scores_backward(const struct llama_pass *p, const struct block_saved *s,
			   const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_attention_bwd op = { .size = sizeof op, .fwd = attention_op(p, s),
					  .dout = w->datt, .dq = w->dq, .dk = w->dk, .dv = w->dv,
					  .work = w->ops };
	int rc;
	if ((rc = llama_linear_dw(p, map_o(p), s->att, c->grad)) ||
	    (rc = llama_linear_dx(p, map_o(p), c->grad, w->datt)) ||
	    (rc = c->ops->attention_bwd(c->ops, c->stream, &op)) ||
	    (rc = llama_rotate(p, ZR_ROTARY_BACK, w->dq, p->H, p->H * p->D)))
		return rc;
	return llama_rotate(p, ZR_ROTARY_BACK, w->dk, p->K, p->K * p->D);
}

static int attention_backward(const struct llama_pass *p, const struct block_saved *s,
			      const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	int rc;
	if ((rc = scores_backward(p, s, w)) ||
	    (rc = llama_norm(p, c->in, LN1_W, w->ln, s->rstd1, p->N)) ||
	    (rc = llama_linear_dw(p, map_q(p), w->ln, w->dq)) ||
	    (rc = llama_linear_dw(p, map_k(p), w->ln, w->dk)) ||
	    (rc = llama_linear_dw(p, map_v(p), w->ln, w->dv)) ||
	    (rc = llama_linear_dx_add(p, map_q(p), w->dq, w->sum, 0)) ||
	    (rc = llama_linear_dx_add(p, map_k(p), w->dk, w->sum, 1)) ||
	    (rc = llama_linear_dx_add(p, map_v(p), w->dv, w->sum, 1)) ||
	    (rc = round_sum(p, w)))
		return rc;
	return llama_norm_bwd(p, w->dln, c->in, LN1_W, s->rstd1, w->ops);
}

int llama_block_backward(const struct llama_pass *p)
{
	struct block_saved s;
	struct block_work w;
	int rc;
	carve_saved(p, p->c->saved, &s);
	carve_backward(p, p->c->work, &w);
	rc = ffn_backward(p, &s, &w);
	return rc ? rc : attention_backward(p, &s, &w);
}
