/* SPDX-License-Identifier: Apache-2.0
 *
 * moe.c - the feed-forward branch of a block as a mixture of E experts, k of them for each token:
 *
 *   out = x2 + drop(sum over j < k of weight_j expert_j(y)),    y = norm(x2)
 *   expert(y) = (silu(y Wgate) * (y Wup)) Wdown
 *   weights of the k largest softmax(y Wrouter)
 *
 * Places, tokens sorted by expert, are the rows of what experts compute (zeroth/experts.h). Kept
 * from the forward: the routing, and gate and up of all places.
 *
 * The losses of the routers are added to the mean loss of the step's targets, each micro-batch's by
 * its share of the micro-batches. They are made of sums over the tokens of all blocks but padding,
 * as transformers does it: sums go from block to block
 * behind the activations, to the head, which gives the losses; and behind gradients each expert's
 * share of the places comes back.
 */
#include "decoder.h"

static int64_t places(const struct pass *p)
{
	return p->N * p->o->experts_per_token;
}

/* `columns` activations of each place. */
static void *take_places(struct carver *v, const struct pass *p, int64_t columns)
{
	return carver_take(v, activations(p, places(p) * columns));
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

void *moe_behind(const struct pass *p, const void *rows)
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

int moe_losses(const struct pass *p)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_router_losses op = { .size = sizeof op,
					  .blocks = p->o->layers,
					  .experts = p->o->experts,
					  .balance = (float)p->o->router_aux_loss_coef,
					  .z = (float)p->o->router_z_loss_coef,
					  .sums = moe_behind(p, c->in),
					  .share = moe_behind(p, c->grad),
					  .loss = c->loss_sum + 1 };

	if (op.sums)
		return c->ops->router_losses(c->ops, c->stream, &op);

	return ZR_OK;
}

void moe_carve_saved(const struct pass *p, struct carver *v, struct routing *r)
{
	int64_t E = p->o->experts;

	r->p = take_words(v, p->N * E);
	r->lse = take_words(v, p->N);
	r->weights = take_words(v, places(p));
	r->ids = take_words(v, places(p));
	r->offsets = take_words(v, E + 1);
	r->order = take_words(v, places(p));
	r->where = take_words(v, places(p));
	r->gate = take_places(v, p, p->F);
	r->up = take_places(v, p, p->F);
}

void moe_carve_forward(const struct pass *p, struct carver *v, struct moe_work *m)
{
	m->x = m->y = take_places(v, p, p->C); /* x is used up when y is made */
	m->act = take_places(v, p, p->F);
}

/* dx lies where act was, x where dy was: each is used up before. */
void moe_carve_backward(const struct pass *p, struct carver *v, struct moe_work *m)
{
	struct carver act = *v, dx = *v;

	m->act = take_places(&act, p, p->F);
	m->dx = take_words(&dx, places(p) * p->C);
	v->used = carver_max(act.used, dx.used);
	m->x = m->dy = take_places(v, p, p->C);
	m->dgate = take_places(v, p, p->F);
	m->dup = take_places(v, p, p->F);
	m->dweights = take_words(v, places(p));
	m->dlogits = take_words(v, p->N * p->o->experts);
}

/* ---- products ---- */

static int parameter(const struct pass *p, int64_t expert, enum expert_tensor t)
{
	return p->g->n_block + (int)expert * EXPERT_TENSORS + (int)t;
}

/* y = or += W x, or with `back` W^T x, for each place, of `from` and of `to` columns */
static int multiply(const struct pass *p, const struct routing *r, enum expert_tensor t, int back,
		    int64_t from, int64_t to, const void *x, void *y, int32_t dtype, int add)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_matmul_grouped op = { .size = sizeof op,
					   .flags = (back ? 0 : ZR_MM_TRANS_B) |
						    (add ? ZR_MM_ACCUMULATE : 0),
					   .a_dtype = c->dtype,
					   .b_dtype = c->dtype,
					   .d_dtype = dtype,
					   .rows = places(p),
					   .experts = p->o->experts,
					   .n = to,
					   .k = from,
					   .offsets = r->offsets,
					   .a = x,
					   .d = y };

	for (int64_t e = 0; e < p->o->experts; e++)
		op.b[e] = c->param[parameter(p, e, t)];

	return c->ops->matmul_grouped(c->ops, c->stream, &op);
}

/* dW = or += dy^T x, of `rows` and of `cols` columns: for the experts that store, then for those
 * that add */
static int gradients(const struct pass *p, const struct routing *r, enum expert_tensor t,
		     int64_t rows, int64_t cols, const void *dy, const void *x)
{
	const struct zr_layer_call *c = p->c;
	int rc = ZR_OK;

	for (int add = 0; !rc && add < 2; add++) {
		struct zr_op_matmul_grouped_dw op = { .size = sizeof op,
						      .flags = add ? ZR_OP_ACCUMULATE : 0,
						      .dtype = c->dtype,
						      .rows = places(p),
						      .experts = p->o->experts,
						      .m = rows,
						      .n = cols,
						      .k = p->o->experts_per_token,
						      .offsets = r->offsets,
						      .order = r->order,
						      .dy = dy,
						      .x = x };
		int wanted = 0;
		for (int64_t e = 0; e < p->o->experts; e++) {
			int i = parameter(p, e, t);
			if (!c->accumulate[i] == !add)
				op.dw[e] = c->dparam[i];
			else
				op.dw[e] = NULL;
			wanted |= op.dw[e] != NULL;
		}

		if (wanted)
			rc = c->ops->matmul_grouped_dw(c->ops, c->stream, &op);
	}

	return rc;
}

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

static int route(const struct pass *p, const struct routing *r, const void *x)
{
	const struct zr_layer_call *c = p->c;
	int64_t E = p->o->experts;
	struct zr_op_matmul logits = { .size = sizeof logits,
				       .flags = ZR_MM_TRANS_B |
						(c->flags & ZR_CALL_EACH_ROW ? ZR_MM_EACH_ROW : 0),
				       .a_dtype = c->dtype,
				       .b_dtype = c->dtype,
				       .d_dtype = ZR_F32,
				       .m = p->N,
				       .n = E,
				       .k = p->C,
				       .lda = p->C,
				       .ldb = p->C,
				       .ldd = E,
				       .a = x,
				       .b = c->param[p->g->at[ROUTER_W]],
				       .d = r->p };
	struct zr_op_route op = { .size = sizeof op,
				  .flags = route_flags(p),
				  .rows = p->N,
				  .experts = E,
				  .k = p->o->experts_per_token,
				  .logits = r->p,
				  .lse = r->lse,
				  .ids = r->ids,
				  .weights = r->weights,
				  .offsets = r->offsets,
				  .order = r->order,
				  .where = r->where,
				  .before = moe_behind(p, c->in),
				  .sums = moe_behind(p, c->out),
				  .targets = c->targets };
	int rc = c->ops->matmul(c->ops, c->stream, &logits);

	if (rc)
		return rc;

	return c->ops->route(c->ops, c->stream, &op);
}

static int activate(const struct pass *p, const struct routing *r, void *act)
{
	struct zr_op_swiglu op = { .size = sizeof op,
				   .dtype = p->c->dtype,
				   .n = places(p) * p->F,
				   .gate = r->gate,
				   .up = r->up,
				   .out = act };

	return p->c->ops->swiglu(p->c->ops, p->c->stream, &op);
}

int moe_forward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	const struct routing *r = &s->routing;
	const struct moe_work *m = &w->moe;
	int32_t t = c->dtype;
	struct zr_op_expert_combine sum = { .size = sizeof sum,
					    .dtype = t,
					    .out_dtype = t,
					    .rows = p->N,
					    .k = p->o->experts_per_token,
					    .width = p->C,
					    .where = r->where,
					    .weights = r->weights,
					    .y = m->y,
					    .out = c->out };
	int rc;

	if ((rc = norm(p, p->g->at[NORM2_W], s->x2, w->ln, s->stats2, p->N)) ||
	    (rc = route(p, r, w->ln)) || (rc = gather(p, r, w->ln, m->x)) ||
	    (rc = multiply(p, r, EXPERT_GATE_W, 0, p->C, p->F, m->x, r->gate, t, 0)) ||
	    (rc = multiply(p, r, EXPERT_UP_W, 0, p->C, p->F, m->x, r->up, t, 0)) ||
	    (rc = activate(p, r, m->act)) ||
	    (rc = multiply(p, r, EXPERT_DOWN_W, 0, p->F, p->C, m->act, m->y, t, 0)) ||
	    (rc = c->ops->expert_combine(c->ops, c->stream, &sum)))
		return rc;

	return residual(p, 2, s->x2, c->out, c->out);
}

/* ---- backward ---- */

/* dW of the maps down; the gradients w.r.t. gate, up and the weights, from dy of the branch */
static int experts_backward(const struct pass *p, const struct routing *r, const struct moe_work *m,
			    const void *dy)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_expert_weigh weigh = { .size = sizeof weigh,
					    .dtype = c->dtype,
					    .places = places(p),
					    .width = p->F,
					    .order = r->order,
					    .weights = r->weights,
					    .x = m->act,
					    .dy = m->dgate,
					    .dweights = m->dweights };
	struct zr_op_swiglu_bwd glu = { .size = sizeof glu,
					.dtype = c->dtype,
					.n = places(p) * p->F,
					.dy = m->dgate,
					.gate = r->gate,
					.up = r->up,
					.dgate = m->dgate,
					.dup = m->dup };
	int rc;

	if ((rc = gather(p, r, dy, m->dy)) ||
	    (rc = multiply(p, r, EXPERT_DOWN_W, 1, p->C, p->F, m->dy, m->dgate, c->dtype, 0)) ||
	    (rc = activate(p, r, m->act)) ||
	    (rc = c->ops->expert_weigh(c->ops, c->stream, &weigh)) ||
	    (rc = gradients(p, r, EXPERT_DOWN_W, p->C, p->F, m->dy, m->act)))
		return rc;

	return c->ops->swiglu_bwd(c->ops, c->stream, &glu);
}

/* dW of the maps gate and up; sum = the gradient w.r.t. y by way of the experts */
static int inputs_of_experts_backward(const struct pass *p, const struct routing *r,
				      const struct moe_work *m, const void *y, float *sum)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_expert_combine add = { .size = sizeof add,
					    .dtype = ZR_F32,
					    .out_dtype = ZR_F32,
					    .rows = p->N,
					    .k = p->o->experts_per_token,
					    .width = p->C,
					    .where = r->where,
					    .y = m->dx,
					    .out = sum };
	int rc;

	if ((rc = gather(p, r, y, m->x)) ||
	    (rc = gradients(p, r, EXPERT_GATE_W, p->F, p->C, m->dgate, m->x)) ||
	    (rc = gradients(p, r, EXPERT_UP_W, p->F, p->C, m->dup, m->x)) ||
	    (rc = multiply(p, r, EXPERT_GATE_W, 1, p->F, p->C, m->dgate, m->dx, ZR_F32, 0)) ||
	    (rc = multiply(p, r, EXPERT_UP_W, 1, p->F, p->C, m->dup, m->dx, ZR_F32, 1)))
		return rc;

	return c->ops->expert_combine(c->ops, c->stream, &add);
}

/* dW of the router; sum += the gradient w.r.t. y by way of it */
static int router_backward(const struct pass *p, const struct routing *r, const struct moe_work *m,
			   const void *y, float *sum)
{
	const struct zr_layer_call *c = p->c;
	int64_t E = p->o->experts;
	int weight = p->g->at[ROUTER_W], rc;
	float loss = c->aux_scale / (float)p->o->layers;
	struct zr_op_route_bwd op = { .size = sizeof op,
				      .flags = route_flags(p),
				      .rows = p->N,
				      .experts = E,
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
	struct zr_op_matmul dx = { .size = sizeof dx,
				   .flags = ZR_MM_ACCUMULATE,
				   .a_dtype = ZR_F32,
				   .b_dtype = c->dtype,
				   .d_dtype = ZR_F32,
				   .m = p->N,
				   .n = p->C,
				   .k = E,
				   .lda = E,
				   .ldb = p->C,
				   .ldd = p->C,
				   .a = m->dlogits,
				   .b = c->param[weight],
				   .d = sum };
	struct zr_op_matmul dw = { .size = sizeof dw,
				   .flags = ZR_MM_TRANS_A |
					    (c->accumulate[weight] ? ZR_MM_ACCUMULATE : 0),
				   .a_dtype = ZR_F32,
				   .b_dtype = c->dtype,
				   .d_dtype = ZR_F32,
				   .m = E,
				   .n = p->C,
				   .k = p->N,
				   .lda = E,
				   .ldb = p->C,
				   .ldd = p->C,
				   .a = m->dlogits,
				   .b = y,
				   .d = c->dparam[weight] };

	if ((rc = c->ops->route_bwd(c->ops, c->stream, &op)) ||
	    (rc = c->ops->matmul(c->ops, c->stream, &dx)) || !dw.d)
		return rc;

	return c->ops->matmul(c->ops, c->stream, &dw);
}

int moe_backward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	const struct routing *r = &s->routing;
	struct zr_op_cast round = { .size = sizeof round,
				    .dst_dtype = c->dtype,
				    .src_dtype = ZR_F32,
				    .n = p->N * p->C,
				    .src = w->sum,
				    .dst = w->dln };
	const void *dy;
	int rc;

	if ((rc = branch_gradient(p, 2, AFTER2_W, NULL, NULL, w, &dy)) ||
	    (rc = experts_backward(p, r, &w->moe, dy)) ||
	    (rc = norm(p, p->g->at[NORM2_W], s->x2, w->ln, s->stats2, p->N)) ||
	    (rc = inputs_of_experts_backward(p, r, &w->moe, w->ln, w->sum)) ||
	    (rc = router_backward(p, r, &w->moe, w->ln, w->sum)) ||
	    (rc = is16(p) ? c->ops->cast(c->ops, c->stream, &round) : ZR_OK))
		return rc;

	return input_gradient(p, NORM2_W, s->x2, s->stats2, w);
}
