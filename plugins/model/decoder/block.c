/* SPDX-License-Identifier: Apache-2.0
 *
 * block.c - a transformer block: the attention branch, then the feed-forward branch.
 *
 * Kept from its forward to its backward, per token: q and k after they were turned and v,
 * (H + 2K) D; attention's output H D; x2 C; what the feed-forward part's activation reads, F or,
 * with a gate, 2F; lse H; of each norm 1 or 2. The outputs of the norms and of the activation are
 * computed again.
 *
 * With a cache k and v are there, or all of q, k and v where one map gives them: the rows of all
 * tokens so far, of which this call adds its own.
 */
#include "decoder.h"

static uint64_t carve_saved(const struct pass *p, void *base, struct block_saved *s)
{
	struct carver v = { (uintptr_t)base, 0 };
	uint64_t stat = (uint64_t)p->N * sizeof(float);
	int64_t q = p->H * p->D, kv = p->K * p->D;
	void *cache = p->c->cache ? (char *)p->c->cache + cache_bytes(p, p->c->past) : NULL;
	*s = (struct block_saved){ .q_stride = q, .kv_stride = kv };
	s->stats1 = carver_take(&v, stat * (uint64_t)norm_stats(p));
	s->stats2 = carver_take(&v, stat * (uint64_t)norm_stats(p));
	s->lse = carver_take(&v, stat * (uint64_t)p->H);
	if (has(p, QKV_W)) {
		s->qkv = take_rows(&v, p, q + 2 * kv);
		s->q = s->qkv = cache ? cache : s->qkv;
		s->k = skip(p, s->qkv, q);
		s->v = skip(p, s->qkv, q + kv);
		s->q_stride = s->kv_stride = q + 2 * kv;
	} else {
		s->q = take_rows(&v, p, q);
		s->k = take_rows(&v, p, kv);
		s->v = take_rows(&v, p, kv);
	}
	s->att = take_rows(&v, p, q);
	s->x2 = take_rows(&v, p, p->C);
	s->gate = has(p, GATE_W) ? take_rows(&v, p, p->F) : NULL;
	s->up = take_rows(&v, p, p->F);
	if (cache && !has(p, QKV_W)) {
		s->k = cache;
		s->v = skip(p, cache, kv);
		s->kv_stride = 2 * kv;
	}
	return v.used;
}

static uint64_t carve_forward(const struct pass *p, void *base, struct block_work *w)
{
	struct carver v = { (uintptr_t)base, 0 };
	*w = (struct block_work){ .ln = take_rows(&v, p, p->C) };
	w->act = take_rows(&v, p, p->F);
	return v.used;
}

/* What attention's backward uses lies where the feed-forward part's was; that one is done first. */
static uint64_t carve_gradients(const struct pass *p, struct carver at, struct block_work *w)
{
	struct carver ffn = at, att = at;
	int64_t q = p->H * p->D, kv = p->K * p->D;
	w->dgate = has(p, GATE_W) ? take_rows(&ffn, p, p->F) : NULL;
	w->dup = take_rows(&ffn, p, p->F);
	if (has(p, QKV_W)) {
		w->dq = w->dqkv = take_rows(&att, p, q + 2 * kv);
		w->dk = skip(p, w->dqkv, q);
		w->dv = skip(p, w->dqkv, q + kv);
	} else {
		w->dq = take_rows(&att, p, q);
		w->dk = take_rows(&att, p, kv);
		w->dv = take_rows(&att, p, kv);
	}
	return carver_max(ffn.used, att.used);
}

/* ln, dln and sum lie where act was: it is used up before they are written. So is datt before
 * dln. Sums are fp32: dln itself where activations are. */
static uint64_t carve_backward(const struct pass *p, void *base, struct block_work *w)
{
	struct carver low = { (uintptr_t)base, 0 }, high;
	struct block_saved s;
	int several = has(p, GATE_W) || !has(p, QKV_W);
	*w = (struct block_work){ 0 };
	low.used = carve_gradients(p, low, w);
	high = low;
	w->act = take_rows(&low, p, p->F);
	w->ln = take_rows(&high, p, p->C);
	w->dln = w->datt = take_rows(&high, p, p->C > p->H * p->D ? p->C : p->H * p->D);
	w->sum = !is16(p) ? w->dln :
		 several  ? carver_take(&high, (uint64_t)(p->N * p->C) * sizeof(float)) :
			    NULL;
	low.used = carver_max(low.used, high.used);
	if (p->dropout > 0)
		w->drop = take_rows(&low, p, p->C);
	carve_saved(p, NULL, &s);
	w->ops = carver_take(&low, carver_max(norm_bwd_work(p), attention_bwd_work(p, &s)));
	return low.used;
}

void block_bytes(const struct pass *p, struct zr_layer_bytes *out)
{
	struct block_saved s;
	struct block_work w;
	out->saved = carve_saved(p, NULL, &s);
	out->work_fwd = carve_forward(p, NULL, &w);
	out->work_bwd = carve_backward(p, NULL, &w);
	out->cache = cache_bytes(p, p->N);
}

int block_forward(const struct pass *p)
{
	struct block_saved s;
	struct block_work w;
	int rc;
	carve_saved(p, p->c->saved, &s);
	carve_forward(p, p->c->work, &w);
	rc = attention_forward(p, &s, &w);
	return rc ? rc : ffn_forward(p, &s, &w);
}

int branch_gradient(const struct pass *p, int n, const struct block_work *w, const void **dy)
{
	*dy = p->dropout > 0 ? w->drop : p->c->grad;
	return p->dropout > 0 ? residual(p, n, NULL, p->c->grad, w->drop) : ZR_OK;
}

int block_backward(const struct pass *p)
{
	struct block_saved s;
	struct block_work w;
	int rc;
	carve_saved(p, p->c->saved, &s);
	carve_backward(p, p->c->work, &w);
	rc = ffn_backward(p, &s, &w);
	return rc ? rc : attention_backward(p, &s, &w);
}
