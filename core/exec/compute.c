/* SPDX-License-Identifier: Apache-2.0
 *
 * compute.c - what the model, the device's operations and the optimizers compute.
 */
#include "core/exec/exec.h"
#include "core/update/update.h"

/* ---- layers ---- */

/* Where the tensors of a layer's units are, and where their gradients go: two operands per unit. */
static void point_tensors(struct zr_session *s, const struct zr_call *c,
			  const struct zr_layer *layer)
{
	const struct zr_setup *p = s->setup;
	const int64_t block = (int64_t)zr_dtype_block(p->types.dtype);
	for (uint32_t i = 0, n = 0; i < layer->n_units; i++) {
		const struct zr_unit_place *u = &p->layout.unit[layer->units[i]];
		char *const *at = &c->at[5 + 2 * i];
		int later = at[1] && c->o[6 + 2 * i].access & ZR_READS;
		for (int32_t k = u->first; k < u->first + u->count; k++, n++) {
			int64_t offset = p->layout.tensor[k].offset;
			s->param[n] = at[0] + offset / ZR_BLOCK * block;
			s->dparam[n] = at[1] ? (float *)at[1] + offset : NULL;
			s->accumulate[n] = (uint8_t)later;
		}
	}
}

/* Where its rows are: the operand behind those of the units. */
static void point_batch(struct zr_session *s, char *tokens)
{
	const struct zr_plan *p = &s->setup->plan;
	struct zr_layer_call *call = &s->call;
	int documents = s->from && zr_has_documents(s->from);
	char *batch = tokens - p->tokens;
	call->tokens = (int32_t *)tokens;
	call->targets = (int32_t *)(batch + p->targets);
	call->loss_rows = (float *)(batch + p->loss_rows);
	call->right_rows = (float *)(batch + p->right_rows);
	call->loss_sum = (double *)(batch + p->loss_sum);
	call->starts = documents ? (int32_t *)(batch + p->starts) : NULL;
	call->positions = documents || !s->from ? (int32_t *)(batch + p->positions) : NULL;
	call->weights = documents ? (float *)(batch + p->weights) : NULL;
}

int zr_begin_layer(struct zr_session *s, const struct zr_call *c)
{
	struct zr_setup *p = s->setup;
	struct zr_instance *it = zr_model_of(p);
	const struct zr_model_v1 *model = it->vtbl;
	const struct zr_layer *layer = zr_layer_at(&p->decl, c->i->number);
	struct zr_layer_call *call = &s->call;
	int backward = (c->i->flags & ZR_F_BACKWARD) != 0;
	point_tensors(s, c, layer);
	point_batch(s, c->at[5 + 2 * layer->n_units]);
	call->layer = c->i->number;
	call->in = c->at[0];
	call->out = c->at[1];
	call->saved = c->at[2];
	call->work = c->at[3];
	call->grad = backward ? c->at[4] : NULL;
	call->cache = backward ? NULL : c->at[4];
	call->param = s->param;
	call->dparam = s->dparam;
	call->accumulate = s->accumulate;
	call->first_row = c->i->block;
	call->n_rows = c->i->blocks;
	float *row = (float *)(void *)call->loss_sum;
	int rc = backward                  ? model->backward(it->inst, call) :
		 c->i->flags & ZR_F_LOGITS ? model->logits(it->inst, call, call->length - 1, row) :
					     model->forward(it->inst, call);
	return zr_user_failed(s, it, rc, backward ? "backward" : "forward", c->err);
}

/* ---- gradients ---- */

static const struct zr_ops *ops_of(const struct zr_session *s, const struct zr_instr *i)
{
	return i->queue == ZR_Q_HOST ? s->setup->host_ops : s->setup->ops;
}

static int cast(struct zr_session *s, const struct zr_call *c, int32_t type, int64_t n, char *from,
		char *to)
{
	const struct zr_ops *ops = ops_of(s, c->i);
	struct zr_op_cast op = { .size = sizeof op,
				 .dst_dtype = type,
				 .src_dtype = c->i->from,
				 .n = n,
				 .src = from,
				 .dst = to };
	return zr_op_failed(s, ops, ops->cast(ops, NULL, &op), "cast", c->err);
}

int zr_begin_cast(struct zr_session *s, const struct zr_call *c)
{
	uint64_t n = c->o[1].bytes / (uint64_t)zr_dtype_bytes(c->i->dtype);
	return cast(s, c, c->i->dtype, (int64_t)n, c->at[0], c->at[1]);
}

/* What of contribution g, which begins at `lo`, is one tensor's: elements [from, to) of the
 * unit. */
static int add_tensor(struct zr_session *s, const struct zr_call *c, int32_t number, float *g,
		      int64_t lo, int64_t from, int64_t to)
{
	const struct zr_ops *ops = ops_of(s, c->i);
	int measure = c->i->flags & ZR_F_MEASURE && number == c->i->number - 1;
	int64_t block = (from - lo) / ZR_BLOCK;
	struct zr_op_fold op = { .size = sizeof op,
				 .comm_dtype = c->i->dtype,
				 .n = to - from,
				 .flags = c->i->flags & ZR_F_STORE && !number ? 0 :
										ZR_OP_ACCUMULATE,
				 .g = g + (from - lo),
				 .acc = (float *)c->at[1] + (from - lo),
				 .sumsq = measure ? (double *)c->at[3] + block : NULL,
				 .nonfinite = measure ? (uint32_t *)c->at[4] + block : NULL };
	return zr_op_failed(s, ops, ops->fold(ops, NULL, &op), "fold", c->err);
}

static int add_contribution(struct zr_session *s, const struct zr_call *c, int32_t number)
{
	const struct zr_layout *l = &s->setup->layout;
	const struct zr_unit_place *u = &l->unit[c->i->unit];
	int64_t n = c->i->blocks * ZR_BLOCK, lo = c->i->block * ZR_BLOCK;
	uint64_t bytes = (uint64_t)c->i->blocks * zr_dtype_block(c->i->from);
	char *g = c->at[0] + (uint64_t)number * zr_parts_apart(c->o, c->i->number, bytes);
	int wide = c->i->from == ZR_F32, rc = wide ? 0 : cast(s, c, ZR_F32, n, g, c->at[2]);
	for (int32_t i = u->first; !rc && i < u->first + u->count; i++) {
		const struct zr_place *t = &l->tensor[i];
		int64_t from = t->offset, to = from + t->elements;
		if (zr_intersect(lo, lo + n, &from, &to))
			rc = add_tensor(s, c, number, (float *)(wide ? g : c->at[2]), lo, from, to);
	}
	return rc;
}

int zr_begin_accumulate(struct zr_session *s, const struct zr_call *c)
{
	int rc = 0;
	for (int32_t k = 0; !rc && k < c->i->number; k++)
		rc = add_contribution(s, c, k);
	return rc;
}

/* ---- updates ---- */

static const struct zr_subgroup *subgroup_of(const struct zr_session *s, const struct zr_call *c)
{
	return &s->running->subgroup[c->i->number];
}

int zr_begin_secure(struct zr_session *s, const struct zr_call *c)
{
	if (s->before_update)
		s->before_update(s->before_update_arg, subgroup_of(s, c));
	return 0;
}

/* Its operands: master, gradient, copy, chunk, scalars, sums of one call, states. */
int zr_begin_update(struct zr_session *s, const struct zr_call *c)
{
	struct zr_opt_data d = { .subgroup = subgroup_of(s, c),
				 .kept = { ops_of(s, c->i), c->at[0], c->at[2] },
				 .grad = c->at[1],
				 .chunk = (float *)c->at[3],
				 .scalars = (const struct zr_scalars *)c->at[4],
				 .sums = (double *)c->at[5],
				 .state = c->at + 6,
				 .err = c->err };
	return c->i->kind == ZR_I_OPTIMIZE ? zr_step_subgroup(s, &d) : zr_partial_subgroup(s, &d);
}

int zr_begin_master(struct zr_session *s, const struct zr_call *c)
{
	struct zr_masters m = { ops_of(s, c->i), c->at[1], c->at[2] };
	float *x = (float *)c->at[0];
	return (c->i->kind == ZR_I_LOAD ? zr_master_get : zr_master_put)(
		s, subgroup_of(s, c), &m, 0, c->i->blocks, x, c->err);
}

int zr_begin_whole(struct zr_session *s, const struct zr_call *c)
{
	int32_t group = s->setup->group_of[c->i->number];
	struct zr_opt_step step =
		zr_opt_step_of(s, group, ops_of(s, c->i), (const struct zr_scalars *)c->at[2]);
	return zr_step_whole(s, c->i->number, &step, c->at[0], c->at[1], c->err);
}
