/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - runs a recorded program: one function per kind of operation. Nothing here decides anything.
 */
#include "core/replay.h"

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
		if (!s->program->op[i].once)
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
