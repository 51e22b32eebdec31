/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h.
 */
#define _GNU_SOURCE
#include "train/run/run.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/log.h"
#include "train/adapter.h"
#include "train/beat.h"
#include "train/fit.h"
#include "train/forecast/plan_json.h"
#include "train/forecast/traffic.h"
#include "train/probe.h"
#include "train/resume.h"
#include "train/room.h"
#include "train/run/config_ini.h"
#include "train/run/crash.h"
#include "train/run/progress.h"
#include "train/run/signals.h"
#include "train/run/timeline.h"
#include "train/rundir.h"
#include "train/trainer.h"
#include "train/weights.h"
#include "train/weights/export.h"

struct run {
	struct zr_trainer t;
	struct zr_progress progress;
	struct zr_timeline timeline;
	json_t *plan;       /* of rank 0, for plan.json */
	const char *resume; /* what --resume says, or NULL */
	uint16_t *bytes;    /* [vocabulary] of the text of each token; NULL: not known */
	struct zr_run_report *report;
	struct zr_config_ini *config_ini; /* being written; NULL: it is there */
	int stop;                         /* the signal that some rank caught */
};

/* Tells the supervisor that this rank makes progress. */
static void beat(void)
{
	atomic_fetch_add(&zr_beat_shared()->count, 1);
}

static void note_round(void *arg, int64_t done, int64_t all)
{
	struct run *r = arg;
	beat();
	if (r->t.rank0)
		zr_progress_round(&r->progress, done, all);
}

static int evaluate(struct run *r, int64_t step, struct zr_error *err)
{
	const struct zr_eval_how how = { .tick = note_round, .arg = r, .bytes = r->bytes };
	int rc = zr_run_all_evals(&r->t.evals, step, &how, err);
	zr_progress_pause(&r->progress, ZR_PAUSE_EVAL);
	for (int i = 0; !rc && r->t.rank0 && i < r->t.evals.n; i++) {
		const struct zr_run_set *e = &r->t.evals.set[i];
		zr_progress_eval(&r->progress, step, e->name, &e->last);
	}
	return rc;
}

/* Parts of the last step, if they are wanted. */
static const double *parts(const struct run *r)
{
	return r->timeline.wanted ? r->timeline.part : NULL;
}

static void overflow_text(const struct zr_step_result *s, char *out, size_t size)
{
	if (s->unit)
		snprintf(out, size, "non-finite numbers in the gradient of %s (unit %s), rank %d",
			 s->overflow, s->unit, s->bad_rank);
	else if (s->overflow)
		snprintf(out, size, "the %s is not finite", s->overflow);
	else
		snprintf(out, size, "[precision] asks for that, and all numbers are finite");
}

/* A step that was not applied is skipped with a warning, or ends the training. */
static void note_action(struct run *r, const struct zr_step_result *s)
{
	struct zr_run_report *rep = r->report;
	char what[256], scale[80] = "";
	if (s->action == ZR_STEP_APPLY)
		return;

	overflow_text(s, what, sizeof what);
	if (s->action == ZR_STEP_SKIP) {
		if (r->t.setup->types.scaled)
			snprintf(scale, sizeof scale, "; loss scale %.10g -> %.10g", s->scale,
				 s->next_scale);
		if (r->t.rank0)
			zr_logf(ZR_LOG_WARN, "train", "step %lld skipped: %s%s",
				(long long)r->t.session->step, what, scale);
		return;
	}

	if (r->t.setup->types.scaled)
		snprintf(scale, sizeof scale, "; loss scale %.10g cannot fall", s->scale);
	rep->stopped = ZR_ENUMERIC;
	snprintf(rep->stopped_text, sizeof rep->stopped_text,
		 "step %lld: %s%s; the weights are those before this step",
		 (long long)r->t.session->step, what, scale);
}

static int one_step(struct run *r, struct zr_error *err)
{
	const struct zr_train_opts *t = r->t.setup->train;
	const struct zr_step_result *s = &r->t.result;
	zr_timeline_begin(&r->timeline);
	int rc = zr_trainer_step(&r->t, zr_signals_caught(), err);
	if (rc)
		return rc;

	int64_t step = r->t.session->step;
	r->report->step_seconds += zr_timeline_end(&r->timeline);
	if ((rc = zr_config_ini_end(&r->config_ini, err)))
		return rc;

	beat();
	if (r->t.rank0)
		atomic_fetch_add(&zr_beat_shared()->steps, 1);
	r->report->tokens += s->tokens;
	r->stop = s->stop;
	r->report->received = s->received;
	/* the first update warms up caches and does not count */
	if (s->action == ZR_STEP_APPLY && r->t.session->applied > 1) {
		r->report->update_seconds += r->timeline.update;
		r->report->updates++;
	}
	if (r->t.rank0)
		zr_progress_step(&r->progress, step, s);
	if (r->t.rank0 && r->timeline.wanted)
		zr_progress_parts(&r->progress, step, r->timeline.part);
	note_action(r, s);

	int due = r->t.evals.n && t->eval_every > 0 && !r->report->stopped &&
		  (step % (int64_t)t->eval_every == 0 || step == (int64_t)t->steps);
	r->t.evals.improved = 0;
	if (due)
		rc = evaluate(r, step, err);
	if (!rc)
		zr_trainer_push(&r->t, parts(r));
	r->report->enough = zr_run_evals_stop(&r->t.evals, r->report->stopped_text,
					      sizeof r->report->stopped_text);
	return rc;
}

static void note_saved(const struct run *r)
{
	if (r->t.rank0 && zr_saver_stats_of(r->t.saver)->saved)
		atomic_store(&zr_beat_shared()->saved, 1);
}

/* After a step: starts a save that is due, or advances one that is in progress. */
static int checkpoint(struct run *r, struct zr_error *err)
{
	const struct zr_checkpoint_opts *o = zr_config_find(r->t.cfg, "checkpoint")->opts;
	int64_t step = r->t.session->step, every = (int64_t)o->every;
	int last = step == (int64_t)r->t.setup->train->steps || r->report->enough;
	int due = (every > 0 && (step % every == 0 || last)) || (r->stop && o->on_signal) ||
		  (r->t.evals.improved && o->keep_best);
	if (!due || r->report->stopped) {
		int rc = zr_saver_poll(r->t.saver, err);
		note_saved(r);
		return rc;
	}
	int rc = zr_trainer_save(&r->t, err);
	beat();
	note_saved(r);
	zr_progress_pause(&r->progress, ZR_PAUSE_SAVE);
	return rc;
}

static int loop(struct run *r, struct zr_error *err)
{
	const struct zr_train_opts *t = r->t.setup->train;
	struct zr_run_report *rep = r->report;
	int rc = 0;
	if (r->t.evals.n && t->eval_every > 0 && r->t.session->step == 0)
		rc = evaluate(r, 0, err);
	double start = zr_now();
	rep->enough = zr_run_evals_stop(&r->t.evals, rep->stopped_text, sizeof rep->stopped_text);
	while (!rc && !r->stop && !rep->stopped && !rep->enough &&
	       r->t.session->step < (int64_t)t->steps) {
		rc = one_step(r, err);
		if (r->t.setup->process.world == 1)
			/* several ranks end together: all learn after the next step what one
			 * caught */
			r->stop = zr_signals_caught();
		if (!rc)
			rc = checkpoint(r, err);
	}

	struct zr_error late = { 0 };
	if (!rc)
		rc = zr_saver_finish(r->t.saver, err);
	/* a save that was in progress is of an earlier step, and its checkpoint is now the last
	 * complete one */
	else if (r->t.session->torn)
		zr_saver_finish(r->t.saver, &late);
	if (r->t.rank0)
		zr_progress_end(&r->progress);
	if (r->t.rank0 && rep->enough)
		zr_logf(ZR_LOG_INFO, "train", "ends early, after step %lld: %s",
			(long long)r->t.session->step, rep->stopped_text);
	if (r->t.rank0 && r->stop == SIGPIPE)
		zr_logf(ZR_LOG_WARN, "train",
			"nobody reads standard output any more: the run ends after step %lld",
			(long long)r->t.session->step);
	r->report->seconds = zr_now() - start;
	return rc;
}

static uint64_t planned(const struct zr_setup *s)
{
	uint64_t sum = 0;
	for (const struct zr_account_line *l = s->account.line; l < s->account.line + s->account.n;
	     l++)
		sum += l->tier == ZR_TIER_HOST || l->tier == ZR_TIER_DEVICE ? l->peak : 0;
	return sum;
}

static int finish_report(struct run *r, struct zr_error *err)
{
	struct zr_run_report *rep = r->report;
	struct rusage u;
	rep->interrupted = r->stop;
	rep->steps = r->t.session->step;
	/* the step that ended the run was not skipped */
	rep->skipped = rep->steps - r->t.session->applied - !!rep->stopped;
	rep->first_loss = rep->steps ? r->t.losses[0] : 0;
	rep->last_loss = rep->steps ? r->t.losses[rep->steps - 1] : 0;
	rep->checkpoints = *zr_saver_stats_of(r->t.saver);
	rep->process_steps = rep->steps - r->t.first;
	rep->breakdown = r->timeline.wanted;
	rep->total_tokens = rep->steps * r->t.setup->batch.train * r->t.setup->batch.length;
	rep->tokens_per_s = rep->step_seconds > 0 ? (double)rep->tokens / rep->step_seconds : 0;
	rep->evals = r->t.evals.times;
	rep->eval_from = r->t.evals.from;
	rep->eval_at = r->t.evals.at;
	rep->n_sets = r->t.evals.n;
	memcpy(rep->set, r->t.evals.set, sizeof rep->set);
	rep->best = r->t.evals.best_by ? r->t.evals.best : ZR_BEST_NONE;
	rep->parameters = r->t.setup->layout.parameters;
	rep->received_plan = zr_traffic_received(r->t.setup);
	rep->planned = planned(r->t.setup);
	if (!getrusage(RUSAGE_SELF, &u))
		rep->process_peak = (uint64_t)u.ru_maxrss * 1024;
	rep->losses_digest = zr_trainer_losses_digest(&r->t);
	memcpy(rep->device, r->t.setup->device_info.name, sizeof rep->device);
	memcpy(rep->variant, r->t.setup->device_info.variant, sizeof rep->variant);
	rep->rank = r->t.setup->process.rank;
	rep->world = r->t.setup->process.world;
	int rc = zr_timeline_ranks(&r->timeline, rep->part, rep->part_min, rep->part_max, err);
	if (rc)
		return rc;
	return zr_weights_digest(r->t.session, &rep->params_digest, err);
}

static void announce(const struct run *r, FILE *out)
{
	const struct zr_setup *s = r->t.setup;
	char a[32], b[32];
	fprintf(out, "model   %s, %.2f M parameters\n", s->model.section->plugin->desc->id,
		(double)s->layout.parameters / 1e6);
	zr_adapter_announce(s, out);
	fprintf(out, "data    %s\n", s->source->info.describe);
	for (int32_t i = 1; i < s->n_sources; i++)
		fprintf(out, "eval    %s: %s\n", s->source[i].name, s->source[i].info.describe);
	fprintf(out, "device  %s (%s), %d thread%s\n", s->device_info.name, s->device_info.variant,
		zr_pool_size(s->process.pool), zr_pool_size(s->process.pool) == 1 ? "" : "s");
	if (s->process.world > 1)
		fprintf(out, "ranks   %d, stage %s\n", s->process.world,
			s->zero.section->plugin->desc->id);
	if (s->plan.sums)
		fprintf(out, "sums    over ranks by %s: bits depend on its order\n", s->plan.sums);
	fprintf(out, "batch   %lld sequences of %lld tokens = %lld micro-batch%s of %lld\n",
		(long long)s->batch.train, (long long)s->batch.length, (long long)s->batch.slots,
		s->batch.slots == 1 ? "" : "es", (long long)s->batch.micro);
	fprintf(out, "memory  %s planned%s, %s available\n", zr_bytes_text(planned(s), a),
		s->process.world > 1 ? " per rank" : "", zr_bytes_text(zr_memory_at_start(), b));
	fprintf(out, "run     %s\n", zr_rundir(r->t.cfg));
	if (r->report->resumed >= 0)
		fprintf(out, "resumed after step %lld\n", (long long)r->report->resumed);
	if (r->report->resumed >= 0 && (uint64_t)r->report->resumed == s->train->steps)
		fprintf(out, "nothing is left to train: [train] steps = %lld\n",
			(long long)r->report->resumed);
	zr_signals_flush(out);
}

/* With `auto` and no checkpoint the training starts at the beginning. */
static int resume(struct run *r, int other_data, struct zr_error *err)
{
	const double start = zr_now();
	int rc = zr_trainer_resume(&r->t, r->resume, other_data, err);
	r->report->resume_seconds = zr_now() - start;
	r->report->resumed = r->t.resumed;
	if (!rc && r->t.resumed < 0 && r->t.rank0)
		zr_logf(ZR_LOG_INFO, "resume",
			"no checkpoint in %s: training starts from the beginning", r->t.from);
	return rc;
}

/* Removes the directories of a run that did not finish its first step, and of any run a directory
 * of checkpoints that it did not use. */
static void leave_dirs(struct run *r, int failed)
{
	zr_config_ini_end(&r->config_ini, NULL);
	zr_trainer_leave_dirs(&r->t, failed && (!r->t.session || r->t.session->step == r->t.first));
}

/* Tells a supervisor where to restart from. */
static int note_place(const struct run *r, struct zr_error *err)
{
	struct zr_beat *b = zr_beat_shared();
	b->batch = r->t.setup->batch.train;
	b->micro = r->t.setup->batch.micro;
	snprintf(b->dir, sizeof b->dir, "%s", zr_rundir(r->t.cfg));
	return zr_checkpoint_dir(r->t.cfg, b->checkpoints, err);
}

/* Opens what only rank 0 has: the run directory and the monitors. */
static int open_run(struct run *r, struct zr_error *err)
{
	int rc = zr_trainer_open_dirs(&r->t, err);
	if (!rc)
		rc = note_place(r, err);
	if (!rc)
		rc = zr_trainer_open_metrics(&r->t, err);
	if (!rc)
		rc = zr_config_ini_begin(r->t.cfg, &r->config_ini, err);
	return rc;
}

/* All ranks write parts of a checkpoint into one directory. Where only a signal would save one, the
 * training is worth more than that. */
static int check_shared(struct run *r, struct zr_error *err)
{
	const struct zr_checkpoint_opts *o = zr_config_find(r->t.cfg, "checkpoint")->opts;
	const int due = o->every || o->keep_best;
	struct zr_error blind = { 0 };
	char dir[PATH_MAX] = "";
	int rc = 0;
	if (!due && !o->on_signal)
		return 0;

	if (r->t.rank0 && strcmp(o->dir, "auto"))
		rc = zr_checkpoint_dir(r->t.cfg, dir, err);
	else if (r->t.rank0) /* which checkpoints/ is made in when the first one is written */
		snprintf(dir, sizeof dir, "%s", zr_rundir(r->t.cfg));
	if (!rc)
		rc = zr_probe_dir(r->t.session, dir, &blind, err);
	if (rc || !blind.code)
		return rc;

	if (due)
		return zr_err(err, ZR_EINVAL, "%s", blind.text);
	if (r->t.rank0)
		zr_logf(ZR_LOG_WARN, "checkpoint", "%s", blind.text);
	return 0;
}

static int open_saver(struct run *r, struct zr_error *err)
{
	char dir[PATH_MAX] = "";
	int rc = r->t.rank0 ? zr_checkpoint_dir(r->t.cfg, dir, err) : 0;
	if (rc)
		return rc;
	return zr_trainer_open_saver(&r->t, dir, err);
}

/* Writes all that a training leaves at its end, except the summary. */
static int save_weights(struct run *r, struct zr_error *err)
{
	char path[PATH_MAX];
	const char *model = zr_rundir_file(r->t.cfg, "model.safetensors", path, sizeof path);
	const int whole = !zr_adapter_is_all(r->t.setup);
	int rc = whole ? zr_weights_save(r->t.session, model, err) : 0;
	if (!rc && zr_room_exports(r->t.cfg))
		rc = zr_export_session(r->t.session,
				       zr_rundir_file(r->t.cfg, "model-16bit", path, sizeof path),
				       r->resume != NULL, err);
	if (!rc)
		rc = zr_adapter_save(r->t.session, zr_rundir(r->t.cfg), err);
	if (!rc && whole && r->t.rank0)
		rc = zr_export_config(r->t.setup,
				      zr_rundir_file(r->t.cfg, "config.json", path, sizeof path),
				      err);
	r->report->adapters = !whole;
	r->report->exported = !rc && zr_room_exports(r->t.cfg);
	return rc;
}

/* Everything up to the first step; `out` gets what is known of it. */
static int prepare(struct run *r, const struct zr_run_how *how, FILE *out, struct zr_error *err)
{
	struct zr_trainer *t = &r->t;
	int rc = r->resume ? zr_trainer_find(t, r->resume, err) : 0;
	if (!rc)
		rc = zr_trainer_setup(t, 0, err);
	if (rc)
		return rc;

	if (t->rank0) { /* before core takes memory, which setup->account then has, too */
		r->plan = zr_plan_json(t->setup, zr_memory_at_start(), 1);
		rc = zr_trainer_check_dirs(t, err);
	}
	beat();
	if (!rc)
		rc = zr_trainer_open(t, how->verify, err);
	zr_crash_session(t->session);
	beat();
	if (!rc)
		rc = zr_trainer_ready(t, err);
	if (!rc && t->evals.n && how->bytes)
		rc = how->bytes(t->setup, &r->bytes, err);
	if (!rc && r->resume)
		rc = resume(r, how->other_data, err);
	if (!rc)
		rc = zr_trainer_begin(t, err);
	if (!rc)
		rc = zr_timeline_open(&r->timeline, t->session, err);
	if (!rc)
		rc = zr_timeline_trace(&r->timeline, zr_rundir(t->cfg), err);
	if (!rc)
		/* collective: after it no rank can refuse the run any more */
		rc = open_saver(r, err);

	zr_signals_defer();
	beat();
	if (!rc && t->rank0)
		rc = open_run(r, err);
	if (!rc)
		rc = check_shared(r, err);
	if (!rc && t->rank0)
		announce(r, out);
	return rc;
}

static int train(struct run *r, FILE *out, struct zr_error *err)
{
	const struct zr_run_opts *o = zr_config_find(r->t.cfg, "run")->opts;
	if (r->t.rank0) {
		int rc = zr_pace_forecast(&r->t.pace, r->t.setup, r->plan, err);
		zr_progress_begin(&r->progress, out, r->t.setup, &r->t.pace, o->log_every);
		if (rc)
			return rc;
	}
	return loop(r, err);
}

/* What the training leaves, and the summary of it. */
static int end(struct run *r, struct zr_error *err)
{
	int rc = zr_config_ini_end(&r->config_ini, err);
	if (!rc)
		rc = save_weights(r, err);
	if (!rc)
		rc = finish_report(r, err);
	if (!rc && r->timeline.trace)
		zr_trace_merge(r->timeline.trace, r->t.session->step);
	if (!rc && r->t.rank0)
		rc = zr_summary_write(r->t.setup, r->report, err);
	return rc;
}

int zr_run_train(struct zr_config *cfg, const struct zr_run_how *how, FILE *out,
		 struct zr_run_report *report, struct zr_error *err)
{
	static const struct zr_run_how new_run = { 0 };
	if (!how)
		how = &new_run;
	struct run r = { .t.cfg = cfg, .resume = how->from, .report = report };
	*report = (struct zr_run_report){ .resumed = -1 };
	zr_signals_begin();
	int rc = prepare(&r, how, out, err);
	if (!rc)
		rc = train(&r, out, err);
	if (!rc)
		rc = end(&r, err);
	if (rc && r.t.setup)
		zr_setup_abort(r.t.setup, err->text);

	leave_dirs(&r, rc);
	zr_crash_session(NULL);
	zr_timeline_close(&r.timeline);
	zr_trainer_close(&r.t);
	json_decref(r.plan);
	free(r.bytes);
	return rc;
}
