/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c - see others.h: whether a training as the configuration says is the one that wrote a
 * checkpoint. What differs is refused by name, with both values.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zeroth/model.h>
#include <zeroth/scheduler.h>

#include "core/base/text.h"
#include "core/plugin/host.h"
#include "core/pretrained/pretrained.h"
#include "files/pretrained/tensors.h"
#include "cmd/others/others.h"

#define NEAR 1e-6 /* of a learning rate: fp32 counts in some schedules */

double zr_section_number(const struct zr_section *s, const char *name, int i)
{
	const struct zr_opt *o = zr_table_find(&s->table, name);

	if (!o)
		return NAN;
	if (o->type == ZR_T_BOOL)
		return *((const uint8_t *)s->opts + o->offset);
	if (o->type == ZR_T_I64)
		return (double)*(const int64_t *)((const char *)s->opts + o->offset);
	if (o->type != ZR_T_F64 && o->type != ZR_T_F64S)
		return NAN;
	return ((const double *)((const char *)s->opts + o->offset))[i];
}

static int compare(const struct zr_others *o, const struct zr_section *s, const char *name, int i,
		   double theirs, struct zr_error *err)
{
	const double ours = zr_section_number(s, name, i);

	if (isnan(theirs) || isnan(ours) || ours == theirs)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: it was trained with %s = %.10g, and [%s] has %.10g: set "
		      "%s.%s, or take the weights alone with --weights",
		      o->path, name, theirs, s->name, ours, s->name, name);
}

static int check_options(const struct zr_others *o, const struct zr_section *s,
			 const struct zr_other_group *g, struct zr_error *err)
{
	int rc = compare(o, s, "betas", 0, g->betas[0], err);
	if (!rc)
		rc = compare(o, s, "betas", 1, g->betas[1], err);
	if (!rc)
		rc = compare(o, s, "eps", 0, g->eps, err);
	if (!rc)
		rc = compare(o, s, "weight_decay", 0, g->weight_decay, err);
	if (!rc)
		rc = compare(o, s, "momentum", 0, g->momentum, err);
	return rc;
}

/* Adam and AdamW keep the same states and mean another decay. */
static int check_kind(const struct zr_others *o, const struct zr_section *s,
		      const struct zr_other_group *g, struct zr_error *err)
{
	const char *id = s->plugin->desc->id;
	const int adamw = !strcmp(id, "adamw"), adam = !strcmp(id, "adam");

	if (g->decoupled < 0 || g->weight_decay == 0 || (!adamw && !adam) || adamw == g->decoupled)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s: it was trained with %s, and [%s] has plugin = %s: the weight decay is "
		      "another one",
		      o->path, g->decoupled ? "AdamW" : "Adam", s->name, id);
}

int zr_other_next_rate(struct zr_setup *setup, int32_t group, int64_t applied, double *lr,
		       struct zr_error *err)
{
	struct zr_sched_point at = { .size = sizeof at,
				     .group = group,
				     .step = applied,
				     .total_steps = (int64_t)setup->facts.train->steps,
				     .base = setup->roles.param_group[group].lr };

	return ZR_ASK(&setup->roles.scheduler, scheduler, value, err, &at, lr);
}

static int check_rate(const struct zr_others *o, struct zr_setup *setup, int32_t group,
		      const struct zr_other_group *g, struct zr_error *err)
{
	double lr;

	if (isnan(g->lr))
		return 0;

	int rc = zr_other_next_rate(setup, group, o->applied, &lr, err);
	if (rc || fabs(lr - g->lr) <= NEAR * fmax(fabs(g->lr), setup->roles.param_group[group].lr))
		return rc;
	return zr_err(
		err, ZR_EINVAL,
		"%s: its next update has learning rate %.10g, and [scheduler] %s gives %.10g "
		"after %lld updates: set [%s] lr, [scheduler] and [train] steps as they were "
		"there (`zeroth schedule` shows them), or take the weights alone with --weights",
		o->path, g->lr, setup->roles.scheduler.section->plugin->desc->id, lr,
		(long long)o->applied, setup->roles.param_group[group].section->name);
}

/* Whether a state that is kept here is there. */
static int check_kept(const struct zr_others *o, const struct zr_optimizer *of,
		      const struct zr_state *st, const struct zr_other_tensor *t, const char *name,
		      struct zr_error *err)
{
	const struct zr_section *s = of->it.section;

	if (!zr_other_datum(t, st->name))
		return zr_err(err, ZR_EINVAL,
			      "%s: tensor %s has no %s, which [%s] %s keeps: is it of another "
			      "optimizer? --weights takes the weights alone",
			      o->path, name, st->name, s->name, s->plugin->desc->id);
	if (st->dtype == ZR_F32)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "[%s] keeps %s in another type than fp32: import with -o %s.states=fp32; a "
		      "training that goes on converts them",
		      s->name, st->name, s->name);
}

static int keeps(const struct zr_optimizer *of, const char *name)
{
	for (uint32_t i = 0; i < of->n_states; i++)
		if (!strcmp(zr_optimizer_state(of, i)->name, name))
			return 1;

	return !strcmp(name, ZR_OTHER_MASTER);
}

static int check_states(const struct zr_others *o, const struct zr_setup *setup, int32_t tensor,
			const struct zr_other_tensor *t, struct zr_error *err)
{
	const struct zr_optimizer *of =
		&setup->roles.optimizer[zr_optimizer_of(&setup->roles, tensor)];
	const char *name = setup->facts.layout.tensor[tensor].decl->name;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < of->n_states; i++)
		rc = check_kept(o, of, zr_optimizer_state(of, i), t, name, err);

	for (int32_t d = 0; !rc && t && d < t->n; d++)
		if (!keeps(of, t->datum[d].name))
			rc = zr_err(err, ZR_EINVAL,
				    "%s: tensor %s has %s, which [%s] %s does not keep: choose the "
				    "optimizer that it was trained with, or --weights",
				    o->path, name, t->datum[d].name, of->it.section->name,
				    of->it.section->plugin->desc->id);
	return rc;
}

static int same_shape(const struct zr_other_tensor *t, const struct zr_tensor *decl)
{
	return t->ndim == (int32_t)decl->ndim &&
	       !memcmp(t->dims, decl->dims, decl->ndim * sizeof *decl->dims);
}

static int check_weight(const struct zr_others *o, const struct zr_setup *setup, int32_t tensor,
			const struct zr_other_tensor *t, struct zr_error *err)
{
	const struct zr_tensor *decl = setup->facts.layout.tensor[tensor].decl;

	if (t && !same_shape(t, decl))
		return zr_err(err, ZR_EINVAL, "%s: tensor %s has another shape than the model",
			      o->path, t->name);
	if (zr_other_datum(t, ZR_OTHER_MASTER))
		return 0;
	if (o->weights && zr_tensor_files_have(o->weights, tensor))
		return 0;
	return zr_err(err, ZR_EINVAL, "%s: the weight of tensor %s is missing", o->path,
		      decl->name);
}

/* What its parameter group says there, and here. */
static int check_group(const struct zr_others *o, struct zr_setup *setup, int32_t tensor,
		       const struct zr_other_tensor *t, struct zr_error *err)
{
	const int32_t group = setup->roles.group_of[tensor];
	const struct zr_section *s = setup->roles.param_group[group].section;
	const struct zr_other_group *g = &o->group[t->group];

	int rc = check_kind(o, s, g, err);
	if (!rc)
		rc = check_options(o, s, g, err);
	if (!rc)
		rc = check_rate(o, setup, group, g, err);
	return rc;
}

static int check_tensor(const struct zr_others *o, struct zr_setup *setup, int32_t tensor,
			struct zr_error *err)
{
	const struct zr_other_tensor *t =
		zr_other_find(o, setup, setup->facts.layout.tensor[tensor].decl->name);

	int rc = check_weight(o, setup, tensor, t, err);
	if (rc || o->weights_only || setup->facts.frozen[tensor])
		return rc;

	rc = check_states(o, setup, tensor, t, err);
	if (rc || !t || !o->groups)
		return rc;
	return check_group(o, setup, tensor, t, err);
}

/* The tensor that one of theirs is by another name, as the head of a tied model is its embedding;
 * NULL: none. */
static const struct zr_other_tensor *
other_name(const struct zr_others *o, const struct zr_setup *setup, const struct zr_other_tensor *t)
{
	const struct zr_pretrained_v1 *v = zr_pretrained_of(setup->roles.model.section->plugin);
	const char *words = v ? v->ignored : "", *word;
	const size_t head = strlen(t->name);
	char of[256];
	size_t n;

	while ((word = zr_next_word(&words, &n))) {
		if (n <= head + 1 || word[head] != '=' || memcmp(word, t->name, head))
			continue;

		snprintf(of, sizeof of, "%.*s", (int)(n - head - 1), word + head + 1);
		return zr_other_find(o, setup, of);
	}

	return NULL;
}

/* Whether both are the same: a tied model has one tensor for them. */
static int check_tied(struct zr_others *o, const struct zr_other_tensor *a,
		      const struct zr_other_tensor *b, struct zr_error *err)
{
	enum { SOME = 8192 };
	const struct zr_other_datum *x = zr_other_datum(a, ZR_OTHER_MASTER);
	const struct zr_other_datum *y = zr_other_datum(b, ZR_OTHER_MASTER);
	float one[SOME], two[SOME];
	int rc = 0, same = x && y && a->n == 1 && a->elements == b->elements;

	for (int64_t at = 0, n; !rc && same && at < a->elements; at += n) {
		n = a->elements - at < SOME ? a->elements - at : SOME;
		rc = zr_other_read(o, a, x, at, n, one, err);
		if (!rc)
			rc = zr_other_read(o, b, y, at, n, two, err);
		same = !rc && !memcmp(one, two, (size_t)n * sizeof *one);
	}

	if (rc || same)
		return rc;
	return zr_err(err, ZR_EINVAL,
		      "%s: tensors %s and %s differ, and the model has one for both: the "
		      "config.json of [model] path says so by tie_word_embeddings",
		      o->path, a->name, b->name);
}

/* Whether a tensor of theirs is one of the model's. */
static int check_known(struct zr_others *o, const struct zr_setup *setup,
		       const struct zr_other_tensor *t, struct zr_error *err)
{
	const struct zr_layout *l = &setup->facts.layout;
	const struct zr_other_tensor *of = other_name(o, setup, t);

	for (int32_t i = 0; i < l->n_tensors; i++)
		if (zr_other_find(o, setup, l->tensor[i].decl->name) == t)
			return 0;
	if (of)
		return check_tied(o, t, of, err);
	return zr_err(err, ZR_EINVAL, "%s: the model has no tensor for its %s", o->path, t->name);
}

/* The rule by which the scale falls and grows. */
static int check_rule(const struct zr_others *o, const struct zr_section *s, struct zr_error *err)
{
	int rc = 0;

	if (o->window)
		rc = compare(o, s, "loss_scale_window", 0, (double)o->window, err);
	if (!rc && o->hysteresis)
		rc = compare(o, s, "hysteresis", 0, (double)o->hysteresis, err);
	if (!rc && o->floor > 0)
		rc = compare(o, s, "min_loss_scale", 0, o->floor, err);
	return rc;
}

static int check_scale(const struct zr_others *o, const struct zr_setup *setup,
		       struct zr_error *err)
{
	if (setup->facts.types.scaled && !o->scaled && !o->weights_only)
		return zr_err(
			err, ZR_EINVAL,
			"%s: it has no loss scale, which [precision] fp16 goes on with: choose "
			"the precision that it was trained in, or --weights",
			o->path);
	if (o->scaled && !setup->facts.types.scaled)
		return zr_err(err, ZR_EINVAL,
			      "%s: it was trained with a loss scale: choose [precision] plugin = "
			      "fp16, or take the weights alone with --weights",
			      o->path);

	if (!o->scaled || o->weights_only)
		return 0;
	return check_rule(o, setup->roles.precision.section, err);
}

int zr_others_check(struct zr_others *o, struct zr_setup *setup, struct zr_error *err)
{
	int rc = check_scale(o, setup, err);

	for (int32_t i = 0; !rc && i < setup->facts.layout.n_tensors; i++)
		rc = check_tensor(o, setup, i, err);
	for (int64_t i = 0; !rc && i < o->n; i++)
		rc = check_known(o, setup, &o->tensor[i], err);
	return rc;
}
