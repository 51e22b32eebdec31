/* SPDX-License-Identifier: Apache-2.0
 *
 * summary.c - summary.json: the results of the run, and its memory, planned and held.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/setup.h"
#include "train/forecast/rates.h"
#include "train/run/run.h"
#include "train/rundir.h"

static json_t *hex(uint64_t v)
{
	return json_sprintf("%016llx", (unsigned long long)v);
}

static json_t *tier(const struct zr_account *a, int tier, int *n)
{
	json_t *t = json_object();

	*n = 0;
	for (int i = 0; i < a->n; i++) {
		const struct zr_account_line *l = &a->line[i];
		if ((int)l->tier != tier)
			continue;

		zr_json_put(&t, l->what,
			    json_pack("{s:I, s:I}", "planned", (json_int_t)l->peak, "peak",
				      (json_int_t)l->peak)); /* what is planned is taken at once */
		++*n;
	}

	return t;
}

static json_t *ledger(const struct zr_account *a)
{
	static const char *const name[] = { "device", "host", "disk" };
	json_t *out = json_object();

	for (int i = 0, n; i < 3; i++) {
		json_t *t = tier(a, i, &n);
		if (n)
			zr_json_put(&out, name[i], t);
		else
			json_decref(t);
	}

	return out;
}

/* JSON has no number that is not finite: the summary leaves it out. */
static void put_real(json_t **to, const char *key, double v)
{
	if (isfinite(v))
		zr_json_put(to, key, json_real(v));
}

static json_t *checkpoints(const struct zr_saver_stats *s)
{
	return json_pack("{s:I, s:I, s:I, s:f, s:f}", "saved", (json_int_t)s->saved, "failed",
			 (json_int_t)s->failed, "bytes", (json_int_t)s->bytes, "seconds",
			 s->seconds, "stall_seconds", s->stall);
}

/* The held-out part as ever, sets by their names, and the best one. */
static void put_evals(json_t **to, const struct zr_run_report *r)
{
	json_t *sets = json_object(), *best = json_object();

	for (int i = 0; r->evals && i < r->n_sets; i++) {
		const struct zr_run_set *e = &r->set[i];
		const int named = *e->name != 0;
		json_t *own = named ? json_object() : NULL, **at = named ? &own : to;
		if (!r->eval_from) /* else what came first is in an earlier summary */
			put_real(at, named ? "first_loss" : "first_val_loss", e->first.loss);
		put_real(at, named ? "last_loss" : "last_val_loss", e->last.loss);
		put_real(at, named ? "last_accuracy" : "last_val_accuracy", e->last.accuracy);
		if (named)
			zr_json_put(&sets, e->name, own);
	}

	put_real(&best, "loss", r->best.loss);
	zr_json_put(&best, "step", json_integer((json_int_t)r->best.step));
	if (r->evals && r->n_sets)
		zr_json_put(to, "evaluated_after_step", json_integer((json_int_t)r->eval_at));
	if (!sets || json_object_size(sets))
		zr_json_put(to, "evals", sets);
	else
		json_decref(sets);
	if (r->best.step >= 0)
		zr_json_put(to, "best", best);
	else
		json_decref(best);
}

/* Mean seconds of a step. */
static json_t *breakdown(const struct zr_run_report *r, const struct zr_parts *part)
{
	json_t *j = json_object();
	for (int i = 0; i < ZR_PARTS; i++)
		put_real(&j, zr_part_metric[i], part->of[i] / (double)r->process_steps);
	if (isfinite(part->idle))
		put_real(&j, ZR_IDLE_METRIC, part->idle / (double)r->process_steps);
	return j;
}

static void put_breakdowns(json_t **to, const struct zr_run_report *r)
{
	if (!r->breakdown || !r->process_steps)
		return;

	zr_json_put(to, "breakdown", breakdown(r, &r->part));
	if (r->world > 1) {
		zr_json_put(to, "breakdown_min", breakdown(r, &r->part_min));
		zr_json_put(to, "breakdown_max", breakdown(r, &r->part_max));
	}
}

static json_t *graphs(const struct zr_graph_counts *c)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "graphs", (json_int_t)c->graphs, "made_anew",
			 (json_int_t)c->anew, "launches", (json_int_t)c->launches,
			 "operations_within", (json_int_t)c->within, "operations_alone",
			 (json_int_t)c->alone);
}

static json_t *describe(const struct zr_setup *s, const struct zr_run_report *r)
{
	char cpu[128] = "";
	json_t *j = json_pack("{s:I, s:I, s:I, s:I, s:I}", "steps", (json_int_t)r->steps, "skipped",
			      (json_int_t)r->skipped, "total_tokens", (json_int_t)r->total_tokens,
			      "process_steps", (json_int_t)r->process_steps, "tokens",
			      (json_int_t)r->tokens);

	put_real(&j, "seconds", r->seconds);
	put_real(&j, "step_seconds", r->step_seconds);
	if (r->process_steps)
		put_real(&j, "tokens_per_s", r->tokens_per_s);
	put_real(&j, "first_loss", (double)r->first_loss);
	put_real(&j, "last_loss", (double)r->last_loss);
	zr_json_put(&j, "parameters", json_integer((json_int_t)r->parameters));
	zr_json_put(&j, "memory", ledger(&s->account));
	put_evals(&j, r);
	put_breakdowns(&j, r);
	if (r->graphed)
		zr_json_put(&j, "device_graphs", graphs(&r->graphs));
	if (r->updates)
		put_real(&j, "update_seconds", r->update_seconds / (double)r->updates);
	if (r->resumed >= 0) {
		zr_json_put(&j, "resumed_after_step", json_integer((json_int_t)r->resumed));
		put_real(&j, "resume_seconds", r->resume_seconds);
	}

	if (r->checkpoints.saved || r->checkpoints.failed)
		zr_json_put(&j, "checkpoints", checkpoints(&r->checkpoints));
	zr_json_put(&j, "world", json_integer(r->world));
	if (r->world > 1)
		zr_json_put(&j, "received_bytes_per_step",
			    json_pack("{s:I, s:I}", "planned", (json_int_t)r->received_plan,
				      "measured", (json_int_t)r->received));
	if (s->plan.sums)
		zr_json_put(&j, "sums_over_ranks", json_string(s->plan.sums));
	zr_json_put(&j, "process_peak_bytes", json_integer((json_int_t)r->process_peak));
	errno = 0;
	zr_cpu_name(cpu, sizeof cpu);
	if (*cpu || errno == ENOMEM)
		zr_json_put(&j, "processor", *cpu ? zr_json_string(cpu, "(not UTF-8)") : NULL);
	zr_json_put(&j, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	zr_json_put(&j, "device", zr_json_string(r->device, "(not UTF-8)"));
	zr_json_put(&j, "device_variant", zr_json_string(r->variant, "(not UTF-8)"));
	if (*r->experts_variant)
		zr_json_put(&j, "experts_variant",
			    zr_json_string(r->experts_variant, "(not UTF-8)"));
	zr_json_put(&j, "losses_digest", hex(r->losses_digest));
	zr_json_put(&j, "params_digest", hex(r->params_digest));
	zr_json_put(&j, "interrupted", json_boolean(r->interrupted));
	if (r->stopped || r->enough)
		zr_json_put(&j, r->stopped ? "stopped" : "ended_early",
			    zr_json_string(r->stopped_text, "(not UTF-8)"));
	return j;
}

int zr_summary_write(const struct zr_setup *s, const struct zr_run_report *r, struct zr_error *err)
{
	char path[PATH_MAX];
	json_t *j = describe(s, r);
	char *text = zr_json_dump(j, JSON_INDENT(2));
	int rc = zr_put_text(zr_rundir_file(s->cfg, "summary.json", path, sizeof path), text, err);

	free(text);
	json_decref(j);
	return rc;
}
