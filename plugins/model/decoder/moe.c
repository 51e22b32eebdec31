/* SPDX-License-Identifier: Apache-2.0
 *
 * moe.c - the feed-forward branch of a block as a mixture of E experts, k of them for each token:
 *
 *   out = x2 + drop(sum over j < k of weight_j expert_j(y)),    y = norm(x2)
 *   weights of the k largest softmax(y Wrouter)
 *
 * Places, tokens sorted by expert, are the rows of what experts compute (zeroth/experts.h). Kept
 * from the forward: the routing, and gate and up of all places. homes.c: the same with experts that
 * are divided among ranks.
 *
 * The losses of the routers are added to the mean loss of the step's targets, each micro-batch's by
 * its share of the micro-batches. They are made of sums over the tokens of all blocks but padding,
 * as transformers does it: sums go from block to block behind the activations, to the head, which
 * gives the losses; and behind gradients each expert's share of the places comes back. With slices
 * the head has the sums of all of them.
 */
#include "experts.h"

static int64_t places(const struct pass *p)
{
	return p->N * p->o->experts_per_token;
}

/* `columns` activations of each of so many rows. */
static void *take(struct carver *v, const struct pass *p, int64_t rows, int64_t columns)
{
	return carver_take(v, activations(p, rows * columns));
}

static void *take_words(struct carver *v, int64_t n)
{
	return carver_take(v, (uint64_t)n * 4);
}

int moe_has_losses(const struct decoder_opts *o)
{
	return o->experts && (o->router_aux_loss_coef > 0 || o->router_z_loss_coef > 0);
}

/* Sums of zr_op_router_losses, or shares, which need less room. */
uint64_t moe_bytes_behind(const struct pass *p)
{
	if (moe_has_losses(p->o))
		return (uint64_t)(2 * p->o->experts + 2) * sizeof(double);

	return 0;
}

static void *moe_behind(const struct pass *p, const void *rows)
{
	struct carver v = { (uintptr_t)rows, 0 };
	take_rows(&v, p, p->C);
	if (moe_has_losses(p->o) && p->c->training)
		return carver_take(&v, moe_bytes_behind(p));

	return NULL;
}

int moe_clear_sums(const struct pass *p)
{
	struct zr_op_init op = { .size = sizeof op,
				 .n = (int64_t)(moe_bytes_behind(p) / 4),
				 .dst = moe_behind(p, p->c->out) };
	if (op.dst)
		return p->c->ops->init(p->c->ops, p->c->stream, &op);

	return ZR_OK;
}

/* The sums of this call's rows, or of all slices. */
static const double *sums_of_all(const struct pass *p)
{
	if (p->g->slices > 1)
		return p->c->slot_sums;

	return moe_behind(p, p->c->in);
}

int moe_losses(const struct pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_router_losses op = { .size = sizeof op,
					  .blocks = p->o->layers,
					  .experts = p->o->experts,
					  .balance = (float)p->o->router_aux_loss_coef,
					  .z = (float)p->o->router_z_loss_coef,
					  .sums = sums_of_all(p),
					  .share = moe_behind(p, c->grad),
					  .loss = c->loss_sum + 1,
					  .parts = p->g->slices };

	if (op.sums)
		return c->ops->router_losses(c->ops, c->stream, &op);

	return ZR_OK;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t moe_rounds(const struct pass *p)
{
	if (!has_homes(p))
		return 1;

	return (p->N + ZR_HOME_ROUND - 1) / ZR_HOME_ROUND;
}

/* Rows that can come to a rank in a round: each token of each rank, to as many experts as it has,
 * and as are here. */
static int64_t most_rows(const struct pass *p)
{
	const int64_t here = p->o->experts / p->g->expert_ranks;

	return p->g->expert_ranks * least(p->N, ZR_HOME_ROUND) *
	       least(p->o->experts_per_token, here);
}

void moe_carve_saved(const struct pass *p, struct carver *v, struct routing *r)
{
	int64_t E = p->o->experts;

	r->p = take_words(v, p->N * E);
	r->lse = take_words(v, p->N);
	r->weights = take_words(v, places(p));
	r->ids = take_words(v, places(p));
	r->offsets = take_words(v, moe_rounds(p) * (E + 1));
	r->order = take_words(v, places(p));
	r->where = take_words(v, places(p));
	if (has_homes(p) || p->lean) {
		r->gate = r->up = NULL;
		return;
	}

	r->gate = take(v, p, places(p), p->F);
	r->up = take(v, p, places(p), p->F);
}

/* Of rows that came, where experts are divided. */
static void carve_came(const struct pass *p, struct carver *v, struct moe_work *m)
{
	m->gate = take(v, p, most_rows(p), p->F);
	m->up = take(v, p, most_rows(p), p->F);
	m->act = take(v, p, most_rows(p), p->F);
}

/* Of places, where they are not kept. */
static void carve_gates(const struct pass *p, struct carver *v, struct moe_work *m)
{
	if (!p->lean)
		return;

	m->gate = take(v, p, places(p), p->F);
	m->up = take(v, p, places(p), p->F);
}

void moe_carve_forward(const struct pass *p, struct carver *v, struct moe_work *m)
{
	if (has_homes(p)) {
		carve_came(p, v, m);
		return;
	}

	m->x = m->y = take(v, p, places(p), p->C); /* x is used up when y is made */
	m->act = take(v, p, places(p), p->F);
	carve_gates(p, v, m);
}

/* dx lies where act was, x where dy was: each is used up before. */
static void carve_backward(const struct pass *p, struct carver *v, struct moe_work *m)
{
	struct carver act = *v, dx = *v;

	m->act = take(&act, p, places(p), p->F);
	m->dx = take_words(&dx, places(p) * p->C);
	v->used = carver_max(act.used, dx.used);
	m->x = m->dy = take(v, p, places(p), p->C);
	m->dgate = take(v, p, places(p), p->F);
	m->dup = take(v, p, places(p), p->F);
	carve_gates(p, v, m);
}

void moe_carve_backward(const struct pass *p, struct carver *v, struct moe_work *m)
{
	if (has_homes(p)) {
		carve_came(p, v, m);
		m->dgate = take(v, p, most_rows(p), p->F);
		m->dup = take(v, p, most_rows(p), p->F);
	} else {
		carve_backward(p, v, m);
	}
	m->dweights = take_words(v, places(p));
	m->dlogits = take_words(v, p->N * p->o->experts);
}

/* ---- rows ---- */

static int gather(const struct pass *p, const struct routing *r, const void *x, void *out)
{
	struct zr_op_expert_rows op = { .size = sizeof op,
					.dtype = p->c->dtype,
					.rows = p->N,
					.k = p->o->experts_per_token,
					.width = p->C,
					.order = r->order,
					.x = x,
					.out = out };

	return p->c->ops->expert_rows(p->c->ops, p->c->stream, &op);
}

/* ---- forward ---- */

static uint32_t route_flags(const struct pass *p)
{
	return p->o->norm_topk_prob ? ZR_ROUTE_NORMALISE : 0;
}

/* The router's logits, in fp32 where its probabilities will be. */
int moe_logits(const struct pass *p, const struct routing *r, const void *x)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = ZR_MM_TRANS_B,
				   .m = p->N,
				   .n = p->o->experts,
				   .k = p->C,
				   .lda = p->C,
				   .ldb = p->C,
				   .ldd = p->o->experts,
				   .a = zr_array_at(c->dtype, x),
				   .b = zr_array_at(c->dtype, c->param[p->g->at[ROUTER_W]]),
				   .d = zr_array_at(ZR_F32, r->p) };

	if (c->flags & ZR_CALL_EACH_ROW)
		op.flags |= ZR_MM_EACH_ROW;
	return c->ops->matmul(c->ops, c->stream, &op);
}

struct zr_op_route moe_route_op(const struct pass *p, const struct routing *r, int behind)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_route op = { .size = sizeof op,
				  .flags = route_flags(p),
				  .rows = p->N,
				  .experts = p->o->experts,
				  .k = p->o->experts_per_token,
				  .logits = r->p,
				  .lse = r->lse,
				  .ids = r->ids,
				  .weights = r->weights,
				  .offsets = r->offsets,
				  .order = r->order,
				  .where = r->where,
				  .targets = c->targets };

	if (behind) {
		op.before = moe_behind(p, c->in);
		op.sums = moe_behind(p, c->out);
	}

	return op;
}

static int route(const struct pass *p, const struct routing *r, const void *x)
{
	const struct zr_layer_call *c = p->c;
	const struct zr_op_route op = moe_route_op(p, r, p->c->out != NULL);
	int rc = moe_logits(p, r, x);

	if (rc)
		return rc;

	return c->ops->route(c->ops, c->stream, &op);
}

/* Each token's sum of what its experts made, weighted. */
static int combine(const struct pass *p, const struct routing *r, const void *y, void *out)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_expert_combine op = { .size = sizeof op,
					   .dtype = c->dtype,
					   .out_dtype = c->dtype,
					   .rows = p->N,
					   .k = p->o->experts_per_token,
					   .width = p->C,
					   .where = r->where,
					   .weights = r->weights,
					   .y = y,
					   .out = out };

	return c->ops->expert_combine(c->ops, c->stream, &op);
}

int moe_forward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct routing *r = &s->routing;
	const struct moe_work *m = &w->moe;
	const struct expert_rows at = rows_of_places(p, r);
	void *out = p->c->out;

	int rc = norm(p, p->g->at[NORM2_W], s->x2, w->ln, s->stats2, p->N);
	if (!rc)
		rc = route(p, r, w->ln);
	if (rc || !out)
		return rc;

	rc = gather(p, r, w->ln, m->x);
	if (!rc)
		rc = experts_forward(p, &at, m->x, m->act, m->y);
	if (!rc)
		rc = combine(p, r, m->y, out);
	if (!rc)
		rc = residual(p, 2, s->x2, out, out);

	return rc;
}

/* ---- backward ---- */

/* The gradient w.r.t. the router's logits. */
static int logits_backward(const struct pass *p, const struct routing *r, const struct moe_work *m)
{
	const struct zr_layer_call *c = p->c;
	float loss = c->aux_scale / (float)p->o->layers;
	struct zr_op_route_bwd op = { .size = sizeof op,
				      .flags = route_flags(p),
				      .rows = p->N,
				      .experts = p->o->experts,
				      .k = p->o->experts_per_token,
				      .balance = (float)p->o->router_aux_loss_coef * loss,
				      .z = (float)p->o->router_z_loss_coef * loss,
				      .p = r->p,
				      .lse = r->lse,
				      .ids = r->ids,
				      .weights = r->weights,
				      .share = moe_behind(p, c->grad),
				      .dweights = m->dweights,
				      .dlogits = m->dlogits,
				      .targets = c->targets };

	return c->ops->route_bwd(c->ops, c->stream, &op);
}

/* dW of the router, from dlogits and its input y. */
static int router_gradient(const struct pass *p, const struct moe_work *m, const void *y)
{
	const struct zr_layer_call *c = p->c;
	const int64_t E = p->o->experts;
	const int weight = p->g->at[ROUTER_W];
	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = ZR_MM_TRANS_A,
				   .m = E,
				   .n = p->C,
				   .k = p->N,
				   .lda = E,
				   .ldb = p->C,
				   .ldd = p->C,
				   .a = zr_array_at(ZR_F32, m->dlogits),
				   .b = zr_array_at(c->dtype, y),
				   .d = zr_array_at(ZR_F32, c->dparam[weight]) };

	if (!op.d.data)
		return ZR_OK;
	if (c->accumulate[weight])
		op.flags |= ZR_MM_ACCUMULATE;
	return c->ops->matmul(c->ops, c->stream, &op);
}

int moe_router_backward(const struct pass *p, const struct routing *r, const struct moe_work *m,
			const void *y, float *sum)
{
	const struct zr_layer_call *c = p->c;
	const int64_t E = p->o->experts;
	struct zr_op_matmul dx = { .size = sizeof dx,
				   .flags = ZR_MM_ACCUMULATE,
				   .m = p->N,
				   .n = p->C,
				   .k = E,
				   .lda = E,
				   .ldb = p->C,
				   .ldd = p->C,
				   .a = zr_array_at(ZR_F32, m->dlogits),
				   .b = zr_array_at(c->dtype, c->param[p->g->at[ROUTER_W]]),
				   .d = zr_array_at(ZR_F32, sum) };

	int rc = logits_backward(p, r, m);
	if (!rc)
		rc = c->ops->matmul(c->ops, c->stream, &dx);
	if (!rc)
		rc = router_gradient(p, m, y);

	return rc;
}

int moe_input_gradient(const struct pass *p, const struct block_saved *s,
		       const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_cast round = { .size = sizeof round,
				    .n = p->N * p->C,
				    .src = zr_array_at(ZR_F32, w->sum),
				    .dst = zr_array_at(c->dtype, w->dln) };
	int rc = ZR_OK;

	if (is16(p))
		rc = c->ops->cast(c->ops, c->stream, &round);
	if (rc)
		return rc;

	return input_gradient(p, NORM2_W, s->x2, s->stats2, w);
}

/* sum [N, C] = for each token the sum over its places of dx */
static int sum_of_places(const struct pass *p, const struct routing *r, const float *dx, float *sum)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_expert_combine op = { .size = sizeof op,
					   .dtype = ZR_F32,
					   .out_dtype = ZR_F32,
					   .rows = p->N,
					   .k = p->o->experts_per_token,
					   .width = p->C,
					   .where = r->where,
					   .y = dx,
					   .out = sum };

	return c->ops->expert_combine(c->ops, c->stream, &op);
}

/* Of all places, where they were not kept. */
static int gates_again(const struct pass *p, const struct block_saved *s,
		       const struct block_work *w, const struct expert_rows *at)
{
	const struct moe_work *m = &w->moe;

	int rc = norm(p, p->g->at[NORM2_W], s->x2, w->ln, s->stats2, p->N);
	if (!rc)
		rc = gather(p, &s->routing, w->ln, m->x);
	if (rc)
		return rc;

	return experts_gate_up(p, at, m->x);
}

int moe_backward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct routing *r = &s->routing;
	const struct moe_work *m = &w->moe;
	const struct expert_rows at = rows_of_places(p, r);
	const void *dy = NULL;
	int rc = ZR_OK;

	if (p->lean)
		rc = gates_again(p, s, w, &at);
	if (!rc)
		rc = branch_gradient(p, 2, AFTER2_W, NULL, NULL, w, &dy);
	if (!rc)
		rc = gather(p, r, dy, m->dy);
	if (!rc)
		rc = experts_backward_down(p, &at, m, m->dy, r->weights, m->dweights);
	if (!rc)
		rc = norm(p, p->g->at[NORM2_W], s->x2, w->ln, s->stats2, p->N);
	if (!rc)
		rc = gather(p, r, w->ln, m->x);
	if (!rc)
		rc = experts_backward_inputs(p, &at, m, m->x, m->dx);
	if (!rc)
		rc = sum_of_places(p, r, m->dx, w->sum);
	if (!rc)
		rc = moe_router_backward(p, r, m, w->ln, w->sum);
	if (!rc)
		rc = moe_input_gradient(p, s, w);

	return rc;
}
