/* SPDX-License-Identifier: Apache-2.0
 *
 * block.c - a transformer block: the attention branch, then the feed-forward branch.
 *
 * Kept from its forward to its backward, per token: q and k after they were turned, or before
 * their norms where they have some, and v, (H + 2K) D; attention's output H D; x2 C; what the
 * feed-forward part's activation reads, F or, with a gate, 2F; lse H; of each norm 1 or 2, and what
 * the norms after a branch read, C each; moe.c has what experts keep. The other outputs of norms,
 * and that of the activation, are computed again; with ZR_CALL_LEAN what the activation reads, too,
 * for which a forward that is computed again ends at x2.
 *
 * With a cache k and v are there, or all of q, k and v where one map gives them: the rows of all
 * tokens so far, of which this call adds its own. With slices the same is in zr_layer_call.keys,
 * and of k only what its norm reads is kept.
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

/* Keys and values in the rows of zr_layer_call.keys, or of its cache. */
static void find_keys(const struct pass *p, void *rows, void **k, void **v)
{
	void *q;

	if (in_one_row(p)) {
		split(p, rows, &q, k, v);
		return;
	}

	*k = rows;
	*v = skip(p, rows, p->K * p->D);
}

/* The rows of these tokens where keys and values have a place of their own; NULL: they have none,
 * or only sizes are asked for. */
static void *keys_of(const struct pass *p)
{
	if (p->sliced)
		return p->c->keys;
	if (p->c->cache)
		return (char *)p->c->cache + cache_bytes(p, p->c->past);

	return NULL;
}

/* What norms of queries and keys read. */
static void carve_raw(const struct pass *p, struct carver *v, struct block_saved *s)
{
	s->k_raw = take_rows(v, p, p->K * p->D);
	s->q_stats = take_stats(v, p, heads_norm_stats(p, p->H));
	s->k_stats = take_stats(v, p, heads_norm_stats(p, p->K));
}

static void carve_joint(const struct pass *p, struct carver *v, struct block_saved *s)
{
	void *keys = keys_of(p);

	if (!p->sliced)
		s->qkv = take_rows(v, p, qkv_width(p));
	if (keys)
		s->qkv = keys;
	if (has(p, Q_NORM_W)) {
		s->q_raw = take_rows(v, p, p->H * p->D);
		carve_raw(p, v, s);
	}
	split(p, s->qkv, &s->q, &s->k, &s->v);
	s->q_stride = s->kv_stride = qkv_width(p);
}

/* In one row what one product makes of three weights, unless keys and values go elsewhere. */
static void carve_touching(const struct pass *p, struct carver *v, struct block_saved *s)
{
	void *keys = keys_of(p), *row = take_rows(v, p, qkv_width(p));

	split(p, row, &s->q, &s->k, &s->v);
	s->q_stride = s->kv_stride = qkv_width(p);
	if (!keys) {
		s->qkv = row;
		return;
	}

	find_keys(p, keys, &s->k, &s->v);
	s->kv_stride = 2 * p->K * p->D;
}

static void carve_apart(const struct pass *p, struct carver *v, struct block_saved *s)
{
	int64_t q = p->H * p->D, kv = p->K * p->D;
	void *keys = keys_of(p);

	s->q_stride = q;
	s->kv_stride = kv;
	s->q = s->q_raw = take_rows(v, p, q);
	if (has(p, Q_NORM_W) || !p->sliced)
		s->k = s->k_raw = take_rows(v, p, kv);
	if (!p->sliced)
		s->v = take_rows(v, p, kv);
	if (has(p, Q_NORM_W)) {
		s->q_stats = take_stats(v, p, heads_norm_stats(p, p->H));
		s->k_stats = take_stats(v, p, heads_norm_stats(p, p->K));
	}

	if (keys || p->sliced) {
		find_keys(p, keys, &s->k, &s->v);
		s->kv_stride = 2 * kv;
	}
}

static void carve_qkv(const struct pass *p, struct carver *v, struct block_saved *s)
{
	s->q_head = s->kv_head = p->f->qkv_by_head ? 3 * p->D : p->D;
	if (in_one_row(p))
		carve_joint(p, v, s);
	else if (p->joint_qkv && !p->sliced)
		carve_touching(p, v, s);
	else
		carve_apart(p, v, s);
}

/* Where a norm follows the branch, its backward reads what the whole branch made. */
int block_can_be_lean(const struct zr_inst *g)
{
	return g->at[AFTER2_W] < 0;
}

/* What the feed-forward part's activation reads. */
static void carve_gates(const struct pass *p, struct carver *v, void **gate, void **up)
{
	if (gates_in_one_row(p)) {
		*gate = take_rows(v, p, 2 * p->F);
		*up = skip(p, *gate, p->F);
		return;
	}

	*gate = has(p, GATE_W) ? take_rows(v, p, p->F) : NULL;
	*up = take_rows(v, p, p->F);
}

static uint64_t carve_saved(const struct pass *p, void *base, struct block_saved *s)
{
	struct carver v = { (uintptr_t)base, 0 };

	*s = (struct block_saved){ 0 };
	s->stats1 = take_stats(&v, p, norm_stats(p));
	s->stats2 = take_stats(&v, p, norm_stats(p));
	if (p->by_heads)
		s->lse = p->c->kept;
	else
		s->lse = take_stats(&v, p, p->H);
	carve_qkv(p, &v, s);
	if (p->by_heads)
		s->att = p->c->attended;
	else
		s->att = take_rows(&v, p, p->H * p->D);
	s->x2 = take_rows(&v, p, p->C);
	if (p->o->experts)
		moe_carve_saved(p, &v, &s->routing);
	else if (!p->lean)
		carve_gates(p, &v, &s->gate, &s->up);

	if (has(p, AFTER1_W)) {
		s->o = take_rows(&v, p, p->C);
		s->down = take_rows(&v, p, p->C);
		s->after_stats1 = take_stats(&v, p, norm_stats(p));
		s->after_stats2 = take_stats(&v, p, norm_stats(p));
	}

	return v.used;
}

/* What q and k become by their norms; where keys have a place of their own, k is there. */
static void carve_normed(const struct pass *p, struct carver *v, struct block_work *w)
{
	if (!has(p, Q_NORM_W) || p->by_heads)
		return;
	w->q = take_rows(v, p, p->H * p->D);
	if (!p->sliced)
		w->k = take_rows(v, p, p->K * p->D);
}

/* Where attention finds keys and values of the first row that it reads. */
static void find_first(const struct pass *p, struct block_saved *s)
{
	const int64_t before = p->first * s->kv_stride;

	if (p->sliced) {
		find_keys(p, (void *)(uintptr_t)p->c->all_keys, &s->first_k, &s->first_v);
		return;
	}

	s->first_k = skip(p, s->k, -before);
	s->first_v = skip(p, s->v, -before);
}

static void use_normed(const struct pass *p, struct block_saved *s, const struct block_work *w)
{
	if (has(p, Q_NORM_W) && !p->by_heads) {
		s->q = w->q;
		if (!keys_of(p))
			s->k = w->k;
	}

	find_first(p, s);
}

static void use_gates(const struct pass *p, struct block_saved *s, const struct block_work *w)
{
	if (!p->lean)
		return;

	s->gate = w->gate;
	s->up = w->up;
	if (p->o->experts && !has_homes(p)) {
		s->routing.gate = w->moe.gate;
		s->routing.up = w->moe.up;
	}
}

static uint64_t carve_forward(const struct pass *p, void *base, struct block_work *w)
{
	struct carver v = { (uintptr_t)base, products_work(p) };

	*w = (struct block_work){ .ln = take_rows(&v, p, p->C) };
	if (p->o->experts)
		moe_carve_forward(p, &v, &w->moe);
	else
		w->act = take_rows(&v, p, p->F);
	if (p->lean && !p->o->experts)
		carve_gates(p, &v, &w->gate, &w->up);
	carve_normed(p, &v, w);
	return v.used;
}

/* What the backward of attention leaves for that of the maps before it, which with slices is
 * another call. */
static int64_t held_width(const struct pass *p)
{
	if (in_one_row(p) || (p->joint_qkv && !p->sliced))
		return qkv_width(p);

	return p->H * p->D;
}

static void *take_held(struct carver *v, const struct pass *p)
{
	if (p->sliced)
		return p->c->held;

	return take_rows(v, p, held_width(p));
}

static void carve_dqkv(const struct pass *p, struct carver *v, struct block_work *w)
{
	void *held = take_held(v, p);

	w->held_dq = held;
	if (gradients_in_one_row(p)) {
		w->dqkv = held;
		if (queries_come_apart(p))
			w->dqkv = take_rows(v, p, qkv_width(p));
		split(p, w->dqkv, &w->dq, &w->dk, &w->dv);
		return;
	}

	w->dq = held;
	if (p->by_heads) /* before_backward() takes them apart */
		w->dq = take_rows(v, p, p->H * p->D);
	w->dk = take_rows(v, p, p->K * p->D);
	w->dv = take_rows(v, p, p->K * p->D);
}

/* What attention's backward uses lies where the feed-forward part's was; that one is done first. */
static uint64_t carve_gradients(const struct pass *p, struct carver at, struct block_work *w)
{
	struct carver ffn = at, att = at;

	if (p->o->experts) {
		moe_carve_backward(p, &ffn, &w->moe);
	} else if (gates_in_one_row(p)) {
		w->dgate = take_rows(&ffn, p, 2 * p->F);
		w->dup = skip(p, w->dgate, p->F);
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

	if (p->lean && !p->o->experts)
		carve_gates(p, &ffn, &w->gate, &w->up);
	carve_dqkv(p, &att, w);
	carve_normed(p, &att, w);
	return carver_max(ffn.used, att.used);
}

/* Whether a gradient is the sum of what several products give. */
static int inputs_are_several(const struct pass *p)
{
	if (p->o->experts || (has(p, GATE_W) && !p->joint_gates))
		return 1;

	return !has(p, QKV_W) && !p->joint_qkv;
}

/* ln, dln and sum lie where act was: it is used up before they are written. So is datt before
 * dln. Sums are fp32: dln itself where activations are. */
static uint64_t carve_backward(const struct pass *p, void *base, struct block_work *w)
{
	struct carver low = { (uintptr_t)base, products_work(p) }, high;
	struct block_saved s;
	int several = inputs_are_several(p);

	*w = (struct block_work){ 0 };
	low.used = carve_gradients(p, low, w);
	high = low;
	if (!p->o->experts)
		w->act = take_rows(&low, p, p->F);
	if (gates_in_one_row(p))
		w->dact = w->act; /* which becomes it */
	w->ln = take_rows(&high, p, p->C);
	w->dln = w->datt = take_rows(&high, p, p->C > p->H * p->D ? p->C : p->H * p->D);
	if (p->by_heads)
		w->datt = p->c->dattended;
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

/* Of queries, keys and values heads follow each other, or of all three together. */
static void heads_bytes(const struct pass *p, struct zr_layer_bytes *out)
{
	const int64_t queries = p->H * p->D, keys = p->K * p->D;

	out->section[0] = activations(p, p->f->qkv_by_head ? qkv_width(p) : queries);
	if (!p->f->qkv_by_head)
		out->section[1] = out->section[2] = activations(p, keys);
	out->attended = activations(p, p->N * queries);
	out->attend_kept = (uint64_t)(p->N * p->H / p->g->head_shares) * sizeof(float);
}

void block_bytes(const struct pass *p, struct zr_layer_bytes *out)
{
	struct block_saved s;
	struct block_work w;

	out->saved = carve_saved(p, NULL, &s);
	out->work_fwd = carve_forward(p, NULL, &w);
	out->work_bwd = carve_backward(p, NULL, &w);
	out->cache = cache_bytes(p, p->N);
	if (has_homes(p)) {
		out->experts_per_token = p->o->experts_per_token;
		out->expert_width = p->C;
		out->offsets_at = (uintptr_t)s.routing.offsets;
	}
	if (!p->sliced)
		return;

	if (p->by_heads)
		heads_bytes(p, out);
	out->keys = out->cache;
	out->key_sums = (uint64_t)(p->N * 2 * p->K * p->D) * sizeof(float);
	out->held = activations(p, p->N * held_width(p));
}

/* Of a block whose experts are placed attention comes before them, and its backward behind. */
static int begins_block(const struct pass *p)
{
	return !p->c->home || p->c->home->part == ZR_HOME_SORT;
}

static int ends_block(const struct pass *p)
{
	return !p->c->home || p->c->home->part == ZR_HOME_END;
}

int block_forward(const struct pass *p)
{
	struct block_saved s;
	struct block_work w;
	int rc;

	carve_saved(p, p->c->saved, &s);
	carve_forward(p, p->c->work, &w);
	use_normed(p, &s, &w);
	use_gates(p, &s, &w);
	if (!begins_block(p))
		return homes_forward(p, &s, &w);

	rc = attention_forward(p, &s, &w);
	if (rc || !(p->parts & ZR_PART_AFTER))
		return rc;
	if (has_homes(p))
		return homes_forward(p, &s, &w);
	if (p->o->experts)
		return moe_forward(p, &s, &w);
	if (!p->c->out)
		return ZR_OK;

	return ffn_forward(p, &s, &w);
}

/* The gradient of the residual path, to which both branches add. */
static int after_backward(const struct pass *p, const struct block_saved *s,
			  const struct block_work *w)
{
	int rc = ZR_OK;

	if (p->o->parallel && begins_block(p))
		rc = add(p, NULL, 1, p->c->grad, w->dout);
	if (rc)
		return rc;
	if (has_homes(p))
		rc = homes_backward(p, s, w);
	else if (p->o->experts)
		rc = moe_backward(p, s, w);
	else
		rc = ffn_backward(p, s, w);
	if (rc || !ends_block(p))
		return rc;

	return output_backward(p, s, w);
}

int block_backward(const struct pass *p)
{
	struct block_saved s;
	struct block_work w;
	int rc = ZR_OK;

	carve_saved(p, p->c->saved, &s);
	carve_backward(p, p->c->work, &w);
	use_normed(p, &s, &w);
	use_gates(p, &s, &w);
	if (p->parts & ZR_PART_AFTER)
		rc = after_backward(p, &s, &w);
	if (rc || !ends_block(p))
		return rc;
	if (p->parts & ZR_PART_ATTEND)
		rc = attend_backward(p, &s, &w);
	if (!rc && p->parts & ZR_PART_SUMS)
		rc = sums_backward(p, &s, &w);
	if (!rc && p->parts & ZR_PART_BEFORE)
		rc = before_backward(p, &s, &w);

	return rc;
}
