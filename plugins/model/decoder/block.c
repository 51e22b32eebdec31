/* SPDX-License-Identifier: Apache-2.0
 *
 * block.c - a transformer block: the attention branch, then the feed-forward branch.
 *
 * Kept from its forward to its backward, per token: q and k after they were turned, or before
 * their norms where they have some, and v, (H + 2K) D; attention's output H D; x2 C; what the
 * feed-forward part's activation reads, F or, with a gate, 2F; lse H; of each norm 1 or 2, and what
 * the norms after a branch read, C each; moe.c has what experts keep. The other outputs of norms,
 * and that of the activation, are computed again.
 *
 * With a cache k and v are there, or all of q, k and v where one map gives them: the rows of all
 * tokens so far, of which this call adds its own.
 */
#include "decoder.h"

static float *take_stats(struct carver *v, const struct pass *p, int64_t of_a_token)
{
	return carver_take(v, (uint64_t)(p->N * of_a_token) * sizeof(float));
}

/* q, k and v in the rows that one map gives. */
static void split(const struct pass *p, void *rows, void **q, void **k, void **v)
{
	int by_head = p->f->qkv_by_head;
	*q = rows;
	*k = skip(p, rows, by_head ? p->D : p->H * p->D);
	*v = skip(p, rows, by_head ? 2 * p->D : (p->H + p->K) * p->D);
}

static void carve_qkv(const struct pass *p, struct carver *v, struct block_saved *s)
{
	int64_t q = p->H * p->D, kv = p->K * p->D;
	void *cache = p->c->cache ? (char *)p->c->cache + cache_bytes(p, p->c->past) : NULL;

	s->q_stride = q;
	s->kv_stride = kv;
	s->q_head = s->kv_head = p->f->qkv_by_head ? 3 * p->D : p->D;
	if (has(p, QKV_W)) {
		s->qkv = take_rows(v, p, qkv_width(p));
		if (cache)
			s->qkv = cache;
		split(p, s->qkv, &s->q, &s->k, &s->v);
		s->q_stride = s->kv_stride = qkv_width(p);
		return;
	}

	s->q = s->q_raw = take_rows(v, p, q);
	s->k = s->k_raw = take_rows(v, p, kv);
	s->v = take_rows(v, p, kv);
	if (has(p, Q_NORM_W)) {
		s->q_stats = take_stats(v, p, heads_norm_stats(p, p->H));
		s->k_stats = take_stats(v, p, heads_norm_stats(p, p->K));
	}

	if (cache) {
		s->k = cache;
		s->v = skip(p, cache, kv);
		s->kv_stride = 2 * kv;
	}
}

static uint64_t carve_saved(const struct pass *p, void *base, struct block_saved *s)
{
	struct carver v = { (uintptr_t)base, 0 };

	*s = (struct block_saved){ 0 };
	s->stats1 = take_stats(&v, p, norm_stats(p));
	s->stats2 = take_stats(&v, p, norm_stats(p));
	s->lse = take_stats(&v, p, p->H);
	carve_qkv(p, &v, s);
	s->att = take_rows(&v, p, p->H * p->D);
	s->x2 = take_rows(&v, p, p->C);
	if (p->o->experts) {
		moe_carve_saved(p, &v, &s->routing);
	} else if (has(p, GATE_UP_W)) {
		s->gate = take_rows(&v, p, 2 * p->F);
		s->up = skip(p, s->gate, p->F);
	} else {
		if (has(p, GATE_W))
			s->gate = take_rows(&v, p, p->F);
		else
			s->gate = NULL;
		s->up = take_rows(&v, p, p->F);
	}

	if (has(p, AFTER1_W)) {
		s->o = take_rows(&v, p, p->C);
		s->down = take_rows(&v, p, p->C);
		s->after_stats1 = take_stats(&v, p, norm_stats(p));
		s->after_stats2 = take_stats(&v, p, norm_stats(p));
	}

	return v.used;
}

/* What q and k become by their norms; the cache has k itself. */
static void carve_normed(const struct pass *p, struct carver *v, struct block_work *w)
{
	if (!has(p, Q_NORM_W))
		return;
	w->q = take_rows(v, p, p->H * p->D);
	w->k = take_rows(v, p, p->K * p->D);
}

static void use_normed(const struct pass *p, struct block_saved *s, const struct block_work *w)
{
	if (!has(p, Q_NORM_W))
		return;

	s->q = w->q;
	if (!p->c->cache)
		s->k = w->k;
}

static uint64_t carve_forward(const struct pass *p, void *base, struct block_work *w)
{
	struct carver v = { (uintptr_t)base, 0 };

	*w = (struct block_work){ .ln = take_rows(&v, p, p->C) };
	if (p->o->experts)
		moe_carve_forward(p, &v, &w->moe);
	else
		w->act = take_rows(&v, p, p->F);
	carve_normed(p, &v, w);
	return v.used;
}

/* What attention's backward uses lies where the feed-forward part's was; that one is done first. */
static uint64_t carve_gradients(const struct pass *p, struct carver at, struct block_work *w)
{
	struct carver ffn = at, att = at;

	if (p->o->experts) {
		moe_carve_backward(p, &ffn, &w->moe);
	} else if (has(p, GATE_UP_W)) {
		w->dgate = take_rows(&ffn, p, 2 * p->F);
		w->dup = skip(p, w->dgate, p->F);
		w->dact = take_rows(&ffn, p, p->F);
	} else {
		if (has(p, GATE_W))
			w->dgate = take_rows(&ffn, p, p->F);
		else
			w->dgate = NULL;
		w->dup = take_rows(&ffn, p, p->F);
		if (has(p, GATE_W))
			w->dact = w->dgate;
		else
			w->dact = w->dup;
	}

	if (has(p, QKV_W)) {
		w->dqkv = take_rows(&att, p, qkv_width(p));
		split(p, w->dqkv, &w->dq, &w->dk, &w->dv);
	} else {
		w->dq = take_rows(&att, p, p->H * p->D);
		w->dk = take_rows(&att, p, p->K * p->D);
		w->dv = take_rows(&att, p, p->K * p->D);
	}

	carve_normed(p, &att, w);
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
	if (!p->o->experts)
		w->act = take_rows(&low, p, p->F);
	w->ln = take_rows(&high, p, p->C);
	w->dln = w->datt = take_rows(&high, p, p->C > p->H * p->D ? p->C : p->H * p->D);
	if (!is16(p))
		w->sum = w->dln;
	else if (several)
		w->sum = carver_take(&high, (uint64_t)(p->N * p->C) * sizeof(float));
	else
		w->sum = NULL;
	low.used = carver_max(low.used, high.used);
	if (branches_differ(p))
		w->dbranch = take_rows(&low, p, p->C);
	else
		w->dbranch = NULL;
	if (p->o->parallel)
		w->dout = take_rows(&low, p, p->C);
	else
		w->dout = NULL;
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
	use_normed(p, &s, &w);
	rc = attention_forward(p, &s, &w);
	if (rc)
		return rc;
	if (p->o->experts)
		return moe_forward(p, &s, &w);

	return ffn_forward(p, &s, &w);
}

int block_backward(const struct pass *p)
{
	struct block_saved s;
	struct block_work w;
	int rc = ZR_OK;

	carve_saved(p, p->c->saved, &s);
	carve_backward(p, p->c->work, &w);
	use_normed(p, &s, &w);
	if (p->o->parallel)
		rc = add(p, NULL, 1, p->c->grad, w.dout);
	if (!rc) {
		if (p->o->experts)
			rc = moe_backward(p, &s, &w);
		else
			rc = ffn_backward(p, &s, &w);
	}

	if (rc)
		return rc;

	return attention_backward(p, &s, &w);
}
