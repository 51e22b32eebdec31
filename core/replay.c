/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - runs a recorded program: one function per kind of operation. Nothing here decides anything.
 */
#include "core/replay.h"

/* ---- collectives ---- */

int zr_collective(struct zr_session *s, int32_t kind, int32_t group, int32_t dtype, const struct zr_comm_seg *seg, int32_t n,
		  int32_t op, int32_t unit, zr_ticket *ticket)
{
	struct zr_comm_op o = { .size = sizeof o, .kind = kind, .group = group, .dtype = dtype, .n_seg = n, .seg = seg,
				.tag = { .step = s->step, .op = op, .unit = unit } };
	int rc = zr_comm_of(s)->post(s->setup->comm.inst, &o, ticket);
	return rc ? zr_instance_failed(&s->setup->comm, rc, "post", s->err) : 0;
}

int zr_broadcast(struct zr_session *s, int32_t unit, int32_t root, const struct zr_comm_seg *seg, zr_ticket *ticket)
{
	struct zr_comm_op o = { .size = sizeof o, .kind = ZR_COMM_BROADCAST, .group = ZR_GROUP_WORLD, .dtype = ZR_F32, .root = root,
				.n_seg = 1, .seg = seg, .tag = { .step = s->step, .op = -1, .unit = unit } };
	int rc = zr_comm_of(s)->post(s->setup->comm.inst, &o, ticket);
	return rc ? zr_instance_failed(&s->setup->comm, rc, "post", s->err) : 0;
}

int zr_complete(struct zr_session *s, zr_ticket ticket)
{
	int rc = ticket ? zr_comm_of(s)->wait(s->setup->comm.inst, ticket) : 0;
	return rc ? zr_instance_failed(&s->setup->comm, rc, "wait", s->err) : 0;
}

int zr_post(struct zr_session *s, const struct zr_pop *op, int32_t kind, int32_t group, int32_t dtype, int32_t n)
{
	int32_t at = zr_number_of(s, op);
	return zr_collective(s, kind, group, dtype, zr_segments_of(s, op), n, at, zr_units_of(s, op)[0], &s->posted[at]);
}

/* ---- the program ---- */

static int run_wait(struct zr_session *s, const struct zr_pop *op)
{
	const struct zr_pop *target = &s->program->op[op->target];
	if (target->kind == ZR_P_REDUCE)
		return zr_wait_reduce(s, target);
	if (target->kind == ZR_P_PUBLISH)
		return zr_wait_publish(s, target);
	if (target->kind == ZR_P_SPILL || target->kind == ZR_P_FETCH)
		return zr_wait_move(s, target);
	return zr_wait_gather(s, target);
}

static int run_op(struct zr_session *s, const struct zr_pop *op)
{
	switch (op->kind) {
	case ZR_P_LAYER:
		return zr_run_layer(s, op);
	case ZR_P_GATHER:
		return zr_run_gather(s, op);
	case ZR_P_DROP:
		return zr_run_drop(s, op);
	case ZR_P_REDUCE:
		return zr_run_reduce(s, op);
	case ZR_P_UPDATE:
		return zr_run_update(s, op);
	case ZR_P_PUBLISH:
		return zr_run_publish(s, op);
	case ZR_P_SPILL:
	case ZR_P_FETCH:
		return zr_run_move(s, op);
	default:
		return run_wait(s, op);
	}
}

/* New values are visible to those that look at them in place. */
static int fence_views(struct zr_session *s)
{
	zr_ticket ticket;
	if (!s->setup->views)
		return 0;
	int rc = zr_collective(s, ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, NULL, 0, -1, -1, &ticket);
	return rc ? rc : zr_complete(s, ticket);
}

int zr_replay(struct zr_session *s, int32_t program, struct zr_error *err)
{
	s->err = err;
	s->program = &s->setup->program[program];
	int rc = program == ZR_PROG_UPDATE ? zr_update_begin(s) : 0;
	for (int32_t i = 0; !rc && i < s->program->n; i++)
		rc = run_op(s, &s->program->op[i]);
	if (program == ZR_PROG_UPDATE) {
		int end = zr_update_end(s);
		rc = rc ? rc : end;
	}
	return rc || program != ZR_PROG_UPDATE ? rc : fence_views(s);
}

int zr_replay_publish(struct zr_session *s, struct zr_error *err)
{
	int rc = 0;
	s->err = err;
	s->program = &s->setup->program[ZR_PROG_UPDATE];
	for (int32_t i = 0; !rc && i < s->program->n; i++) {
		const struct zr_pop *op = &s->program->op[i];
		if (op->kind == ZR_P_PUBLISH || (op->kind == ZR_P_WAIT && s->program->op[op->target].kind == ZR_P_PUBLISH))
			rc = run_op(s, op);
	}
	return rc ? rc : fence_views(s);
}
