/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h.
 */
#define _GNU_SOURCE
#include "cmd/run.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <xxhash.h>

#include "core/log.h"
#include "cmd/fit.h"
#include "cmd/metrics.h"
#include "cmd/progress.h"
#include "cmd/rundir.h"
#include "cmd/supervise.h"
#include "core/session.h"
#include "cmd/weights.h"

struct run {
	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_session *session;
	struct zr_metrics *metrics;
	struct zr_progress progress;
	XXH3_state_t *losses; /* over the fp32 bits of the losses in step order */
	struct zr_run_report *report;
	int chief; /* rank 0: prints, writes the run directory */
	int made;  /* directories that the run directory took */
	int stop;  /* signal that some rank caught */
};

static volatile sig_atomic_t caught;

static void on_signal(int sig)
{
	caught = sig;
}

/* The first SIGINT or SIGTERM ends the run after its step, a second one ends the process at once. */
static void watch_signals(int on)
{
	struct sigaction sa = { .sa_handler = on ? on_signal : SIG_DFL, .sa_flags = on ? (int)SA_RESETHAND | SA_RESTART : 0 };
	caught = 0;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

static int evaluate(struct run *r, int64_t step, double *val, struct zr_error *err)
{
	struct zr_run_report *rep = r->report;
	int rc = zr_session_eval(r->session, val, err);
	if (rc)
		return rc;
	if (!rep->evals++)
		rep->first_val = *val;
	rep->last_val = *val;
	if (r->chief)
		zr_progress_eval(&r->progress, step, *val);
	return 0;
}

static void push_metrics(struct run *r, const struct zr_step_result *s, const double *val)
{
	struct zr_metric m[ZR_METRICS_PER_STEP];
	uint32_t n = 0;
	m[n++] = (struct zr_metric){ "loss", (double)s->loss };
	if (val)
		m[n++] = (struct zr_metric){ "val_loss", *val };
	m[n++] = (struct zr_metric){ "lr", s->lr };
	m[n++] = (struct zr_metric){ "grad_norm", s->grad_norm };
	if (r->setup->types.scaled)
		m[n++] = (struct zr_metric){ "loss_scale", s->scale };
	m[n++] = (struct zr_metric){ "tokens_per_s", r->progress.tokens_per_s };
	m[n++] = (struct zr_metric){ "memory", (double)zr_process_memory() };
	zr_metrics_push(r->metrics, r->session->step, m, n);
}

static void overflow_text(const struct zr_step_result *s, char *out, size_t size)
{
	if (s->unit)
		snprintf(out, size, "non-finite numbers in the gradient of %s (unit %s), rank %d", s->overflow, s->unit,
			 s->bad_rank);
	else
		snprintf(out, size, "the %s is not finite", s->overflow);
}

/* What a step that was not applied means: a logged skip, or the end. */
static void note_action(struct run *r, const struct zr_step_result *s)
{
	struct zr_run_report *rep = r->report;
	char what[256], scale[80] = "";
	if (s->action == ZR_STEP_APPLY)
		return;
	rep->skipped++;
	overflow_text(s, what, sizeof what);
	if (s->action == ZR_STEP_SKIP) {
		if (r->setup->types.scaled)
			snprintf(scale, sizeof scale, "; loss scale %.10g -> %.10g", s->scale, s->next_scale);
		if (r->chief)
			zr_logf(ZR_LOG_WARN, "train", "step %lld skipped: %s%s", (long long)r->session->step, what, scale);
		return;
	}
	if (r->setup->types.scaled)
		snprintf(scale, sizeof scale, "; loss scale %.10g cannot fall", s->scale);
	rep->stopped = ZR_ENUMERIC;
	snprintf(rep->stopped_text, sizeof rep->stopped_text, "step %lld: %s%s; the weights are those before this step",
		 (long long)r->session->step, what, scale);
}

static int one_step(struct run *r, struct zr_error *err)
{
	const struct zr_train_opts *t = r->setup->train;
	struct zr_step_result s;
	double val;
	int rc = zr_session_step(r->session, caught, &s, err);
	if (rc)
		return rc;
	int64_t step = r->session->step;
	r->report->tokens += s.tokens;
	if (step == 1)
		r->report->first_loss = s.loss;
	r->report->last_loss = s.loss;
	XXH3_64bits_update(r->losses, &s.loss, sizeof s.loss);
	r->stop = s.stop;
	r->report->received = s.received;
	if (s.action == ZR_STEP_APPLY && r->session->applied > 1) { /* the first one warms up */
		r->report->update_seconds += s.update_seconds;
		r->report->updates++;
	}
	if (r->chief)
		zr_progress_step(&r->progress, step, &s);
	note_action(r, &s);
	int due = r->setup->data_info.val_tokens > 0 && t->eval_every > 0 && !r->report->stopped &&
		  (step % (int64_t)t->eval_every == 0 || step == (int64_t)t->steps);
	if (due)
		rc = evaluate(r, step, &val, err);
	if (!rc && r->chief)
		push_metrics(r, &s, due ? &val : NULL);
	return rc;
}

static int loop(struct run *r, struct zr_error *err)
{
	const struct zr_train_opts *t = r->setup->train;
	double val;
	int rc = 0;
	if (r->setup->data_info.val_tokens > 0 && t->eval_every > 0)
		rc = evaluate(r, 0, &val, err);
	double start = zr_now();
	while (!rc && !r->stop && !r->report->stopped && r->session->step < (int64_t)t->steps) {
		rc = one_step(r, err);
		if (r->setup->process.world == 1)
			r->stop = caught; /* several ranks end together: what one caught in a step, all know after the next */
	}
	if (r->chief)
		zr_progress_end(&r->progress);
	r->report->seconds = zr_now() - start;
	return rc;
}

/* What the recorded programs and the exchange at the boundary bring to this rank in one step. */
static uint64_t received_plan(const struct zr_setup *s)
{
	uint64_t micro = zr_program_bytes(&s->program[ZR_PROG_MICRO]) * (uint64_t)(s->batch.accumulation - 1);
	uint64_t exchange = (uint64_t)(s->process.world - 1) * sizeof(struct zr_boundary);
	return micro + zr_program_bytes(&s->program[ZR_PROG_LAST_MICRO]) + zr_program_bytes(&s->program[ZR_PROG_UPDATE]) + exchange;
}

static uint64_t planned(const struct zr_setup *s)
{
	return zr_account_planned(&s->account, ZR_TIER_HOST) + zr_account_planned(&s->account, ZR_TIER_DEVICE);
}

static int finish_report(struct run *r, struct zr_error *err)
{
	struct zr_run_report *rep = r->report;
	struct rusage u;
	rep->interrupted = r->stop;
	rep->steps = r->session->step;
	rep->tokens_per_s = rep->seconds > 0 ? (double)rep->tokens / rep->seconds : 0;
	rep->parameters = r->setup->layout.parameters;
	rep->received_plan = received_plan(r->setup);
	rep->planned = planned(r->setup);
	if (!getrusage(RUSAGE_SELF, &u))
		rep->process_peak = (uint64_t)u.ru_maxrss * 1024;
	rep->losses_digest = XXH3_64bits_digest(r->losses);
	memcpy(rep->device, r->setup->device_info.name, sizeof rep->device);
	memcpy(rep->variant, r->setup->device_info.variant, sizeof rep->variant);
	rep->rank = r->setup->process.rank;
	rep->world = r->setup->process.world;
	return zr_weights_digest(r->session, &rep->params_digest, err);
}

static void announce(const struct run *r, FILE *out)
{
	const struct zr_setup *s = r->setup;
	char a[32], b[32];
	fprintf(out, "model   %s, %.2f M parameters\n", s->model.section->plugin->desc->id, (double)s->layout.parameters / 1e6);
	fprintf(out, "data    %s\n", s->data_info.describe);
	fprintf(out, "device  %s (%s), %d thread%s\n", s->device_info.name, s->device_info.variant, zr_pool_size(s->process.pool),
		zr_pool_size(s->process.pool) == 1 ? "" : "s");
	if (s->process.world > 1)
		fprintf(out, "ranks   %d, stage %s\n", s->process.world, s->zero.section->plugin->desc->id);
	fprintf(out, "batch   %lld sequences of %lld tokens = %lld micro-batch%s of %lld\n", (long long)s->batch.train,
		(long long)s->batch.length, (long long)s->batch.slots, s->batch.slots == 1 ? "" : "es", (long long)s->batch.micro);
	fprintf(out, "memory  %s planned, %s available\n", zr_bytes_text(planned(s), a), zr_bytes_text(zr_memory_at_start(), b));
	fprintf(out, "run     %s\n", zr_rundir(r->cfg));
	fflush(out);
}

/* Ranks that do not know of each other would all train the whole, in one run directory. */
static int check_launcher(const struct run *r, struct zr_error *err)
{
	const char *other = r->setup->process.world == 1 ? zr_other_launcher() : NULL;
	return other ? zr_err(err, ZR_EINVAL, "a launcher started several ranks (%s), but [boot] found only one: choose a plugin for "
			      "[boot] that knows this launcher", other) : 0;
}

/* The values of a table that change results. Texts are left out: paths may differ between machines. */
static uint64_t hash_table(const struct zr_opt *opts, uint32_t n, uint32_t stride, const void *values, uint64_t h)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct zr_opt *o = (const struct zr_opt *)((const char *)opts + (size_t)i * stride);
		int text = o->type == ZR_T_STR || o->type == ZR_T_PATH || o->type == ZR_T_GLOBS;
		if (o->flags & ZR_O_NUMERIC && !text)
			h = XXH3_64bits_withSeed((const char *)values + o->offset, o->width, h);
	}
	return h;
}

static uint64_t hash_settings(const struct zr_config *cfg, const struct zr_setup *setup)
{
	uint64_t h = XXH3_64bits(setup->group_of, (size_t)setup->layout.n_tensors * sizeof *setup->group_of);
	for (int i = 0; i < zr_config_count(cfg); i++) {
		const struct zr_section *s = zr_config_at(cfg, i);
		const struct zr_desc *d = s->plugin ? s->plugin->desc : NULL;
		if (s->match)
			h = XXH3_64bits_withSeed(s->match, strlen(s->match), h);
		if (d) {
			h = XXH3_64bits_withSeed(d->id, strlen(d->id), h);
			h = hash_table(d->opts, d->n_opts, d->opt_stride, s->opts, h);
		}
		for (const struct zr_core_table *t = zr_core_tables; !d && t->section; t++)
			if (!strcmp(t->section, s->name))
				h = hash_table(t->opts, t->n_opts, sizeof *t->opts, s->opts, h);
	}
	return h;
}

static int prepare(struct run *r, FILE *out, struct zr_error *err)
{
	int rc = zr_setup_open(r->cfg, ZR_SETUP_TRAIN, 0, &r->setup, err);
	if (!rc)
		r->setup->settings = hash_settings(r->cfg, r->setup);
	if (!rc)
		rc = check_launcher(r, err);
	if (!rc)
		rc = zr_plan_check(r->setup, 0, err);
	r->chief = !rc && r->setup->process.rank == 0;
	if (!rc && r->chief)
		rc = zr_rundir_check(r->cfg, err);
	if (!rc)
		rc = zr_session_open(r->setup, &r->session, err);
	if (!rc && r->chief) {
		rc = zr_rundir_make(r->cfg, &r->made, err);
		r->setup->process.run_dir = zr_rundir(r->cfg);
		if (!rc)
			rc = zr_metrics_open(r->setup, &r->metrics, err);
		if (!rc)
			announce(r, out);
		else
			zr_rundir_unmake(r->cfg, r->made);
	}
	return rc ? rc : zr_session_init(r->session, err);
}

int zr_run_train(struct zr_config *cfg, FILE *out, struct zr_run_report *report, struct zr_error *err)
{
	char path[PATH_MAX];
	struct run r = { .cfg = cfg, .report = report, .losses = XXH3_createState() };
	*report = (struct zr_run_report){ 0 };
	if (!r.losses)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	XXH3_64bits_reset(r.losses);
	watch_signals(1);
	int rc = prepare(&r, out, err);
	if (!rc) {
		const struct zr_run_opts *o = zr_config_find(cfg, "run")->opts;
		if (r.chief)
			zr_progress_begin(&r.progress, out, r.setup, o->log_every);
		rc = loop(&r, err);
	}
	if (!rc)
		rc = zr_weights_save(r.session, zr_rundir_file(cfg, "model.safetensors", path, sizeof path), err);
	if (!rc)
		rc = finish_report(&r, err);
	if (!rc && r.chief)
		rc = zr_summary_write(r.setup, report, err);
	if (rc && r.setup)
		zr_setup_abort(r.setup, err->text);
	zr_metrics_close(r.metrics);
	zr_session_close(r.session);
	zr_setup_close(r.setup);
	XXH3_freeState(r.losses);
	if (!rc) /* else the supervisor's SIGTERM could end this rank before it has said why it failed */
		watch_signals(0);
	return rc;
}
