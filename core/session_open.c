/* SPDX-License-Identifier: Apache-2.0
 *
 * session_open.c - a session's memory: the plan's arena, and pointers into it.
 */
#include "core/exec/exec.h"
#include "core/exec/graphs.h"
#include "core/memory/tier.h"
#include "core/persistent.h"
#include "core/program/route.h"
#include "core/update/update.h"
#include "core/values.h"

#include <stdlib.h>

static void count_arena(struct zr_setup *p, int store, int taken)
{
	for (const struct zr_region *r = p->plan.region; r < p->plan.region + ZR_R_COUNT; r++)
		if (r->store == store && r->added)
			zr_account_add(&p->account, r->tier, r->what, taken * (int64_t)r->added);
}

static int memory_of(int store)
{
	return store == ZR_STORE_DEVICE ? ZR_MEM_DEVICE : ZR_MEM_PINNED;
}

/* Where ranks read each other's memory the device's arena is comm's, mapped by all of the node. */
static int take_arena(struct zr_session *s, int store, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	uint64_t bytes = p->plan.arena[store];
	void *base = NULL;
	if (!bytes)
		return 0;

	int rc;
	if (p->facts.peers && store == ZR_STORE_DEVICE)
		rc = ZR_ASK(&p->roles.comm, comm, mem_alloc, err, bytes, &base);
	else
		rc = ZR_ASK(&p->roles.device, device, mem_alloc, err, bytes, memory_of(store),
			    &base);
	if (rc)
		return rc;

	s->arena[store] = base;
	for (int i = 0; i < ZR_R_COUNT; i++)
		if (p->plan.region[i].store == store)
			s->region[i] = s->arena[store] + p->plan.region[i].offset;
	count_arena(p, store, 1);
	return 0;
}

/* What a comm moves in place may be registered with its library. */
static int lend_arena(struct zr_session *s, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	const struct zr_comm_v1 *comm = p->roles.comm.vtbl;
	char *base = s->arena[ZR_STORE_DEVICE];
	if (!base || !p->roles.comm.inst)
		return 0;
	if (!p->facts.device_comm || p->facts.peers)
		return 0;
	if (!ZR_HAS(comm, struct zr_comm_v1, mem_take_back) || !comm->mem_lend)
		return 0;

	int rc = ZR_ASK(&s->setup->roles.comm, comm, mem_lend, err, base,
			p->plan.arena[ZR_STORE_DEVICE]);
	s->lent = !rc;
	return rc;
}

static void take_back_arena(struct zr_session *s)
{
	const struct zr_instance *comm = &s->setup->roles.comm;
	if (s->lent)
		((const struct zr_comm_v1 *)comm->vtbl)
			->mem_take_back(comm->inst, s->arena[ZR_STORE_DEVICE]);
	s->lent = 0;
}

static void give_arena(struct zr_session *s, int store)
{
	struct zr_setup *p = s->setup;
	const struct zr_device_v1 *device = p->roles.device.vtbl;
	if (!s->arena[store])
		return;

	count_arena(p, store, -1);
	if (p->facts.peers && store == ZR_STORE_DEVICE)
		((const struct zr_comm_v1 *)p->roles.comm.vtbl)
			->mem_free(p->roles.comm.inst, s->arena[store]);
	else
		device->mem_free(p->roles.device.inst, s->arena[store], p->plan.arena[store],
				 memory_of(store));
}

static int make_tables(struct zr_session *s, struct zr_error *err)
{
	size_t segs = (size_t)s->facts->layout.n_tensors + ZR_CHUNK;
	s->param = calloc(s->facts->most_tensors + 1, sizeof *s->param);
	s->dparam = calloc(s->facts->most_tensors + 1, sizeof *s->dparam);
	s->accumulate = calloc(s->facts->most_tensors + 1, 1);
	s->view = calloc((size_t)s->facts->layout.n_units + 1, sizeof *s->view);
	s->seg = calloc(segs, sizeof *s->seg);
	s->group_seg = calloc(segs, sizeof *s->group_seg);
	s->decided = zr_host_table(s, s->plan->decided);
	s->scalars = zr_host_table(s, s->plan->scalars);
	s->state_buf = calloc(s->roles->n_states + 1, sizeof *s->state_buf);
	s->chunk = zr_chunk_new();
	if (s->param && s->dparam && s->accumulate && s->view && s->seg && s->group_seg &&
	    s->state_buf && s->chunk)
		return zr_run_open(s, err);
	return zr_err(err, ZR_ENOMEM, "out of memory for the session's tables");
}

/* Mappings live as long as the arena. */
static int map_views(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	for (int32_t u = 0; u < p->facts.layout.n_units; u++) {
		void *view = NULL;
		if (!zr_unit_view(&p->facts, u))
			continue;
		int rc = ZR_ASK(&p->roles.comm, comm, mem_view, err,
				zr_at(s, p->plan.unit[u].param), zr_unit_share_bytes(p, u),
				p->facts.groups[u].param, &view);
		if (rc)
			return rc;

		s->view[u] = view;
	}
	return 0;
}

static int take_device_arena(struct zr_session *s, struct zr_error *err)
{
	return take_arena(s, ZR_STORE_DEVICE, err);
}

static int take_host_arena(struct zr_session *s, struct zr_error *err)
{
	return take_arena(s, ZR_STORE_HOST, err);
}

static int start_scale(struct zr_session *s, struct zr_error *err)
{
	return ZR_ASK(&s->roles->precision, precision, start, err, &s->scale);
}

typedef int open_fn(struct zr_session *s, struct zr_error *err);
static open_fn *const steps[] = {
	take_device_arena, lend_arena,         take_host_arena, zr_tier_open,
	make_tables,       zr_persistent_open, map_views,       zr_bind,
	zr_ranges_open,    zr_graphs_open,     zr_beside_open,  start_scale,
};

int zr_session_open(struct zr_setup *setup, struct zr_session **out, struct zr_error *err)
{
	struct zr_session *s = calloc(1, sizeof *s);
	if (!s)
		return zr_no_memory(err);

	*s = zr_session_bare(setup);
	int rc = zr_prove_all(setup, err);
	for (size_t i = 0; !rc && i < sizeof steps / sizeof *steps; i++)
		rc = steps[i](s, err);

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

	zr_beside_close(s);
	zr_graphs_close(s);
	zr_ranges_close(s);
	zr_tier_close(s);
	take_back_arena(s);
	give_arena(s, ZR_STORE_HOST);
	give_arena(s, ZR_STORE_DEVICE);
	zr_unbind(s);
	void *const table[] = { s->param,      s->dparam,   s->accumulate,
				s->view,       s->seg,      s->group_seg,
				s->state_buf,  s->chunk,    s->frozen_hash,
				s->persistent, s->renewed,  s->run,
				s->run_lr,     s->run_opts, s };
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		free(table[i]);
}
