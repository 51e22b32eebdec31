/* SPDX-License-Identifier: Apache-2.0
 *
 * homes.c - the branch of moe.c where ranks divide the experts (struct zr_home_call): each row goes
 * to the rank that has its expert, and what the expert makes of it comes back. Tokens are taken in
 * rounds, of which each is one chunk of the sums over tokens (ZR_EXPERT_CHUNK), so that a round
 * leaves what one chunk of a call for all tokens would.
 *
 * Nothing is kept where the experts are: the backward sends the rows of y again, with those of the
 * gradients, and gate and up are computed again there.
 */
#include "experts.h"

#if ZR_HOME_ROUND != ZR_EXPERT_CHUNK
#error "a round is one chunk of the gradients of experts"
#endif

/* ---- rows of this rank's tokens ---- */

/* Place of the first of the round's. */
static int64_t first_place(const struct pass *p)
{
	return p->c->home->first * p->o->experts_per_token;
}

static int64_t round_tokens(const struct pass *p, int64_t first)
{
	const int64_t left = p->N - first;
	return left < ZR_HOME_ROUND ? left : ZR_HOME_ROUND;
}

/* The routing of each round's tokens by themselves. The sums of the routers' losses are those of
 * all tokens together, whose logits are then made once more. */
static int sort(const struct pass *p, const struct routing *r, const void *x)
{
	const struct zr_layer_call *c = p->c;
	const int64_t E = p->o->experts, k = p->o->experts_per_token, rounds = moe_rounds(p);
	struct zr_op_route op = moe_route_op(p, r, c->out != NULL);

	int rc = moe_logits(p, r, x);
	if (!rc && (rounds == 1 || op.sums))
		rc = c->ops->route(c->ops, c->stream, &op);
	if (rc || rounds == 1)
		return rc;

	if (op.sums)
		rc = moe_logits(p, r, x);
	op = moe_route_op(p, r, 0);
	for (int64_t i = 0; !rc && i < rounds; i++) {
		const int64_t first = i * ZR_HOME_ROUND;
		struct zr_op_route one = op;
		one.rows = round_tokens(p, first);
		one.logits += first * E;
		one.lse += first;
		one.ids += first * k;
		one.weights += first * k;
		one.offsets += i * (E + 1);
		one.order += first * k;
		one.where += first * k;
		if (one.targets)
			one.targets += first;
		rc = c->ops->route(c->ops, c->stream, &one);
	}

	return rc;
}

/* out[s] = x[order[s] / k] of so many rows */
static int pick(const struct pass *p, int32_t dtype, int64_t rows, int64_t k, int64_t width,
		const int32_t *order, const void *x, void *out)
{
	struct zr_op_expert_rows op = { .size = sizeof op,
					.dtype = dtype,
					.rows = rows,
					.k = k,
					.width = width,
					.order = order,
					.x = x,
					.out = out };

	return p->c->ops->expert_rows(p->c->ops, p->c->stream, &op);
}

/* The round's rows of x, in the order of its places. */
static int send(const struct pass *p, const struct routing *r, const void *x, void *out)
{
	const struct zr_home_call *h = p->c->home;

	return pick(p, p->c->dtype, h->tokens, p->o->experts_per_token, p->C,
		    r->order + first_place(p), skip(p, x, h->first * p->C), out);
}

/* A number of each of the round's places, in another order. */
static int reorder(const struct pass *p, const int32_t *order, const float *from, float *to)
{
	const int64_t places = p->c->home->tokens * p->o->experts_per_token;

	return pick(p, ZR_F32, places, 1, 1, order + first_place(p), from, to);
}

/* The sum over a token's places, weighed where there are weights, of what came back. */
static int take_back(const struct pass *p, const struct routing *r, int32_t dtype,
		     const float *weights, void *out)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_expert_combine op = { .size = sizeof op,
					   .dtype = dtype,
					   .out_dtype = dtype,
					   .rows = c->home->tokens,
					   .k = p->o->experts_per_token,
					   .width = p->C,
					   .where = r->where + first_place(p),
					   .weights = weights,
					   .y = c->home->back,
					   .out = out };

	return c->ops->expert_combine(c->ops, c->stream, &op);
}

/* ---- rows that came ---- */

static struct expert_rows rows_that_came(const struct pass *p, const struct moe_work *m)
{
	const struct zr_home_call *h = p->c->home;

	return (struct expert_rows){ .rows = h->came,
				     .groups = (int64_t)h->ranks * h->here,
				     .first = (int64_t)h->rank * h->here,
				     .experts = h->here,
				     .k = 1,
				     .offsets = h->offsets,
				     .later = h->later,
				     .gate = m->gate,
				     .up = m->up };
}

static int compute(const struct pass *p, const struct moe_work *m)
{
	const struct zr_home_call *h = p->c->home;
	const struct expert_rows at = rows_that_came(p, m);

	return experts_forward(p, &at, h->rows, m->act, h->made);
}

/* Without rows, too: gradients of experts that no token has are 0. */
static int compute_backward(const struct pass *p, const struct moe_work *m)
{
	const struct zr_home_call *h = p->c->home;
	const struct expert_rows at = rows_that_came(p, m);

	int rc = experts_gate_up(p, &at, h->rows);
	if (!rc)
		rc = experts_backward_down(p, &at, m, h->grads, h->weights, h->made_weights);
	if (!rc)
		rc = experts_backward_inputs(p, &at, m, h->rows, h->made);

	return rc;
}

/* ---- parts ---- */

int homes_forward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	const struct routing *r = &s->routing;
	int rc;

	switch (c->home->part) {
	case ZR_HOME_SORT:
		rc = norm(p, p->g->at[NORM2_W], s->x2, w->ln, s->stats2, p->N);
		if (rc)
			return rc;
		return sort(p, r, w->ln);
	case ZR_HOME_SEND:
		return send(p, r, w->ln, c->home->sent_rows);
	case ZR_HOME_HOME:
		return compute(p, &w->moe);
	case ZR_HOME_TAKE:
		return take_back(p, r, c->dtype, r->weights + first_place(p),
				 skip(p, c->out, c->home->first * p->C));
	default:
		return residual(p, 2, s->x2, c->out, c->out);
	}
}

static int sort_backward(const struct pass *p, const struct block_saved *s,
			 const struct block_work *w)
{
	const void *dy;

	int rc = branch_gradient(p, 2, AFTER2_W, NULL, NULL, w, &dy);
	if (rc)
		return rc;

	return norm(p, p->g->at[NORM2_W], s->x2, w->ln, s->stats2, p->N);
}

static int send_backward(const struct pass *p, const struct routing *r, const struct block_work *w)
{
	const struct zr_home_call *h = p->c->home;

	int rc = send(p, r, w->ln, h->sent_rows);
	if (!rc)
		rc = send(p, r, branch_gradient_at(p, w), h->sent_grads);
	if (rc)
		return rc;

	return reorder(p, r->order, r->weights + first_place(p), h->sent_weights);
}

static int take_back_backward(const struct pass *p, const struct routing *r,
			      const struct block_work *w)
{
	int rc = reorder(p, r->where, p->c->home->back_weights, w->moe.dweights + first_place(p));
	if (rc)
		return rc;

	return take_back(p, r, ZR_F32, NULL, w->sum + p->c->home->first * p->C);
}

int homes_backward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct routing *r = &s->routing;
	int rc;

	switch (p->c->home->part) {
	case ZR_HOME_SORT:
		return sort_backward(p, s, w);
	case ZR_HOME_SEND:
		return send_backward(p, r, w);
	case ZR_HOME_HOME:
		return compute_backward(p, &w->moe);
	case ZR_HOME_TAKE:
		return take_back_backward(p, r, w);
	default:
		rc = moe_router_backward(p, r, &w->moe, w->ln, w->sum);
		if (rc)
			return rc;
		return moe_input_gradient(p, s, w);
	}
}
