/* SPDX-License-Identifier: Apache-2.0
 *
 * experts.c - see experts.h. An expert is (silu(y Wgate) * (y Wup)) Wdown.
 */
#include "experts.h"

struct expert_rows rows_of_places(const struct pass *p, const struct routing *r)
{
	return (struct expert_rows){ .rows = p->N * p->o->experts_per_token,
				     .groups = p->o->experts,
				     .experts = p->o->experts,
				     .k = p->o->experts_per_token,
				     .offsets = r->offsets,
				     .order = r->order,
				     .gate = r->gate,
				     .up = r->up };
}

static int parameter(const struct pass *p, int64_t expert, enum expert_tensor t)
{
	return p->g->n_block + (int)expert * EXPERT_TENSORS + (int)t;
}

/* y = or += W x, or with `back` W^T x, for each row, of `from` and of `to` columns */
static int multiply(const struct pass *p, const struct expert_rows *at, enum expert_tensor t,
		    int back, int64_t from, int64_t to, const void *x, void *y, int32_t dtype,
		    int add)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_matmul_grouped op = { .size = sizeof op,
					   .flags = (back ? 0 : ZR_MM_TRANS_B) |
						    (add ? ZR_MM_ACCUMULATE : 0),
					   .b_dtype = c->dtype,
					   .rows = at->rows,
					   .experts = at->groups,
					   .n = to,
					   .k = from,
					   .offsets = at->offsets,
					   .a = zr_array_at(c->dtype, x),
					   .d = zr_array_at(dtype, y) };

	if (!at->rows)
		return ZR_OK;
	for (int64_t g = 0; g < at->groups; g++)
		op.b[g] = c->param[parameter(p, at->first + g % at->experts, t)];

	return c->ops->matmul_grouped(c->ops, c->stream, &op);
}

static int is_added(const struct pass *p, const struct expert_rows *at, int64_t group, int tensor)
{
	if (at->later)
		return at->later[group];

	return p->c->accumulate[tensor];
}

/* dW = or += dy^T x, of `rows` and of `cols` columns: for the groups that store, then for those
 * that add */
static int gradients(const struct pass *p, const struct expert_rows *at, enum expert_tensor t,
		     int64_t rows, int64_t cols, const void *dy, const void *x)
{
	const struct zr_layer_call *c = p->c;
	int rc = ZR_OK;

	for (int add = 0; !rc && add < 2; add++) {
		struct zr_op_matmul_grouped_dw op = { .size = sizeof op,
						      .flags = add ? ZR_OP_ACCUMULATE : 0,
						      .dtype = c->dtype,
						      .rows = at->rows,
						      .experts = at->groups,
						      .m = rows,
						      .n = cols,
						      .k = at->k,
						      .offsets = at->offsets,
						      .order = at->order,
						      .dy = dy,
						      .x = x };
		int wanted = 0;
		for (int64_t g = 0; g < at->groups; g++) {
			const int i = parameter(p, g, t);
			if (is_added(p, at, g, i) == add)
				op.dw[g] = c->dparam[i];
			wanted |= op.dw[g] != NULL;
		}

		if (wanted)
			rc = c->ops->matmul_grouped_dw(c->ops, c->stream, &op);
	}

	return rc;
}

static int activate(const struct pass *p, const struct expert_rows *at, void *act)
{
	struct zr_op_swiglu op = { .size = sizeof op,
				   .dtype = p->c->dtype,
				   .n = at->rows * p->F,
				   .gate = at->gate,
				   .up = at->up,
				   .out = act };

	if (!at->rows)
		return ZR_OK;
	return p->c->ops->swiglu(p->c->ops, p->c->stream, &op);
}

/* ---- forward ---- */

int experts_gate_up(const struct pass *p, const struct expert_rows *at, const void *x)
{
	const int32_t t = p->c->dtype;

	int rc = multiply(p, at, EXPERT_GATE_W, 0, p->C, p->F, x, at->gate, t, 0);
	if (!rc)
		rc = multiply(p, at, EXPERT_UP_W, 0, p->C, p->F, x, at->up, t, 0);

	return rc;
}

int experts_forward(const struct pass *p, const struct expert_rows *at, const void *x, void *act,
		    void *y)
{
	int rc = experts_gate_up(p, at, x);
	if (!rc)
		rc = activate(p, at, act);
	if (!rc)
		rc = multiply(p, at, EXPERT_DOWN_W, 0, p->F, p->C, act, y, p->c->dtype, 0);

	return rc;
}

/* ---- backward ---- */

/* The gradients w.r.t. a place's weight and, in m->dgate, w.r.t. what its expert made of it. */
static int weights_backward(const struct pass *p, const struct expert_rows *at,
			    const struct moe_work *m, const float *weights, float *dweights)
{
	const struct zr_layer_call *c = p->c;
	struct zr_op_expert_weigh op = { .size = sizeof op,
					 .dtype = c->dtype,
					 .places = at->rows,
					 .width = p->F,
					 .order = at->order,
					 .weights = weights,
					 .x = m->act,
					 .dy = m->dgate,
					 .dweights = dweights };

	if (!at->rows)
		return ZR_OK;
	return c->ops->expert_weigh(c->ops, c->stream, &op);
}

static int activate_backward(const struct pass *p, const struct expert_rows *at,
			     const struct moe_work *m)
{
	struct zr_op_swiglu_bwd op = { .size = sizeof op,
				       .dtype = p->c->dtype,
				       .n = at->rows * p->F,
				       .dy = m->dgate,
				       .gate = at->gate,
				       .up = at->up,
				       .dgate = m->dgate,
				       .dup = m->dup };

	if (!at->rows)
		return ZR_OK;
	return p->c->ops->swiglu_bwd(p->c->ops, p->c->stream, &op);
}

int experts_backward_down(const struct pass *p, const struct expert_rows *at,
			  const struct moe_work *m, const void *dy, const float *weights,
			  float *dweights)
{
	const int32_t t = p->c->dtype;

	int rc = multiply(p, at, EXPERT_DOWN_W, 1, p->C, p->F, dy, m->dgate, t, 0);
	if (!rc)
		rc = activate(p, at, m->act);
	if (!rc)
		rc = weights_backward(p, at, m, weights, dweights);
	if (!rc)
		rc = gradients(p, at, EXPERT_DOWN_W, p->C, p->F, dy, m->act);
	if (!rc)
		rc = activate_backward(p, at, m);

	return rc;
}

int experts_backward_inputs(const struct pass *p, const struct expert_rows *at,
			    const struct moe_work *m, const void *x, float *dx)
{
	int rc = gradients(p, at, EXPERT_GATE_W, p->F, p->C, m->dgate, x);
	if (!rc)
		rc = gradients(p, at, EXPERT_UP_W, p->F, p->C, m->dup, x);
	if (!rc)
		rc = multiply(p, at, EXPERT_GATE_W, 1, p->F, p->C, m->dgate, dx, ZR_F32, 0);
	if (!rc)
		rc = multiply(p, at, EXPERT_UP_W, 1, p->F, p->C, m->dup, dx, ZR_F32, 1);

	return rc;
}
