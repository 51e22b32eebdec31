/* SPDX-License-Identifier: Apache-2.0
 *
 * clip.c - see clip.h. Of the query heads that share a key head, which has one factor, the largest
 * score counts for all, as in Megatron-LM. Biases are scaled as weights are: a query or key is
 * scaled as a whole.
 */
#include "core/update/clip.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/numbers.h"
#include "core/memory/tier.h"
#include "core/session.h"
#include "core/update/update.h"

/* What is said of the queries and keys that a tensor makes, NULL: nothing. */
static const struct zr_heads *heads_of(const struct zr_setup_facts *f, int32_t tensor)
{
	if (!ZR_TENSOR_HAS(&f->decl, attention))
		return NULL;
	return f->layout.tensor[tensor].decl->heads;
}

/* ---- setup ---- */

static int refuse(const struct zr_setup *s, struct zr_error *err, const char *why)
{
	return zr_config_blame(s->cfg, "train", ZR_EINVAL, err, "qk_clip: %s: set it to no", why);
}

static int refuse_norms(const struct zr_setup *s, const char *name, struct zr_error *err)
{
	char why[512];

	snprintf(why, sizeof why,
		 "[model] %s has norms of queries and keys, behind which no factor of %s changes a "
		 "score",
		 s->roles.model.section->plugin->desc->id, name);
	return refuse(s, err, why);
}

static int refuse_frozen(const struct zr_setup *s, const char *name, struct zr_error *err)
{
	char why[512];

	snprintf(why, sizeof why,
		 "%s is frozen, by [train] freeze or an [adapter], and is not scaled", name);
	return refuse(s, err, why);
}

static int check_tensor(const struct zr_setup *s, int32_t tensor, struct zr_error *err)
{
	const char *name = s->facts.layout.tensor[tensor].decl->name;
	const struct zr_heads *h = heads_of(&s->facts, tensor);

	if (h->flags & ZR_HEADS_NORMED)
		return refuse_norms(s, name, err);
	if (s->facts.frozen[tensor])
		return refuse_frozen(s, name, err);
	return 0;
}

static int can_scale(const struct zr_ops *ops)
{
	return ZR_HAS(ops, struct zr_ops, scale_heads) && ops->scale_heads;
}

int zr_clip_check(const struct zr_setup *s, struct zr_error *err)
{
	int known = 0;

	if (s->facts.mode != ZR_MODE_TRAIN || !s->facts.train->qk_clip)
		return 0;

	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++) {
		if (!heads_of(&s->facts, i))
			continue;
		int rc = check_tensor(s, i, err);
		if (rc)
			return rc;
		known = 1;
	}

	if (!known)
		return refuse(s, err,
			      "the plugin of [model] does not say what makes queries and keys");
	if (!can_scale(s->roles.ops) || !can_scale(s->roles.host_ops))
		return refuse(s, err, "the plugin of [device] has no operation scale_heads");
	return 0;
}

/* What a tensor says of the heads of its layer, of which another one may have said it. */
static void place_heads(const struct zr_setup_facts *f, int32_t tensor, struct zr_clip_plan *p)
{
	const struct zr_heads *h = heads_of(f, tensor);
	if (!h)
		return;

	struct zr_clip_layer *l = &p->layer[f->layout.tensor[tensor].decl->attention];
	if (l->heads)
		return;

	l->heads = h->heads;
	l->kv_heads = h->kv_heads;
	l->score = p->scores;
	l->factor = p->factors;

	p->scores += h->heads;
	p->factors += h->heads;
	p->factors += h->kv_heads;
}

int zr_clip_place(const struct zr_setup *s, struct zr_clip_plan *p, struct zr_error *err)
{
	const struct zr_setup_facts *f = &s->facts;

	if (f->mode != ZR_MODE_TRAIN || !f->train->qk_clip)
		return 0;

	p->layer = calloc(f->decl.n_layers, sizeof *p->layer);
	if (!p->layer)
		return zr_err(err, ZR_ENOMEM, "out of memory for %u layers", f->decl.n_layers);

	for (int32_t i = 0; i < f->layout.n_tensors; i++)
		place_heads(f, i, p);
	p->scores += p->scores % 2;
	return 0;
}

/* ---- a step ---- */

static float *largest(const struct zr_session *s)
{
	return zr_host_table(s, s->plan->clip.largest);
}

static float *factors(const struct zr_session *s)
{
	return zr_host_table(s, s->plan->scalars + s->plan->clip.factor);
}

/* Query heads that share a key head. */
static int32_t share_of(const struct zr_clip_layer *l)
{
	if (!l->heads)
		return 0;
	return l->heads / l->kv_heads;
}

static float largest_of(const float *score, int32_t n)
{
	float most = 0;

	for (int32_t k = 0; k < n; k++)
		if (score[k] > most)
			most = score[k];
	return most;
}

/* Of key head g and of its query heads. Where no score was above 0, eta is infinite. */
static void set_factors(const struct zr_clip_layer *l, int32_t g, double eta, double alpha,
			float *factor)
{
	const int32_t share = share_of(l);
	float query = 1, key = 1;

	if (eta < 1) {
		query = (float)pow(eta, alpha);
		key = (float)pow(eta, 1 - alpha);
	}

	for (int32_t k = 0; k < share; k++)
		factor[g * share + k] = query;
	factor[l->heads + g] = key;
}

static void decide_layer(const struct zr_session *s, const struct zr_clip_layer *l,
			 struct zr_step_result *r)
{
	const struct zr_train_opts *o = s->facts->train;
	const int32_t share = share_of(l);
	const float *score = largest(s) + l->score;

	for (int32_t g = 0; g < l->kv_heads; g++) {
		const double most = (double)largest_of(score + g * share, share);
		const double eta = o->qk_clip_threshold / most;

		set_factors(l, g, eta, o->qk_clip_alpha, factors(s) + l->factor);
		if (most > r->max_score)
			r->max_score = most;
		if (eta < 1 && r->action == ZR_STEP_APPLY)
			r->clipped_heads += share;
	}
}

void zr_clip_decide(struct zr_session *s, struct zr_step_result *r)
{
	const struct zr_clip_plan *p = &s->plan->clip;

	for (uint32_t i = 0; p->layer && i < s->facts->decl.n_layers; i++)
		decide_layer(s, &p->layer[i], r);
}

/* The layer whose queries or keys a tensor makes. */
static const struct zr_clip_layer *layer_of(const struct zr_session *s, int32_t tensor)
{
	return &s->plan->clip.layer[s->facts->layout.tensor[tensor].decl->attention];
}

/* Whether any head of a tensor is scaled in this step. */
static int is_clipped(const struct zr_session *s, int32_t tensor)
{
	if (!heads_of(s->facts, tensor))
		return 0;

	const struct zr_clip_layer *l = layer_of(s, tensor);
	const float *factor = factors(s) + l->factor;
	for (int32_t k = 0; k < l->heads + l->kv_heads; k++)
		if (factor[k] < 1)
			return 1;
	return 0;
}

/* Elements [first, first + n) of a tensor, in fp32, and the factors of its layer. */
struct part {
	const struct zr_ops *ops;
	int32_t tensor;
	int64_t first, n;
	float *x;
	const float *factor;
	struct zr_error *err;
};

static int scale(struct zr_session *s, const struct part *p, int64_t begin, int64_t apart,
		 int32_t heads, const float *factor)
{
	const struct zr_tensor *t = s->facts->layout.tensor[p->tensor].decl;
	struct zr_op_scale_heads op = { .size = sizeof op,
					.flags = t->map == ZR_MAP_IN_OUT ? ZR_SCALE_COLUMNS : 0,
					.n = p->n,
					.first = p->first,
					.width = t->ndim > 1 ? t->dims[1] : 1,
					.begin = begin,
					.apart = apart,
					.lines = t->heads->head_dim,
					.heads = heads,
					.factor = factor,
					.x = p->x };
	int rc = p->ops->scale_heads(p->ops, NULL, &op);
	return zr_op_failed(s, p->ops, rc, "scale_heads", p->err);
}

static int scale_part(struct zr_session *s, const struct part *p)
{
	const struct zr_clip_layer *l = layer_of(s, p->tensor);
	const struct zr_heads *h = heads_of(s->facts, p->tensor);
	int rc = 0;

	if (h->query >= 0)
		rc = scale(s, p, h->query, h->query_apart, l->heads, p->factor);
	if (!rc && h->key >= 0)
		rc = scale(s, p, h->key, h->key_apart, l->kv_heads, p->factor + l->heads);
	return rc;
}

/* Where the factors of a tensor's layer are behind scalars. */
static const float *factors_behind(const struct zr_session *s, const struct zr_scalars *scalars,
				   int32_t tensor)
{
	const char *all = (const char *)scalars + s->plan->clip.factor;

	return (const float *)(const void *)all + layer_of(s, tensor)->factor;
}

int zr_clip_whole(struct zr_session *s, const struct zr_ops *ops, int32_t tensor, float *matrix,
		  const struct zr_scalars *scalars, struct zr_error *err)
{
	if (!s->plan->clip.layer || !is_clipped(s, tensor))
		return 0;

	const struct part p = { ops,    tensor,
				0,      s->facts->layout.tensor[tensor].elements,
				matrix, factors_behind(s, scalars, tensor),
				err };
	return scale_part(s, &p);
}

/* Of s->seg, which lie in x. */
static int scale_segments(struct zr_session *s, const struct zr_opt_data *d, uint64_t segments,
			  float *x)
{
	int rc = 0;
	for (const struct zr_seg *g = s->seg; !rc && g < s->seg + segments; g++) {
		if (!is_clipped(s, g->param))
			continue;
		const struct part p = { d->kept.ops,  g->param,
					g->param_off, g->n,
					x + g->off,   factors_behind(s, d->scalars, g->param),
					d->err };
		rc = scale_part(s, &p);
	}
	return rc;
}

static int any_clipped(const struct zr_session *s, uint64_t segments)
{
	for (uint64_t k = 0; k < segments; k++)
		if (is_clipped(s, s->seg[k].param))
			return 1;
	return 0;
}

/* Blocks [at, at + n) of a sub-group whose masters are not kept in fp32. */
static int clip_chunk(struct zr_session *s, const struct zr_opt_data *d, int64_t at, int64_t n)
{
	const struct zr_subgroup *p = d->subgroup;
	uint64_t segments = zr_cut_segments(s, p->unit, p->first + at, n, s->seg);

	if (!any_clipped(s, segments))
		return 0;

	int rc = zr_master_get(s, p, &d->kept, at, n, d->chunk, d->err);
	if (!rc)
		rc = scale_segments(s, d, segments, d->chunk);
	if (rc)
		return rc;
	return zr_master_put(s, p, &d->kept, at, n, d->chunk, d->err);
}

/* Masters in fp32, where they lie; then the compute copy that follows from them. */
static int clip_in_place(struct zr_session *s, const struct zr_opt_data *d)
{
	const struct zr_subgroup *p = d->subgroup;
	float *x = (float *)(void *)d->kept.master;
	uint64_t segments = zr_cut_segments(s, p->unit, p->first, p->n, s->seg);

	if (!any_clipped(s, segments))
		return 0;

	int rc = scale_segments(s, d, segments, x);
	if (rc || !d->kept.lowp)
		return rc;
	if (zr_unit_dtype(s->facts, p->unit) == ZR_F32)
		return zr_copy(s, d->kept.lowp, x, (uint64_t)(p->n * ZR_BLOCK) * sizeof *x, d->err);
	return zr_master_convert(s, p, &d->kept, p->n, x, 1, d->err);
}

int zr_clip_subgroup(struct zr_session *s, const struct zr_opt_data *d)
{
	const int64_t n = d->subgroup->n;
	int rc = 0;

	if (!s->plan->clip.layer)
		return 0;
	if (!d->chunk)
		return clip_in_place(s, d);

	for (int64_t at = 0; !rc && at < n; at += ZR_CHUNK)
		rc = clip_chunk(s, d, at, zr_fewer(n - at, ZR_CHUNK));
	return rc;
}
