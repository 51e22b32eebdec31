/* SPDX-License-Identifier: Apache-2.0
 *
 * block.c - forward and backward of a transformer block:
 *
 *   x2 = x + drop(attention(ln_1(x)) Wp + bp),  out = x2 + drop(gelu(ln_2(x2) Wf + bf) W2 + b2)
 *
 * Kept from its forward to its backward, per token: qkv 3C, attention's output C, x2 C, the MLP
 * before GELU 4C, lse H, means and deviations 4. The outputs of the norms and of GELU are computed
 * again. Dropout sites: 0 attention probabilities, 1 attention branch, 2 MLP branch.
 *
 * With a cache qkv is there: the rows of all tokens so far, of which this call adds its own.
 */
#include "gpt2.h"

#include <math.h>

struct block_saved {
	float *mean1, *rstd1, *mean2, *rstd2; /* [N] */
	float *lse;                           /* [B, H, T] */
	void *qkv, *att, *x2, *pre;           /* [N, 3C], [N, C], [N, C], [N, 4C] */
};

struct block_work {
	void *ln;   /* [N, C] output of a layer norm */
	void *act;  /* [N, 4C] output of GELU */
	/* backward only: */
	void *wide; /* [N, 4C] gradient w.r.t. pre, later [N, 3C] w.r.t. qkv */
	void *dln;  /* [N, C] gradient w.r.t. ln or att */
	void *drop; /* [N, C] gradient of a dropped branch */
	void *ops;  /* scratch of operations, one at a time */
};

/* Of n tokens. */
static uint64_t qkv_bytes(const struct gpt2_pass *p, int64_t n)
{
	return (uint64_t)(n * 3 * p->C) * gpt2_element(p);
}

static uint64_t carve_saved(const struct gpt2_pass *p, void *base, struct block_saved *s)
{
	struct carver v = { (uintptr_t)base, 0 };
	uint64_t stat = (uint64_t)p->N * sizeof(float);
	s->mean1 = carver_take(&v, stat);
	s->rstd1 = carver_take(&v, stat);
	s->mean2 = carver_take(&v, stat);
	s->rstd2 = carver_take(&v, stat);
	s->lse = carver_take(&v, stat * (uint64_t)p->H);
	s->qkv = gpt2_take_rows(&v, p, 3 * p->C);
	s->att = gpt2_take_rows(&v, p, p->C);
	s->x2 = gpt2_take_rows(&v, p, p->C);
	s->pre = gpt2_take_rows(&v, p, 4 * p->C);
	if (p->c->cache)
		s->qkv = (char *)p->c->cache + qkv_bytes(p, p->c->past);
	return v.used;
}

/* Of scratch alone, s has nothing. */
static struct zr_op_attention attention_op(const struct gpt2_pass *p, const struct block_saved *s)
{
	int64_t D = p->C / p->H;
	uint64_t column = (uint64_t)p->C * gpt2_element(p);
	char *q = s->qkv, *all = p->c->cache ? p->c->cache : q;
	return (struct zr_op_attention){
		.size = sizeof(struct zr_op_attention), .dtype = p->c->dtype,
		.first = (int32_t)p->c->past, .batch = p->B, .length = p->c->past + p->T,
		.heads = p->H, .kv_heads = p->H, .head_dim = D,
		.q_stride = 3 * p->C, .k_stride = 3 * p->C, .v_stride = 3 * p->C,
		.out_stride = p->C, .scale = (float)(1 / sqrt((double)D)), .dropout = p->dropout,
		.rng = gpt2_site(p, 0), .q = q, .k = all ? all + column : NULL,
		.v = all ? all + 2 * column : NULL, .out = s->att, .lse = s->lse,
		.starts = p->c->starts,
	};
}

/* dqkv from datt */
static int attention_bwd(const struct gpt2_pass *p, const struct block_saved *s, const void *datt,
			 void *dqkv, void *work)
{
	uint64_t column = (uint64_t)p->C * gpt2_element(p);
	struct zr_op_attention_bwd op = { .size = sizeof op, .fwd = attention_op(p, s),
					  .dout = datt, .dq = dqkv, .dk = (char *)dqkv + column,
					  .dv = (char *)dqkv + 2 * column, .work = work };
	return p->c->ops->attention_bwd(p->c->ops, p->c->stream, &op);
}

static struct gpt2_linear map_qkv(const struct gpt2_pass *p)
{
	return (struct gpt2_linear){ QKV_W, p->C, 3 * p->C };
}
static struct gpt2_linear map_proj(const struct gpt2_pass *p)
{
	return (struct gpt2_linear){ PROJ_W, p->C, p->C };
}
static struct gpt2_linear map_fc(const struct gpt2_pass *p)
{
	return (struct gpt2_linear){ FC_W, p->C, 4 * p->C };
}
static struct gpt2_linear map_fc2(const struct gpt2_pass *p)
{
	return (struct gpt2_linear){ FC2_W, 4 * p->C, p->C };
}

static uint64_t carve_forward(const struct gpt2_pass *p, void *base, struct block_work *w)
{
	struct carver v = { (uintptr_t)base, 0 };
	*w = (struct block_work){ .ln = gpt2_take_rows(&v, p, p->C) };
	w->act = gpt2_take_rows(&v, p, 4 * p->C);
	return v.used;
}

/* ln and dln lie where act was: it is used up before they are written. */
static uint64_t carve_backward(const struct gpt2_pass *p, void *base, struct block_work *w)
{
	struct carver v = { (uintptr_t)base, 0 }, over = v;
	const struct zr_ops *ops = p->c->ops;
	struct zr_op_attention_bwd att_op = { .size = sizeof att_op,
					      .fwd = attention_op(p, &(struct block_saved){ 0 }) };
	*w = (struct block_work){ .act = gpt2_take_rows(&v, p, 4 * p->C) };
	w->ln = gpt2_take_rows(&over, p, p->C);
	w->dln = gpt2_take_rows(&over, p, p->C);
	v.used = carver_max(v.used, over.used);
	w->wide = gpt2_take_rows(&v, p, 4 * p->C);
	if (p->dropout > 0)
		w->drop = gpt2_take_rows(&v, p, p->C);
	w->ops = carver_take(
		&v, carver_max(gpt2_norm_bwd_work(p), ops->attention_bwd_work(ops, &att_op)));
	return v.used;
}

void gpt2_block_bytes(const struct gpt2_pass *p, struct zr_layer_bytes *out)
{
	struct block_saved s;
	struct block_work w;
	out->saved = carve_saved(p, NULL, &s);
	out->work_fwd = carve_forward(p, NULL, &w);
	out->work_bwd = carve_backward(p, NULL, &w);
	out->cache = qkv_bytes(p, p->N);
}

int gpt2_block_forward(const struct gpt2_pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct block_saved s;
	struct block_work w;
	struct zr_op_attention att;
	int rc;
	carve_saved(p, c->saved, &s);
	carve_forward(p, c->work, &w);
	att = attention_op(p, &s);
	if ((rc = gpt2_norm(p, c->in, LN1_W, w.ln, s.mean1, s.rstd1, p->N)) ||
	    (rc = gpt2_linear(p, map_qkv(p), w.ln, s.qkv, NULL)) ||
	    (rc = c->ops->attention(c->ops, c->stream, &att)) ||
	    (rc = gpt2_linear(p, map_proj(p), s.att, s.x2, NULL)) ||
	    (rc = gpt2_residual(p, 1, c->in, s.x2, s.x2)) ||
	    (rc = gpt2_norm(p, s.x2, LN2_W, w.ln, s.mean2, s.rstd2, p->N)) ||
	    (rc = gpt2_linear(p, map_fc(p), w.ln, w.act, s.pre)) ||
	    (rc = gpt2_linear(p, map_fc2(p), w.act, c->out, NULL)) ||
	    (rc = gpt2_residual(p, 2, s.x2, c->out, c->out)))
		return rc;
	return ZR_OK;
}

/* Gradient of a residual branch's output: grad itself, or with dropout what the same mask leaves of
 * it. */
static int branch(const struct gpt2_pass *p, int n, void *drop, const void **dy)
{
	*dy = p->dropout > 0 ? drop : p->c->grad;
	return p->dropout > 0 ? gpt2_residual(p, n, NULL, p->c->grad, drop) : ZR_OK;
}

static int mlp_backward(const struct gpt2_pass *p, const struct block_saved *s,
			const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_gelu_bwd gelu = { .size = sizeof gelu, .dtype = c->dtype, .n = 4 * p->N * p->C,
				       .dy = w->wide, .pre = s->pre, .dx = w->wide, .act = w->act };
	const void *dy;
	int rc;
	if ((rc = branch(p, 2, w->drop, &dy)) ||
	    (rc = gpt2_linear_dx(p, map_fc2(p), dy, w->wide)) ||
	    (rc = c->ops->gelu_bwd(c->ops, c->stream, &gelu)) ||
	    (rc = gpt2_linear_dw(p, map_fc2(p), w->act, dy)) ||
	    (rc = gpt2_norm(p, s->x2, LN2_W, w->ln, s->mean2, s->rstd2, p->N)) ||
	    (rc = gpt2_linear_dw(p, map_fc(p), w->ln, w->wide)) ||
	    (rc = gpt2_linear_dx(p, map_fc(p), w->wide, w->dln)))
		return rc;
	return gpt2_norm_bwd(p, w->dln, s->x2, LN2_W, s->mean2, s->rstd2, w->ops);
}

static int attention_backward(const struct gpt2_pass *p, const struct block_saved *s,
			      const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	const void *dy;
	int rc;
	if ((rc = branch(p, 1, w->drop, &dy)) ||
	    (rc = gpt2_linear_dw(p, map_proj(p), s->att, dy)) ||
	    (rc = gpt2_linear_dx(p, map_proj(p), dy, w->dln)) ||
	    (rc = attention_bwd(p, s, w->dln, w->wide, w->ops)) ||
	    (rc = gpt2_norm(p, c->in, LN1_W, w->ln, s->mean1, s->rstd1, p->N)) ||
	    (rc = gpt2_linear_dw(p, map_qkv(p), w->ln, w->wide)) ||
	    (rc = gpt2_linear_dx(p, map_qkv(p), w->wide, w->dln)))
		return rc;
	return gpt2_norm_bwd(p, w->dln, c->in, LN1_W, s->mean1, s->rstd1, w->ops);
}

int gpt2_block_backward(const struct gpt2_pass *p)
{
	struct block_saved s;
	struct block_work w;
	int rc;
	carve_saved(p, p->c->saved, &s);
	carve_backward(p, p->c->work, &w);
	rc = mlp_backward(p, &s, &w);
	return rc ? rc : attention_backward(p, &s, &w);
}
