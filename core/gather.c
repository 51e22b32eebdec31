/* SPDX-License-Identifier: Apache-2.0
 *
 * gather.c - parameters: full copies come and go around their uses, new values return from their homes. Shares that
 * [offload.param] holds come from there: read when the gather is posted, into this rank's place of the full copy. Where
 * comm maps the shares of all ranks one after the other, a gather moves nothing; what the ranks wrote is fenced after the
 * update, and the exchange at the boundary keeps an update from writing what somebody still reads.
 */
#include "core/replay.h"
#include "core/tier.h"

static int32_t rank_in(const struct zr_setup *p, int32_t group)
{
	return group == ZR_GROUP_NODE ? p->process.local_rank : group == ZR_GROUP_WORLD ? p->process.rank : 0;
}

static uint64_t share_bytes(const struct zr_setup *p, const struct zr_unit_memory *m)
{
	return (uint64_t)(m->param_per * ZR_BLOCK * zr_dtype_bytes(p->types.dtype));
}

/* This rank's place in the full copy. */
static char *own_share(const struct zr_session *s, int32_t u)
{
	const struct zr_setup *p = s->setup;
	return s->full[u] + (uint64_t)rank_in(p, p->groups[u].param) * share_bytes(p, &p->plan.unit[u]);
}

/* Disk that only copies can pass on to the device is read at the wait. */
static int is_late(const struct zr_session *s, const struct zr_unit_memory *m)
{
	return !zr_addressed(s, m->param.region) && !s->setup->device_info.host_access;
}

/* Whether a collective can take this rank's share from where it is. */
static int is_direct(const struct zr_session *s, const struct zr_unit_memory *m)
{
	return zr_addressed(s, m->param.region) && (!m->far || s->setup->device_info.host_access);
}

static int start_unit(struct zr_session *s, const struct zr_pop *op, int32_t i)
{
	struct zr_setup *p = s->setup;
	int32_t u = zr_units_of(s, op)[i], group = p->groups[u].param;
	const struct zr_unit_memory *m = &p->plan.unit[u];
	s->arriving[op->first + i] = 0;
	if (zr_group_ranks(p, group) == 1 && !m->far) {
		s->full[u] = zr_at(s, m->param);
		return 0;
	}
	if (s->view[u]) {
		s->full[u] = s->view[u];
		return 0;
	}
	s->full[u] = s->region[ZR_R_GATHER] + s->program->place[op->first + i];
	char *own = own_share(s, u);
	int direct = zr_group_ranks(p, group) > 1 && is_direct(s, m);
	zr_segments_of(s, op)[i] = (struct zr_comm_seg){ .send = direct ? zr_at(s, m->param) : own, .recv = s->full[u],
							 .count = m->param_per * ZR_BLOCK };
	return direct || is_late(s, m) ? 0 : zr_read(s, m->param, own, share_bytes(p, m), &s->arriving[op->first + i]);
}

/* Whether all shares of a gather are where its collective takes them from when it is posted. */
static int is_ready(const struct zr_session *s, const struct zr_pop *op)
{
	const struct zr_unit_memory *m = &s->setup->plan.unit[zr_units_of(s, op)[0]];
	return !m->far || is_direct(s, m);
}

static int gathers(const struct zr_session *s, const struct zr_pop *op)
{
	return !s->view[zr_units_of(s, op)[0]] &&
	       zr_group_ranks(s->setup, s->setup->groups[zr_units_of(s, op)[0]].param) > 1;
}

static int post_gather(struct zr_session *s, const struct zr_pop *op)
{
	const struct zr_setup *p = s->setup;
	return zr_post(s, op, ZR_COMM_ALL_GATHER, p->groups[zr_units_of(s, op)[0]].param, p->types.dtype, op->n);
}

int zr_run_gather(struct zr_session *s, const struct zr_pop *op)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < op->n; i++)
		rc = start_unit(s, op, i);
	return rc || !gathers(s, op) || !is_ready(s, op) ? rc : post_gather(s, op);
}

int zr_wait_gather(struct zr_session *s, const struct zr_pop *op)
{
	const struct zr_setup *p = s->setup;
	int rc = 0;
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		if (m->far && is_late(s, m))
			rc = zr_fetch(s, m->param, own_share(s, u), share_bytes(p, m));
		else
			rc = zr_moved(s, m->param.region, s->arriving[op->first + i]);
	}
	if (rc || !gathers(s, op))
		return rc;
	if (!is_ready(s, op))
		rc = post_gather(s, op);
	return rc ? rc : zr_complete(s, s->posted[zr_number_of(s, op)]);
}

int zr_run_drop(struct zr_session *s, const struct zr_pop *op)
{
	for (int32_t i = 0; i < op->n; i++)
		s->full[zr_units_of(s, op)[i]] = NULL;
	return 0;
}

/* Home -> param group. Whole parameters over split state: all-gather in place. Split by node over world: the whole unit
 * is gathered, and the node's share of it kept (wait_publish). Otherwise the update wrote where it belongs. */
int zr_run_publish(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	struct zr_comm_seg *seg = zr_segments_of(s, op);
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
		char *whole = g->param == ZR_GROUP_SELF ? zr_at(s, m->param) : s->region[ZR_R_GATHER] + s->program->place[op->first + i];
		char *own = whole + (uint64_t)p->process.rank * bytes;
		if (m->far)
			rc = zr_fetch(s, m->home, own, bytes);
		seg[n++] = (struct zr_comm_seg){ .send = m->far ? own : zr_at(s, m->home), .recv = whole, .count = m->per * ZR_BLOCK };
	}
	return rc || !n || zr_alone(s) ? rc : zr_post(s, op, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, p->types.dtype, n);
}

int zr_wait_publish(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	int64_t size = zr_dtype_bytes(p->types.dtype) * ZR_BLOCK;
	int rc = zr_complete(s, s->posted[zr_number_of(s, op)]);
	for (int32_t i = 0; !rc && i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		if (p->groups[u].param != ZR_GROUP_NODE)
			continue;
		const char *whole = zr_alone(s) && !m->far ? zr_at(s, m->home) : s->region[ZR_R_GATHER] + s->program->place[op->first + i];
		int64_t first = p->process.local_rank * m->param_per, have = p->layout.unit[u].blocks - first;
		if (have > m->param_per)
			have = m->param_per;
		if (have > 0)
			rc = zr_spill(s, m->param, whole + first * size, (uint64_t)(have * size));
	}
	return rc;
}
