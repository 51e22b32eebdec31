/* SPDX-License-Identifier: Apache-2.0
 *
 * decide.c - what a step decides: how many targets it has and at which learning rates it updates,
 * before anything is computed; its loss and norm, whether it counts and how far it is clipped, once
 * all ranks have met; and what the update is told of that.
 *
 * Scaling: a slot's gradient is that of scale * (its token losses / its tokens); the sum over slots
 * times tokens / (targets * scale) is the gradient of the mean loss of all targets of the step, by
 * their weights. What a model adds to the loss of a slot is scaled by targets / tokens, so that the
 * step has the mean of it over slots. An update in the backward goes by this: nothing is clipped
 * then.
 */
#include <math.h>

#include "core/exec/exec.h"
#include "core/update/clip.h"
#include "core/update/update.h"

/* All programs and settings in one number, which every rank must agree on. */
static int64_t programs_hash(const struct zr_setup *p)
{
	uint64_t h = p->facts.settings;
	for (int i = 0; i < ZR_RECORDS; i++)
		h = h * 31 + p->programs.recorded[i].hash;
	for (int i = 0; i < ZR_LOWERED; i++)
		h = h * 31 + p->programs.lowered[i].hash;
	return (int64_t)h;
}

int zr_begin_step(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_setup *p = s->setup;
	double tokens = (double)(p->facts.batch.train * p->facts.batch.length),
	       slots = (double)p->facts.batch.slots;
	struct zr_decided *d = s->decided;

	(void)c;
	d->boundary = (struct zr_boundary){ .bad_tensor = INT64_MAX,
					    .stop = s->stop,
					    .check = programs_hash(p) };

	d->targets = s->targets;
	d->grad_mult = 0;
	if (d->targets > 0)
		d->grad_mult = 1 / (slots * s->scale.scale) * (tokens / d->targets);

	return 0;
}

/* Of all groups. */
static void set_scalars(struct zr_session *s)
{
	const struct zr_decided *d = s->decided;
	for (int32_t g = 0; g < s->roles->n_param_groups; g++)
		s->scalars[g] = (struct zr_scalars){ .step = d->update,
						     .lr = (float)d->lr[g],
						     .grad_mult = (float)d->grad_mult };
}

int zr_ask_rates(struct zr_session *s, const struct zr_call *c)
{
	for (int32_t group = 0; group < s->roles->n_param_groups; group++) {
		double *lr = &s->decided->lr[group];
		struct zr_sched_point at = { .size = sizeof at,
					     .group = group,
					     .step = s->applied,
					     .total_steps = (int64_t)s->facts->train->steps,
					     .base = s->roles->param_group[group].lr };
		*lr = NAN; /* what value() leaves is no rate */
		int rc = ZR_ASK(&s->roles->scheduler, scheduler, value, c->err, &at, lr);
		if (rc)
			return rc;
		if (!isfinite(*lr) || *lr < 0)
			return zr_err(c->err, ZR_EINVAL,
				      "[scheduler] %s answers %g for step %lld; "
				      "a learning rate is finite and not negative",
				      s->roles->scheduler.section->plugin->desc->id, *lr,
				      (long long)s->applied);
	}

	s->decided->update = s->applied + 1;
	set_scalars(s);
	return zr_run_by_rates(s, c->err);
}

static void name_overflow(const struct zr_layout *l, int64_t bad, struct zr_step_result *r)
{
	if (bad != INT64_MAX) {
		r->overflow = l->tensor[bad].decl->name;
		r->unit = l->unit[l->tensor[bad].unit].name;
	} else if (!isfinite(r->loss)) {
		r->overflow = "loss";
	}
}

/* Whether the precision plugin answered what it may: an action, and finite scales above 0. */
static int is_answer(const struct zr_step_result *r)
{
	return (uint32_t)r->action <= ZR_STEP_STOP && r->scale > 0 && r->scale < INFINITY &&
	       r->next_scale > 0 && r->next_scale < INFINITY;
}

/* What the precision plugin makes of the step, and its loss scale of the next one. */
static int ask_precision(struct zr_session *s, struct zr_step_result *r, struct zr_error *err)
{
	int rc = ZR_ASK(&s->roles->precision, precision, next, err, &s->scale, r->overflow != NULL,
			&r->action);
	r->next_scale = s->scale.scale;
	if (rc || is_answer(r))
		return rc;
	return zr_err(err, ZR_EINVAL,
		      "[precision] %s answers action %d and loss scale %g "
		      "after %g; expected one of ZR_STEP_* and finite scales above 0",
		      s->roles->precision.section->plugin->desc->id, r->action, r->next_scale,
		      r->scale);
}

/* grad_mult scales the sums of gradients: lowers it where their norm exceeds the limit. */
static void clip(struct zr_decided *d, double norm, double limit)
{
	const double over = (norm + 1e-6) / limit;
	if (limit > 0 && over > 1)
		d->grad_mult /= over;
}

/* The same on all ranks. The update that it counts comes next. */
int zr_decide(struct zr_session *s, const struct zr_call *c)
{
	struct zr_decided *d = s->decided;
	struct zr_boundary *b = &d->boundary;
	struct zr_step_result *r = s->result;
	*r = (struct zr_step_result){ .tokens = s->facts->batch.train * s->facts->batch.length,
				      .scale = s->scale.scale,
				      .lr = d->lr[0],
				      .stop = (int)b->stop,
				      .bad_rank = (int)b->bad_rank };
	if (d->targets > 0)
		r->loss = (float)(zr_exact_value(&b->loss) / d->targets);
	r->aux_loss = zr_exact_value(&b->aux_loss) / (double)s->facts->batch.slots;
	r->grad_norm = sqrt(zr_exact_value(&b->norm)) * d->grad_mult;
	name_overflow(&s->facts->layout, b->bad_tensor, r);
	int rc = ask_precision(s, r, c->err);
	clip(d, r->grad_norm, s->facts->train->gradient_clipping);
	set_scalars(s);
	zr_clip_decide(s, r);
	s->applied += !rc && r->action == ZR_STEP_APPLY;
	return rc;
}
