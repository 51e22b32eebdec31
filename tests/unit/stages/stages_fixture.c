/* SPDX-License-Identifier: Apache-2.0
 *
 * stages_fixture.c - see stages_fixture.h.
 */
#include "stages_fixture.h"

#include <string.h>

static struct fixture *fixture_of(const struct zr_stage *s)
{
	return s->impl;
}

static int refuse(struct fixture *r, const char *what, int32_t unit)
{
	if (!r->error[0])
		snprintf(r->error, sizeof r->error, "%s: unit %d, program %d, point %d, use %d",
			 what, unit, r->point.program, r->point.at, r->point.use);
	return ZR_ESTATE;
}

static int64_t live(const struct fixture *r)
{
	int64_t sum = 0;
	for (int32_t u = 0; u < r->model->n_units; u++)
		sum += r->full[u] && r->groups[u].param != ZR_GROUP_SELF ? r->model->elements[u] :
									   0;
	return sum;
}

static int32_t is_used(const struct fixture *r, int32_t unit)
{
	for (uint32_t i = 0; i < r->point.n_units; i++)
		if (r->point.use >= 0 && r->point.units[i] == unit)
			return 1;
	return 0;
}

/* ---- verbs ---- */

static void say(struct fixture *r, const char *verb, const int32_t *units, int32_t n)
{
	static const char *const at[] = { "begin", "end", "before", "after", "grad", "update" };
	size_t len = strlen(r->said), room = sizeof r->said;
	if (r->told_at != r->point.at || r->told_use != r->point.use) {
		r->told_at = r->point.at;
		r->told_use = r->point.use;
		len += (size_t)snprintf(r->said + len, room - len, "%s", at[r->point.at]);
		if (r->point.use >= 0 && len < room)
			len += (size_t)snprintf(r->said + len, room - len, " %d", r->point.use);
		if (len < room)
			len += (size_t)snprintf(r->said + len, room - len, ": ");
	}
	if (len < room)
		len += (size_t)snprintf(r->said + len, room - len, "%s", verb);
	for (int32_t i = 0; i < n && len < room; i++)
		len += (size_t)snprintf(r->said + len, room - len, " %d", units[i]);
	if (len < room)
		len += (size_t)snprintf(r->said + len, room - len, "; ");
	if (len >= room)
		refuse(r, "the answers are longer than the fixture can note", -1);
}

/* Rules of every list: units exist, are no more than promised and, where parameters move, of one
 * group. */
static int check_list(struct fixture *r, const int32_t *units, int32_t n, int64_t most,
		      int one_group)
{
	int64_t sum = 0;
	if (n < 1)
		return refuse(r, "empty list", -1);
	for (int32_t i = 0; i < n; i++) {
		if (units[i] < 0 || units[i] >= r->model->n_units)
			return refuse(r, "no such unit", units[i]);
		if (one_group && r->groups[units[i]].param != r->groups[units[0]].param)
			return refuse(r, "list over several groups", units[i]);
		sum += r->model->elements[units[i]];
	}
	return n > 1 && sum > most ? refuse(r, "list longer than its bucket", units[0]) : ZR_OK;
}

static int one_gather(struct fixture *r, int32_t u)
{
	int64_t need = 0, ahead = 0;
	if (r->groups[u].param == ZR_GROUP_SELF)
		return refuse(r, "gather of what is already whole", u);
	if (r->full[u])
		return refuse(r, "gather of what is full", u);
	r->full[u] = 1;
	r->ahead[u] = !is_used(r, u);
	for (int32_t i = 0; i < r->model->n_units; i++) {
		ahead += r->ahead[i] ? r->model->elements[i] : 0;
		need += is_used(r, i) && r->groups[i].param != ZR_GROUP_SELF ?
				r->model->elements[i] :
				0;
	}
	if (ahead > r->limits.ahead)
		return refuse(r, "too much ahead", u);
	if (live(r) > r->limits.live && live(r) > need)
		return refuse(r, "too much full", u);
	r->peak_live = live(r) > r->peak_live ? live(r) : r->peak_live;
	return ZR_OK;
}

static int one_drop(struct fixture *r, int32_t u)
{
	if (r->groups[u].param == ZR_GROUP_SELF)
		return refuse(r, "drop of what is always whole", u);
	if (!r->full[u])
		return refuse(r, "drop of what is not full", u);
	r->full[u] = r->ahead[u] = 0;
	return ZR_OK;
}

static int one_reduce(struct fixture *r, int32_t u)
{
	if (r->done[u] != 1 || r->point.program > ZR_PROG_LAST_MICRO)
		return refuse(r,
			      r->done[u] == 2 ? "reduced twice" :
						"reduced before its gradient is complete",
			      u);
	r->done[u] = 2;
	return ZR_OK;
}

/* In the backward: when nobody needs the old values any more. */
static int early_update(struct fixture *r, int32_t u)
{
	if (r->done[u] != 2)
		return refuse(r, r->done[u] > 2 ? "updated twice" : "updated before its reduce", u);
	if (r->groups[u].param != ZR_GROUP_SELF && r->full[u])
		return refuse(r, "updated while it is full", u);
	r->done[u] = 3;
	return ZR_OK;
}

static int one_update(struct fixture *r, int32_t u)
{
	if (r->point.program == ZR_PROG_LAST_MICRO && !r->stage.needs_scalars(&r->stage))
		return early_update(r, u);
	if (r->point.at != ZR_AT_UPDATE)
		return refuse(r, "update before the scalars are agreed", u);
	if (r->done[u])
		return refuse(r, "updated twice", u);
	r->done[u] = 1;
	return ZR_OK;
}

static int one_publish(struct fixture *r, int32_t u)
{
	if (r->point.program == ZR_PROG_LAST_MICRO && r->done[u] == 3) {
		r->done[u] = 4;
		r->early[u] = 1;
		return ZR_OK;
	}
	if (r->point.program != ZR_PROG_UPDATE || r->done[u] != 1)
		return refuse(
			r, r->done[u] == 2 ? "published twice" : "published before its update", u);
	r->done[u] = 2;
	return ZR_OK;
}

static int verb(const struct zr_stage *s, const char *name, int (*one)(struct fixture *, int32_t),
		const int32_t *units, int32_t n, int64_t most)
{
	struct fixture *r = fixture_of(s);
	enum fixture_fault fault = r->calls++ == r->fault_call ? r->fault : FIXTURE_HONEST;
	int rc;
	if (fault == FIXTURE_FAIL)
		return ZR_ENOMEM;
	say(r, name, units, n);
	rc = check_list(r, units, n, most, one == one_gather || one == one_publish);
	if (rc || fault == FIXTURE_OMIT)
		return rc;
	for (int twice = fault == FIXTURE_TWICE; twice >= 0; twice--)
		for (int32_t i = 0; !rc && i < n - (fault == FIXTURE_SHORT); i++)
			rc = one(r, units[i]);
	return rc;
}

static int verb_gather(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	return verb(s, "gather", one_gather, units, n, fixture_of(s)->limits.gather);
}

static int verb_drop(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	return verb(s, "drop", one_drop, units, n, INT64_MAX);
}

static int verb_reduce(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	return verb(s, "reduce", one_reduce, units, n, fixture_of(s)->limits.reduce);
}

static int verb_update(const struct zr_stage *s, const int32_t *units, int32_t n, int64_t subgroup)
{
	if (subgroup < 0)
		return refuse(fixture_of(s), "negative sub-group", units[0]);
	return verb(s, "update", one_update, units, n, INT64_MAX);
}

static int verb_publish(const struct zr_stage *s, const int32_t *units, int32_t n)
{
	return verb(s, "publish", one_publish, units, n, fixture_of(s)->limits.gather);
}

/* ---- queries ---- */

/* of the unit of each number, for any model */
static const char *const names[FIXTURE_UNITS] = { "u0",  "u1",  "u2",  "u3", "u4",  "u5",
						  "u6",  "u7",  "u8",  "u9", "u10", "u11",
						  "u12", "u13", "u14", "u15" };

static const char *ask_name(const struct zr_stage *s, int32_t unit)
{
	(void)s;
	return names[unit];
}

static int64_t ask_elements(const struct zr_stage *s, int32_t unit)
{
	return fixture_of(s)->model->elements[unit];
}

static const struct zr_use *ask_use(const struct zr_stage *s, int32_t use)
{
	return use >= 0 && use < s->n_uses ? &fixture_of(s)->use[use] : NULL;
}

static int32_t ask_next_use(const struct zr_stage *s, int32_t unit, int32_t after)
{
	for (int32_t i = after + 1; i < s->n_uses; i++)
		for (uint32_t k = 0; k < fixture_of(s)->use[i].n_units; k++)
			if (fixture_of(s)->use[i].units[k] == unit)
				return i;
	return -1;
}

static int64_t ask_live(const struct zr_stage *s)
{
	return live(fixture_of(s));
}

static int ask_scalars(const struct zr_stage *s)
{
	return !fixture_of(s)->local;
}

/* ---- the walk ---- */

void fixture_open(struct fixture *r, const struct fixture_model *m, const struct zr_zero_v1 *zero,
		  struct zr_inst *inst)
{
	memset(r, 0, sizeof *r);
	r->model = m;
	r->zero = zero;
	r->inst = inst;
	r->limits =
		(struct fixture_limits){ INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
	r->stage = (struct zr_stage){
		.size = sizeof r->stage,
		.n_units = m->n_units,
		.world = 4,
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
		.name = ask_name,
	};
	for (int32_t u = 0; u < m->n_units; u++) {
		struct zr_groups_of of = { sizeof of, u, m->n_units, 4, m->elements[u], names[u] };
		if (zero->groups(inst, &of, &r->groups[u]))
			refuse(r, "groups failed", u);
	}
}

static void add_use(struct fixture *r, int32_t layer, int32_t phase)
{
	r->use[r->stage.n_uses++] = (struct zr_use){ .size = sizeof(struct zr_use),
						     .layer = layer,
						     .phase = phase,
						     .n_units = (uint32_t)r->model->n[layer],
						     .units = r->model->unit[layer] };
}

static void make_uses(struct fixture *r, int32_t program)
{
	int32_t last = r->model->n_layers - 1;
	r->stage.n_uses = 0;
	for (int32_t i = 0; i < last + (program == ZR_PROG_EVAL) && program != ZR_PROG_UPDATE; i++)
		add_use(r, i, ZR_FORWARD);
	for (int32_t i = last; i >= 0 && program <= ZR_PROG_LAST_MICRO; i--) {
		if (r->model->recompute[i] && i < last)
			add_use(r, i, ZR_RECOMPUTE);
		add_use(r, i, ZR_BACKWARD);
	}
}

static int tell(struct fixture *r, int32_t at, int32_t use, const int32_t *units, int32_t n)
{
	int rc;
	r->point = (struct zr_point){ .size = sizeof r->point,
				      .program = r->point.program,
				      .at = at,
				      .use = use,
				      .units = units,
				      .n_units = (uint32_t)n };
	rc = r->zero->at(r->inst, &r->point, &r->stage);
	if (rc)
		return rc;
	return r->error[0] ? ZR_ESTATE : ZR_OK;
}

/* Tells the units whose gradient use i completes, in declared order. */
static int tell_gradients(struct fixture *r, int32_t i)
{
	int32_t complete[FIXTURE_UNITS], n = 0;
	int64_t waiting = 0;
	int rc;
	if (r->use[i].phase != ZR_BACKWARD)
		return ZR_OK;
	for (int32_t u = 0; u < r->model->n_units; u++)
		if (is_used(r, u) && ask_next_use(&r->stage, u, i) < 0) {
			complete[n++] = u;
			r->done[u] = 1;
		}
	rc = n ? tell(r, ZR_AT_GRAD, i, complete, n) : ZR_OK;
	for (int32_t u = 0; u < r->model->n_units; u++)
		waiting += r->done[u] == 1 ? r->model->elements[u] : 0;
	return !rc && waiting > r->limits.waiting ? refuse(r, "too many gradients wait", -1) : rc;
}

static int walk_use(struct fixture *r, int32_t i)
{
	const struct zr_use *use = &r->use[i];
	int64_t need = 0;
	int rc;
	for (uint32_t k = 0; k < use->n_units; k++) {
		r->ahead[use->units[k]] = 0;
		need += r->groups[use->units[k]].param != ZR_GROUP_SELF ?
				r->model->elements[use->units[k]] :
				0;
	}
	r->peak_need = need > r->peak_need ? need : r->peak_need;
	rc = tell(r, ZR_AT_BEFORE, i, use->units, (int32_t)use->n_units);
	for (uint32_t k = 0; k < use->n_units && !rc; k++)
		if (!r->full[use->units[k]])
			rc = refuse(r, "used but not full", use->units[k]);
	if (!rc)
		rc = tell(r, ZR_AT_AFTER, i, use->units, (int32_t)use->n_units);
	if (rc)
		return rc;
	return tell_gradients(r, i);
}

/* Whatever is full over the end of a program that computes must be so over the end of each of
 * them. */
static int check_end(struct fixture *r)
{
	int32_t program = r->point.program;
	for (int32_t u = 0; u < r->model->n_units; u++) {
		if (program == ZR_PROG_UPDATE && r->done[u] != 2 && !r->early[u])
			return refuse(r, r->done[u] ? "updated but not published" : "not updated",
				      u);
		if (program <= ZR_PROG_LAST_MICRO && r->done[u] != 2 && r->done[u] != 4)
			return refuse(r,
				      r->done[u] == 3 ? "updated but not published" : "not reduced",
				      u);
		if (program != ZR_PROG_UPDATE && r->ended && r->resident[u] != r->full[u])
			return refuse(r, "resident over one end and not over another", u);
	}
	if (program != ZR_PROG_UPDATE) {
		memcpy(r->resident, r->full, sizeof r->resident);
		r->ended++;
	}
	return ZR_OK;
}

int fixture_program(struct fixture *r, int32_t program)
{
	int32_t all[FIXTURE_UNITS], left[FIXTURE_UNITS], n_left = 0;
	int rc;
	r->said[0] = 0;
	r->told_at = r->told_use = -2;
	r->point.program = program;
	memset(r->done, 0, sizeof r->done);
	memset(r->ahead, 0, sizeof r->ahead);
	for (int32_t u = 0; u < r->model->n_units; u++) {
		all[u] = u;
		r->early[u] = program == ZR_PROG_UPDATE && r->early[u];
		if (!r->early[u])
			left[n_left++] = u;
		if (r->groups[u].param == ZR_GROUP_SELF)
			r->full[u] = 1;
	}
	make_uses(r, program);
	rc = tell(r, ZR_AT_BEGIN, -1, all, r->model->n_units);
	for (int32_t i = 0; !rc && i < r->stage.n_uses; i++)
		rc = walk_use(r, i);
	if (!rc && program == ZR_PROG_UPDATE && n_left)
		rc = tell(r, ZR_AT_UPDATE, -1, left, n_left);
	if (!rc)
		rc = tell(r, ZR_AT_END, -1, all, r->model->n_units);
	if (rc)
		return rc;
	return check_end(r);
}

int fixture_steps(struct fixture *r)
{
	static const int32_t step[] = { ZR_PROG_MICRO, ZR_PROG_LAST_MICRO, ZR_PROG_UPDATE,
					ZR_PROG_EVAL };
	int rc = r->error[0] ? ZR_ESTATE : ZR_OK;
	for (int i = 0; i < 8 && !rc; i++)
		rc = fixture_program(r, step[i % 4]);
	return rc;
}
