/* SPDX-License-Identifier: Apache-2.0
 *
 * session_open.c - a session's memory: the plan's arena, pointers into it, parameters in and out.
 */
#include "core/exec/exec.h"
#include "core/memory/subgroup.h"
#include "core/program/route.h"

#include <stdlib.h>
#include <string.h>

/* Everything that comes or goes passes through masters in host memory, so many at a time. */
struct zr_chunk {
	float x[ZR_CHUNK * ZR_BLOCK];
	uint16_t work[2 * ZR_CHUNK * ZR_BLOCK]; /* what is kept of them in 16 bits and below */
	zr_values_fn *in;
	zr_masters_fn *out;
	void *arg;
};

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

static void count_arena(struct zr_setup *p, int store, int taken)
{
	for (const struct zr_region *r = p->plan.region; r < p->plan.region + ZR_R_COUNT; r++)
		if (r->store == store && r->added)
			zr_account_add(&p->account, r->tier, r->what, taken * (int64_t)r->added);
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
	if (p->peers && store == ZR_STORE_DEVICE)
		rc = ZR_ASK(&p->comm, comm, mem_alloc, err, bytes, &base);
	else
		rc = ZR_ASK(&p->device, device, mem_alloc, err, bytes,
			    store == ZR_STORE_DEVICE ? ZR_MEM_DEVICE : ZR_MEM_PINNED, &base);
	if (rc)
		return rc;
	s->arena[store] = base;
	for (int i = 0; i < ZR_R_COUNT; i++)
		if (p->plan.region[i].store == store)
			s->region[i] = s->arena[store] + p->plan.region[i].offset;
	count_arena(p, store, 1);
	return 0;
}

static void give_arena(struct zr_session *s, int store)
{
	struct zr_setup *p = s->setup;
	if (!s->arena[store])
		return;
	count_arena(p, store, -1);
	if (p->peers && store == ZR_STORE_DEVICE)
		((const struct zr_comm_v1 *)p->comm.vtbl)->mem_free(p->comm.inst, s->arena[store]);
	else
		device(p)->mem_free(p->device.inst, s->arena[store], p->plan.arena[store],
				    store == ZR_STORE_DEVICE ? ZR_MEM_DEVICE : ZR_MEM_PINNED);
}

static int make_tables(struct zr_session *s, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	size_t segs = (size_t)p->layout.n_tensors + ZR_CHUNK;
	size_t groups = (size_t)p->n_param_groups + 1;
	int32_t most = 0;
	for (int32_t i = 0; i < (int32_t)p->decl.n_layers; i++) {
		int32_t n = zr_setup_layer_tensors(p, i);
		most = n > most ? n : most;
	}
	s->param = calloc((size_t)most + 1, sizeof *s->param);
	s->dparam = calloc((size_t)most + 1, sizeof *s->dparam);
	s->accumulate = calloc((size_t)most + 1, 1);
	s->view = calloc((size_t)p->layout.n_units + 1, sizeof *s->view);
	s->seg = calloc(segs, sizeof *s->seg);
	s->group_seg = calloc(segs, sizeof *s->group_seg);
	s->lr = calloc(groups, sizeof *s->lr);
	s->scalars = calloc(groups, sizeof *s->scalars);
	s->state_buf = calloc(p->n_states + 1, sizeof *s->state_buf);
	s->chunk = aligned_alloc(64, zr_up(sizeof *s->chunk, 64));
	if (s->param && s->dparam && s->accumulate && s->view && s->seg && s->group_seg && s->lr &&
	    s->scalars && s->state_buf && s->chunk)
		return 0;
	return zr_err(err, ZR_ENOMEM, "out of memory for the session's tables");
}

/* Mappings live as long as the arena. */
static int map_views(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	for (int32_t u = 0; u < p->layout.n_units; u++) {
		void *view = NULL;
		if (!zr_unit_view(p, u))
			continue;
		int rc = ZR_ASK(&p->comm, comm, mem_view, err, zr_at(s, p->plan.unit[u].param),
				zr_unit_share_bytes(p, u), p->groups[u].param, &view);
		if (rc)
			return rc;
		s->view[u] = view;
	}
	return 0;
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
	rc = rc ? rc : ZR_ASK(&setup->precision, precision, start, err, &s->scale);
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
	void *const table[] = { s->param, s->dparam, s->accumulate, s->view, s->seg, s->group_seg,
				s->lr, s->scalars, s->state_buf, s->chunk, s->frozen_hash, s };
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		free(table[i]);
}

/* ---- values in and out ---- */

/* Calls fn for a rank's share of a unit, chunk by chunk. */
typedef int chunk_fn(struct zr_session *s, const struct zr_subgroup *p, int32_t rank);
static int each_chunk(struct zr_session *s, int32_t unit, int32_t rank, chunk_fn *fn)
{
	const struct zr_setup *p = s->setup;
	struct zr_share share = zr_unit_share(p, unit, p->groups[unit].state, rank);
	struct zr_run all = { .unit = unit, .optimizer = ZR_ANY };
	int rc = 0;
	for (int64_t at = 0; !rc && at < share.n; at += ZR_CHUNK) {
		int64_t n = share.n - at < ZR_CHUNK ? share.n - at : ZR_CHUNK;
		struct zr_subgroup subgroup = zr_subgroup_in(p, &all, share.first + at, n);
		rc = fn(s, &subgroup, rank);
	}
	return rc;
}

/* Padding is zero and stays so. */
static int fill(struct zr_session *s, const struct zr_subgroup *p, int32_t rank)
{
	struct zr_chunk *c = s->chunk;
	uint64_t count = zr_cut_segments(s, p->unit, p->first, p->n, s->seg);
	int rc = 0;
	(void)rank;
	memset(c->x, 0, sizeof c->x);
	for (const struct zr_seg *g = s->seg; !rc && g < s->seg + count; g++)
		rc = c->in(c->arg, g->param, g->param_off, g->n, c->x + g->off, s->err);
	return rc ? rc : zr_master_in(s, p, c->x, c->work);
}

int zr_session_fill(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err)
{
	int rc = 0;
	s->err = err;
	s->chunk->in = fn;
	s->chunk->arg = arg;
	for (int32_t u = 0; !rc && u < s->setup->layout.n_units; u++)
		rc = each_chunk(s, u, s->setup->process.rank, fill);
	return rc || s->setup->mode == ZR_SETUP_SAMPLE ? rc : zr_run(s, ZR_S_VALUES, err);
}

int zr_init_values(void *arg, int32_t i, int64_t first, int64_t n, float *x, struct zr_error *err)
{
	struct zr_session *s = arg;
	struct zr_setup *p = s->setup;
	const struct zr_tensor *decl = p->layout.tensor[i].decl;
	struct zr_op_init op = {
		.size = sizeof op, .mean = decl->mean,
		.std = decl->init == ZR_INIT_CONST ? 0 : decl->std,
		.flags = decl->init == ZR_INIT_UNIFORM ? ZR_INIT_OP_UNIFORM : 0,
		.rng = { .seed = (uint64_t)p->train->seed, .step = UINT64_MAX, .slot = (uint32_t)i, .site = UINT32_MAX },
		.first = first, .n = n, .dst = x };
	int rc = p->host_ops->init(p->host_ops, NULL, &op);
	s->err = err;
	return zr_op_failed(s, p->host_ops, rc, "init");
}

/* First values of one state of a run. Memory and objects of stores are zero already. */
static int init_state(struct zr_session *s, const struct zr_run *r, uint32_t i)
{
	const struct zr_state *st = zr_setup_state(s->setup, i);
	const struct zr_section *sec = s->setup->optimizer[r->optimizer].it.section;
	int rc = 0;
	if (st->init == 0)
		return 0;
	if (st->dtype != ZR_F32)
		return zr_err(s->err, ZR_EINVAL,
			      "optimizer %s: state %s starts at %g, which needs the type fp32",
			      sec->plugin->desc->id, st->name, st->init);
	for (int64_t k = 0; k < ZR_CHUNK * ZR_BLOCK; k++)
		s->chunk->x[k] = (float)st->init;
	for (int64_t at = 0; !rc && at < r->n; at += ZR_CHUNK) {
		int64_t n = r->n - at < ZR_CHUNK ? r->n - at : ZR_CHUNK;
		struct zr_subgroup p = zr_subgroup_in(s->setup, r, r->first + at, n);
		rc = zr_datum_pass(s, &p, ZR_D_STATE + (int)i, s->chunk->x, 1);
	}
	return rc;
}

int zr_session_begin(struct zr_session *s, zr_values_fn *fn, void *arg, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	int rc = 0;
	s->err = err;
	for (int32_t r = 0; r < p->plan.n_runs; r++) {
		const struct zr_optimizer *o = &p->optimizer[p->plan.run[r].optimizer];
		for (uint32_t i = 0; !rc && i < o->n_states; i++)
			rc = init_state(s, &p->plan.run[r], o->first_state + i);
	}
	return rc ? rc : zr_session_fill(s, fn, arg, err);
}

/* From who holds it to its group. */
static int send_chunk(struct zr_session *s, const struct zr_subgroup *p, int32_t rank, float *x)
{
	int32_t group = s->setup->groups[p->unit].state;
	int32_t ranks = (int32_t)zr_group_ranks(s->setup, group);
	zr_ticket ticket;
	struct zr_comm_seg seg = { .send = x, .recv = x, .count = p->n * ZR_BLOCK };
	struct zr_comm_op o = { .size = sizeof o, .kind = ZR_COMM_BROADCAST, .group = group,
				.dtype = ZR_F32, .root = rank % ranks, .n_seg = 1, .seg = &seg,
				.tag = { .step = s->step + 1, .op = -1, .unit = p->unit } };
	if (ranks == 1)
		return 0;
	int rc = zr_post(s, &o, 0, &ticket);
	return rc ? rc : zr_complete(s, ticket);
}

static int hand_out(struct zr_session *s, const struct zr_subgroup *p, int32_t rank)
{
	const struct zr_setup *setup = s->setup;
	struct zr_chunk *c = s->chunk;
	uint64_t count = c->out ? zr_cut_segments(s, p->unit, p->first, p->n, s->seg) : 0;
	int rc = rank == setup->process.rank ? zr_master_out(s, p, c->x, c->work) : 0;
	rc = rc ? rc : send_chunk(s, p, rank, c->x);
	for (const struct zr_seg *g = s->seg; !rc && g < s->seg + count; g++)
		rc = c->out(c->arg, &setup->layout.tensor[g->param], g->param_off, g->n,
			    c->x + g->off);
	return rc;
}

int zr_session_masters(struct zr_session *s, zr_masters_fn *fn, void *arg, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	int rc = 0;
	s->err = err;
	s->chunk->out = fn;
	s->chunk->arg = arg;
	for (int32_t u = 0; !rc && u < p->layout.n_units; u++) {
		const struct zr_axis *a = &p->mesh.group[p->groups[u].state];
		for (int32_t r = 0; !rc && r < a->n; r++)
			rc = each_chunk(s, u, p->process.rank - a->rank + r, hand_out);
	}
	return rc;
}
