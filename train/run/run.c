/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h.
 */
#include "train/run/run.h"

#include <limits.h>
#include <stdlib.h>

#include "core/base/log.h"
#include "train/adapter.h"
#include "train/beat.h"
#include "train/fit.h"
#include "train/forecast/plan_json.h"
#include "train/probe.h"
#include "train/resume.h"
#include "train/room.h"
#include "train/run/config_ini.h"
#include "train/run/crash.h"
#include "train/run/progress.h"
#include "train/run/report.h"
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

static void note_round(void *arg, int64_t done, int64_t all)
{
	struct run *r = arg;
	zr_beat();
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
static const struct zr_parts *parts(const struct run *r)
{
	return r->timeline.wanted ? &r->timeline.part : NULL;
}

static int one_step(struct run *r, struct zr_error *err)
{
	const struct zr_train_opts *t = r->t.setup->facts.train;
	const struct zr_step_result *s = &r->t.result;

	zr_timeline_begin(&r->timeline);
	int rc = zr_trainer_step(&r->t, zr_signals_caught(), err);
	if (rc)
		return rc;

	int64_t step = r->t.session->step;
	r->report->step_seconds += zr_timeline_end(&r->timeline);
	if ((rc = zr_config_ini_end(&r->config_ini, err)))
		return rc;

	zr_beat();
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
		zr_progress_parts(&r->progress, step, &r->timeline.part);
	if (r->t.stopped.code) {
		r->report->stopped = r->t.stopped.code;
		snprintf(r->report->stopped_text, sizeof r->report->stopped_text, "%s",
			 r->t.stopped.text);
	}

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
	int last = step == (int64_t)r->t.setup->facts.train->steps || r->report->enough;

	int due = (every > 0 && (step % every == 0 || last)) || (r->stop && o->on_signal) ||
		  (r->t.evals.improved && o->keep_best);
	if (!due || r->report->stopped) {
		int rc = zr_saver_poll(r->t.saver, err);
		note_saved(r);
		return rc;
	}

	int rc = zr_trainer_save(&r->t, err);
	zr_beat();
	note_saved(r);
	zr_progress_pause(&r->progress, ZR_PAUSE_SAVE);
	return rc;
}

static int loop(struct run *r, struct zr_error *err)
{
	const struct zr_train_opts *t = r->t.setup->facts.train;
	struct zr_run_report *rep = r->report;
	int rc = 0;

	if (r->t.evals.n && t->eval_every > 0 && r->t.session->step == 0)
		rc = evaluate(r, 0, err);
	double start = zr_now();
	rep->enough = zr_run_evals_stop(&r->t.evals, rep->stopped_text, sizeof rep->stopped_text);
	while (!rc && !r->stop && !rep->stopped && !rep->enough &&
	       r->t.session->step < (int64_t)t->steps) {
		rc = one_step(r, err);
		if (r->t.setup->facts.process.world == 1)
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
	b->batch = r->t.setup->facts.batch.train;
	b->micro = r->t.setup->facts.batch.micro;
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

static int open_saver(struct run *r, struct zr_error *err)
{
	char dir[PATH_MAX] = "";
	int rc = 0;
	if (r->t.rank0)
		rc = zr_checkpoint_dir(r->t.cfg, dir, err);
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

	int rc = zr_session_exchange(r->t.session, err);
	if (!rc && whole)
		rc = zr_weights_save(r->t.session, model, err);
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
	if (!rc)
		rc = zr_session_exchange(r->t.session, err);
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

	zr_beat();
	if (!rc)
		rc = zr_trainer_open(t, how->verify, err);
	zr_crash_session(t->session);
	zr_beat();
	if (!rc)
		rc = zr_trainer_ready(t, err);
	if (!rc && t->evals.n && how->bytes)
		rc = how->bytes(t->setup, &r->bytes, err);
	if (!rc && r->resume)
		rc = resume(r, how->other_data, err);
	if (!rc)
		rc = zr_trainer_begin(t, err);
	if (!rc)
		rc = zr_timeline_open(&r->timeline, t->session, zr_rundir(t->cfg), err);
	if (!rc)
		/* collective: after it no rank can refuse the run any more */
		rc = open_saver(r, err);

	zr_signals_defer();
	zr_beat();
	if (!rc && t->rank0)
		rc = open_run(r, err);
	if (!rc)
		rc = zr_probe_checkpoints(t->session, err);
	if (!rc && t->rank0)
		zr_run_announce(t, out);
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

	r->report->interrupted = r->stop;
	if (!rc)
		zr_timeline_last(&r->timeline);
	if (!rc)
		rc = save_weights(r, err);
	if (!rc)
		rc = zr_run_report_end(r->report, &r->t, &r->timeline, err);
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
