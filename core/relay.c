/* SPDX-License-Identifier: Apache-2.0
 *
 * relay.c - operations that go a way of several legs (core/route.h): one leg is under way at a time. The program says
 * when the next one begins, and the wait takes those that are left.
 */
#include "core/route.h"
#include "core/replay.h"

static struct zr_route route_of(const struct zr_session *s, const struct zr_pop *op)
{
	return op->kind == ZR_P_GATHER ? zr_route_gather(s->setup, zr_units_of(s, op)[0]) : zr_route_move(s->setup, op->kind == ZR_P_FETCH);
}

/* The leg that is under way, -1: none is left. */
static int32_t leg_of(const struct zr_session *s, const struct zr_pop *op)
{
	struct zr_route r = route_of(s, op);
	int32_t at = s->leg[zr_number_of(s, op)];
	return at < r.n ? r.leg[at] : -1;
}

static int begin(struct zr_session *s, const struct zr_pop *op)
{
	int32_t leg = leg_of(s, op);
	return leg < 0 ? 0 : op->kind == ZR_P_GATHER ? zr_begin_gather(s, op, leg) : zr_begin_move(s, op, leg);
}

int zr_relay_start(struct zr_session *s, const struct zr_pop *op)
{
	s->leg[zr_number_of(s, op)] = 0;
	return begin(s, op);
}

int zr_relay_next(struct zr_session *s, const struct zr_pop *op)
{
	int32_t leg = leg_of(s, op);
	int rc = op->kind == ZR_P_GATHER ? zr_end_gather(s, op, leg) : zr_end_move(s, op, leg);
	s->leg[zr_number_of(s, op)]++;
	return rc ? rc : begin(s, op);
}

int zr_relay_finish(struct zr_session *s, const struct zr_pop *op)
{
	int rc = 0;
	while (!rc && leg_of(s, op) >= 0)
		rc = zr_relay_next(s, op);
	return rc;
}

int zr_is_reading(const struct zr_session *s, const struct zr_pop *op)
{
	return leg_of(s, op) == ZR_L_READ;
}
