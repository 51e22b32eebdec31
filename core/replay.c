/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - runs a recorded program: one function per kind of operation. Nothing here decides anything.
 */
#define _GNU_SOURCE
#include <time.h>

#include "core/replay.h"

static int run_wait(struct zr_session *s, const struct zr_pop *op)
{
	const struct zr_pop *target = &s->program->op[op->target];
	if (target->kind == ZR_P_REDUCE)
		return zr_wait_reduce(s, target);
	if (target->kind == ZR_P_PUBLISH)
		return zr_wait_publish(s, target);
	return zr_relay_finish(s, target);
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
		return zr_relay_start(s, op);
	case ZR_P_RELAY:
		return zr_relay_next(s, &s->program->op[op->target]);
	default:
		return run_wait(s, op);
	}
}

/* What another rank fails with says where already. */
int zr_failed_in(struct zr_session *s, int rc, const char *doing)
{
	if (rc && rc != ZR_EPEER)
		zr_err_add(s->err, "; rank %d, step %lld, %s", s->setup->process.rank, (long long)s->step + 1, doing);
	return rc;
}

void zr_op_text(const struct zr_session *s, const struct zr_pop *op, char *out, size_t size)
{
	const struct zr_setup *p = s->setup;
	const struct zr_pop *on = op->kind == ZR_P_WAIT || op->kind == ZR_P_RELAY ? &s->program->op[op->target] : op;
	const struct zr_use *use = zr_pop_use(p, s->program, on);
	int32_t unit = s->unit >= 0 ? s->unit : use && use->n_units ? use->units[0] : on->n ? zr_units_of(s, on)[0] : -1;
	char layer[96] = "", in[96] = "";
	if (use)
		snprintf(layer, sizeof layer, " of layer %s", zr_layer_at(&p->decl, use->layer)->name);
	if (unit >= 0)
		snprintf(in, sizeof in, " (unit %s)", p->layout.unit[unit].name);
	snprintf(out, size, "%s%s%s%s", on == op ? "" : op->kind == ZR_P_WAIT ? "wait for the " : "relay of the ",
		 on->kind == ZR_P_LAYER ? zr_phase_name[use->phase] : zr_pop_name[on->kind], layer, in);
}

/* What ran: whoever failed does not know. */
static int failed(struct zr_session *s, const struct zr_pop *op, int rc)
{
	char doing[256];
	zr_op_text(s, op, doing, sizeof doing);
	return zr_failed_in(s, rc, doing);
}

/* What a reduce left for when the device is busy again. */
static int end_reduce(struct zr_session *s)
{
	const struct zr_pop *op = s->op = s->late;
	int rc = op ? zr_end_reduce(s) : 0;
	s->op = NULL;
	return rc ? failed(s, op, rc) : 0;
}

double zr_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run_op(struct zr_session *s, const struct zr_pop *op)
{
	int early = s->program->id == ZR_PROG_LAST_MICRO && (op->kind == ZR_P_UPDATE || op->kind == ZR_P_PUBLISH);
	int rc = early ? end_reduce(s) : 0; /* of what is updated, perhaps */
	double start = early ? zr_now() : 0;
	s->unit = -1;
	s->op = op;
	if (!rc && (rc = call_op(s, op)))
		rc = failed(s, op, rc);
	s->op = NULL;
	s->update_seconds += early ? zr_now() - start : 0;
	return rc;
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
	const struct zr_pop *op = s->program->op;
	int first = s->early ? ZR_PROG_LAST_MICRO : ZR_PROG_UPDATE; /* of those that update: the other one may still be run after it */
	double start = zr_now();
	int rc = program == first ? zr_failed_in(s, zr_update_begin(s), "before the updates") : 0;
	s->late = NULL;
	for (int32_t i = 0; !rc && i < s->program->n; i++)
		if (!op[i].once && !(rc = run_op(s, &op[i])) && op[i].kind == ZR_P_LAYER)
			rc = end_reduce(s);
	rc = rc ? rc : end_reduce(s);
	if (program == first || program == ZR_PROG_UPDATE) {
		int end = zr_update_end(s);
		rc = rc ? rc : zr_failed_in(s, end, "after the updates");
	}
	if (!rc && program == ZR_PROG_UPDATE) {
		rc = fence_views(s);
		s->update_seconds += zr_now() - start;
	}
	return rc;
}

static int publish_of(struct zr_session *s, int32_t program)
{
	int rc = 0;
	s->program = &s->setup->program[program];
	for (int32_t i = 0; !rc && i < s->program->n; i++) {
		const struct zr_pop *op = &s->program->op[i];
		if (op->kind == ZR_P_PUBLISH || (op->kind == ZR_P_WAIT && s->program->op[op->target].kind == ZR_P_PUBLISH))
			rc = run_op(s, op);
	}
	return rc;
}

int zr_replay_publish(struct zr_session *s, struct zr_error *err)
{
	s->err = err;
	int rc = publish_of(s, ZR_PROG_LAST_MICRO);
	if (!rc)
		rc = publish_of(s, ZR_PROG_UPDATE);
	return rc ? rc : fence_views(s);
}
