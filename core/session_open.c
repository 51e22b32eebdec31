/* SPDX-License-Identifier: Apache-2.0
 *
 * session_open.c - a session's memory: the plan's arena, pointers into it, parameters in and out.
 */
#include "core/exec/exec.h"
#include "core/memory/piece.h"
#include "core/program/route.h"

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

/* Operations are the device's, or those of the host's beside it. */
int zr_op_failed(struct zr_session *s, const struct zr_ops *ops, int rc, const char *op)
{
	struct zr_setup *p = s->setup;
	return zr_instance_failed(ops == p->ops ? &p->device : &p->host_device, rc, op, s->err);
}

/* A model, an optimizer or a comm passes on the code of an operation, whose text its device has. */
int zr_user_failed(struct zr_session *s, struct zr_instance *it, int rc, const char *doing)
{
	struct zr_instance *device[] = { &s->setup->device, &s->setup->host_device };
	for (int i = 0; i < 2 && rc; i++)
		if (device[i]->inst && device[i]->failed.code == rc && it->failed.code != rc)
			it = device[i];
	return zr_instance_failed(it, rc, doing, s->err);
}

/* Where ranks read each other's memory the device's arena is comm's, mapped by all of the node. */
static int take_arena(struct zr_session *s, int store, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	uint64_t bytes = p->plan.arena[store];
	void *base = NULL;
	int rc = 0;
	if (!bytes)
		return 0;
	if (p->peers && store == ZR_STORE_DEVICE) {
		const struct zr_comm_v1 *comm = p->comm.vtbl;
		s->comm_owns_arena = 1;
		rc = comm->mem_alloc(p->comm.inst, bytes, &base);
		if (zr_instance_failed(&p->comm, rc, "mem_alloc", err))
			return rc;
	} else {
		rc = device(p)->mem_alloc(p->device.inst, bytes, store == ZR_STORE_DEVICE ? ZR_MEM_DEVICE : ZR_MEM_PINNED, &base);
		if (zr_instance_failed(&p->device, rc, "mem_alloc", err))
			return rc;
	}
	s->arena[store] = base;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		const struct zr_region *r = &p->plan.region[i];
		if (r->store != store)
			continue;
		s->region[i] = s->arena[store] + r->offset;
		if (!r->added)
			continue;
		zr_account_plan(&p->account, r->tier, r->what, r->added);
		zr_account_take(&p->account, r->tier, r->what, r->added);
	}
	return 0;
}

static void give_arena(struct zr_session *s, int store)
{
	struct zr_setup *p = s->setup;
	if (!s->arena[store])
		return;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		const struct zr_region *r = &p->plan.region[i];
		if (r->store == store && r->added)
			zr_account_give(&p->account, r->tier, r->what, r->added);
	}
	if (s->comm_owns_arena && store == ZR_STORE_DEVICE)
		((const struct zr_comm_v1 *)p->comm.vtbl)->mem_free(p->comm.inst, s->arena[store]);
	else
		device(p)->mem_free(p->device.inst, s->arena[store], p->plan.arena[store],
				    store == ZR_STORE_DEVICE ? ZR_MEM_DEVICE : ZR_MEM_PINNED);
}

static int fill_layer(const struct zr_setup *p, int32_t layer, struct zr_layer_tensors *t)
{
	const struct zr_layer *decl = zr_layer_at(&p->decl, layer);
	const struct zr_schedule *uses = &p->train_uses;
	for (uint32_t i = 0; i < decl->n_units; i++) {
		const struct zr_unit_place *u = &p->layout.unit[decl->units[i]];
		int32_t grad = p->mode == ZR_SETUP_SAMPLE ? -1 : uses->first_grad[decl->units[i]];
		int first = grad < 0 || uses->use[grad].layer == layer;
		for (int32_t k = 0; k < u->count; k++) {
			t->tensor[t->n] = u->first + k;
			t->accumulate[t->n++] = !first;
		}
	}
	return t->n;
}

/* All tables in one piece of memory, counted first (base == NULL), then cut at *at. */
static void *cut(char *base, size_t *at, size_t bytes)
{
	size_t from = *at;
	*at += (bytes + 15) / 16 * 16;
	return base ? base + from : NULL;
}

static size_t cut_tables(struct zr_session *s, char *base)
{
	const struct zr_setup *p = s->setup;
	size_t at = 0, units = (size_t)p->layout.n_units + 1;
	struct zr_layer_tensors *layer = cut(base, &at, p->decl.n_layers * sizeof *layer);
	for (uint32_t i = 0; i < p->decl.n_layers; i++) {
		size_t n = (size_t)zr_setup_layer_tensors(p, (int32_t)i) + 1;
		struct zr_layer_tensors t = { 0 };
		t.param = cut(base, &at, n * sizeof *t.param);
		t.dparam = cut(base, &at, n * sizeof *t.dparam);
		t.accumulate = cut(base, &at, n);
		t.tensor = cut(base, &at, n * sizeof *t.tensor);
		if (base) {
			fill_layer(p, (int32_t)i, &t);
			layer[i] = t;
		}
	}
	s->layer = layer;
	s->view = cut(base, &at, units * sizeof *s->view);
	s->seg = cut(base, &at, ((size_t)p->layout.n_tensors + ZR_CHUNK) * sizeof *s->seg);
	s->group_seg = cut(base, &at, ((size_t)p->layout.n_tensors + ZR_CHUNK) * sizeof *s->seg);
	s->lr = cut(base, &at, ((size_t)p->n_param_groups + 1) * sizeof *s->lr);
	s->scalars = cut(base, &at, ((size_t)p->n_param_groups + 1) * sizeof *s->scalars);
	s->state_buf = cut(base, &at, (p->n_states + 1) * sizeof *s->state_buf);
	return at;
}

static int make_tables(struct zr_session *s, struct zr_error *err)
{
	size_t bytes = cut_tables(s, NULL);
	s->tables = calloc(1, bytes);
	if (!s->tables)
		return zr_err(err, ZR_ENOMEM, "out of memory for the session's tables");
	cut_tables(s, s->tables);
	s->early = zr_program_updates(&s->setup->program[ZR_PROG_LAST_MICRO]);
	return 0;
}

/* Mappings live as long as the arena. */
static int map_views(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_comm_v1 *comm = p->comm.vtbl;
	for (int32_t u = 0; u < p->layout.n_units; u++) {
		void *view = NULL;
		if (!zr_unit_view(p, u))
			continue;
		int rc = comm->mem_view(p->comm.inst, zr_at(s, p->plan.unit[u].param), zr_unit_share_bytes(p, u), p->groups[u].param, &view);
		if (zr_instance_failed(&p->comm, rc, "mem_view", err))
			return rc;
		s->view[u] = view;
	}
	return 0;
}

static int start_scale(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_precision_v1 *precision = p->precision.vtbl;
	int rc = precision->start(p->precision.inst, &s->scale);
	return zr_instance_failed(&p->precision, rc, "start", err);
}

int zr_session_open(struct zr_setup *setup, struct zr_session **out, struct zr_error *err)
{
	struct zr_session *s = calloc(1, sizeof *s);
	if (!s)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	s->setup = setup;
	int rc = zr_prove_all(setup, err);
	rc = rc ? rc : take_arena(s, ZR_STORE_DEVICE, err);
	rc = rc ? rc : take_arena(s, ZR_STORE_HOST, err);
	rc = rc ? rc : zr_tier_open(s, err);
	rc = rc ? rc : make_tables(s, err);
	rc = rc ? rc : map_views(s, err);
	rc = rc ? rc : zr_bind(s, err);
	rc = rc ? rc : start_scale(s, err);
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
	zr_tier_close(s);
	give_arena(s, ZR_STORE_HOST);
	give_arena(s, ZR_STORE_DEVICE);
	zr_unbind(s);
	free(s->tables);
	free(s->frozen_hash);
	free(s);
}

/* ---- values in ---- */

/* A chunk of masters in host memory: everything that comes or goes passes through it. */
static float *new_chunk(struct zr_error *err)
{
	float *x = aligned_alloc(64, ZR_CHUNK * ZR_BLOCK * sizeof *x);
	if (!x)
		zr_err(err, ZR_ENOMEM, "out of memory for a chunk of parameters");
	return x;
}

struct fill {
	zr_values_fn *fn;
	void *arg;
	float *x;
};

/* Padding is zero and stays so. */
static int fill_chunk(struct zr_session *s, int32_t unit, int64_t first, int64_t n, const struct fill *f)
{
	uint64_t count = zr_cut_segments(s, unit, first, n, s->seg);
	int rc = 0;
	memset(f->x, 0, (size_t)(n * ZR_BLOCK) * sizeof *f->x);
	for (uint64_t i = 0; !rc && i < count; i++)
		rc = f->fn(f->arg, s->seg[i].param, s->seg[i].param_off, s->seg[i].n, f->x + s->seg[i].off, s->err);
	return rc;
}

static int fill_piece(struct zr_session *s, const struct zr_piece *p, void *arg)
{
	const struct fill *f = arg;
	int rc = 0;
	for (int64_t at = 0; !rc && at < p->n; at += ZR_CHUNK) {
		int64_t n = p->n - at < ZR_CHUNK ? p->n - at : ZR_CHUNK;
		rc = fill_chunk(s, p->unit, p->first + at, n, f);
		rc = rc ? rc : zr_master_in(s, p, at, n, f->x);
	}
	return rc;
}

int zr_session_fill(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err)
{
	struct fill f = { fn, arg, new_chunk(err) };
	int rc = f.x ? 0 : ZR_ENOMEM;
	s->err = err;
	for (int32_t u = 0; !rc && u < s->setup->layout.n_units; u++)
		rc = zr_each_piece(s, u, ZR_ANY, 0, ZR_WITH(ZR_D_MASTER) | ZR_WITH(ZR_D_LOWP), fill_piece, &f);
	free(f.x);
	return rc || s->setup->mode == ZR_SETUP_SAMPLE ? rc : zr_run(s, ZR_S_VALUES, err);
}

/* Values of tensor i depend on (seed, i, element) only. */
static int init_values(void *arg, int32_t i, int64_t first, int64_t n, float *x, struct zr_error *err)
{
	struct zr_session *s = arg;
	struct zr_setup *p = s->setup;
	const struct zr_tensor *decl = p->layout.tensor[i].decl;
	struct zr_op_init op = {
		.size = sizeof op,
		.mean = decl->mean,
		.std = decl->init == ZR_INIT_NORMAL ? decl->std : 0,
		.rng = { .seed = (uint64_t)p->train->seed, .step = UINT64_MAX, .slot = (uint32_t)i, .site = UINT32_MAX },
		.first = first,
		.n = n,
		.dst = x,
	};
	int rc = p->host_ops->init(p->host_ops, NULL, &op);
	s->err = err;
	return zr_op_failed(s, p->host_ops, rc, "init");
}

struct init_state {
	float *x; /* a chunk of the first value */
	int d;
};

static int init_state_piece(struct zr_session *s, const struct zr_piece *p, void *arg)
{
	const struct init_state *in = arg;
	uint64_t bytes = (uint64_t)p->n * zr_block_bytes(s->setup, p->unit, in->d), chunk = ZR_CHUNK * ZR_BLOCK * sizeof *in->x;
	char *to = zr_piece_data(s, p, in->d);
	int rc = 0;
	for (uint64_t at = 0; !rc && at < bytes; at += chunk)
		rc = zr_copy(s, to + at, in->x, bytes - at < chunk ? bytes - at : chunk);
	return rc;
}

/* Memory is zero already, what a disk holds is not known. */
static int init_state(struct zr_session *s, int32_t optimizer, uint32_t i, float *x, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	const struct zr_state *st = zr_setup_state(p, i);
	struct init_state in = { x, ZR_D_STATE + (int)i };
	int rc = 0;
	if (st->init == 0 && zr_addressed(s, ZR_R_STATE))
		return 0;
	if (st->init != 0 && st->dtype != ZR_F32)
		rc = zr_err(err, ZR_EINVAL, "optimizer %s: state %s starts at %g, which needs the type fp32",
			    p->optimizer[optimizer].it.section->plugin->desc->id, st->name, st->init);
	for (int64_t k = 0; k < ZR_CHUNK * ZR_BLOCK; k++)
		x[k] = (float)st->init;
	for (int32_t u = 0; !rc && u < p->layout.n_units; u++)
		rc = zr_each_piece(s, u, optimizer, 0, ZR_WITH(in.d), init_state_piece, &in);
	return rc;
}

/* First values of the optimizers' states. */
static int init_states(struct zr_session *s, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	float *x = new_chunk(err);
	int rc = x ? 0 : ZR_ENOMEM;
	for (int32_t k = 0; k < p->n_optimizers; k++)
		for (uint32_t i = 0; !rc && i < p->optimizer[k].n_states; i++)
			rc = init_state(s, k, p->optimizer[k].first_state + i, x, err);
	free(x);
	return rc;
}

int zr_session_begin(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err)
{
	s->err = err;
	int rc = init_states(s, err);
	return rc ? rc : zr_session_fill(s, fn, arg, err);
}

int zr_session_init(struct zr_session *s, struct zr_error *err)
{
	return zr_session_begin(s, init_values, s, err);
}

/* ---- values out ---- */

struct out {
	zr_masters_fn *fn;
	void *arg;
	float *x;
};

/* Blocks [first, first + n) of a unit, in o->x, tensor by tensor. */
static int hand_out(struct zr_session *s, int32_t unit, int64_t first, int64_t n, const struct out *o)
{
	uint64_t count = o->fn ? zr_cut_segments(s, unit, first, n, s->seg) : 0;
	int rc = 0;
	for (uint64_t i = 0; !rc && i < count; i++)
		rc = o->fn(o->arg, &s->setup->layout.tensor[s->seg[i].param], s->seg[i].param_off, s->seg[i].n, o->x + s->seg[i].off);
	return rc;
}

/* Of share `root`, to the group of those who hold one. */
static int send_chunk(struct zr_session *s, int32_t unit, int64_t n, int32_t root, float *x)
{
	int32_t group = s->setup->groups[unit].state;
	zr_ticket ticket;
	struct zr_comm_seg seg = { .send = x, .recv = x, .count = n * ZR_BLOCK };
	struct zr_comm_op o = { .size = sizeof o, .kind = ZR_COMM_BROADCAST, .group = group, .dtype = ZR_F32,
				.root = root, .n_seg = 1, .seg = &seg,
				.tag = { .step = s->step + 1, .op = -1, .unit = unit } };
	if (zr_group_ranks(s->setup, group) == 1)
		return 0;
	int rc = zr_post(s, &o, 0, &ticket);
	return rc ? rc : zr_complete(s, ticket);
}

static int out_piece(struct zr_session *s, const struct zr_piece *p, void *arg)
{
	struct out *o = arg;
	int rc = 0;
	for (int64_t at = 0; !rc && at < p->n; at += ZR_CHUNK) {
		int64_t n = p->n - at < ZR_CHUNK ? p->n - at : ZR_CHUNK;
		rc = zr_master_out(s, p, at, n, o->x);
		if (!rc)
			rc = send_chunk(s, p->unit, n, s->setup->mesh.group[s->setup->groups[p->unit].state].rank, o->x);
		rc = rc ? rc : hand_out(s, p->unit, p->first + at, n, o);
	}
	return rc;
}

/* What another rank holds comes in the same chunks. */
static int receive(struct zr_session *s, int32_t unit, int32_t root, struct out *o)
{
	const struct zr_setup *p = s->setup;
	int64_t step = p->plan.staging.blocks;
	int32_t group = p->groups[unit].state, rank = p->process.rank - p->mesh.group[group].rank + root;
	struct zr_share share = zr_unit_share(p, unit, group, rank);
	int rc = 0;
	for (int64_t piece = 0; !rc && piece < share.n; piece += step)
		for (int64_t at = piece; !rc && at < piece + step && at < share.n; at += ZR_CHUNK) {
			int64_t end = piece + step < share.n ? piece + step : share.n, n = end - at < ZR_CHUNK ? end - at : ZR_CHUNK;
			rc = send_chunk(s, unit, n, root, o->x);
			rc = rc ? rc : hand_out(s, unit, share.first + at, n, o);
		}
	return rc;
}

int zr_session_masters(struct zr_session *s, zr_masters_fn *fn, void *arg, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	struct out o = { fn, arg, new_chunk(err) };
	int rc = o.x ? 0 : ZR_ENOMEM;
	s->err = err;
	for (int32_t u = 0; !rc && u < p->layout.n_units; u++) {
		const struct zr_axis *a = &p->mesh.group[p->groups[u].state];
		uint32_t in = zr_unit_master(p, u) == ZR_MASTER_FP32 ? ZR_WITH(ZR_D_MASTER) : ZR_WITH(ZR_D_MASTER) | ZR_WITH(ZR_D_LOWP);
		for (int32_t r = 0; !rc && r < a->n; r++)
			rc = r == a->rank ? zr_each_piece(s, u, ZR_ANY, in, 0, out_piece, &o) : receive(s, u, r, &o);
	}
	free(o.x);
	return rc;
}
