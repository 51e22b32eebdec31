/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.c - one use of the schedule: the model's forward or backward of a layer, with the places of its parameters,
 * gradients and activations. A recompute is a forward like the first: the same inputs, the same random numbers (I1).
 * Activations that wait in another tier move beside the uses.
 */
#include "core/route.h"
#include "core/replay.h"
#include "core/tier.h"

static void point_tensors(struct zr_session *s, int32_t layer)
{
	const struct zr_setup *p = s->setup;
	struct zr_layer_tensors *t = &s->layer[layer];
	for (int32_t i = 0; i < t->n; i++) {
		const struct zr_place *place = &p->layout.tensor[t->tensor[i]];
		t->param[i] = s->full[place->unit] + place->offset * zr_dtype_bytes(p->types.dtype);
		t->dparam[i] = NULL;
		if (p->mode == ZR_SETUP_SAMPLE || p->frozen_unit[place->unit])
			continue;
		t->dparam[i] = (float *)(p->plan.direct ? zr_at(s, p->plan.unit[place->unit].grad) :
							  s->region[ZR_R_GRAD_BUFFER] + s->program->grad_buffer[place->unit]) +
			       place->offset;
	}
}

int zr_run_layer(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	const struct zr_model_v1 *model = p->model.vtbl;
	int eval = s->program->id == ZR_PROG_EVAL;
	const struct zr_use *use = zr_pop_use(p, s->program, op);
	const struct zr_use_place *place = &(eval ? &p->eval_act : &p->train_act)->use[op->use];
	int backward = use->phase == ZR_BACKWARD;
	char *act = s->region[ZR_R_ACT];
	struct zr_layer_call *c = &s->call;
	int32_t l = use->layer;
	point_tensors(s, l);
	c->layer = l;
	c->in = l > 0 ? act + place->in : NULL;
	c->out = backward ? NULL : act + place->out;
	c->saved = act + place->saved;
	c->work = s->region[ZR_R_WORK];
	c->grad = s->region[ZR_R_WORK] + p->plan.work_bytes;
	c->param = s->layer[l].param;
	c->dparam = s->layer[l].dparam;
	c->accumulate = s->layer[l].accumulate;
	int rc = backward ? model->backward(p->model.inst, c) : model->forward(p->model.inst, c);
	return zr_user_failed(s, &p->model, rc, "layer");
}

int zr_begin_move(struct zr_session *s, const struct zr_pop *op, int32_t leg)
{
	const struct zr_act_move *m = &s->setup->train_act.move[op->use];
	struct zr_spot far = { .region = ZR_R_ACT_FAR, .at = m->far };
	char *near = s->region[ZR_R_ACT] + m->near, *slot = s->region[ZR_R_SLOT] + op->slot;
	char *memory = zr_route_move(s->setup, m->back).slot ? slot : near;
	uint64_t *ticket = &s->posted[zr_number_of(s, op)];
	if (leg == ZR_L_COPY)
		return zr_copy_start(s, m->back ? near : slot, m->back ? slot : near, m->bytes, ticket);
	return m->back ? zr_read(s, far, memory, m->bytes, ticket) : zr_write(s, far, memory, m->bytes, ticket);
}

int zr_end_move(struct zr_session *s, const struct zr_pop *op, int32_t leg)
{
	uint64_t ticket = s->posted[zr_number_of(s, op)];
	return leg == ZR_L_COPY ? zr_copied(s, ticket) : zr_moved(s, ZR_R_ACT_FAR, ticket);
}
