/* SPDX-License-Identifier: Apache-2.0
 *
 * gather.c - parameters: full copies come and go around their uses, new values return from their homes. Shares that
 * [offload.param] holds come from there, leg by leg (core/route.h). Where comm maps the shares of all ranks one after
 * the other, a gather moves nothing; what the ranks wrote is fenced after the update, and the exchange at the boundary keeps
 * an update from writing what somebody still reads.
 */
#include "core/route.h"
#include "core/replay.h"
#include "core/tier.h"

static int32_t rank_in(const struct zr_setup *p, int32_t group)
{
	return group == ZR_GROUP_NODE ? p->process.local_rank : group == ZR_GROUP_WORLD ? p->process.rank : 0;
}

static uint64_t share_bytes(const struct zr_setup *p, int32_t u)
{
	return (uint64_t)(p->plan.unit[u].param_per * ZR_BLOCK * zr_dtype_bytes(p->types.dtype));
}

/* This rank's place in a full copy. */
static char *own_share(const struct zr_setup *p, int32_t u, char *full)
{
	return full + (uint64_t)rank_in(p, p->groups[u].param) * share_bytes(p, u);
}

static struct zr_route route_of(const struct zr_session *s, const struct zr_pop *op)
{
	return zr_route_gather(s->setup, zr_units_of(s, op)[0]);
}

static int reads(const struct zr_route *r)
{
	return r->n && r->leg[0] == ZR_L_READ;
}

/* ---- full copies ---- */

/* Where unit i's full copy will be, and what ranks exchange for it; its part of the slot is at `slot`. */
static void place_unit(struct zr_session *s, const struct zr_pop *op, int32_t i, const struct zr_route *r, char *slot)
{
	struct zr_setup *p = s->setup;
	int32_t u = zr_units_of(s, op)[i];
	const struct zr_unit_memory *m = &p->plan.unit[u];
	s->arriving[op->first + i] = 0;
	if (!r->n) {
		s->full[u] = s->view[u] ? s->view[u] : zr_at(s, m->param);
		return;
	}
	s->full[u] = s->region[ZR_R_GATHER] + s->program->place[op->first + i];
	char *meet = r->whole ? slot : s->full[u];
	zr_segments_of(s, op)[i] = (struct zr_comm_seg){ .send = reads(r) ? own_share(p, u, meet) : zr_at(s, m->param), .recv = meet,
							 .count = m->param_per * ZR_BLOCK };
}

int zr_run_gather(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_route r = route_of(s, op);
	char *slot = s->region[ZR_R_SLOT] + op->slot;
	for (int32_t i = 0; i < op->n; i++) {
		place_unit(s, op, i, &r, slot);
		slot += zr_route_slot(s->setup, &r, zr_units_of(s, op)[i]);
	}
	return zr_relay_start(s, op);
}

/* Of unit i's share, or copy. */
static int end_transfer(struct zr_session *s, const struct zr_pop *op, int32_t i, int32_t leg)
{
	uint64_t ticket = s->arriving[op->first + i];
	s->unit = zr_units_of(s, op)[i];
	s->arriving[op->first + i] = 0;
	s->reading -= leg == ZR_L_READ && ticket != 0;
	return leg == ZR_L_READ ? zr_moved(s, s->setup->plan.unit[s->unit].param.region, ticket) : zr_copied(s, ticket);
}

/* A store takes so many requests at a time, and an update in the backward has some of them: unit i of an operation is read when
 * the oldest read is over. */
static int make_room(struct zr_session *s, const struct zr_pop *op, int32_t i)
{
	const struct zr_tier_info *store = &s->setup->offload[ZR_STORE_PARAM - ZR_STORE_OPTIMIZER].info;
	if (store->direct || !s->reading || 2 * s->reading < (int64_t)store->max_inflight)
		return 0;
	for (const struct zr_pop *old = s->program->op; old <= op; old++)
		for (int32_t k = 0; old->kind == ZR_P_GATHER && k < (old == op ? i : old->n) && zr_is_reading(s, old); k++)
			if (s->arriving[old->first + k])
				return end_transfer(s, old, k, ZR_L_READ);
	return 0;
}

static int read_share(struct zr_session *s, const struct zr_pop *op, int32_t i, char *to)
{
	uint64_t *ticket = &s->arriving[op->first + i];
	int32_t u = zr_units_of(s, op)[i];
	int rc = make_room(s, op, i);
	s->unit = u;
	if (!rc)
		rc = zr_read(s, s->setup->plan.unit[u].param, to, share_bytes(s->setup, u), ticket);
	s->reading += *ticket != 0;
	return rc;
}

/* From the slot to the full copy: all of it, or this rank's share. */
static int copy_in(struct zr_session *s, const struct zr_pop *op, int32_t i, const struct zr_route *r, const char *slot)
{
	int32_t u = s->unit = zr_units_of(s, op)[i];
	char *to = r->whole ? s->full[u] : own_share(s->setup, u, s->full[u]);
	return zr_copy_start(s, to, slot, zr_route_slot(s->setup, r, u), &s->arriving[op->first + i]);
}

int zr_begin_gather(struct zr_session *s, const struct zr_pop *op, int32_t leg)
{
	const struct zr_setup *p = s->setup;
	struct zr_route r = route_of(s, op);
	char *slot = s->region[ZR_R_SLOT] + op->slot;
	int rc = 0;
	if (leg == ZR_L_RANKS)
		return zr_post(s, op, ZR_COMM_ALL_GATHER, p->groups[zr_units_of(s, op)[0]].param, p->types.dtype, op->n);
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		char *own = r.slot && !r.whole ? slot : own_share(p, u, r.slot ? slot : s->full[u]);
		rc = leg == ZR_L_READ ? read_share(s, op, i, own) : copy_in(s, op, i, &r, slot);
		slot += zr_route_slot(p, &r, u);
	}
	s->unit = rc ? s->unit : -1;
	return rc;
}

int zr_end_gather(struct zr_session *s, const struct zr_pop *op, int32_t leg)
{
	int rc = 0;
	if (leg == ZR_L_RANKS)
		return zr_complete(s, s->posted[zr_number_of(s, op)]);
	for (int32_t i = 0; !rc && i < op->n; i++)
		rc = end_transfer(s, op, i, leg);
	s->unit = rc ? s->unit : -1;
	return rc;
}

int zr_run_drop(struct zr_session *s, const struct zr_pop *op)
{
	for (int32_t i = 0; i < op->n; i++)
		s->full[zr_units_of(s, op)[i]] = NULL;
	return 0;
}

/* ---- new values ---- */

/* Between memories or tiers, to its end. */
static int move(struct zr_session *s, struct zr_spot spot, char *memory, uint64_t bytes, int out)
{
	uint64_t ticket;
	int rc = out ? zr_write(s, spot, memory, bytes, &ticket) : zr_read(s, spot, memory, bytes, &ticket);
	return rc ? rc : zr_moved(s, spot.region, ticket);
}

/* Where all of a unit is while its home blocks are published; `*slot` passes on to the next one's part. */
static char *whole_unit(struct zr_session *s, const struct zr_pop *op, int32_t i, char **slot)
{
	struct zr_setup *p = s->setup;
	int32_t u = zr_units_of(s, op)[i];
	char *at = *slot;
	if (p->groups[u].param == ZR_GROUP_SELF)
		return zr_at(s, p->plan.unit[u].param);
	if (!p->plan.unit[u].far)
		return s->region[ZR_R_GATHER] + s->program->place[op->first + i];
	*slot += zr_unit_full_bytes(p, u, ZR_GROUP_WORLD);
	return at;
}

/* Home -> param group. Whole parameters over split state: all-gather in place. Split by node over world: the whole unit
 * is gathered, and the node's share of it kept (wait_publish); what is offloaded meets in host memory, on no device.
 * Otherwise the update wrote where it belongs. */
int zr_run_publish(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	struct zr_comm_seg *seg = zr_segments_of(s, op);
	char *slot = s->region[ZR_R_SLOT] + op->slot;
	int32_t n = 0;
	int rc = p->plan.staging.behind ? zr_update_end(s) : 0; /* what the update still writes is read here */
	s->posted[zr_number_of(s, op)] = 0;
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		const struct zr_groups *g = &p->groups[u];
		uint64_t bytes = (uint64_t)(m->per * ZR_BLOCK * zr_dtype_bytes(p->types.dtype));
		if (g->param == g->state)
			continue;
		char *whole = whole_unit(s, op, i, &slot), *own = whole + (uint64_t)p->process.rank * bytes;
		if (m->far)
			rc = move(s, m->home, own, bytes, 0);
		seg[n++] = (struct zr_comm_seg){ .send = m->far ? own : zr_at(s, m->home), .recv = whole, .count = m->per * ZR_BLOCK };
	}
	return rc || !n || zr_alone(s) ? rc : zr_post(s, op, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, p->types.dtype, n);
}

int zr_wait_publish(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	int64_t size = zr_dtype_bytes(p->types.dtype) * ZR_BLOCK;
	char *slot = s->region[ZR_R_SLOT] + op->slot;
	int rc = zr_complete(s, s->posted[zr_number_of(s, op)]);
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		if (p->groups[u].param != ZR_GROUP_NODE)
			continue;
		char *gathered = whole_unit(s, op, i, &slot), *whole = zr_alone(s) && !m->far ? zr_at(s, m->home) : gathered;
		int64_t first = p->process.local_rank * m->param_per, have = p->layout.unit[u].blocks - first;
		if (have > m->param_per)
			have = m->param_per;
		if (have > 0)
			rc = move(s, m->param, whole + first * size, (uint64_t)(have * size), 1);
	}
	return rc;
}
