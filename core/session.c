/* SPDX-License-Identifier: Apache-2.0
 *
 * session.c - memory of a session: the arena of the plan and the tables of pointers into it.
 */
#include "core/session.h"

#include <stdlib.h>
#include <string.h>

static const struct zr_device_v1 *device(const struct zr_setup *p)
{
	return p->device.vtbl;
}

float *zr_session_master(const struct zr_session *s, int32_t i)
{
	const struct zr_place *t = &s->setup->layout.tensor[i];
	return (float *)s->region[ZR_R_MASTER] + t->block * ZR_BLOCK;
}

static void *param_of(const struct zr_session *s, int32_t tensor)
{
	const struct zr_setup *p = s->setup;
	if (p->types.dtype == ZR_F32)
		return zr_session_master(s, tensor);
	return s->region[ZR_R_PARAM] + p->layout.tensor[tensor].block * ZR_BLOCK * 2;
}

static float *grad_of(const struct zr_session *s, int32_t tensor)
{
	const struct zr_setup *p = s->setup;
	const struct zr_place *t = &p->layout.tensor[tensor];
	if (p->mode == ZR_SETUP_SAMPLE)
		return NULL;
	if (p->plan.direct)
		return (float *)s->region[ZR_R_GRAD] + t->block * ZR_BLOCK;
	return (float *)(s->region[ZR_R_GRAD_BUFFER] + p->plan.grad_buffer[t->unit]) + t->offset;
}

static int take_arena(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	int tier = p->device_info.unified ? ZR_TIER_HOST : ZR_TIER_DEVICE;
	void *base;
	int rc = device(p)->mem_alloc(p->device.inst, p->plan.total, ZR_MEM_DEVICE, &base);
	if (rc)
		return zr_instance_failed(&p->device, rc, "mem_alloc", err);
	s->arena = base;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		s->region[i] = s->arena + p->plan.region[i].offset;
		zr_account_plan(&p->account, tier, p->plan.region[i].what, p->plan.region[i].bytes);
		zr_account_take(&p->account, tier, p->plan.region[i].what, p->plan.region[i].bytes);
	}
	return 0;
}

/* Fills one layer's pointers from `at` on; returns how many tensors it has. */
static int32_t point_layer(struct zr_session *s, int32_t layer, int32_t at, int32_t total)
{
	const struct zr_setup *p = s->setup;
	const struct zr_layer *decl = zr_layer_at(&p->decl, layer);
	struct zr_layer_tensors *t = &s->layer[layer];
	int32_t n = 0, last = (int32_t)p->decl.n_layers - 1;
	t->param = s->pointers + at;
	t->dparam = (float **)(s->pointers + total + at);
	t->accumulate = s->flags + at;
	for (uint32_t i = 0; i < decl->n_units; i++) {
		const struct zr_unit_place *u = &p->layout.unit[decl->units[i]];
		int first = p->mode == ZR_SETUP_SAMPLE || p->train_uses.first_grad[decl->units[i]] == 2 * last - layer;
		for (int32_t k = 0; k < u->count; k++, n++) {
			t->param[n] = param_of(s, u->first + k);
			t->dparam[n] = grad_of(s, u->first + k);
			t->accumulate[n] = !first;
		}
	}
	return n;
}

static int make_tables(struct zr_session *s, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	size_t units = (size_t)p->layout.n_units + 1, layers = p->decl.n_layers;
	int32_t total = 0, at = 0;
	for (size_t i = 0; i < layers; i++)
		total += zr_setup_layer_tensors(p, (int32_t)i);
	s->layer = calloc(layers, sizeof *s->layer);
	s->pointers = calloc(2 * (size_t)total + 1, sizeof *s->pointers);
	s->flags = calloc((size_t)total + 1, 1);
	s->groups = calloc(units, sizeof *s->groups);
	s->full = calloc(units, 1);
	s->done = calloc(units, 1);
	s->seg = calloc((size_t)p->layout.n_tensors + 1, sizeof *s->seg);
	s->state_buf = calloc(p->n_states + 1, sizeof *s->state_buf);
	s->all_units = calloc(units, sizeof *s->all_units);
	if (!s->layer || !s->pointers || !s->flags || !s->groups || !s->full || !s->done || !s->seg || !s->state_buf ||
	    !s->all_units)
		return zr_err(err, ZR_ENOMEM, "out of memory for the session's tables");
	for (size_t i = 0; i < layers; i++)
		at += point_layer(s, (int32_t)i, at, total);
	for (int32_t u = 0; u < p->layout.n_units; u++)
		s->all_units[u] = u;
	return 0;
}

static int ask_groups(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_zero_v1 *zero = p->zero.vtbl;
	for (int32_t u = 0; u < p->layout.n_units; u++) {
		int rc = zero->groups(p->zero.inst, u, p->layout.unit[u].elements, &s->groups[u]);
		if (rc)
			return zr_instance_failed(&p->zero, rc, "groups", err);
	}
	return 0;
}

static int start_scale(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_precision_v1 *precision = p->precision.vtbl;
	int rc = precision->start(p->precision.inst, &s->scale);
	return rc ? zr_instance_failed(&p->precision, rc, "start", err) : 0;
}

int zr_session_open(struct zr_setup *setup, struct zr_session **out, struct zr_error *err)
{
	if (!setup->device_info.unified)
		return zr_err(err, ZR_EINVAL, "[device] %s has a memory of its own, which this version cannot feed",
			      setup->device_info.name);
	struct zr_session *s = calloc(1, sizeof *s);
	if (!s)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	s->setup = setup;
	int rc = take_arena(s, err);
	if (!rc)
		rc = make_tables(s, err);
	if (!rc)
		rc = ask_groups(s, err);
	if (!rc)
		rc = start_scale(s, err);
	if (rc) {
		zr_session_close(s);
		return rc;
	}
	zr_walk_init(s);
	*out = s;
	return 0;
}

void zr_session_close(struct zr_session *s)
{
	if (!s)
		return;
	struct zr_setup *p = s->setup;
	int tier = p->device_info.unified ? ZR_TIER_HOST : ZR_TIER_DEVICE;
	if (s->arena) {
		for (int i = 0; i < ZR_R_COUNT; i++)
			zr_account_give(&p->account, tier, p->plan.region[i].what, p->plan.region[i].bytes);
		device(p)->mem_free(p->device.inst, s->arena, p->plan.total, ZR_MEM_DEVICE);
	}
	free(s->layer);
	free(s->pointers);
	free(s->flags);
	free(s->groups);
	free(s->full);
	free(s->done);
	free(s->seg);
	free(s->state_buf);
	free(s->all_units);
	free(s);
}

/* Values of tensor i depend on (seed, i, element) only. */
static int init_tensor(struct zr_session *s, int32_t i)
{
	const struct zr_setup *p = s->setup;
	const struct zr_place *t = &p->layout.tensor[i];
	struct zr_op_init op = {
		.size = sizeof op,
		.n = t->elements,
		.mean = t->decl->mean,
		.std = t->decl->init == ZR_INIT_NORMAL ? t->decl->std : 0,
		.rng = { .seed = (uint64_t)p->train->seed, .step = UINT64_MAX, .slot = (uint32_t)i, .site = UINT32_MAX },
		.dst = zr_session_master(s, i),
	};
	return p->ops->init(p->ops, NULL, &op);
}

int zr_session_publish(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	struct zr_op_cast op = {
		.size = sizeof op,
		.dst_dtype = p->types.dtype,
		.src_dtype = ZR_F32,
		.n = p->layout.blocks * ZR_BLOCK,
		.src = s->region[ZR_R_MASTER],
		.dst = s->region[ZR_R_PARAM],
	};
	if (p->types.dtype == ZR_F32)
		return 0;
	int rc = p->ops->cast(p->ops, NULL, &op);
	return rc ? zr_instance_failed(&p->device, rc, "cast", err) : 0;
}

/* First values of the optimizer's state; the arena is zeroed already. */
static int init_states(struct zr_session *s, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	const struct zr_optimizer_v1 *opt = p->optimizer.vtbl;
	for (uint32_t i = 0; i < p->n_states; i++) {
		const struct zr_state *st =
			(const struct zr_state *)((const char *)p->states + (size_t)i * opt->state_stride);
		if (st->init == 0)
			continue;
		if (st->dtype != ZR_F32)
			return zr_err(err, ZR_EINVAL, "optimizer %s: state %s starts at %g, which needs the type fp32",
				      p->optimizer.section->plugin->desc->id, st->name, st->init);
		float *x = (float *)(s->region[ZR_R_STATE] + p->plan.state[i]);
		for (int64_t k = 0; k < p->layout.blocks * ZR_BLOCK; k++)
			x[k] = (float)st->init;
	}
	return 0;
}

int zr_session_init(struct zr_session *s, struct zr_error *err)
{
	for (int32_t i = 0; i < s->setup->layout.n_tensors; i++) {
		int rc = init_tensor(s, i);
		if (rc)
			return zr_instance_failed(&s->setup->device, rc, "init", err);
	}
	int rc = init_states(s, err);
	return rc ? rc : zr_session_publish(s, err);
}
