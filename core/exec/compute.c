/* SPDX-License-Identifier: Apache-2.0
 *
 * compute.c - what the model, the device's operations and the optimizers compute.
 */
#include "core/base/numbers.h"
#include "core/exec/exec.h"
#include "core/update/clip.h"
#include "core/update/update.h"

/* ---- layers ---- */

/* Where the persistent numbers of a tensor are; NULL: it has none. */
static const float *persistent_of(const struct zr_session *s, const struct zr_place *t)
{
	const float *all = (const float *)(void *)s->region[ZR_R_PERSISTENT];

	if (!t->persistent)
		return NULL;
	return all + t->first_persistent;
}

/* Where the tensors of a layer's units are, and where their gradients go. */
static void point_tensors(struct zr_session *s, const struct zr_call *c,
			  const struct zr_layer *layer)
{
	const struct zr_setup_facts *f = s->facts;
	const int64_t block = (int64_t)zr_dtype_block(f->types.dtype);
	for (uint32_t i = 0, n = 0; i < layer->n_units; i++) {
		const struct zr_unit_place *u = &f->layout.unit[layer->units[i]];
		int32_t grads = zr_in_pair(ZR_O_LAYER_EACH_DPARAM, i);
		char *param = c->at[zr_in_pair(ZR_O_LAYER_EACH_PARAM, i)];
		float *dparam = (float *)c->at[grads];
		int later = dparam && c->o[grads].access & ZR_READS;

		for (int32_t k = u->first; k < u->first + u->count; k++, n++) {
			int64_t offset = f->layout.tensor[k].offset;
			s->param[n] = NULL;
			s->dparam[n] = NULL;
			if (param)
				s->param[n] = param + offset / ZR_BLOCK * block;
			if (dparam)
				s->dparam[n] = dparam + offset;
			s->accumulate[n] = (uint8_t)later;
			if (s->persistent)
				s->persistent[n] = persistent_of(s, &f->layout.tensor[k]);
		}
	}
}

/* Where its rows are. */
static void point_batch(struct zr_session *s, char *tokens)
{
	const struct zr_plan *p = s->plan;
	struct zr_layer_call *call = &s->call;
	if (!tokens) /* it has rows alone */
		return;

	char *batch = tokens - p->tokens;
	call->tokens = (int32_t *)tokens;
	call->targets = (int32_t *)(batch + p->targets);
	call->loss_rows = (float *)(batch + p->loss_rows);
	call->right_rows = (float *)(batch + p->right_rows);
	call->loss_sum = (double *)(batch + p->loss_sum);
	call->starts = call->positions = NULL;
	call->weights = NULL;

	int documents = s->from && zr_has_documents(s->from);
	if (documents || !s->from || zr_sliced(&s->facts->slices))
		call->positions = (int32_t *)(batch + p->positions);
	if (documents) {
		call->starts = (int32_t *)(batch + p->starts);
		call->weights = (float *)(batch + p->weights);
	}
}

/* Calls the model with what s->call says. */
static int call_model(struct zr_session *s, const struct zr_call *c)
{
	struct zr_instance *it = zr_model_of(s->roles);
	const struct zr_model_v1 *model = it->vtbl;
	struct zr_layer_call *call = &s->call;
	int rc;

	call->ops = zr_ops_for(s, c->i);
	if (c->i->flags & ZR_F_BACKWARD)
		return zr_user_failed(s, it, model->backward(it->inst, call), "backward", c->err);

	if (c->i->flags & ZR_F_LOGITS)
		rc = model->logits(it->inst, call, call->length - 1,
				   (float *)(void *)call->loss_sum);
	else
		rc = model->forward(it->inst, call);
	return zr_user_failed(s, it, rc, "forward", c->err);
}

/* The keys of a slice, what is between its parts, and sums of all slices; behind n pairs. */
static void point_slice(struct zr_session *s, const struct zr_call *c, int64_t n)
{
	struct zr_layer_call *call = &s->call;
	call->keys = c->at[zr_behind_pairs(ZR_O_LAYER_KEYS, n)];
	call->all_keys = c->at[zr_behind_pairs(ZR_O_LAYER_ALL_KEYS, n)];
	call->key_sums = (float *)(void *)c->at[zr_behind_pairs(ZR_O_LAYER_KEY_SUMS, n)];
	call->held = c->at[zr_behind_pairs(ZR_O_LAYER_HELD, n)];
	call->attended = c->at[zr_behind_pairs(ZR_O_LAYER_ATTENDED, n)];
	call->dattended = c->at[zr_behind_pairs(ZR_O_LAYER_DATTENDED, n)];
	call->kept = c->at[zr_behind_pairs(ZR_O_LAYER_KEPT, n)];
	call->slot_sums = (const double *)(void *)c->at[zr_behind_pairs(ZR_O_LAYER_SUMS, n)];
}

int zr_begin_layer(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_layer *layer = zr_layer_at(&s->facts->decl, c->i->number);
	struct zr_layer_call *call = &s->call;

	point_tensors(s, c, layer);
	point_batch(s, c->at[zr_behind_pairs(ZR_O_LAYER_BATCH, layer->n_units)]);
	call->layer = c->i->number;
	call->in = c->at[ZR_O_LAYER_IN];
	call->out = c->at[ZR_O_LAYER_OUT];
	call->saved = c->at[ZR_O_LAYER_SAVED];
	call->work = c->at[ZR_O_LAYER_WORK];
	call->grad = call->cache = NULL;
	if (c->i->flags & ZR_F_BACKWARD)
		call->grad = c->at[ZR_O_LAYER_GRAD_OR_CACHE];
	else
		call->cache = c->at[ZR_O_LAYER_GRAD_OR_CACHE];
	call->param = s->param;
	call->dparam = s->dparam;
	call->accumulate = s->accumulate;
	call->persistent = s->persistent;
	call->max_scores =
		(float *)(void *)c->at[zr_behind_pairs(ZR_O_LAYER_SCORES, layer->n_units)];
	call->flags &= ~ZR_CALL_LEAN;
	if (c->i->flags & ZR_F_LEAN)
		call->flags |= ZR_CALL_LEAN;
	call->first_row = c->i->block;
	call->n_rows = c->i->blocks;
	if (zr_sliced(&s->facts->slices)) {
		point_slice(s, c, (int64_t)layer->n_units);
		zr_slice_call(s->facts, c->i, call);
	}

	call->home = NULL;
	if (c->i->from)
		zr_point_home(s, c, (int64_t)layer->n_units);

	return call_model(s, c);
}

/* ---- gradients ---- */

static int cast(struct zr_session *s, const struct zr_call *c, int32_t type, int64_t n, char *from,
		char *to)
{
	const struct zr_ops *ops = zr_ops_for(s, c->i);
	struct zr_op_cast op = { .size = sizeof op,
				 .n = n,
				 .src = zr_array_at(c->i->from, from),
				 .dst = zr_array_at(type, to) };
	return zr_op_failed(s, ops, ops->cast(ops, NULL, &op), "cast", c->err);
}

int zr_begin_cast(struct zr_session *s, const struct zr_call *c)
{
	uint64_t n = c->o[ZR_O_CAST_TO].bytes / (uint64_t)zr_dtype_bytes(c->i->dtype);
	return cast(s, c, c->i->dtype, (int64_t)n, c->at[ZR_O_CAST_FROM], c->at[ZR_O_CAST_TO]);
}

/* Elements [from, to) of the unit, from the instruction's first block on. */
static int recode_elements(struct zr_session *s, const struct zr_call *c, int64_t from, int64_t to)
{
	const struct zr_ops *ops = zr_ops_for(s, c->i);
	const int64_t at = from - c->i->block * ZR_BLOCK;
	const char *source = c->at[ZR_O_ENCODE_FROM] + zr_bytes_of(c->i->from, at);
	char *target = c->at[ZR_O_ENCODE_TO] + zr_bytes_of(c->i->dtype, at);
	struct zr_op_cast op = { .size = sizeof op,
				 .n = to - from,
				 .src = zr_array_at(c->i->from, source),
				 .dst = zr_array_at(c->i->dtype, target) };
	if (from == to)
		return 0;
	return zr_op_failed(s, ops, ops->cast(ops, NULL, &op), zr_instr_name[c->i->kind], c->err);
}

/* Padding between tensors is no part of any code; those without are recoded in one call. */
int zr_begin_recode(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_layout *l = &s->facts->layout;
	const struct zr_unit_place *u = &l->unit[c->i->unit];
	const int64_t lo = c->i->block * ZR_BLOCK, hi = lo + c->i->blocks * ZR_BLOCK;
	int64_t begin = lo, end = lo;
	int rc = 0;

	for (int32_t i = u->first; !rc && i < u->first + u->count; i++) {
		const struct zr_place *t = &l->tensor[i];
		int64_t from = t->offset, to = from + t->elements;
		if (!zr_intersect(lo, hi, &from, &to))
			continue;
		if (from != end) {
			rc = recode_elements(s, c, begin, end);
			begin = from;
		}
		end = to;
	}
	if (rc)
		return rc;
	return recode_elements(s, c, begin, end);
}

/* How many calls a tree of gradients takes, over micro-batches and homes of experts, and where this
 * one is. */
struct turns {
	int32_t n, now, trees; /* trees: complete ones before it */
};

/* Of an expert that many ranks have at home: as many, which is what they add at a time. */
static int32_t homes_of(const struct zr_session *s, const struct zr_instr *i)
{
	return i->root ? s->facts->process.world / i->number : 1;
}

static struct turns turns_of(const struct zr_session *s, const struct zr_instr *i, int32_t home)
{
	int64_t micro = s->slot / s->facts->mesh.axis[ZR_AXIS_DATA].n;
	int64_t call = micro * homes_of(s, i) + home;
	int32_t n = i->group > i->number ? i->group / i->number : 1;
	return (struct turns){ n, (int32_t)(call % n), (int32_t)(call / n) };
}

/* Where each rank has its contribution, from element `skip` on. */
static const void *const *each_of(struct zr_session *s, const struct zr_call *c, int64_t skip)
{
	const struct zr_comm_v1 *comm = s->roles->comm.vtbl;
	const char *mine = c->at[ZR_O_ACCUMULATE_FROM];
	if (c->o[ZR_O_ACCUMULATE_OTHERS].region < 0 || c->i->root)
		return NULL;

	for (int32_t r = 0; r < s->facts->process.world; r++) {
		const char *at = mine;
		if (r != s->facts->process.rank)
			at = comm->mem_peer(s->roles->comm.inst, mine, ZR_GROUP_WORLD, r);
		s->each[r] = at + zr_bytes_of(c->i->from, skip);
	}
	return s->each;
}

/* The first contribution from element `skip` on; of another type behind a pointer to fp32. */
static const float *first_of(const struct zr_call *c, int64_t skip)
{
	const char *at = c->at[ZR_O_ACCUMULATE_FROM];
	return (const float *)(const void *)(at + zr_bytes_of(c->i->from, skip));
}

/* Which part of its tree the fold is, and whether acc has something already. */
static void take_turn(const struct zr_session *s, const struct zr_call *c, int64_t skip,
		      int32_t home, struct zr_op_fold *op)
{
	const struct turns t = turns_of(s, c->i, home);
	const struct zr_operand *o = &c->o[ZR_O_ACCUMULATE_WAITING];
	uint64_t bytes = (uint64_t)c->i->blocks * zr_dtype_block(ZR_F32);
	uint64_t apart = zr_parts_apart(o, zr_sums_waiting(s->facts), bytes);
	int stores = !home && (c->i->flags & ZR_F_STORE);

	if (t.n > 1) {
		stores = !t.trees;
		op->turn = t.now;
		op->waiting = (float *)c->at[ZR_O_ACCUMULATE_WAITING] + skip;
		op->waiting_apart = (int64_t)(apart / sizeof(float));
	}
	if (!stores)
		op->flags = ZR_OP_ACCUMULATE;
}

/* Contributions of the k-th home of an expert, from element `skip` on: one for each rank that
 * divides experts, as far apart as all ranks' shares of a unit are long. */
static void find_home(struct zr_session *s, const struct zr_call *c, int64_t skip, int32_t k,
		      struct zr_op_fold *op)
{
	const struct zr_comm_v1 *comm = s->roles->comm.vtbl;
	const struct zr_unit_memory *m = &s->plan->unit[c->i->unit];
	const int64_t share = m->own.per * (int64_t)zr_dtype_block(c->i->from);
	const int32_t rank = k * c->i->number + zr_home_of(s->facts, c->i->unit);
	const char *at = c->at[ZR_O_ACCUMULATE_FROM];

	if (c->o[ZR_O_ACCUMULATE_OTHERS].region < 0)
		at += rank * share;
	else if (rank != s->facts->process.rank)
		at = comm->mem_peer(s->roles->comm.inst, at, ZR_GROUP_WORLD, rank);
	op->g = (const float *)(const void *)(at + zr_bytes_of(c->i->from, skip));
	op->apart = share * s->facts->process.world;
}

/* What of the contributions, which begin at `lo`, is one tensor's: elements [from, to) of the
 * unit; of an expert what its k-th home has. */
static int add_tensor(struct zr_session *s, const struct zr_call *c, int64_t lo, int64_t from,
		      int64_t to, int32_t home)
{
	const struct zr_ops *ops = zr_ops_for(s, c->i);
	const int64_t skip = from - lo, block = skip / ZR_BLOCK;
	uint64_t bytes = (uint64_t)c->i->blocks * zr_dtype_block(c->i->from);
	struct zr_op_fold op = {
		.size = sizeof op,
		.comm_dtype = c->i->dtype,
		.n = to - from,
		.g = first_of(c, skip),
		.acc = (float *)c->at[ZR_O_ACCUMULATE_SUM] + skip,
		.number = c->i->number,
		.from = c->i->from,
		.apart = (int64_t)zr_parts_apart(&c->o[ZR_O_ACCUMULATE_FROM], c->i->number, bytes),
		.each = each_of(s, c, skip),
		.group = c->i->group,
	};

	if (c->i->root)
		find_home(s, c, skip, home, &op);
	take_turn(s, c, skip, home, &op);
	if (c->i->flags & ZR_F_MEASURE && home + 1 == homes_of(s, c->i)) {
		op.sumsq = (double *)c->at[ZR_O_ACCUMULATE_SQUARES] + block;
		op.nonfinite = (uint32_t *)c->at[ZR_O_ACCUMULATE_COUNTS] + block;
	}
	return zr_op_failed(s, ops, ops->fold(ops, NULL, &op), "fold", c->err);
}

int zr_begin_accumulate(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_layout *l = &s->facts->layout;
	const struct zr_unit_place *u = &l->unit[c->i->unit];
	int64_t n = c->i->blocks * ZR_BLOCK, lo = c->i->block * ZR_BLOCK;
	int rc = 0;

	for (int32_t i = u->first; !rc && i < u->first + u->count; i++) {
		const struct zr_place *t = &l->tensor[i];
		int64_t from = t->offset, to = from + t->elements;
		if (!zr_intersect(lo, lo + n, &from, &to))
			continue;
		for (int32_t k = 0; !rc && k < homes_of(s, c->i); k++)
			rc = add_tensor(s, c, lo, from, to, k);
	}
	return rc;
}

int zr_begin_join(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_ops *ops = zr_ops_for(s, c->i);
	struct zr_op_fold op = {
		.size = sizeof op,
		.comm_dtype = c->i->dtype,
		.n = c->i->blocks * ZR_BLOCK,
		.g = (const float *)(const void *)c->at[ZR_O_JOIN_FROM],
		.acc = (float *)(void *)c->at[ZR_O_JOIN_TO],
		.number = c->i->number,
		.from = c->i->from,
		.apart = c->i->blocks * (int64_t)zr_dtype_block(c->i->from),
		.group = c->i->group,
		.to = c->i->from,
		.to_apart = c->i->blocks * ZR_BLOCK,
	};
	return zr_op_failed(s, ops, ops->fold(ops, NULL, &op), "fold", c->err);
}

/* ---- updates ---- */

static const struct zr_subgroup *subgroup_of(const struct zr_call *c)
{
	return &c->program->subgroup[c->i->number];
}

int zr_begin_secure(struct zr_session *s, const struct zr_call *c)
{
	if (s->before_update)
		s->before_update(s->before_update_arg, subgroup_of(c));
	return 0;
}

int zr_begin_update(struct zr_session *s, const struct zr_call *c)
{
	struct zr_opt_data d = { .subgroup = subgroup_of(c),
				 .kept = { zr_ops_for(s, c->i), c->at[ZR_O_OPTIMIZE_MASTER],
					   c->at[ZR_O_OPTIMIZE_COPY] },
				 .grad = c->at[ZR_O_OPTIMIZE_GRAD],
				 .chunk = (float *)c->at[ZR_O_OPTIMIZE_CHUNK],
				 .scalars = (const struct zr_scalars *)c->at[ZR_O_OPTIMIZE_SCALARS],
				 .sums = (double *)c->at[ZR_O_OPTIMIZE_SUMS],
				 .state = c->at + ZR_O_OPTIMIZE_STATE,
				 .err = c->err };
	if (c->i->kind == ZR_I_PARTIAL)
		return zr_partial_subgroup(s, &d);

	int rc = zr_step_subgroup(s, &d);
	if (rc)
		return rc;
	return zr_clip_subgroup(s, &d);
}

int zr_begin_master(struct zr_session *s, const struct zr_call *c)
{
	struct zr_masters m = { zr_ops_for(s, c->i), c->at[ZR_O_LOAD_MASTER],
				c->at[ZR_O_LOAD_COPY] };
	float *x = (float *)c->at[ZR_O_LOAD_VALUES];
	const struct zr_subgroup *p = subgroup_of(c);
	if (c->i->kind == ZR_I_LOAD)
		return zr_master_get(s, p, &m, 0, c->i->blocks, x, c->err);
	return zr_master_put(s, p, &m, 0, c->i->blocks, x, c->err);
}

int zr_begin_whole(struct zr_session *s, const struct zr_call *c)
{
	int32_t group = s->roles->group_of[c->i->number];
	const struct zr_scalars *scalars = (const struct zr_scalars *)c->at[ZR_O_WHOLE_SCALARS];
	struct zr_opt_step step = zr_opt_step_of(s, group, zr_ops_for(s, c->i), scalars);
	char *matrix = c->at[ZR_O_WHOLE_MATRIX];
	int rc = zr_step_whole(s, c->i->number, &step, matrix, c->at[ZR_O_WHOLE_WORK], c->err);
	if (rc)
		return rc;
	return zr_clip_whole(s, zr_ops_for(s, c->i), c->i->number, (float *)(void *)matrix, scalars,
			     c->err);
}
