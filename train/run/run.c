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
#include <xxhash.h>

#include "train/alike.h"
#include "train/beat.h"
#include "train/run/config_ini.h"
#include "train/run/crash.h"
#include "train/weights/export.h"
#include "train/fit.h"
#include "train/launcher.h"
#include "train/lock.h"
#include "train/metrics.h"
#include "train/pace.h"
#include "train/forecast/plan_json.h"
#include "train/probe.h"
#include "train/run/progress.h"
#include "train/resume.h"
#include "train/run_eval.h"
#include "train/run_metrics.h"
#include "train/room.h"
#include "train/rundir.h"
#include "train/settings.h"
#include "train/run/signals.h"
#include "train/run/timeline.h"
#include "train/forecast/traffic.h"
#include "train/adapter.h"
#include "train/weights.h"
#include "core/base/log.h"
#include "core/session.h"
#include "files/checkpoint/checkpoint.h"

struct run {
	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_session *session;
	struct zr_metrics *metrics;
	struct zr_saver *saver;
	struct zr_run_evals evals;
	struct zr_progress progress;
	struct zr_timeline timeline;
	json_t *plan; /* of rank 0, for plan.json */
	struct zr_pace pace;
	const char *resume; /* what --resume says, or NULL */
	char from[PATH_MAX]; /* the checkpoint that this is */
	int other_data;      /* as --other-data says */
	uint16_t *bytes;    /* [vocabulary] of the text of each token; NULL: not known */
	float *losses;      /* [train.steps] of every step, those before a checkpoint included */
	struct zr_run_report *report;
	int rank0; /* 1: rank 0, which prints and writes the run directory */
	/* How many directories were made for the run directory, and for that of checkpoints if it
	 * is elsewhere. */
	int made, made_checkpoints;
	struct zr_locks locks;
	struct zr_config_ini *config_ini; /* being written; NULL: it is there */
	int64_t first; /* steps that came before this process started, */
	double elapsed; /* and their seconds */
	int stop;  /* the signal that some rank caught */
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
	if (r->rank0)
		zr_progress_round(&r->progress, done, all);
}

static int evaluate(struct run *r, int64_t step, struct zr_error *err)
{
	const struct zr_eval_how how = { .tick = note_round, .arg = r, .bytes = r->bytes };
	int rc = zr_run_evals(&r->evals, step, &how, err);
	zr_progress_pause(&r->progress, ZR_PAUSE_EVAL);
	for (int i = 0; !rc && r->rank0 && i < r->evals.n; i++) {
		const struct zr_run_set *e = &r->evals.set[i];
		zr_progress_eval(&r->progress, step, e->name, &e->last);
	}
	return rc;
}

static void push_metrics(struct run *r, const struct zr_step_result *s, int evaluated)
{
	struct zr_metric m[ZR_METRICS_PER_STEP];
	const struct zr_run_step step = { .setup = r->setup, .result = s, .pace = &r->pace,
					  .evals = evaluated ? &r->evals : NULL,
					  .part = r->timeline.wanted ? r->timeline.part : NULL };
	zr_metrics_push(r->metrics, r->session->step, m, zr_run_metrics(&step, m));
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
		if (r->setup->types.scaled)
			snprintf(scale, sizeof scale, "; loss scale %.10g -> %.10g", s->scale,
				 s->next_scale);
		if (r->rank0)
			zr_logf(ZR_LOG_WARN, "train", "step %lld skipped: %s%s",
				(long long)r->session->step, what, scale);
		return;
	}
	if (r->setup->types.scaled)
		snprintf(scale, sizeof scale, "; loss scale %.10g cannot fall", s->scale);
	rep->stopped = ZR_ENUMERIC;
	snprintf(rep->stopped_text, sizeof rep->stopped_text,
		 "step %lld: %s%s; the weights are those before this step",
		 (long long)r->session->step, what, scale);
}

static int one_step(struct run *r, struct zr_error *err)
{
	const struct zr_train_opts *t = r->setup->train;
	struct zr_step_result s;
	zr_timeline_begin(&r->timeline);
	int rc = zr_session_step(r->session, zr_signals_caught(), &s, err);
	if (rc)
		return rc;
	int64_t step = r->session->step;
	double took = zr_timeline_end(&r->timeline);
	if ((rc = zr_config_ini_end(&r->config_ini, err)))
		return rc;
	r->report->step_seconds += took;
	zr_pace_step(&r->pace, step, took);
	beat();
	if (r->rank0)
		atomic_fetch_add(&zr_beat_shared()->steps, 1);
	r->report->tokens += s.tokens;
	r->losses[step - 1] = s.loss;
	r->stop = s.stop;
	r->report->received = s.received;
	/* the first update warms up caches and does not count */
	if (s.action == ZR_STEP_APPLY && r->session->applied > 1) {
		r->report->update_seconds += r->timeline.update;
		r->report->updates++;
	}
	if (r->rank0)
		zr_progress_step(&r->progress, step, &s);
	if (r->rank0 && r->timeline.wanted)
		zr_progress_parts(&r->progress, step, r->timeline.part);
	note_action(r, &s);
	int due = r->evals.n && t->eval_every > 0 && !r->report->stopped &&
		  (step % (int64_t)t->eval_every == 0 || step == (int64_t)t->steps);
	r->evals.improved = 0;
	if (due)
		rc = evaluate(r, step, err);
	if (!rc && r->rank0)
		push_metrics(r, &s, due);
	r->report->enough = zr_run_evals_stop(&r->evals, r->report->stopped_text,
					      sizeof r->report->stopped_text);
	return rc;
}

static void note_saved(const struct run *r)
{
	if (r->rank0 && zr_saver_stats(r->saver)->saved)
		atomic_store(&zr_beat_shared()->saved, 1);
}

/* After a step: starts a save that is due, or advances one that is in progress. */
static int checkpoint(struct run *r, struct zr_error *err)
{
	const struct zr_checkpoint_opts *o = zr_config_find(r->cfg, "checkpoint")->opts;
	int64_t step = r->session->step, every = (int64_t)o->every;
	int last = step == (int64_t)r->setup->train->steps || r->report->enough;
	int due = (every > 0 && (step % every == 0 || last)) || (r->stop && o->on_signal) ||
		  (r->evals.improved && o->keep_best);
	if (!due || r->report->stopped) {
		int rc = zr_saver_poll(r->saver, err);
		note_saved(r);
		return rc;
	}
	if (r->rank0)
		zr_metrics_wait(r->metrics);
	int rc = zr_saver_save(r->saver, r->losses, &r->evals.best, err);
	beat();
	note_saved(r);
	zr_progress_pause(&r->progress, ZR_PAUSE_SAVE);
	return rc;
}

static int loop(struct run *r, struct zr_error *err)
{
	const struct zr_train_opts *t = r->setup->train;
	struct zr_run_report *rep = r->report;
	int rc = 0;
	if (r->evals.n && t->eval_every > 0 && r->session->step == 0)
		rc = evaluate(r, 0, err);
	double start = zr_now();
	rep->enough = zr_run_evals_stop(&r->evals, rep->stopped_text, sizeof rep->stopped_text);
	while (!rc && !r->stop && !rep->stopped && !rep->enough &&
	       r->session->step < (int64_t)t->steps) {
		rc = one_step(r, err);
		if (r->setup->process.world == 1)
			/* several ranks end together: all learn after the next step what one
			 * caught */
			r->stop = zr_signals_caught();
		if (!rc)
			rc = checkpoint(r, err);
	}
	struct zr_error late = { 0 };
	if (!rc)
		rc = zr_saver_finish(r->saver, err);
	/* a save that was in progress is of an earlier step, and its checkpoint is now the last
	 * complete one */
	else if (r->session->torn)
		zr_saver_finish(r->saver, &late);
	if (r->rank0)
		zr_progress_end(&r->progress);
	if (r->rank0 && rep->enough)
		zr_logf(ZR_LOG_INFO, "train", "ends early, after step %lld: %s",
			(long long)r->session->step, rep->stopped_text);
	if (r->rank0 && r->stop == SIGPIPE)
		zr_logf(ZR_LOG_WARN, "train",
			"nobody reads standard output any more: the run ends after step %lld",
			(long long)r->session->step);
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
	rep->steps = r->session->step;
	/* the step that ended the run was not skipped */
	rep->skipped = rep->steps - r->session->applied - !!rep->stopped;
	rep->first_loss = rep->steps ? r->losses[0] : 0;
	rep->last_loss = rep->steps ? r->losses[rep->steps - 1] : 0;
	rep->checkpoints = *zr_saver_stats(r->saver);
	rep->process_steps = rep->steps - r->first;
	rep->breakdown = r->timeline.wanted;
	rep->total_tokens = rep->steps * r->setup->batch.train * r->setup->batch.length;
	rep->tokens_per_s = rep->step_seconds > 0 ? (double)rep->tokens / rep->step_seconds : 0;
	rep->evals = r->evals.times;
	rep->eval_from = r->evals.from;
	rep->eval_at = r->evals.at;
	rep->n_sets = r->evals.n;
	memcpy(rep->set, r->evals.set, sizeof rep->set);
	rep->best = r->evals.best_by ? r->evals.best : ZR_BEST_NONE;
	rep->parameters = r->setup->layout.parameters;
	rep->received_plan = zr_traffic_received(r->setup);
	rep->planned = planned(r->setup);
	if (!getrusage(RUSAGE_SELF, &u))
		rep->process_peak = (uint64_t)u.ru_maxrss * 1024;
	rep->losses_digest = XXH3_64bits(r->losses, (size_t)rep->steps * sizeof *r->losses);
	memcpy(rep->device, r->setup->device_info.name, sizeof rep->device);
	memcpy(rep->variant, r->setup->device_info.variant, sizeof rep->variant);
	rep->rank = r->setup->process.rank;
	rep->world = r->setup->process.world;
	int rc = zr_timeline_ranks(&r->timeline, rep->part, rep->part_min, rep->part_max, err);
	return rc ? rc : zr_weights_digest(r->session, &rep->params_digest, err);
}

static void announce(const struct run *r, FILE *out)
{
	const struct zr_setup *s = r->setup;
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
	fprintf(out, "run     %s\n", zr_rundir(r->cfg));
	if (r->report->resumed >= 0)
		fprintf(out, "resumed after step %lld\n", (long long)r->report->resumed);
	if (r->report->resumed >= 0 && (uint64_t)r->report->resumed == s->train->steps)
		fprintf(out, "nothing is left to train: [train] steps = %lld\n",
			(long long)r->report->resumed);
	zr_signals_flush(out);
}

/* Refuses ranks of another launcher that do not know each other: each would train the whole model
 * in the same run directory. */
static int check_launcher(const struct run *r, struct zr_error *err)
{
	const int32_t world = r->setup->process.world;
	const char *other = world == 1 ? zr_other_launcher() : NULL;
	const char *ours = getenv("ZEROTH_LOCAL_WORLD"); /* what -n has started */
	if (ours && atoi(ours) > 1 && atoi(ours) != world)
		return zr_err(err, ZR_EINVAL, "-n %d started %d ranks, but [boot] found %d: leave "
			      "out -n, or choose plugin = local for [boot]", atoi(ours), atoi(ours),
			      world);
	return !other ? 0 :
	       zr_err(err, ZR_EINVAL, "a launcher started several ranks (%s), but [boot] found "
		      "only one: choose a plugin for [boot] that knows this launcher", other);
}

/* A training from the beginning would take the place of a model that no checkpoint has. */
static int keep_model(const struct run *r, struct zr_error *err)
{
	const struct zr_dir_kind has = zr_dir_kind(zr_rundir(r->cfg));
	return !r->rank0 || (!has.weights && !has.adapters) ? 0 :
		zr_err(err, ZR_EINVAL, "run directory %s has the model of a run that ended, and %s "
		       "no checkpoint to go on from: choose another [run] dir or remove it; "
		       "[checkpoint] every saves checkpoints", zr_rundir(r->cfg), r->from);
}

/* Loads the session from a checkpoint. With `auto` and no checkpoint the training starts at the
 * beginning. */
static int resume(struct run *r, struct zr_error *err)
{
	double start = zr_now();
	r->session->other_data = r->other_data;
	int rc = zr_checkpoint_load(r->session, r->from, r->losses, &r->evals.best,
				    &r->report->resumed, err);
	r->report->resume_seconds = zr_now() - start;
	if (rc || r->report->resumed >= 0)
		return rc;
	if (strcmp(r->resume, "auto"))
		return zr_err(err, ZR_EINVAL, "%s: no checkpoint there", r->from);
	rc = keep_model(r, err);
	if (!rc && r->rank0)
		zr_logf(ZR_LOG_INFO, "resume",
			"no checkpoint in %s: training starts from the beginning", r->from);
	return rc;
}

/* Locks the directories that this run writes to. make: makes them; otherwise skips those that do
 * not exist. */
static int take_locks(struct run *r, int make, struct zr_error *err)
{
	char dir[PATH_MAX];
	const struct zr_checkpoint_opts *o = zr_config_find(r->cfg, "checkpoint")->opts;
	int rc = 0;
	if (make || zr_is_there(zr_rundir(r->cfg), &rc, err))
		rc = zr_locks_add(&r->locks, zr_rundir(r->cfg), err);
	if (rc || !strcmp(o->dir, "auto") || (rc = zr_checkpoint_dir(r->cfg, dir, err)))
		return rc; /* RUN/checkpoints is under the lock of RUN */
	if (make && !r->made_checkpoints)
		rc = zr_dir_make(dir, &r->made_checkpoints, err);
	if (!rc && zr_is_there(dir, &rc, err))
		rc = zr_locks_add_checkpoints(&r->locks, dir, err);
	return rc;
}

/* Removes the directories of a run that did not finish its first step, and of any run a directory
 * of checkpoints that it did not use. */
static void leave_dirs(struct run *r, int failed)
{
	char dir[PATH_MAX];
	zr_config_ini_end(&r->config_ini, NULL);
	zr_metrics_close(r->metrics);
	r->metrics = NULL;
	zr_locks_release(&r->locks);
	if (r->made_checkpoints && !zr_checkpoint_dir(r->cfg, dir, NULL))
		zr_dir_unmake(dir, r->made_checkpoints, 0);
	if (failed && (!r->session || r->session->step == r->first))
		zr_dir_unmake(zr_rundir(r->cfg), r->made, 1);
}

/* Tells a supervisor where to restart from. */
static int note_place(const struct run *r, struct zr_error *err)
{
	struct zr_beat *b = zr_beat_shared();
	b->batch = r->setup->batch.train;
	b->micro = r->setup->batch.micro;
	snprintf(b->dir, sizeof b->dir, "%s", zr_rundir(r->cfg));
	return zr_checkpoint_dir(r->cfg, b->checkpoints, err);
}

/* Opens what only rank 0 has: the run directory and the monitors. */
static int open_run(struct run *r, struct zr_error *err)
{
	int rc = zr_rundir_make(r->cfg, r->resume != NULL, &r->made, err);
	if (!rc)
		rc = take_locks(r, 1, err);
	r->setup->process.run_dir = zr_rundir(r->cfg);
	if (!rc)
		rc = note_place(r, err);
	if (!rc)
		rc = zr_metrics_open(r->setup, r->resume ? r->first : -1, &r->metrics, err);
	if (!rc)
		r->elapsed = zr_pace_elapsed_before(zr_rundir(r->cfg), r->from, r->first);
	if (!rc)
		rc = zr_config_ini_begin(r->cfg, &r->config_ini, err);
	return rc;
}

/* All ranks write parts of a checkpoint into one directory. Where only a signal would save one, the
 * training is worth more than that. */
static int check_shared(struct run *r, struct zr_error *err)
{
	const struct zr_checkpoint_opts *o = zr_config_find(r->cfg, "checkpoint")->opts;
	const int due = o->every || o->keep_best;
	struct zr_error blind = { 0 };
	char dir[PATH_MAX] = "";
	int rc = 0;
	if (!due && !o->on_signal)
		return 0;

	if (r->rank0 && strcmp(o->dir, "auto"))
		rc = zr_checkpoint_dir(r->cfg, dir, err);
	else if (r->rank0) /* which checkpoints/ is made in when the first one is written */
		snprintf(dir, sizeof dir, "%s", zr_rundir(r->cfg));
	if (!rc)
		rc = zr_probe_dir(r->session, dir, &blind, err);
	if (rc || !blind.code)
		return rc;

	if (due)
		return zr_err(err, ZR_EINVAL, "%s", blind.text);
	if (r->rank0)
		zr_logf(ZR_LOG_WARN, "checkpoint", "%s", blind.text);
	return 0;
}

static int open_saver(struct run *r, struct zr_error *err)
{
	char dir[PATH_MAX] = "";
	int rc = r->rank0 ? zr_checkpoint_dir(r->cfg, dir, err) : 0;
	return rc ? rc :
		    zr_saver_open(r->session, dir, zr_config_find(r->cfg, "checkpoint")->opts,
				  &r->saver, err);
}

static int check_export(const struct run *r, struct zr_error *err)
{
	if (zr_room_exports(r->cfg) && zr_config_find(r->cfg, "adapter"))
		return zr_config_blame(r->cfg, "zero", ZR_EINVAL, err,
				       "gather_16bit_weights_on_model_save: adapters are merged by "
				       "`zeroth checkpoint export --merge`");
	if (!zr_room_exports(r->cfg))
		return 0;
	int rc = zr_export_check(r->setup, err);
	return rc || r->setup->types.dtype != ZR_F32 ?
		       rc :
		       zr_config_blame(
			       r->cfg, "zero", ZR_EINVAL, err,
			       "gather_16bit_weights_on_model_save needs a [precision] of 16 bits; "
			       "model.safetensors has the weights in fp32");
}

/* Writes all that a training leaves at its end, except the summary. */
static int save_weights(struct run *r, struct zr_error *err)
{
	char path[PATH_MAX];
	const char *model = zr_rundir_file(r->cfg, "model.safetensors", path, sizeof path);
	const int whole = !zr_adapter_is_all(r->setup);
	int rc = whole ? zr_weights_save(r->session, model, err) : 0;
	if (!rc && zr_room_exports(r->cfg))
		rc = zr_export_session(r->session,
				       zr_rundir_file(r->cfg, "model-16bit", path, sizeof path),
				       r->resume != NULL, err);
	rc = rc ? rc : zr_adapter_save(r->session, zr_rundir(r->cfg), err);
	if (!rc && whole && r->rank0)
		rc = zr_export_config(r->setup, zr_rundir_file(r->cfg, "config.json", path,
							       sizeof path), err);
	r->report->adapters = !whole;
	r->report->exported = !rc && zr_room_exports(r->cfg);
	return rc;
}

static int check_dirs(struct run *r, struct zr_error *err)
{
	int rc = zr_rundir_check(r->cfg, r->resume != NULL, err);
	if (!rc)
		rc = zr_room_check(r->setup, err);
	if (!rc)
		rc = take_locks(r, 0, err);
	return rc || r->resume ? rc : zr_checkpoint_dir_check(r->cfg, err);
}

/* Reads frozen tensors that checkpoints leave out, before the checkpoint is read, which checks that
 * they have not changed. */
static int leave_out(struct run *r, struct zr_error *err)
{
	const struct zr_checkpoint_opts *o = zr_config_find(r->cfg, "checkpoint")->opts;
	const int all = o->save == ZR_SAVE_ALL, stored = r->setup->stored;
	int any = 0, model = zr_config_model_json(r->cfg) != NULL;
	for (int32_t i = 0; i < r->setup->layout.n_tensors; i++)
		any |= r->setup->frozen[i];
	if (all && !stored)
		return 0;
	if (!any || !model || all)
		return zr_config_blame(
			r->cfg, stored && !model ? "model" : "checkpoint", ZR_EINVAL, err, "%s",
			!any ? "save = trainable leaves nothing out: there is no [train] freeze" :
			all && model ? "save = all is not for [model] store: take it out" :
			stored ? "store needs [model] path: checkpoints leave out what is frozen" :
				 "save = trainable needs [model] path: what is left out must be "
				 "somewhere else");
	int rc = zr_weights_begin(r->session, err);
	return rc ? rc : zr_checkpoint_leave_out(r->session, err);
}

static int prepare(struct run *r, const struct zr_run_how *how, FILE *out, struct zr_error *err)
{
	int rc = r->resume ? zr_resume_path(r->cfg, r->resume, r->from, err) : 0;
	if (!rc)
		rc = zr_setup_open(r->cfg, ZR_SETUP_TRAIN, 0, &r->setup, err);
	rc = rc ? rc : zr_adapter_settle(r->setup, err);
	if (!rc)
		r->setup->settings = zr_settings_hash(r->setup);
	rc = rc ? rc : check_launcher(r, err);
	rc = rc ? rc : check_export(r, err);
	rc = rc ? rc : zr_plan_check(r->setup, 0, err);
	r->rank0 = !rc && r->setup->process.rank == 0;
	if (r->rank0) /* before core takes memory, which setup->account then has, too */
		r->plan = zr_plan_json(r->setup, zr_memory_at_start(), 1);
	if (!rc && !(r->losses = calloc(r->setup->train->steps, sizeof *r->losses)))
		rc = zr_err(err, ZR_ENOMEM, "out of memory for the losses of %llu steps",
			    (unsigned long long)r->setup->train->steps);
	if (!rc && r->rank0)
		rc = check_dirs(r, err);
	if (!rc)
		rc = zr_alike_check(r->setup, how->verify, err);
	beat();
	if (!rc)
		rc = zr_session_open(r->setup, &r->session, err);
	zr_crash_session(r->session);
	beat();
	if (!rc)
		rc = zr_run_evals_open(r->session, &r->evals, err);
	if (!rc && r->evals.n && how->bytes)
		rc = how->bytes(r->setup, &r->bytes, err);
	if (!rc)
		rc = leave_out(r, err);
	if (!rc && r->resume)
		rc = resume(r, err);
	if (!rc && r->report->resumed < 0 && !r->session->frozen_hash)
		rc = zr_weights_begin(r->session, err);
	if (!rc)
		rc = zr_timeline_open(&r->timeline, r->session, err);
	if (!rc)
		rc = zr_timeline_trace(&r->timeline, zr_rundir(r->cfg), err);
	if (!rc)
		/* collective: after it no rank can refuse the run any more */
		rc = open_saver(r, err);
	zr_signals_defer();
	beat();
	r->first = rc ? 0 : r->session->step;
	if (!rc && r->rank0)
		rc = open_run(r, err);
	if (!rc)
		rc = check_shared(r, err);
	if (!rc && r->rank0)
		announce(r, out);
	return rc;
}

int zr_run_train(struct zr_config *cfg, const struct zr_run_how *how, FILE *out,
		 struct zr_run_report *report, struct zr_error *err)
{
	static const struct zr_run_how new_run = { 0 };
	how = how ? how : &new_run;
	struct run r = { .cfg = cfg,
			 .resume = how->from,
			 .other_data = how->other_data,
			 .report = report };
	*report = (struct zr_run_report){ .resumed = -1 };
	zr_signals_begin();
	int rc = prepare(&r, how, out, err);
	if (!rc) {
		const struct zr_run_opts *o = zr_config_find(cfg, "run")->opts;
		zr_pace_begin(&r.pace, r.setup, r.elapsed);
		if (r.rank0)
			rc = zr_pace_forecast(&r.pace, r.setup, r.plan, err);
		if (r.rank0)
			zr_progress_begin(&r.progress, out, r.setup, &r.pace, o->log_every);
		rc = rc ? rc : loop(&r, err);
	}
	rc = rc ? rc : zr_config_ini_end(&r.config_ini, err);
	rc = rc ? rc : save_weights(&r, err);
	rc = rc ? rc : finish_report(&r, err);
	if (!rc && r.timeline.trace)
		zr_trace_merge(r.timeline.trace, r.session->step);
	if (!rc && r.rank0)
		rc = zr_summary_write(r.setup, report, err);
	if (rc && r.setup)
		zr_setup_abort(r.setup, err->text);
	zr_saver_close(r.saver);
	leave_dirs(&r, rc);
	zr_crash_session(NULL);
	zr_timeline_close(&r.timeline);
	zr_session_close(r.session);
	zr_setup_close(r.setup);
	json_decref(r.plan);
	free(r.bytes);
	free(r.losses);
	return rc;
}
