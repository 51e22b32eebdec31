/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs.c - what a stage says while a program is recorded: its verbs are checked and written
 * down, its questions answered.
 */
#include <stdlib.h>

#include "core/program/recorder.h"
#include "core/program/route.h"

static struct recorder *recorder_of(const struct zr_stage *st)
{
	return st->impl;
}

/* ---- verbs ---- */

static int check_list(struct recorder *r, const char *verb, const int32_t *units, int32_t n)
{
	char point[160];
	for (int32_t i = 0; i < n; i++)
		if (units[i] < 0 || units[i] >= r->stage.n_units)
			return zr_err(r->err, ZR_ESTATE,
				      "stage %s, %s: %s of unit %d, but there are %d",
				      zr_rec_stage(r), zr_rec_point(r, point, sizeof point), verb,
				      units[i], r->stage.n_units);
	return 0;
}

/* Units of a list whose route is the same, in r->some; how many: those that come to the device, or
 * to host memory. Experts that ranks divide are none of both. */
static int32_t of_one_route(struct recorder *r, const int32_t *units, int32_t n, int on_host)
{
	const struct zr_homes *h = &r->f->homes;
	int32_t count = 0;

	for (int32_t i = 0; i < n; i++)
		if (!zr_is_divided(h, units[i]) && zr_computes_on_host(h, units[i]) == on_host)
			r->some[count++] = units[i];
	return count;
}

static int emit_gather(struct recorder *r, const int32_t *units, int32_t n, int on_host)
{
	struct zr_pop op = { .kind = ZR_P_GATHER };

	n = of_one_route(r, units, n, on_host);
	if (!n)
		return 0;

	int32_t hops = zr_route_gather(r->f, r->some[0]).n;
	if (hops > 1)
		op.hops = hops;
	for (int32_t i = 0; i < n; i++) {
		op.bytes += zr_gathered_bytes(r->f, r->some[i]);
		r->gather[r->some[i]] = r->p->n;
	}
	return zr_rec_emit(r, op, r->some, n);
}

/* Units of a list that are not experts which ranks divide, in r->some; how many. */
static int32_t without_experts(struct recorder *r, const int32_t *units, int32_t n)
{
	int32_t count = 0;
	for (int32_t i = 0; i < n; i++)
		if (!zr_is_divided(&r->f->homes, units[i]))
			r->some[count++] = units[i];
	return count;
}

#define NOTHING_TO "is whole on every rank: there is nothing to "

static int verb_gather(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct recorder *r = recorder_of(st);
	int rc = check_list(r, "gather", units, n);
	const struct zr_setup_facts *f = r->f;

	for (int32_t i = 0; !rc && i < n; i++) {
		int32_t u = units[i], group = f->groups[u].param, first = f->groups[units[0]].param;
		zr_rec_must(r, &rc, group != ZR_GROUP_SELF, NOTHING_TO "gather", u);
		zr_rec_must(r, &rc, !r->gathered[u], "is gathered twice without a drop", u);
		zr_rec_must(r, &rc, group == first,
			    "is gathered in one list with units of another "
			    "group",
			    u);
		r->gathered[u] = 1;
		r->live += f->layout.unit[u].elements;
		if (!rc && zr_is_divided(&f->homes, u))
			rc = zr_rec_gather_expert(r, u);
	}

	if (!rc)
		rc = emit_gather(r, units, n, 0);
	if (!rc)
		rc = emit_gather(r, units, n, 1);
	return rc;
}

static int verb_drop(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct recorder *r = recorder_of(st);
	int rc = check_list(r, "drop", units, n);
	for (int32_t i = 0; !rc && i < n; i++) {
		int32_t u = units[i], split = r->f->groups[u].param != ZR_GROUP_SELF;
		zr_rec_must(r, &rc, split, NOTHING_TO "drop", u);
		zr_rec_must(r, &rc, r->gathered[u], "is dropped without having been gathered", u);
		if (!rc)
			rc = zr_rec_wait_gather(r, u);
		if (zr_is_divided(&r->f->homes, u))
			zr_rec_drop_expert(r, u);
		r->gathered[u] = 0;
		r->live -= r->f->layout.unit[u].elements;
	}

	if (rc || !n)
		return rc;
	return zr_rec_emit(r, (struct zr_pop){ .kind = ZR_P_DROP }, units, n);
}

/* The first unit of a list of several that comes in parts; n: none does. */
static int32_t find_parts(const struct recorder *r, const int32_t *units, int32_t n)
{
	for (int32_t i = 0; n > 1 && i < n; i++)
		if (zr_unit_part(r->f, units[i]))
			return i;
	return n;
}

static int verb_reduce(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct recorder *r = recorder_of(st);
	struct zr_pop op = { .kind = ZR_P_REDUCE };
	int rc = check_list(r, "reduce", units, n);
	if (rc)
		return rc;

	const int32_t alone = find_parts(r, units, n);
	if (alone < n) {
		rc = verb_reduce(st, units, alone);
		if (!rc)
			rc = verb_reduce(st, units + alone, 1);
		if (rc)
			return rc;
		return verb_reduce(st, units + alone + 1, n - alone - 1);
	}

	if ((r->p->id == ZR_PROG_UPDATE || r->p->id == ZR_PROG_EVAL) && n)
		rc = zr_rec_refuse(r, "is reduced in a program without gradients", units[0]);
	for (int32_t i = 0; !rc && i < n; i++) {
		int32_t u = units[i];
		zr_rec_must(r, &rc, r->state[u], "is reduced before its gradient is complete", u);
		zr_rec_must(r, &rc, r->state[u] == COMPLETE, "is reduced twice", u);
		r->state[u] = REDUCED;
		if (!rc && zr_is_divided(&r->f->homes, u)) {
			rc = zr_rec_reduce_expert(r, u);
			continue;
		}
		op.bytes += zr_reduced_bytes(r, u);
	}

	n = rc ? 0 : without_experts(r, units, n);
	if (n)
		rc = zr_rec_wait_reduce(r);
	if (rc || !n)
		return rc;

	r->reducing = r->p->n;
	return zr_rec_emit(r, op, r->some, n);
}

/* The units of a list that are frozen, or those that are not, one after the other in r->some;
 * how many. */
static int32_t some(struct recorder *r, const int32_t *units, int32_t n, int frozen)
{
	int32_t count = 0;
	for (int32_t i = 0; i < n; i++)
		if ((r->f->frozen_unit[units[i]] > 0) == frozen)
			r->some[count++] = units[i];
	return count;
}

/* In the backward an update waits for its own reduce only. */
static int check_early(struct recorder *r, const int32_t *units, int32_t n)
{
	char reason[256];
	if (n && zr_update_waits(r->setup, reason, sizeof reason))
		return zr_err(r->err, ZR_EINVAL,
			      "[zero] %s: unit %s cannot be updated in the "
			      "backward: %s, or update_in_backward = no",
			      zr_rec_stage(r), r->f->layout.unit[units[0]].name, reason);

	int rc = 0;
	for (int32_t i = 0; !rc && i < n; i++) {
		int32_t u = units[i], split = r->f->groups[u].param != ZR_GROUP_SELF;
		zr_rec_must(r, &rc, r->state[u] == REDUCED,
			    "is updated before its gradient is "
			    "reduced",
			    u);
		zr_rec_must(r, &rc, zr_rec_is_reduced(r, u),
			    "is updated before the gradients of all experts beside it are "
			    "reduced: raise reduce_bucket_size",
			    u);
		zr_rec_must(r, &rc, !split || !r->gathered[u],
			    "is updated while a gathered copy "
			    "of it is there",
			    u);
	}

	if (rc)
		return rc;

	for (int32_t i = 0; i < n && r->reducing >= 0; i++) {
		const struct zr_pop *op = &r->p->op[r->reducing];
		for (int32_t k = 0; k < op->n; k++)
			if (r->p->unit[op->first + k] == units[i])
				return zr_rec_wait_reduce(r);
	}
	return 0;
}

/* A stage need not know what is frozen: an update passes over it. */
static int verb_update(const struct zr_stage *st, const int32_t *units, int32_t n, int64_t subgroup)
{
	struct recorder *r = recorder_of(st);
	int early = r->p->id == ZR_PROG_LAST_MICRO;
	int rc = check_list(r, "update", units, n);
	for (int32_t i = 0; !rc && i < n; i++) {
		int32_t u = units[i], now = early || r->p->id == ZR_PROG_UPDATE;
		zr_rec_must(r, &rc, now, "is updated outside of the update program", u);
		zr_rec_must(r, &rc, r->values[u] == OLD, "is updated twice", u);
		r->values[u] = UPDATED;
	}

	if (!rc && early)
		rc = check_early(r, units, n);
	if (rc)
		return rc;

	n = some(r, units, n, 0);
	if (!n)
		return 0;
	return zr_rec_emit(r, (struct zr_pop){ .kind = ZR_P_UPDATE, .subgroup = subgroup }, r->some,
			   n);
}

/* Units that are frozen are published when they have got their values, and then no more. */
static int publish(struct recorder *r, const int32_t *units, int32_t n, int once)
{
	struct zr_pop op = { .kind = ZR_P_PUBLISH, .once = once };
	int rc = 0;
	for (int32_t i = 0; !rc && i < n; i++) {
		int32_t u = units[i];
		zr_rec_must(r, &rc, r->values[u] != PUBLISHED, "is published twice", u);
		zr_rec_must(r, &rc, r->values[u] == UPDATED, "is published before its update", u);
		r->values[u] = PUBLISHED;
		if (!once)
			op.bytes += zr_published_bytes(r->f, u);
	}

	if (rc || !n)
		return rc;

	int32_t number = r->p->n;
	rc = zr_rec_emit(r, op, units, n);
	if (rc)
		return rc;
	return zr_rec_wait(r, number);
}

static int verb_publish(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct recorder *r = recorder_of(st);
	int rc = check_list(r, "publish", units, n);
	if (!rc)
		rc = publish(r, r->some, some(r, units, n, 0), 0);
	if (rc)
		return rc;
	return publish(r, r->some, some(r, units, n, 1), 1);
}

/* ---- queries ---- */

static int64_t ask_elements(const struct zr_stage *st, int32_t unit)
{
	return recorder_of(st)->f->layout.unit[unit].elements;
}

static const char *ask_name(const struct zr_stage *st, int32_t unit)
{
	return recorder_of(st)->f->layout.unit[unit].name;
}

static const struct zr_use *ask_use(const struct zr_stage *st, int32_t use)
{
	if (use >= 0 && use < st->n_uses)
		return &recorder_of(st)->uses->use[use];
	return NULL;
}

static int32_t ask_next_use(const struct zr_stage *st, int32_t unit, int32_t after)
{
	if (st->n_uses)
		return zr_schedule_next(recorder_of(st)->uses, unit, after);
	return -1;
}

static int64_t ask_live(const struct zr_stage *st)
{
	return recorder_of(st)->live;
}

static int ask_scalars(const struct zr_stage *st)
{
	char reason[256];
	return zr_update_waits(recorder_of(st)->setup, reason, sizeof reason) != 0;
}

void zr_rec_offer(struct recorder *r)
{
	const struct zr_setup_facts *f = r->f;
	r->stage =
		(struct zr_stage){ .size = sizeof r->stage,
				   .n_units = f->layout.n_units,
				   .n_uses = r->uses->n,
				   .synchronous = f->process.world == 1 && f->device_info.unified,
				   .world = f->process.world,
				   .impl = r,
				   .gather = verb_gather,
				   .drop = verb_drop,
				   .reduce = verb_reduce,
				   .update = verb_update,
				   .publish = verb_publish,
				   .elements = ask_elements,
				   .use = ask_use,
				   .next_use = ask_next_use,
				   .live_elements = ask_live,
				   .needs_scalars = ask_scalars,
				   .name = ask_name };
}
