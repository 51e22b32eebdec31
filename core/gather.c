/* SPDX-License-Identifier: Apache-2.0
 *
 * gather.c - parameters: full copies come and go around their uses, new values return from their homes.
 */
#include <string.h>

#include "core/replay.h"

int zr_run_gather(struct zr_session *s, const struct zr_pop *op)
{
	struct zr_setup *p = s->setup;
	struct zr_comm_seg *seg = zr_segments_of(s, op);
	int32_t group = p->groups[zr_units_of(s, op)[0]].param;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		if (zr_group_ranks(p, p->groups[u].param) == 1) {
			s->full[u] = zr_at(s, m->param);
			continue;
		}
		s->full[u] = s->region[ZR_R_GATHER] + s->program->place[op->first + i];
		seg[i] = (struct zr_comm_seg){ .send = zr_at(s, m->param), .recv = s->full[u], .count = m->param_per * ZR_BLOCK };
	}
	if (zr_group_ranks(p, group) == 1)
		return 0;
	return zr_post(s, op, ZR_COMM_ALL_GATHER, group, p->types.dtype, op->n);
}

int zr_wait_gather(struct zr_session *s, const struct zr_pop *op)
{
	if (zr_group_ranks(s->setup, s->setup->groups[zr_units_of(s, op)[0]].param) == 1)
		return 0;
	return zr_complete(s, s->posted[zr_number_of(s, op)]);
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
	s->posted[zr_number_of(s, op)] = 0;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = zr_units_of(s, op)[i];
		const struct zr_unit_memory *m = &p->plan.unit[u];
		const struct zr_groups *g = &p->groups[u];
		if (g->param == g->state)
			continue;
		char *whole = g->param == ZR_GROUP_SELF ? zr_at(s, m->param) : s->region[ZR_R_GATHER] + s->program->place[op->first + i];
		seg[n++] = (struct zr_comm_seg){ .send = zr_at(s, m->home), .recv = whole, .count = m->per * ZR_BLOCK };
	}
	return !n || zr_alone(s) ? 0 : zr_post(s, op, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, p->types.dtype, n);
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
		const char *whole = zr_alone(s) ? zr_at(s, m->home) : s->region[ZR_R_GATHER] + s->program->place[op->first + i];
		int64_t first = p->process.local_rank * m->param_per, have = p->layout.unit[u].blocks - first;
		if (have > m->param_per)
			have = m->param_per;
		if (have > 0)
			memcpy(zr_at(s, m->param), whole + first * size, (size_t)(have * size));
	}
	return rc;
}
