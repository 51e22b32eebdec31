/* SPDX-License-Identifier: Apache-2.0
 *
 * ffn.c - the feed-forward branch of a block:
 *
 *   out = x2 + drop(act Wdown + bdown),
 *   act = silu(norm(x2) Wgate) * (norm(x2) Wup)  with a gate (SwiGLU, Shazeer 2020),
 *         gelu(norm(x2) Wup + bup)               without
 */
#include "decoder.h"

static struct map map_down(const struct pass *p)
{
	return map_of(p, DOWN_W, DOWN_B, p->F, p->C);
}

/* The maps from norm(x2); dy is the backward's. */
static struct inputs inputs_of(const struct pass *p, const struct block_work *w)
{
	struct map up = map_of(p, UP_W, UP_B, p->C, p->F);
	if (!has(p, GATE_W))
		return (struct inputs){ 1, { up }, { w->dup } };
	return (struct inputs){ 2, { map_of(p, GATE_W, UP_B, p->C, p->F), up },
				{ w->dgate, w->dup } };
}

static int activate(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct inputs in = inputs_of(p, w);
	struct zr_op_swiglu op = { .size = sizeof op, .dtype = c->dtype, .n = p->N * p->F,
				   .gate = s->gate, .up = s->up, .out = w->act };
	int rc;
	if (in.n == 1)
		return linear(p, in.map[0], w->ln, w->act, s->up);
	if ((rc = linear(p, in.map[0], w->ln, s->gate, NULL)) ||
	    (rc = linear(p, in.map[1], w->ln, s->up, NULL)))
		return rc;
	return c->ops->swiglu(c->ops, c->stream, &op);
}

int ffn_forward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	int rc;
	if ((rc = norm(p, p->g->at[NORM2_W], s->x2, w->ln, s->stats2, p->N)) ||
	    (rc = activate(p, s, w)) || (rc = linear(p, map_down(p), w->act, c->out, NULL)))
		return rc;
	return residual(p, 2, s->x2, c->out, c->out);
}

/* act again, and from the gradient w.r.t. it, which is in w->dgate or w->dup, those w.r.t. what
 * the maps gave */
static int activate_backward(const struct pass *p, const struct block_saved *s,
			     const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_gelu_bwd gelu = { .size = sizeof gelu, .dtype = c->dtype, .n = p->N * p->F,
				       .dy = w->dup, .pre = s->up, .dx = w->dup, .act = w->act };
	struct zr_op_swiglu_bwd glu = { .size = sizeof glu, .dtype = c->dtype, .n = p->N * p->F,
					.dy = w->dgate, .gate = s->gate, .up = s->up,
					.dgate = w->dgate, .dup = w->dup, .act = w->act };
	return has(p, GATE_W) ? c->ops->swiglu_bwd(c->ops, c->stream, &glu) :
				c->ops->gelu_bwd(c->ops, c->stream, &gelu);
}

int ffn_backward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	struct inputs in = inputs_of(p, w);
	const void *dy;
	int rc, weight = p->g->at[NORM2_W];
	if ((rc = branch_gradient(p, 2, w, &dy)) ||
	    (rc = linear_dx(p, map_down(p), dy, has(p, GATE_W) ? w->dgate : w->dup)) ||
	    (rc = activate_backward(p, s, w)) ||
	    (rc = linear_dw(p, map_down(p), w->act, dy)) ||
	    (rc = norm(p, weight, s->x2, w->ln, s->stats2, p->N)) ||
	    (rc = inputs_backward(p, &in, w->ln, w->sum, w->dln)))
		return rc;
	return norm_bwd(p, weight, w->dln, s->x2, s->stats2, w->ops);
}
