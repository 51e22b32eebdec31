/* SPDX-License-Identifier: Apache-2.0
 *
 * session.c - memory of a session: the arena of the plan, the tables of pointers into it, values of parameters in and
 * out.
 */
#include "core/session.h"

#include <stdlib.h>
#include <string.h>

static const struct zr_device_v1 *device(const struct zr_setup *p)
{
	return p->device.vtbl;
}

char *zr_at(const struct zr_session *s, struct zr_spot spot)
{
	return s->region[spot.region] + spot.at;
}

/* Where ranks read each other's memory the arena is comm's, mapped by all of the node. */
static int take_arena(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	int tier = p->device_info.unified ? ZR_TIER_HOST : ZR_TIER_DEVICE, rc;
	void *base;
	s->comm_owns_arena = p->peers;
	if (p->peers) {
		const struct zr_comm_v1 *comm = p->comm.vtbl;
		rc = comm->mem_alloc(p->comm.inst, p->plan.total, &base);
		if (rc)
			return zr_instance_failed(&p->comm, rc, "mem_alloc", err);
	} else {
		rc = device(p)->mem_alloc(p->device.inst, p->plan.total, ZR_MEM_DEVICE, &base);
		if (rc)
			return zr_instance_failed(&p->device, rc, "mem_alloc", err);
	}
	s->arena = base;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		s->region[i] = s->arena + p->plan.region[i].offset;
		if (!p->plan.region[i].bytes)
			continue;
		zr_account_plan(&p->account, tier, p->plan.region[i].what, p->plan.region[i].bytes);
		zr_account_take(&p->account, tier, p->plan.region[i].what, p->plan.region[i].bytes);
	}
	return 0;
}

static void give_arena(struct zr_session *s)
{
	struct zr_setup *p = s->setup;
	int tier = p->device_info.unified ? ZR_TIER_HOST : ZR_TIER_DEVICE;
	if (!s->arena)
		return;
	for (int i = 0; i < ZR_R_COUNT; i++)
		if (p->plan.region[i].bytes)
			zr_account_give(&p->account, tier, p->plan.region[i].what, p->plan.region[i].bytes);
	if (s->comm_owns_arena)
		((const struct zr_comm_v1 *)p->comm.vtbl)->mem_free(p->comm.inst, s->arena);
	else
		device(p)->mem_free(p->device.inst, s->arena, p->plan.total, ZR_MEM_DEVICE);
}

static int fill_layer(const struct zr_setup *p, int32_t layer, struct zr_layer_tensors *t)
{
	const struct zr_layer *decl = zr_layer_at(&p->decl, layer);
	int32_t last = (int32_t)p->decl.n_layers - 1;
	for (uint32_t i = 0; i < decl->n_units; i++) {
		const struct zr_unit_place *u = &p->layout.unit[decl->units[i]];
		int first = p->mode == ZR_SETUP_SAMPLE || p->train_uses.first_grad[decl->units[i]] == 2 * last - layer;
		for (int32_t k = 0; k < u->count; k++) {
			t->tensor[t->n] = u->first + k;
			t->accumulate[t->n++] = !first;
		}
	}
	return t->n;
}

/* Over the programs: the most operations, the longest table of units. */
static void longest(const struct zr_setup *p, size_t *ops, size_t *units)
{
	*ops = *units = 1;
	for (int i = 0; i < 4; i++) {
		if ((size_t)p->program[i].n > *ops)
			*ops = (size_t)p->program[i].n;
		if ((size_t)p->program[i].n_unit > *units)
			*units = (size_t)p->program[i].n_unit;
	}
}

/* All tables in one piece of memory, counted first (at == NULL), then cut. */
static void *cut(char **at, size_t bytes)
{
	char *p = *at;
	*at += (bytes + 15) / 16 * 16;
	return p;
}

static size_t cut_tables(struct zr_session *s, char *base)
{
	const struct zr_setup *p = s->setup;
	char *at = base;
	size_t units = (size_t)p->layout.n_units + 1, ops, listed;
	longest(p, &ops, &listed);
	struct zr_layer_tensors *layer = cut(&at, p->decl.n_layers * sizeof *layer);
	for (uint32_t i = 0; i < p->decl.n_layers; i++) {
		size_t n = (size_t)zr_setup_layer_tensors(p, (int32_t)i) + 1;
		struct zr_layer_tensors t = { 0 };
		t.param = cut(&at, n * sizeof *t.param);
		t.dparam = cut(&at, n * sizeof *t.dparam);
		t.accumulate = cut(&at, n);
		t.tensor = cut(&at, n * sizeof *t.tensor);
		if (base) {
			fill_layer(p, (int32_t)i, &t);
			layer[i] = t;
		}
	}
	s->layer = layer;
	s->full = cut(&at, units * sizeof *s->full);
	s->posted = cut(&at, ops * sizeof *s->posted);
	s->comm_seg = cut(&at, listed * sizeof *s->comm_seg);
	s->seg = cut(&at, ((size_t)p->layout.n_tensors + 1) * sizeof *s->seg);
	s->state_buf = cut(&at, (p->n_states + 1) * sizeof *s->state_buf);
	return (size_t)(at - base);
}

static int make_tables(struct zr_session *s, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	size_t bytes = cut_tables(s, NULL);
	s->tables = calloc(1, bytes);
	if (!s->tables)
		return zr_err(err, ZR_ENOMEM, "out of memory for the session's tables");
	cut_tables(s, s->tables);
	for (int32_t u = 0; u < p->layout.n_units; u++)
		if (zr_group_ranks(p, p->groups[u].param) == 1)
			s->full[u] = zr_at(s, p->plan.unit[u].param);
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
		return zr_err(err, ZR_EINVAL, "[device] %s has a memory of its own, which core cannot feed",
			      setup->device_info.name);
	struct zr_session *s = calloc(1, sizeof *s);
	if (!s)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	s->setup = setup;
	int rc = take_arena(s, err);
	if (!rc)
		rc = make_tables(s, err);
	if (!rc)
		rc = start_scale(s, err);
	if (rc)
		zr_session_close(s);
	else
		*out = s;
	return rc;
}

void zr_session_close(struct zr_session *s)
{
	if (!s)
		return;
	give_arena(s);
	free(s->tables);
	free(s);
}

/* ---- values in ---- */

float *zr_session_home(const struct zr_session *s, int32_t i, int64_t *first, int64_t *n)
{
	const struct zr_setup *p = s->setup;
	const struct zr_place *t = &p->layout.tensor[i];
	const struct zr_unit_memory *m = &p->plan.unit[t->unit];
	int whole = p->groups[t->unit].state == ZR_GROUP_SELF;
	int64_t lo = whole ? 0 : m->first * ZR_BLOCK, hi = whole ? INT64_MAX : lo + m->n * ZR_BLOCK;
	int64_t from = t->offset > lo ? t->offset : lo, to = t->offset + t->elements < hi ? t->offset + t->elements : hi;
	*first = from - t->offset;
	*n = to > from ? to - from : 0;
	return (float *)zr_at(s, m->master) + (from - lo);
}

/* Values of tensor i depend on (seed, i, element) only; each rank makes its home blocks. */
static int init_tensor(struct zr_session *s, int32_t i)
{
	const struct zr_setup *p = s->setup;
	const struct zr_tensor *decl = p->layout.tensor[i].decl;
	struct zr_op_init op = {
		.size = sizeof op,
		.mean = decl->mean,
		.std = decl->init == ZR_INIT_NORMAL ? decl->std : 0,
		.rng = { .seed = (uint64_t)p->train->seed, .step = UINT64_MAX, .slot = (uint32_t)i, .site = UINT32_MAX },
	};
	op.dst = zr_session_home(s, i, &op.first, &op.n);
	return op.n ? p->ops->init(p->ops, NULL, &op) : 0;
}

/* First values of the optimizer's state; the arena is zeroed already. */
static int init_states(struct zr_session *s, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	for (uint32_t i = 0; i < p->n_states; i++) {
		const struct zr_state *st = zr_setup_state(p, i);
		if (st->init == 0)
			continue;
		if (st->dtype != ZR_F32)
			return zr_err(err, ZR_EINVAL, "optimizer %s: state %s starts at %g, which needs the type fp32",
				      p->optimizer.section->plugin->desc->id, st->name, st->init);
		float *x = (float *)(s->region[ZR_R_STATE] + p->plan.state[i]);
		for (int64_t k = 0; k < p->plan.state_blocks * ZR_BLOCK; k++)
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

/* The compute copy of what this rank holds of the master. */
static int cast_unit(struct zr_session *s, int32_t u)
{
	const struct zr_setup *p = s->setup;
	const struct zr_unit_memory *m = &p->plan.unit[u];
	int whole = p->groups[u].state == ZR_GROUP_SELF;
	struct zr_op_cast op = {
		.size = sizeof op,
		.dst_dtype = p->types.dtype,
		.src_dtype = ZR_F32,
		.n = (whole ? p->layout.unit[u].blocks : m->n) * ZR_BLOCK,
		.src = zr_at(s, m->master),
		.dst = zr_at(s, whole ? m->param : m->home),
	};
	return p->types.dtype == ZR_F32 || !op.n ? 0 : p->ops->cast(p->ops, NULL, &op);
}

int zr_session_publish(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	for (int32_t u = 0; u < p->layout.n_units; u++) {
		int rc = cast_unit(s, u);
		if (rc)
			return zr_instance_failed(&p->device, rc, "cast", err);
	}
	return p->mode == ZR_SETUP_SAMPLE ? 0 : zr_replay_publish(s, err);
}

/* ---- values out ---- */

/* Memory of its own for one unit's whole master, put together from the homes. */
struct whole {
	float *buf;
	int64_t elements;
};

static int gather_master(struct zr_session *s, int32_t u, struct whole *w, const float **out, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_unit_memory *m = &p->plan.unit[u];
	zr_ticket ticket;
	if (p->groups[u].state == ZR_GROUP_SELF || p->process.world == 1) {
		*out = (const float *)zr_at(s, m->master);
		return 0;
	}
	int64_t need = zr_unit_padded_elements(p, u);
	if (need > w->elements) {
		free(w->buf);
		w->buf = malloc((size_t)need * sizeof *w->buf);
		w->elements = w->buf ? need : 0;
	}
	if (!w->buf)
		return zr_err(err, ZR_ENOMEM, "out of memory for unit %s", p->layout.unit[u].name);
	struct zr_comm_seg seg = { .send = zr_at(s, m->master), .recv = w->buf, .count = m->per * ZR_BLOCK };
	s->err = err;
	int rc = zr_collective(s, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_F32, &seg, 1, -1, u, &ticket);
	if (!rc)
		rc = zr_complete(s, ticket);
	*out = w->buf;
	return rc;
}

int zr_session_masters(struct zr_session *s, int (*fn)(void *arg, const struct zr_place *t, const float *data), void *arg,
		       struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	struct whole w = { 0 };
	int rc = 0;
	for (int32_t u = 0; !rc && u < p->layout.n_units; u++) {
		const struct zr_unit_place *unit = &p->layout.unit[u];
		const float *data = NULL;
		rc = gather_master(s, u, &w, &data, err);
		for (int32_t i = unit->first; !rc && fn && i < unit->first + unit->count; i++)
			rc = fn(arg, &p->layout.tensor[i], data + p->layout.tensor[i].offset);
	}
	free(w.buf);
	return rc;
}
