/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - the recorder: core walks the schedule on nothing, tells the stage each point and writes its verbs down.
 *
 * Waits are inferred. A gather is waited for before the first layer that needs one of its units, or before a drop. At
 * most one reduce is outstanding: it is waited for before the next one is posted, so gradient buffers live for two
 * buckets. Activations on their way to or from another tier are waited for after the use beside which they move.
 * Publishes, and whatever is left, are waited for at the end of the program.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/program/lifetime.h"
#include "core/setup.h"

enum { NOT_YET, COMPLETE, REDUCED }; /* a unit's gradient in a micro program */
enum { OLD, UPDATED, PUBLISHED };    /* a unit's values in the last_micro and the update program */

struct recorder {
	struct zr_setup *setup;
	struct zr_program *p;
	const struct zr_schedule *uses;
	struct zr_stage stage;
	struct zr_error *err;
	struct zr_point at;   /* where the stage is asked now */
	int32_t *some;        /* [n_units] scratch of verbs */
	int32_t *left;        /* [n_units] what the update program is to update */
	uint8_t *full;        /* [n_units] its full copy is there, or on its way */
	uint8_t *state;       /* [n_units] of its gradient */
	uint8_t *values;      /* [n_units] */
	int32_t *gather;      /* [n_units] number of the gather that is not waited for yet, -1: none */
	int32_t *life;        /* [n_units] its current entry of gathered */
	int32_t *grad_from;   /* [n_units] operation of the first contribution */
	int32_t *grad_to;     /* [n_units] the wait that ends the buffer */
	int32_t *reduced;     /* [n_units] the reduce, and the update: its sum lives from the one to the other, */
	int32_t *updated;     /* if neither other micro-batches nor the update program have a part in it */
	int32_t reducing;     /* outstanding reduce, -1: none */
	int32_t move;         /* next one of the activations */
	int32_t moving[2], n_moving[2]; /* first outstanding operation and how many: to the other tier, back */
	struct zr_lifetime *gathered;
	int32_t *gathered_slot; /* index into p->unit of each */
	int32_t n_gathered, cap_gathered;
};

static struct recorder *recorder_of(const struct zr_stage *st)
{
	return st->impl;
}

static const char *stage_name(const struct recorder *r)
{
	return r->setup->zero.section->plugin->desc->id;
}

/* "before the forward of h.0 in program micro" into buf, which it returns. */
static const char *point_text(const struct recorder *r, char *buf, size_t n)
{
	static const char *const at[] = { "at the begin", "at the end", "before", "after", "once gradients are complete after", "at the update" };
	const struct zr_use *use = r->at.use < 0 ? NULL : &r->uses->use[r->at.use];
	snprintf(buf, n, "%s%s%s%s%s in program %s", at[r->at.at], use ? " the " : "", use ? zr_phase_name[use->phase] : "", use ? " of " : "",
		 use ? zr_layer_at(&r->setup->decl, use->layer)->name : "", zr_program_name[r->p->id]);
	return buf;
}

static int refuse(struct recorder *r, const char *what, int32_t unit)
{
	char point[160];
	return zr_err(r->err, ZR_ESTATE, "stage %s, %s: unit %s %s", stage_name(r), point_text(r, point, sizeof point),
		      r->setup->layout.unit[unit].name, what);
}

/* ---- writing down ---- */

static void *grow(void *p, int32_t need, int32_t *cap, size_t size)
{
	if (p && need <= *cap)
		return p;
	*cap = need > 32 ? 2 * need : 64;
	return realloc(p, (size_t)*cap * size);
}

static int emit(struct recorder *r, struct zr_pop op, const int32_t *units, int32_t n)
{
	struct zr_program *p = r->p;
	struct zr_pop *ops = grow(p->op, p->n + 1, &p->cap, sizeof *ops);
	p->op = ops ? ops : p->op;
	int32_t *list = ops ? grow(p->unit, p->n_unit + n, &p->cap_unit, sizeof *list) : NULL;
	if (!list)
		return zr_err(r->err, ZR_ENOMEM, "out of memory while recording a program");
	op.first = p->n_unit;
	op.n = n;
	p->unit = list;
	for (int32_t i = 0; i < n; i++)
		p->unit[p->n_unit++] = units[i];
	p->op[p->n++] = op;
	return 0;
}

static int emit_wait(struct recorder *r, int32_t target)
{
	return emit(r, (struct zr_pop){ .kind = ZR_P_WAIT, .target = target, .once = r->p->op[target].once }, NULL, 0);
}

static int start_life(struct recorder *r, int32_t slot, int32_t unit, uint64_t bytes)
{
	int32_t cap = r->cap_gathered;
	struct zr_lifetime *l = grow(r->gathered, r->n_gathered + 1, &r->cap_gathered, sizeof *l);
	int32_t *s = l ? grow(r->gathered_slot, r->n_gathered + 1, &cap, sizeof *s) : NULL;
	if (l)
		r->gathered = l;
	if (!s)
		return zr_err(r->err, ZR_ENOMEM, "out of memory while recording a program");
	r->gathered_slot = s;
	r->life[unit] = r->n_gathered;
	r->gathered_slot[r->n_gathered] = slot;
	r->gathered[r->n_gathered++] = (struct zr_lifetime){ .bytes = bytes, .first = r->p->n - 1, .last = INT32_MAX };
	return 0;
}

static int wait_gather(struct recorder *r, int32_t unit)
{
	int32_t op = r->gather[unit];
	if (op < 0)
		return 0;
	for (int32_t u = 0; u < r->stage.n_units; u++)
		if (r->gather[u] == op)
			r->gather[u] = -1;
	return emit_wait(r, op);
}

static int wait_reduce(struct recorder *r)
{
	if (r->reducing < 0)
		return 0;
	const struct zr_pop *op = &r->p->op[r->reducing];
	for (int32_t i = 0; i < op->n; i++)
		r->grad_to[r->p->unit[op->first + i]] = r->p->n;
	int rc = emit_wait(r, r->reducing);
	r->reducing = -1;
	return rc;
}

/* ---- verbs ---- */

static int check_list(struct recorder *r, const char *verb, const int32_t *units, int32_t n)
{
	char point[160];
	for (int32_t i = 0; i < n; i++)
		if (units[i] < 0 || units[i] >= r->stage.n_units)
			return zr_err(r->err, ZR_ESTATE, "stage %s, %s: %s of unit %d, but there are %d", stage_name(r),
				      point_text(r, point, sizeof point), verb, units[i], r->stage.n_units);
	return 0;
}

/* Bytes of a unit's all-gather over a group that this rank receives: everybody else's share. */
static uint64_t received(const struct zr_setup *s, int32_t unit, int32_t group, int32_t size)
{
	int64_t ranks = zr_group_ranks(s, group), per = (s->layout.unit[unit].blocks + ranks - 1) / ranks;
	return (uint64_t)((ranks - 1) * per * ZR_BLOCK * size);
}

static int verb_gather(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct recorder *r = recorder_of(st);
	struct zr_pop op = { .kind = ZR_P_GATHER };
	int rc = check_list(r, "gather", units, n);
	for (int32_t i = 0; !rc && i < n; i++) {
		int32_t group = r->setup->groups[units[i]].param;
		const char *why = group == ZR_GROUP_SELF ? "is whole on every rank: there is nothing to gather" :
				  r->full[units[i]] ? "is gathered twice without a drop" :
				  group != r->setup->groups[units[0]].param ? "is gathered in one list with units of another group" : NULL;
		rc = why ? refuse(r, why, units[i]) : 0;
		r->full[units[i]] = 1;
		if (!zr_unit_view(r->setup, units[i]))
			op.bytes += received(r->setup, units[i], group, zr_dtype_bytes(r->setup->types.dtype));
	}
	int32_t slot = r->p->n_unit, number = r->p->n;
	if (rc || !n || (rc = emit(r, op, units, n)))
		return rc;
	for (int32_t i = 0; !rc && i < n; i++) {
		r->gather[units[i]] = number;
		rc = start_life(r, slot + i, units[i], zr_unit_view(r->setup, units[i]) ? 0 :
				zr_unit_full_bytes(r->setup, units[i], r->setup->groups[units[i]].param));
	}
	return rc;
}

static int verb_drop(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct recorder *r = recorder_of(st);
	int rc = check_list(r, "drop", units, n);
	for (int32_t i = 0; !rc && i < n; i++) {
		const char *why = r->setup->groups[units[i]].param == ZR_GROUP_SELF ? "is whole on every rank: there is nothing to drop" :
				  !r->full[units[i]] ? "is dropped without having been gathered" : NULL;
		rc = why ? refuse(r, why, units[i]) : wait_gather(r, units[i]);
		r->full[units[i]] = 0;
		if (!rc)
			r->gathered[r->life[units[i]]].last = r->p->n;
	}
	return rc || !n ? rc : emit(r, (struct zr_pop){ .kind = ZR_P_DROP }, units, n);
}

static int verb_reduce(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct recorder *r = recorder_of(st);
	struct zr_pop op = { .kind = ZR_P_REDUCE };
	int rc = check_list(r, "reduce", units, n);
	if (!rc && (r->p->id == ZR_PROG_UPDATE || r->p->id == ZR_PROG_EVAL) && n)
		rc = refuse(r, "is reduced in a program without gradients", units[0]);
	for (int32_t i = 0; !rc && i < n; i++) {
		if (r->state[units[i]] != COMPLETE)
			rc = refuse(r, r->state[units[i]] ? "is reduced twice" : "is reduced before its gradient is complete", units[i]);
		r->state[units[i]] = REDUCED;
		r->reduced[units[i]] = r->p->n;
		if (r->p->id == ZR_PROG_LAST_MICRO || !zr_sums_locally(r->setup))
			op.bytes += received(r->setup, units[i], ZR_GROUP_WORLD, zr_reduce_bytes(r->setup));
		if (r->p->id == ZR_PROG_LAST_MICRO && r->setup->groups[units[i]].state == ZR_GROUP_SELF)
			op.bytes += received(r->setup, units[i], ZR_GROUP_WORLD, 4); /* the sums, to all */
	}
	if (!rc && n)
		rc = wait_reduce(r);
	int32_t number = r->p->n;
	if (rc || !n || (rc = emit(r, op, units, n)))
		return rc;
	r->reducing = number;
	return 0;
}

/* The units of a list that are frozen, or those that are not, one after the other in r->some; how many. */
static int32_t some(struct recorder *r, const int32_t *units, int32_t n, int frozen)
{
	int32_t count = 0;
	for (int32_t i = 0; i < n; i++)
		if (r->setup->frozen_unit[units[i]] == frozen)
			r->some[count++] = units[i];
	return count;
}

/* Why a unit cannot be updated beside the backward of others, or NULL. */
static const char *too_early(const struct recorder *r, int32_t unit)
{
	int copied = r->full[unit] && r->setup->groups[unit].param != ZR_GROUP_SELF;
	return r->state[unit] != REDUCED ? "is updated before its gradient is reduced" :
	       copied ? "is updated while a full copy of it is there" : NULL;
}

/* In the backward an update waits for its own reduce only. */
static int check_early(struct recorder *r, const int32_t *units, int32_t n)
{
	char point[160];
	const char *why = zr_update_waits(r->setup);
	if (why && n)
		return zr_err(r->err, ZR_EINVAL, "stage %s, %s: unit %s cannot be updated in the backward: %s", stage_name(r),
			      point_text(r, point, sizeof point), r->setup->layout.unit[units[0]].name, why);
	for (int32_t i = 0; i < n; i++)
		if ((why = too_early(r, units[i])))
			return refuse(r, why, units[i]);
	for (int32_t i = 0; i < n && r->reducing >= 0; i++) {
		const struct zr_pop *op = &r->p->op[r->reducing];
		for (int32_t k = 0; k < op->n; k++)
			if (r->p->unit[op->first + k] == units[i])
				return wait_reduce(r);
	}
	return 0;
}

/* A stage need not know what is frozen: an update passes over it. */
static int verb_update(const struct zr_stage *st, const int32_t *units, int32_t n, int64_t piece)
{
	struct recorder *r = recorder_of(st);
	int early = r->p->id == ZR_PROG_LAST_MICRO;
	int rc = check_list(r, "update", units, n);
	for (int32_t i = 0; !rc && i < n; i++) {
		const char *why = r->p->id != ZR_PROG_UPDATE && !early ? "is updated outside of the update program" :
				  r->values[units[i]] != OLD ? "is updated twice" : NULL;
		rc = why ? refuse(r, why, units[i]) : 0;
		r->values[units[i]] = UPDATED;
		r->updated[units[i]] = r->p->n;
	}
	if (!rc && early)
		rc = check_early(r, units, n);
	n = rc ? 0 : some(r, units, n, 0);
	return rc || !n ? rc : emit(r, (struct zr_pop){ .kind = ZR_P_UPDATE, .piece = piece }, r->some, n);
}

/* Units that are frozen are published when they have got their values, and then no more. */
static int publish(struct recorder *r, const int32_t *units, int32_t n, int once)
{
	struct zr_pop op = { .kind = ZR_P_PUBLISH, .once = once };
	int rc = 0;
	for (int32_t i = 0; !rc && i < n; i++) {
		const struct zr_groups *g = &r->setup->groups[units[i]];
		if (r->values[units[i]] != UPDATED)
			rc = refuse(r, r->values[units[i]] == PUBLISHED ? "is published twice" : "is published before its update", units[i]);
		r->values[units[i]] = PUBLISHED;
		if (g->param != g->state && !once)
			op.bytes += received(r->setup, units[i], ZR_GROUP_WORLD, zr_dtype_bytes(r->setup->types.dtype));
	}
	int32_t slot = r->p->n_unit, number = r->p->n;
	if (rc || !n || (rc = emit(r, op, units, n)))
		return rc;
	for (int32_t i = 0; !rc && i < n; i++)
		if (r->setup->groups[units[i]].param == ZR_GROUP_NODE)
			rc = start_life(r, slot + i, units[i], /* the whole unit, of which the node's share is kept */
					zr_unit_full_bytes(r->setup, units[i], ZR_GROUP_WORLD));
	if (!rc)
		rc = emit_wait(r, number);
	for (int32_t i = 0; !rc && i < n; i++)
		if (r->setup->groups[units[i]].param == ZR_GROUP_NODE)
			r->gathered[r->life[units[i]]].last = r->p->n - 1;
	return rc;
}

static int verb_publish(const struct zr_stage *st, const int32_t *units, int32_t n)
{
	struct recorder *r = recorder_of(st);
	int rc = check_list(r, "publish", units, n);
	if (!rc)
		rc = publish(r, r->some, some(r, units, n, 0), 0);
	return rc ? rc : publish(r, r->some, some(r, units, n, 1), 1);
}

/* ---- queries ---- */

static int64_t ask_elements(const struct zr_stage *st, int32_t unit)
{
	return recorder_of(st)->setup->layout.unit[unit].elements;
}

static const struct zr_use *ask_use(const struct zr_stage *st, int32_t use)
{
	return use >= 0 && use < st->n_uses ? &recorder_of(st)->uses->use[use] : NULL;
}

static int32_t ask_next_use(const struct zr_stage *st, int32_t unit, int32_t after)
{
	return st->n_uses ? zr_schedule_next(recorder_of(st)->uses, unit, after) : -1;
}

static int64_t ask_live(const struct zr_stage *st)
{
	const struct recorder *r = recorder_of(st);
	int64_t sum = 0;
	for (int32_t u = 0; u < st->n_units; u++)
		if (r->full[u] && r->setup->groups[u].param != ZR_GROUP_SELF)
			sum += r->setup->layout.unit[u].elements;
	return sum;
}

static int ask_scalars(const struct zr_stage *st)
{
	return zr_update_waits(recorder_of(st)->setup) != NULL;
}

/* ---- the walk ---- */

static int tell(struct recorder *r, int32_t at, int32_t use, const int32_t *units, int32_t n)
{
	const struct zr_zero_v1 *zero = r->setup->zero.vtbl;
	r->at = (struct zr_point){ .size = sizeof r->at, .program = r->p->id, .at = at, .use = use, .units = units,
				   .n_units = (uint32_t)n };
	if (!zero)
		return 0; /* sampling: everything is whole */
	int rc = zero->at(r->setup->zero.inst, &r->at, &r->stage);
	if (r->err->code) /* a verb was refused, whatever the stage makes of it */
		return r->err->code;
	return rc ? zr_instance_failed(&r->setup->zero, rc, "at", r->err) : 0;
}

/* Activations on their way to the other tier, or back. */
static int post_moves(struct recorder *r, int32_t use, int32_t back)
{
	const struct zr_activations *a = &r->setup->train_act;
	int rc = 0;
	r->moving[back] = r->p->n;
	for (; !rc && r->uses == &r->setup->train_uses && r->move < a->n_moves; r->move++) {
		const struct zr_act_move *m = &a->move[r->move];
		if (m->use != use || m->back != back)
			break;
		rc = emit(r, (struct zr_pop){ .kind = back ? ZR_P_FETCH : ZR_P_SPILL, .use = r->move, .bytes = m->bytes }, NULL, 0);
	}
	r->n_moving[back] = r->p->n - r->moving[back];
	return rc;
}

static int wait_moves(struct recorder *r, int32_t back)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < r->n_moving[back]; i++)
		rc = emit_wait(r, r->moving[back] + i);
	r->n_moving[back] = 0;
	return rc;
}

/* A use between the moves beside it: what it reads has returned, what the next one reads begins to; what the last one left
 * is gone, what nobody reads for a while begins to. */
static int emit_use(struct recorder *r, int32_t i)
{
	int rc = wait_moves(r, 1);
	if (!rc)
		rc = post_moves(r, i, 1);
	for (uint32_t k = 0; !rc && k < r->uses->use[i].n_units; k++)
		if (r->uses->use[i].phase == ZR_BACKWARD && r->uses->first_grad[r->uses->use[i].units[k]] == i)
			r->grad_from[r->uses->use[i].units[k]] = r->p->n;
	if (!rc)
		rc = emit(r, (struct zr_pop){ .kind = ZR_P_LAYER, .use = i }, NULL, 0);
	if (!rc)
		rc = wait_moves(r, 0);
	return rc ? rc : post_moves(r, i, 0);
}

static int record_use(struct recorder *r, int32_t i)
{
	const struct zr_use *use = &r->uses->use[i];
	int rc = tell(r, ZR_AT_BEFORE, i, use->units, (int32_t)use->n_units);
	for (uint32_t k = 0; !rc && k < use->n_units; k++)
		rc = r->full[use->units[k]] ? wait_gather(r, use->units[k]) : refuse(r, "is needed, but not gathered", use->units[k]);
	if (!rc)
		rc = emit_use(r, i);
	if (!rc)
		rc = tell(r, ZR_AT_AFTER, i, use->units, (int32_t)use->n_units);
	int32_t lo = r->uses->grad_first[i], hi = r->uses->grad_first[i + 1];
	for (int32_t k = lo; k < hi; k++)
		r->state[r->uses->grad_unit[k]] = COMPLETE;
	return rc || hi == lo ? rc : tell(r, ZR_AT_GRAD, i, r->uses->grad_unit + lo, hi - lo);
}

static int check_end(struct recorder *r)
{
	int training = r->p->id == ZR_PROG_MICRO || r->p->id == ZR_PROG_LAST_MICRO;
	for (int32_t u = 0; u < r->stage.n_units; u++) {
		if (r->setup->groups[u].param != ZR_GROUP_SELF && r->full[u])
			return refuse(r, "is still full at the end of the program: a drop is missing", u);
		if (training && r->state[u] != REDUCED && !r->setup->frozen_unit[u])
			return refuse(r, "has a complete gradient that was not reduced by the end of the program", u);
		if (r->values[u] == UPDATED || (r->p->id == ZR_PROG_UPDATE && r->values[u] == OLD))
			return refuse(r, r->values[u] == UPDATED ? "is updated but not published" : "is not updated", u);
	}
	return 0;
}

/* Of what no program before has updated. */
static int tell_update(struct recorder *r)
{
	int32_t n = 0;
	for (int32_t u = 0; u < r->stage.n_units; u++)
		if (r->values[u] == OLD)
			r->left[n++] = u;
	return n ? tell(r, ZR_AT_UPDATE, -1, r->left, n) : 0;
}

static int walk(struct recorder *r, const int32_t *all)
{
	int32_t n = r->stage.n_units;
	int rc = tell(r, ZR_AT_BEGIN, -1, all, n);
	for (int32_t i = 0; !rc && i < r->uses->n; i++)
		rc = record_use(r, i);
	if (!rc && r->p->id == ZR_PROG_UPDATE)
		rc = tell_update(r);
	if (!rc)
		rc = tell(r, ZR_AT_END, -1, all, n);
	for (int32_t u = 0; !rc && u < n; u++)
		rc = wait_gather(r, u);
	if (!rc)
		rc = wait_reduce(r);
	return rc ? rc : check_end(r);
}

/* ---- offsets and hash ---- */

/* Sums that begin and end in this program, as all do or none. With a single slot the first contribution is the sum. */
static int place_sums(struct recorder *r)
{
	const struct zr_setup *s = r->setup;
	int32_t n = r->stage.n_units;
	for (int32_t u = 0; u < n; u++)
		if (!s->frozen_unit[u] && r->values[u] != PUBLISHED)
			return 0;
	if (r->p->id != ZR_PROG_LAST_MICRO || s->batch.accumulation > 1)
		return 0;
	struct zr_lifetime *sum = calloc((size_t)n + 1, sizeof *sum);
	r->p->sum = calloc((size_t)n + 1, sizeof *r->p->sum);
	int rc = sum && r->p->sum ? 0 : zr_err(r->err, ZR_ENOMEM, "out of memory while recording a program");
	for (int32_t u = 0; !rc && u < n; u++)
		if (!s->frozen_unit[u])
			sum[u] = (struct zr_lifetime){ .bytes = (uint64_t)(zr_unit_held_blocks(s, u) * ZR_BLOCK) * 4,
						       .first = s->batch.slots == 1 ? r->grad_from[u] : r->reduced[u],
						       .last = r->updated[u] };
	if (!rc)
		rc = zr_lifetime_assign(sum, n, &r->p->sum_bytes, r->err);
	for (int32_t u = 0; !rc && u < n; u++)
		r->p->sum[u] = sum[u].offset;
	free(sum);
	return rc;
}

static int place(struct recorder *r)
{
	struct zr_program *p = r->p;
	int32_t n = r->stage.n_units;
	p->place = calloc((size_t)p->n_unit + 1, sizeof *p->place);
	p->grad_buffer = calloc((size_t)n + 1, sizeof *p->grad_buffer);
	struct zr_lifetime *grad = calloc((size_t)n + 1, sizeof *grad);
	int rc = p->place && p->grad_buffer && grad ? 0 : zr_err(r->err, ZR_ENOMEM, "out of memory while recording a program");
	for (int32_t u = 0; !rc && u < n; u++)
		if (r->grad_from[u] >= 0)
			grad[u] = (struct zr_lifetime){ .bytes = zr_unit_padded_elements(r->setup, u) * 4, .first = r->grad_from[u],
							.last = r->grad_to[u] };
	if (!rc)
		rc = zr_lifetime_assign(r->gathered, r->n_gathered, &p->gather_bytes, r->err);
	if (!rc)
		rc = zr_lifetime_assign(grad, n, &p->grad_bytes, r->err);
	for (int32_t i = 0; !rc && i < r->n_gathered; i++)
		p->place[r->gathered_slot[i]] = r->gathered[i].offset;
	for (int32_t u = 0; !rc && u < n; u++)
		p->grad_buffer[u] = grad[u].offset;
	free(grad);
	return rc ? rc : place_sums(r);
}

static uint64_t hash(const struct recorder *r)
{
	const struct zr_program *p = r->p;
	uint64_t h = XXH3_64bits(p->op, (size_t)p->n * sizeof *p->op);
	h = XXH3_64bits_withSeed(p->unit, (size_t)p->n_unit * sizeof *p->unit, h);
	return XXH3_64bits_withSeed(p->place, (size_t)p->n_unit * sizeof *p->place, h);
}

static int start(struct recorder *r, const struct zr_setup *s)
{
	size_t n = (size_t)s->layout.n_units + 1;
	r->some = calloc(n, sizeof *r->some);
	r->left = calloc(n, sizeof *r->left);
	r->full = calloc(n, 1);
	r->state = calloc(n, 1);
	r->values = calloc(n, 1);
	r->gather = malloc(n * sizeof *r->gather);
	r->life = calloc(n, sizeof *r->life);
	r->grad_from = malloc(n * sizeof *r->grad_from);
	r->grad_to = calloc(n, sizeof *r->grad_to);
	r->reduced = calloc(n, sizeof *r->reduced);
	r->updated = calloc(n, sizeof *r->updated);
	if (!r->some || !r->left || !r->full || !r->state || !r->values || !r->gather || !r->life || !r->grad_from || !r->grad_to || !r->reduced || !r->updated)
		return zr_err(r->err, ZR_ENOMEM, "out of memory while recording a program");
	for (int32_t u = 0; u < s->layout.n_units; u++) {
		r->full[u] = s->groups[u].param == ZR_GROUP_SELF;
		r->gather[u] = r->grad_from[u] = -1;
	}
	const struct zr_program *before = &s->program[ZR_PROG_LAST_MICRO];
	for (int32_t i = 0; r->p->id == ZR_PROG_UPDATE && i < before->n; i++)
		for (int32_t k = 0; before->op[i].kind == ZR_P_PUBLISH && k < before->op[i].n; k++)
			r->values[before->unit[before->op[i].first + k]] = PUBLISHED;
	return 0;
}

int zr_program_record(struct zr_setup *s, int32_t id, struct zr_program *out, struct zr_error *err)
{
	static const struct zr_schedule none;
	struct zr_program p = { .id = id };
	struct recorder r = {
		.setup = s, .p = &p, .err = err, .reducing = -1,
		.uses = id == ZR_PROG_UPDATE ? &none : id == ZR_PROG_EVAL ? &s->eval_uses : &s->train_uses,
	};
	*err = (struct zr_error){ 0 };
	r.stage = (struct zr_stage){
		.size = sizeof r.stage, .n_units = s->layout.n_units, .n_uses = r.uses->n, .world = s->process.world, .impl = &r,
		.gather = verb_gather, .drop = verb_drop, .reduce = verb_reduce, .update = verb_update, .publish = verb_publish,
		.elements = ask_elements, .use = ask_use, .next_use = ask_next_use,
		.live_elements = ask_live, .needs_scalars = ask_scalars,
	};
	int32_t *all = calloc((size_t)s->layout.n_units + 1, sizeof *all);
	for (int32_t u = 0; all && u < s->layout.n_units; u++)
		all[u] = u;
	int rc = all ? start(&r, s) : zr_err(err, ZR_ENOMEM, "out of memory while recording a program");
	if (!rc)
		rc = walk(&r, all);
	if (!rc)
		rc = place(&r);
	if (!rc) {
		p.hash = hash(&r);
		*out = p;
	} else {
		zr_program_free(&p);
	}
	void *scratch[] = { all, r.some, r.left, r.full, r.state, r.values, r.gather, r.life, r.grad_from, r.grad_to, r.reduced, r.updated, r.gathered, r.gathered_slot };
	for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++)
		free(scratch[i]);
	return rc;
}
