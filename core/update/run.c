/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - scalars of the run, which an optimizer with advance() makes once per update: of sums over
 * all its parameters, where it has partial(), else of rates and steps alone. What an update that
 * did not count has made is left: the next one begins with what was before (invariant I1).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/update/update.h"

uint32_t zr_run_scalars(const struct zr_optimizer *o)
{
	const struct zr_optimizer_v1 *v = zr_optimizer_calls(o);
	if (!ZR_HAS(v, struct zr_optimizer_v1, n_run) || !v->advance)
		return 0;
	return v->n_run;
}

int zr_run_open(struct zr_session *s, struct zr_error *err)
{
	const size_t n = (size_t)s->roles->n_optimizers, groups = (size_t)s->roles->n_param_groups;
	const size_t sums = s->plan->partial.width;

	s->run = calloc(n + 1, sizeof *s->run);
	s->run_lr = calloc(groups + sums + 1, sizeof *s->run_lr);
	s->run_opts = calloc(groups + 1, sizeof *s->run_opts);
	if (s->run && s->run_lr && s->run_opts)
		return 0;
	return zr_err(err, ZR_ENOMEM, "out of memory for the scalars of %zu optimizers", n);
}

const double *zr_run_of(const struct zr_session *s, int32_t k)
{
	const struct zr_run_kept *r;
	if (!s->run || !zr_run_scalars(&s->roles->optimizer[k]))
		return NULL;

	r = &s->run[k];
	return r->update <= s->applied ? r->now : r->before;
}

void zr_run_set(struct zr_session *s, int32_t k, const double *values)
{
	struct zr_run_kept *r = &s->run[k];
	const size_t bytes = zr_run_scalars(&s->roles->optimizer[k]) * sizeof *values;

	memcpy(r->now, values, bytes);
	memcpy(r->before, values, bytes);
	r->update = s->applied;
}

void zr_run_point(const struct zr_session *s, int32_t k, struct zr_opt_step *step)
{
	const struct zr_run_kept *r = &s->run[k];
	if (!zr_run_scalars(&s->roles->optimizer[k]))
		return;

	step->run = r->now;
	step->run_before = r->update == s->decided->update ? r->before : r->now;
}

/* Its groups into s->run_lr and s->run_opts. */
static uint32_t list_groups(struct zr_session *s, int32_t k)
{
	uint32_t n = 0;
	for (int32_t g = 0; g < s->roles->n_param_groups; g++) {
		const struct zr_param_group *group = &s->roles->param_group[g];
		if (group->optimizer != k)
			continue;
		s->run_lr[n] = s->decided->lr[g];
		s->run_opts[n++] = group->section->opts;
	}
	return n;
}

static int64_t elements_of(const struct zr_session *s, int32_t k)
{
	int64_t n = 0;
	for (int32_t i = 0; i < s->facts->layout.n_tensors; i++)
		if (zr_optimizer_of(s->roles, i) == k && !s->facts->frozen[i])
			n += s->facts->layout.tensor[i].elements;
	return n;
}

static int check_finite(const struct zr_session *s, const struct zr_optimizer *o, const double *run,
			struct zr_error *err)
{
	const struct zr_optimizer_v1 *v = zr_optimizer_calls(o);
	for (uint32_t i = 0; i < v->n_run; i++)
		if (!isfinite(run[i]))
			return zr_err(err, ZR_ENUMERIC,
				      "update %lld: [%s] %s: advance() makes %s %g, and scalars "
				      "of the run are finite",
				      (long long)s->decided->update, o->it.section->name,
				      o->it.section->plugin->desc->id, v->run_names[i], run[i]);
	return 0;
}

static int advance(struct zr_session *s, int32_t k, const double *sums, struct zr_error *err)
{
	struct zr_optimizer *o = &s->roles->optimizer[k];
	const struct zr_optimizer_v1 *v = zr_optimizer_calls(o);
	struct zr_run_kept *r = &s->run[k];
	const size_t bytes = v->n_run * sizeof *r->now;
	const struct zr_opt_update u = { .size = sizeof u,
					 .n_group = list_groups(s, k),
					 .step = s->decided->update,
					 .elements = elements_of(s, k),
					 .lr = s->run_lr,
					 .opts = s->run_opts,
					 .sums = sums };

	if (r->update < u.step)
		memcpy(r->before, r->now, bytes);
	memcpy(r->now, r->before, bytes);
	r->update = u.step;
	int rc = zr_user_failed(s, &o->it, v->advance(o->it.inst, &u, r->now), "advance", err);
	if (rc)
		return rc;
	return check_finite(s, o, r->now, err);
}

int zr_run_by_rates(struct zr_session *s, struct zr_error *err)
{
	int rc = 0;
	for (int32_t k = 0; !rc && k < s->roles->n_optimizers; k++) {
		const struct zr_optimizer *o = &s->roles->optimizer[k];
		if (zr_run_scalars(o) && !zr_optimizer_calls(o)->n_partial)
			rc = advance(s, k, NULL, err);
	}
	return rc;
}

/* The j-th sum over all parameters of optimizer k. */
static double sum_of_all(const struct zr_session *s, const struct zr_exact *sums, int32_t k,
			 uint32_t j)
{
	struct zr_exact all = { 0 };
	for (int32_t i = 0; i < s->facts->layout.n_tensors; i++)
		if (zr_optimizer_of(s->roles, i) == k && !s->facts->frozen[i])
			zr_exact_merge(&all, &sums[(uint32_t)i * s->plan->partial.width + j]);
	return zr_exact_value(&all);
}

int zr_run_by_sums(struct zr_session *s, const struct zr_exact *sums, struct zr_error *err)
{
	double *total = s->run_lr + s->roles->n_param_groups;
	int rc = 0;

	for (int32_t k = 0; !rc && k < s->roles->n_optimizers; k++) {
		const struct zr_optimizer *o = &s->roles->optimizer[k];
		const uint32_t n = zr_optimizer_calls(o)->n_partial;
		if (!zr_run_scalars(o) || !n)
			continue;
		for (uint32_t j = 0; j < n; j++)
			total[j] = sum_of_all(s, sums, k, j);
		rc = advance(s, k, total, err);
	}
	return rc;
}
