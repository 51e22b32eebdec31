/* SPDX-License-Identifier: Apache-2.0
 *
 * ffn.c - the feed-forward branch of a block:
 *
 *   out = x2 + drop(gain norm(act Wdown + bdown)),
 *   act = f(y Wgate + bgate) * (y Wup + bup)  with a gate (SwiGLU, GeGLU, Shazeer 2020),
 *         f(y Wup + bup)                      without
 *
 * y = norm(x2), where the block has parallel branches norm(x) of the block's input x; f is SiLU or
 * a form of GELU.
 */
#include "decoder.h"

static struct map map_down(const struct pass *p)
{
	return map_of(p, DOWN_W, DOWN_B, p->F, p->C);
}

static int gated(const struct pass *p)
{
	return has(p, GATE_W) || has(p, GATE_UP_W);
}

/* The maps from y; dy is the backward's. */
static struct inputs inputs_of(const struct pass *p, const struct block_work *w)
{
	struct map up = map_of(p, UP_W, UP_B, p->C, p->F);
	if (gates_in_one_row(p))
		return (struct inputs){ 1,
					{ map_of(p, has(p, GATE_W) ? GATE_W : GATE_UP_W, UP_B, p->C,
						 2 * p->F) },
					{ w->dgate } };
	if (!has(p, GATE_W))
		return (struct inputs){ 1, { up }, { w->dup } };

	return (struct inputs){ 2,
				{ map_of(p, GATE_W, GATE_B, p->C, p->F), up },
				{ w->dgate, w->dup } };
}

/* What the branch reads, before its norm. */
static const void *source(const struct pass *p, const struct block_saved *s)
{
	if (p->o->parallel)
		return p->c->in;

	return s->x2;
}

/* y; w->ln has it where there is a norm. */
static const void *input(const struct pass *p, const struct block_saved *s,
			 const struct block_work *w)
{
	if (has(p, NORM2_W))
		return w->ln;

	return source(p, s);
}

static int norm_input(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	if (has(p, NORM2_W))
		return norm(p, p->g->at[NORM2_W], source(p, s), w->ln, s->stats2, p->N);

	return ZR_OK;
}

/* What the activation reads. */
static int open_gates(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct inputs in = inputs_of(p, w);
	const void *y = input(p, s, w);

	int rc = linear(p, in.map[0], y, gated(p) ? s->gate : s->up, NULL);
	if (rc || in.n == 1)
		return rc;

	return linear_again(p, in.map[1], y, s->up);
}

static int activate(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_swiglu op = { .size = sizeof op,
				   .dtype = c->dtype,
				   .activation = p->o->activation + 1,
				   .n = p->N * p->F,
				   .gate = s->gate,
				   .up = s->up,
				   .out = w->act };
	int rc;

	if (!gated(p))
		return linear(p, inputs_of(p, w).map[0], input(p, s, w), w->act, s->up);
	if (gates_in_one_row(p)) {
		op.width = p->F;
		op.stride = 2 * p->F;
	}

	rc = open_gates(p, s, w);
	if (rc)
		return rc;

	return c->ops->swiglu(c->ops, c->stream, &op);
}

int ffn_forward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	void *down = has(p, AFTER2_W) ? s->down : c->out;
	int rc;
	if ((rc = norm_input(p, s, w)) || (rc = activate(p, s, w)) ||
	    (rc = linear(p, map_down(p), w->act, down, NULL)))
		return rc;
	if (has(p, AFTER2_W))
		rc = norm(p, p->g->at[AFTER2_W], s->down, c->out, s->after_stats2, p->N);
	if (rc)
		return rc;

	return residual(p, 2, s->x2, c->out, c->out);
}

/* act again, and from the gradient w.r.t. it those w.r.t. what the maps gave */
static int activate_backward(const struct pass *p, const struct block_saved *s,
			     const struct block_work *w)
{
	const struct zr_layer_call *c = p->c;
	int32_t activation = p->o->activation + 1;
	struct zr_op_gelu_bwd gelu = { .size = sizeof gelu,
				       .dtype = c->dtype,
				       .activation = activation,
				       .n = p->N * p->F,
				       .dy = w->dact,
				       .pre = s->up,
				       .dx = w->dup,
				       .act = w->act };
	struct zr_op_swiglu_bwd glu = { .size = sizeof glu,
					.dtype = c->dtype,
					.activation = activation,
					.n = p->N * p->F,
					.dy = w->dact,
					.gate = s->gate,
					.up = s->up,
					.dgate = w->dgate,
					.dup = w->dup,
					.act = w->act };

	if (gates_in_one_row(p)) {
		glu.width = p->F;
		glu.stride = 2 * p->F;
	}

	if (gated(p))
		return c->ops->swiglu_bwd(c->ops, c->stream, &glu);

	return c->ops->gelu_bwd(c->ops, c->stream, &gelu);
}

static int open_gates_again(const struct pass *p, const struct block_saved *s,
			    const struct block_work *w)
{
	int rc = norm_input(p, s, w);
	if (rc)
		return rc;

	return open_gates(p, s, w);
}

int ffn_backward(const struct pass *p, const struct block_saved *s, const struct block_work *w)
{
	struct inputs in = inputs_of(p, w);
	const void *dy;
	int rc = ZR_OK;

	if (p->lean)
		rc = open_gates_again(p, s, w);
	if (rc || (rc = branch_gradient(p, 2, AFTER2_W, s->down, s->after_stats2, w, &dy)) ||
	    (rc = linear_dx(p, map_down(p), dy, w->dact)) || (rc = activate_backward(p, s, w)) ||
	    (rc = linear_dw(p, map_down(p), w->act, dy)) || (rc = norm_input(p, s, w)) ||
	    (rc = inputs_backward(p, &in, input(p, s, w), w->sum, w->dln)))
		return rc;

	return input_gradient(p, NORM2_W, source(p, s), s->stats2, w);
}
