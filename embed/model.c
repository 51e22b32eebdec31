/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - a model that is functions of the program: model/functions makes what roles of models
 * are asked for of struct zeroth_model, and data/functions the batches that go with it.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/data.h>
#include <zeroth/model.h>

#include "core/base/dtype.h"
#include "core/memory/tier.h"
#include "embed/engine.h"

enum { MOST_OF_ALL = 1 << 24 }; /* units, layers, tensors: as core/model/declared.c says */

struct zr_inst {
	const struct zr_host *h;
	struct rank *rank;
	const struct zeroth_model *m;
	struct zr_tensor *tensor;
	struct zr_unit *unit;
	struct zr_layer *layer;
	/* owned, where the program cannot reach device memory: [2][n_rows] losses of a micro-batch,
	 * and what is right */
	float *rows;
	int64_t n_rows;
};

static const struct zeroth_layer *layer_at(const struct zeroth_model *m, uint32_t i)
{
	return (const void *)((const char *)m->layers + (size_t)i * m->layer_size);
}

static const struct zeroth_unit *unit_at(const struct zeroth_model *m, uint32_t i)
{
	return (const void *)((const char *)m->units + (size_t)i * m->unit_size);
}

static const struct zeroth_tensor *tensor_at(const struct zeroth_model *m,
					     const struct zeroth_unit *u, uint32_t i)
{
	return (const void *)((const char *)u->tensors + (size_t)i * m->tensor_size);
}

static uint64_t up(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* ---- the model ------------------------------------------------------------------- */

/* Of a layer that a thread of the program computes. */
static int check_place(const struct zr_inst *inst, uint32_t i, const char *name)
{
	const struct zeroth_layer *l = layer_at(inst->m, i);

	if (l->forward || l->backward || l->out || l->saved || l->work)
		return zr_fail(inst->h, ZR_EINVAL,
			       "layer %u (%s): the program computes the model: functions are "
			       "NULL, and out, saved and work are 0",
			       i, name);
	if (i + 1 == inst->m->n_layers && l->n_units)
		return zr_fail(inst->h, ZR_EINVAL,
			       "layer %u (%s): n_units is %u; the last layer stands for the "
			       "loss, and has none",
			       i, name, l->n_units);
	return 0;
}

/* What the program says and core never sees; the rest core checks in core/model/declared.c. */
static int check_layer(const struct zr_inst *inst, uint32_t i)
{
	const struct zeroth_model *m = inst->m;
	const struct zeroth_layer *l = layer_at(m, i);
	const char *name = l->name ? l->name : "without a name";

	if (engine_is_outside(inst->rank->engine))
		return check_place(inst, i, name);
	if (!l->forward || !l->backward)
		return zr_fail(inst->h, ZR_EINVAL, "layer %u (%s): %s is NULL", i, name,
			       l->forward ? "backward" : "forward");
	if ((i + 1 == m->n_layers) != !l->out)
		return zr_fail(inst->h, ZR_EINVAL,
			       "layer %u (%s): out is %llu; it is 0 for the "
			       "last layer, and for no other",
			       i, name, (unsigned long long)l->out);
	return 0;
}

/* Programs of before have no flags. */
static uint32_t tensor_flags(const struct zeroth_model *m, const struct zeroth_tensor *t)
{
	if (m->tensor_size < sizeof *t || !(t->flags & ZEROTH_TENSOR_FROZEN))
		return 0;
	return ZR_TENSOR_FROZEN;
}

static void take_unit(struct zr_inst *inst, uint32_t i, struct zr_tensor *t)
{
	const struct zeroth_unit *u = unit_at(inst->m, i);

	inst->unit[i] = (struct zr_unit){ u->name, u->tensors ? t : NULL, u->n_tensors, 0 };
	for (uint32_t k = 0; u->tensors && k < u->n_tensors; k++) {
		const struct zeroth_tensor *from = tensor_at(inst->m, u, k);
		t[k] = (struct zr_tensor){ .name = from->name,
					   .ndim = from->ndim,
					   .init = from->init,
					   .mean = from->mean,
					   .std = from->std,
					   .flags = tensor_flags(inst->m, from) };
		for (int d = 0; d < 4; d++)
			t[k].dims[d] = d < from->ndim ? from->dims[d] : 1;
	}
}

/* Before anything is read by these counts. */
static int check_counts(const struct zr_inst *inst, size_t *tensors)
{
	const struct zeroth_model *m = inst->m;

	if (!m->n_units || m->n_units > MOST_OF_ALL)
		return zr_fail(inst->h, ZR_EINVAL, "n_units is %u; expected 1 to %d", m->n_units,
			       MOST_OF_ALL);
	if (m->n_layers < 2 || m->n_layers > MOST_OF_ALL)
		return zr_fail(inst->h, ZR_EINVAL, "n_layers is %u; expected 2 to %d", m->n_layers,
			       MOST_OF_ALL);

	for (uint32_t i = 0; i < m->n_units; i++)
		*tensors += unit_at(m, i)->n_tensors;
	if (*tensors > MOST_OF_ALL)
		return zr_fail(inst->h, ZR_EINVAL,
			       "n_tensors of all units are %zu; expected at "
			       "most %d",
			       *tensors, MOST_OF_ALL);
	return 0;
}

static int take_model(struct zr_inst *inst)
{
	const struct zeroth_model *m = inst->m;
	size_t tensors = 0;

	int rc = check_counts(inst, &tensors);
	if (rc)
		return rc;

	inst->tensor = calloc(tensors + 1, sizeof *inst->tensor);
	inst->unit = calloc(m->n_units + 1, sizeof *inst->unit);
	inst->layer = calloc(m->n_layers + 1, sizeof *inst->layer);
	if (!inst->tensor || !inst->unit || !inst->layer)
		return zr_fail(inst->h, ZR_ENOMEM, "no memory");

	struct zr_tensor *t = inst->tensor;
	for (uint32_t i = 0; i < m->n_units; i++) {
		take_unit(inst, i, t);
		t += inst->unit[i].n_tensors;
	}

	if (tensors)
		inst->tensor->persistent = m->numbers;
	for (uint32_t i = 0; !rc && i < m->n_layers; i++) {
		const struct zeroth_layer *l = layer_at(m, i);
		rc = check_layer(inst, i);
		inst->layer[i] = (struct zr_layer){ .name = l->name,
						    .units = l->units,
						    .n_units = l->n_units };
		if (!i)
			inst->layer[i].flags |= ZR_LAYER_INPUT;
		if (i + 1 == m->n_layers)
			inst->layer[i].flags |= ZR_LAYER_LOSS;
	}

	return rc;
}

static int model_declare(struct zr_inst *inst, struct zr_model_decl *d)
{
	d->n_units = inst->m->n_units;
	d->n_layers = inst->m->n_layers;
	d->unit_stride = sizeof *inst->unit;
	d->layer_stride = sizeof *inst->layer;
	d->tensor_stride = sizeof *inst->tensor;
	d->units = inst->unit;
	d->layers = inst->layer;
	d->vocabulary = d->context = 1; /* a sample is a sequence of one token */
	return ZR_OK;
}

/* Core refuses more than 2^46 bytes of anything. */
static uint64_t times(uint64_t bytes, uint64_t n)
{
	uint64_t product;
	return __builtin_mul_overflow(bytes, n, &product) || product >> 47 ? 1ull << 47 : product;
}

static uint64_t out_bytes(const struct zr_inst *inst, int32_t layer, int64_t samples, int32_t dtype)
{
	const uint64_t one = (uint64_t)samples * (uint64_t)zr_dtype_bytes(dtype);
	return layer < 0 ? 0 : times(layer_at(inst->m, (uint32_t)layer)->out, one);
}

/* The gradient comes and goes in one buffer; here it is copied behind the layer's own scratch. */
static int model_bytes(struct zr_inst *inst, int32_t layer, int64_t batch, int64_t length,
		       int32_t dtype, const struct zr_ops *ops, struct zr_layer_bytes *b)
{
	const struct zeroth_layer *l = layer_at(inst->m, (uint32_t)layer);
	const uint64_t samples = (uint64_t)(batch * length);
	const uint64_t out = out_bytes(inst, layer, batch * length, dtype);
	const uint64_t in = out_bytes(inst, layer - 1, batch * length, dtype);

	(void)ops;
	b->out = out;
	b->saved = times(l->saved, samples);
	b->work_fwd = times(l->work, samples);
	b->work_bwd = up(b->work_fwd) + out;
	b->grad = in > out ? in : out;
	return ZR_OK;
}

static struct zeroth_call call_of(struct zr_inst *inst, const struct zr_layer_call *c)
{
	struct rank *r = inst->rank;

	return (struct zeroth_call){
		.size = sizeof(struct zeroth_call),
		.layer = c->layer,
		.rank = inst->h->rank,
		.training = c->training,
		.dtype = c->dtype,
		.samples = c->batch * c->length,
		.step = r->step,
		.slot = r->slot,
		.arg = inst->m->arg,
		.batch = r->batch,
		.in = c->layer ? c->in : NULL,
		.saved = c->saved,
		.work = c->work,
		.param = c->param,
		.dparam = c->dparam,
		.accumulate = c->accumulate,
		.loss = c->loss_rows,
		.scale = c->grad_scale,
	};
}

static int failed(struct zr_inst *inst, const struct zeroth_layer *l, int rc, const char *doing)
{
	if (!rc)
		return 0;
	return zr_fail(inst->h, rc < 0 ? rc : ZR_EINTERNAL, "%s of layer %s failed with code %d",
		       doing, l->name, rc);
}

/* A thread of the program computes the layer. */
static int offer(struct zr_inst *inst, const struct zeroth_layer *l, int kind,
		 const struct zeroth_call *call)
{
	struct rank *r = inst->rank;

	int rc = rank_offer(r, kind, call);
	if (r->ending)
		return zr_fail(inst->h, rc, "the engine is closed within a step");
	return failed(inst, l, rc, "the program's computation");
}

static double sum_of(const float *rows, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += (double)rows[i];
	return sum;
}

static double sum_losses(const struct zr_layer_call *c)
{
	return *c->loss_sum = sum_of(c->loss_rows, c->batch * c->length);
}

static int is_last(const struct zr_inst *inst, const struct zr_layer_call *c)
{
	return (uint32_t)c->layer + 1 == inst->m->n_layers;
}

static void nothing_right(const struct zeroth_call *call)
{
	if (call->right)
		memset(call->right, 0, (size_t)call->samples * sizeof *call->right);
}

/* ---- the loss of a micro-batch on a device whose memory the program cannot reach -- */

static int is_apart(const struct zr_inst *inst)
{
	return !inst->rank->t.setup->facts.device_info.host_access;
}

static int make_rows(struct zr_inst *inst, int64_t n)
{
	if (n <= inst->n_rows)
		return 0;

	free(inst->rows);
	inst->rows = calloc(2 * (size_t)n, sizeof *inst->rows);
	inst->n_rows = inst->rows ? n : 0;
	if (inst->rows)
		return 0;
	return zr_fail(inst->h, ZR_ENOMEM, "no memory for %lld losses", (long long)n);
}

/* Copies what the program wrote on the host to where core expects it. */
static int rows_to_device(struct zr_inst *inst, const struct zr_layer_call *c)
{
	struct zr_session *s = inst->rank->t.session;
	const int64_t n = c->batch * c->length;
	const uint64_t bytes = (uint64_t)n * sizeof *inst->rows;
	const double sum = sum_of(inst->rows, n);
	struct zr_error err = { 0 };

	int rc = zr_copy(s, c->loss_rows, inst->rows, bytes, &err);
	if (!rc)
		rc = zr_copy(s, c->loss_sum, &sum, sizeof sum, &err);
	if (!rc && c->right_rows)
		rc = zr_copy(s, c->right_rows, inst->rows + inst->n_rows, bytes, &err);
	if (!rc)
		return 0;
	return zr_fail(inst->h, rc, "%s", err.text);
}

/* The thread of the program writes the losses on the host, from where they go to the device. */
static int offer_rows(struct zr_inst *inst, const struct zr_layer_call *c,
		      const struct zeroth_layer *l, struct zeroth_call *call)
{
	int rc = make_rows(inst, call->samples);
	if (rc)
		return rc;

	call->loss = inst->rows;
	if (call->right)
		call->right = inst->rows + inst->n_rows;
	nothing_right(call);
	rc = offer(inst, l, ZEROTH_LOSS, call);
	if (rc)
		return rc;
	return rows_to_device(inst, c);
}

static int offer_loss(struct zr_inst *inst, const struct zr_layer_call *c,
		      const struct zeroth_layer *l, struct zeroth_call *call)
{
	if (is_apart(inst))
		return offer_rows(inst, c, l, call);

	nothing_right(call);
	int rc = offer(inst, l, ZEROTH_LOSS, call);
	if (!rc)
		sum_losses(c);
	return rc;
}

/* ---- layers ---------------------------------------------------------------------- */

static int forward_outside(struct zr_inst *inst, const struct zr_layer_call *c,
			   const struct zeroth_layer *l, struct zeroth_call *call)
{
	if (is_last(inst, c))
		return offer_loss(inst, c, l, call);
	return offer(inst, l, ZEROTH_FORWARD, call);
}

static int model_forward(struct zr_inst *inst, const struct zr_layer_call *c)
{
	const struct zeroth_layer *l = layer_at(inst->m, (uint32_t)c->layer);
	struct zeroth_call call = call_of(inst, c);

	call.out = l->out ? c->out : NULL;
	call.dparam = NULL;
	call.accumulate = NULL;
	call.right = is_last(inst, c) ? c->right_rows : NULL;
	if (engine_is_outside(inst->rank->engine))
		return forward_outside(inst, c, l, &call);

	nothing_right(&call);
	int rc = failed(inst, l, l->forward(&call), "forward");
	if (!rc && is_last(inst, c))
		sum_losses(c);
	return rc;
}

static int backward_outside(struct zr_inst *inst, const struct zr_layer_call *c,
			    const struct zeroth_layer *l, struct zeroth_call *call)
{
	if (is_last(inst, c))
		return offer_loss(inst, c, l, call);
	return offer(inst, l, ZEROTH_BACKWARD, call);
}

static int model_backward(struct zr_inst *inst, const struct zr_layer_call *c)
{
	const struct zeroth_layer *l = layer_at(inst->m, (uint32_t)c->layer);
	struct zeroth_call call = call_of(inst, c);

	if (engine_is_outside(inst->rank->engine))
		return backward_outside(inst, c, l, &call);
	if (l->out) {
		const uint64_t bytes = out_bytes(inst, c->layer, call.samples, c->dtype);
		char *copy = (char *)c->work + up(l->work * (uint64_t)call.samples);
		memcpy(copy, c->grad, bytes);
		call.dout = copy;
		call.out = c->out;
	}

	call.din = c->layer ? c->grad : NULL;
	int rc = failed(inst, l, l->backward(&call), "backward");
	if (rc || l->out)
		return rc;

	rc = rank_forward_done(inst->rank, sum_losses(c) / (double)call.samples);
	if (rc)
		return zr_fail(inst->h, rc, "the engine is closed within a step");
	return 0;
}

static void destroy(struct zr_inst *inst)
{
	free(inst->tensor);
	free(inst->unit);
	free(inst->layer);
	free(inst->rows);
	free(inst);
}

static struct zr_inst *new_inst(const struct zr_host *h)
{
	struct zr_inst *inst = calloc(1, sizeof *inst);
	if (!inst)
		return NULL;

	inst->h = h;
	inst->rank = rank_here;
	inst->m = &rank_here->engine->model;
	return inst;
}

static int model_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = new_inst(h);

	(void)opts;
	int rc;
	if (inst)
		rc = take_model(inst);
	else
		rc = zr_fail(h, ZR_ENOMEM, "no memory");
	if (rc && inst)
		destroy(inst);
	*out = rc ? NULL : inst;
	return rc;
}

/* The program writes the numbers, see zeroth_numbers(). */
static int model_renew(struct zr_inst *inst, const struct zr_renewal *r)
{
	(void)inst;
	(void)r;
	return 0;
}

static const struct zr_model_v1 model_vtbl = {
	.size = sizeof model_vtbl,
	.declare = model_declare,
	.bytes = model_bytes,
	.forward = model_forward,
	.backward = model_backward,
	.renew = model_renew,
};
static const struct zr_iface model_ifaces[] = { { "zr.model/1", &model_vtbl }, { NULL, NULL } };

/* ---- its data -------------------------------------------------------------------- */

#define MOST_HELD_OUT (INT64_C(1) << 40)

static int data_info(struct zr_inst *inst, struct zr_data_info *info)
{
	info->vocabulary = 1;
	info->train_tokens = INT64_MAX / 2; /* there is no end */
	info->val_tokens = info->val_sequences = inst->m->load ? inst->m->held_out : 0;
	snprintf(info->describe, sizeof info->describe, "functions of the program");
	return ZR_OK;
}

static int data_prepare(struct zr_inst *inst, int64_t length, int64_t vocabulary)
{
	(void)vocabulary;
	if (length == 1)
		return ZR_OK;
	return zr_fail(inst->h, ZR_EINVAL,
		       "[train] sequence_length is %lld; "
		       "a sample is one token",
		       (long long)length);
}

/* Which samples there are is the program's: the tokens say nothing. */
static int data_batch(struct zr_inst *inst, const struct zr_batch *b)
{
	struct rank *r = inst->rank;
	const int training = b->split == ZR_SPLIT_TRAIN;
	int rc = 0;

	memset(b->inputs, 0, (size_t)b->sequences * sizeof *b->inputs);
	memset(b->targets, 0, (size_t)b->sequences * sizeof *b->targets);
	r->step = b->step;
	r->slot = b->slot;
	if (training && r->parts) {
		rc = rank_take_batch(r);
		if (rc)
			return zr_fail(inst->h, rc, "the engine is closed within a step");
		return 0;
	}

	if (!training && r->inferring) {
		r->batch = r->given;
		return 0;
	}

	if (!inst->m->load)
		return zr_fail(inst->h, ZR_ESTATE, "the model has no function load");

	rc = inst->m->load(inst->m->arg, r->number, training, b->step, b->slot, b->sequences,
			   &r->batch);
	if (!rc)
		return 0;
	return zr_fail(inst->h, rc < 0 ? rc : ZR_EINTERNAL, "load of slot %lld failed with code %d",
		       (long long)b->slot, rc);
}

static int data_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const int64_t held_out = rank_here->engine->model.held_out;

	(void)opts;
	if (held_out < 0 || held_out > MOST_HELD_OUT)
		return zr_fail(h, ZR_EINVAL, "held_out is %lld; expected 0 to %lld",
			       (long long)held_out, (long long)MOST_HELD_OUT);
	if (engine_is_outside(rank_here->engine) && (rank_here->engine->model.load || held_out))
		return zr_fail(h, ZR_EINVAL,
			       "the program computes the model: load is NULL, and held_out 0");
	*out = new_inst(h);
	return *out ? ZR_OK : zr_fail(h, ZR_ENOMEM, "no memory");
}

static const struct zr_data_v1 data_vtbl = {
	.size = sizeof data_vtbl,
	.info = data_info,
	.prepare = data_prepare,
	.batch = data_batch,
};
static const struct zr_iface data_ifaces[] = { { "zr.data/1", &data_vtbl }, { NULL, NULL } };

/* ---- both ------------------------------------------------------------------------ */

static const struct zr_desc model_desc = {
	.size = sizeof model_desc,
	.role = "model",
	.id = "functions",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Layers that are functions of the program.",
	.ifaces = model_ifaces,
	.create = model_create,
	.destroy = destroy,
};
static const struct zr_desc data_desc = {
	.size = sizeof data_desc,
	.role = "data",
	.id = "functions",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Batches that are the program's.",
	.ifaces = data_ifaces,
	.create = data_create,
	.destroy = destroy,
};
static const struct zr_desc *const descs[] = { &model_desc, &data_desc, NULL };
const struct zr_entry functions_entry = {
	.magic = ZR_MAGIC,
	.size = sizeof(struct zr_entry),
	.abi_major = ZR_ABI_MAJOR,
	.abi_minor = ZR_ABI_MINOR,
	.draft = ZR_DRAFT_REVISION,
	.build = __VERSION__,
	.descs = descs,
};
