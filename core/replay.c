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

static int call_op(struct zr_session *s, const struct zr_pop *op)
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

/* What another rank fails with says where already. */
int zr_failed_in(struct zr_session *s, int rc, const char *doing)
{
	if (rc && rc != ZR_EPEER)
		zr_err_add(s->err, "; rank %d, step %lld, %s", s->setup->process.rank, (long long)s->step, doing);
	return rc;
}

/* What ran: whoever failed does not know. */
static int failed(struct zr_session *s, const struct zr_pop *op, int rc)
{
	const struct zr_setup *p = s->setup;
	const struct zr_pop *on = op->kind == ZR_P_WAIT ? &s->program->op[op->target] : op;
	const struct zr_use *use = zr_pop_use(p, s->program, on);
	int32_t unit = s->unit >= 0 ? s->unit : use && use->n_units ? use->units[0] : on->n ? zr_units_of(s, on)[0] : -1;
	char layer[96] = "", in[96] = "", doing[256];
	if (use)
		snprintf(layer, sizeof layer, " of layer %s", zr_layer_at(&p->decl, use->layer)->name);
	if (unit >= 0)
		snprintf(in, sizeof in, " (unit %s)", p->layout.unit[unit].name);
	snprintf(doing, sizeof doing, "%s%s%s%s", on == op ? "" : "wait for the ",
		 on->kind == ZR_P_LAYER ? zr_phase_name[use->phase] : zr_pop_name[on->kind], layer, in);
	return zr_failed_in(s, rc, doing);
}

static int run_op(struct zr_session *s, const struct zr_pop *op)
{
	s->unit = -1;
	int rc = call_op(s, op);
	return rc ? failed(s, op, rc) : 0;
}

/* What a reduce left for when the device is busy again. */
static int end_reduce(struct zr_session *s)
{
	const struct zr_pop *op = s->late;
	int rc = op ? zr_end_reduce(s) : 0;
	return rc ? failed(s, op, rc) : 0;
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
	int rc = program == ZR_PROG_UPDATE ? zr_failed_in(s, zr_update_begin(s), "before the updates") : 0;
	s->late = NULL;
	for (int32_t i = 0; !rc && i < s->program->n; i++)
		if (!s->program->op[i].once) {
			rc = run_op(s, &s->program->op[i]);
			rc = rc || s->program->op[i].kind != ZR_P_LAYER ? rc : end_reduce(s);
		}
	rc = rc ? rc : end_reduce(s);
	if (program == ZR_PROG_UPDATE) {
		int end = zr_update_end(s);
		rc = rc ? rc : zr_failed_in(s, end, "after the updates");
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
