/* SPDX-License-Identifier: Apache-2.0
 *
 * train.c - zeroth train CONF: runs the training and prints its summary.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/sample/token_text.h"
#include "cmd/train.h"
#include "core/base/child.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "train/beat.h"
#include "train/fit.h"
#include "train/launcher.h"
#include "train/run/crash.h"
#include "train/run/outlet.h"
#include "train/run/progress.h"
#include "train/run/run.h"
#include "train/run/signals.h"
#include "train/run/stacks.h"
#include "train/run/supervise.h"
#include "train/rundir.h"

static const struct zr_cmd_option options[] = {
	ZR_CMD_OPTION_RANKS(
		struct zr_train_args,
		"trains with so many processes on this machine; their lines on standard "
		"error start with \"rank N: \"",
		ZR_SUPERVISE_MAX),
#include "cmd/train_options.def"
	{ 0 },
};

const struct zr_cmd_usage zr_train_usage = {
	.command = "train",
	.form = { { NULL, "CONF", NULL } },
	.about = "Trains the model of CONF and writes a run directory: config.ini, metrics.jsonl,\n"
		 "model.safetensors, config.json, summary.json. Ctrl-C ends the run after the\n"
		 "current step, with a checkpoint that --resume goes on from.\n",
	.option = options,
	.more = "The last line of output is `digest: losses=<16 hex> params=<16 hex>`.\n",
};

/* A command to be copied to a shell, which takes other names in quotes. */
static void print_sample(const char *run)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./+,:@%=-";

	if (!run[strspn(run, plain)]) {
		printf("sample      zeroth sample %s\n", run);
		return;
	}

	char *quoted = zr_text_quoted(run);
	printf("sample      zeroth sample %s\n", quoted ? quoted : run);
	free(quoted);
}

/* Of a run that goes on, only the last losses: the first ones came before this process. */
static void print_evals(const struct zr_run_report *r)
{
	for (int i = 0; r->evals && i < r->n_sets; i++) {
		const struct zr_run_set *e = &r->set[i];
		printf("%-11s ", *e->name ? e->name : "validation");
		if (!r->eval_from && r->evals > 1)
			printf("%.4f -> ", e->first.loss);
		printf("%.4f", e->last.loss);
		if (r->eval_at != r->steps)
			printf(" after step %lld", (long long)r->eval_at);
		putchar('\n');
	}
}

/* Of this process, or of rank 0. */
static void print_graphs(const struct zr_graph_counts *c)
{
	printf("graphs      %lld, ", (long long)c->graphs);
	if (c->anew)
		printf("made anew %lld times, ", (long long)c->anew);
	printf("launched %lld times for %lld operations; %lld operations alone\n",
	       (long long)c->launches, (long long)c->within, (long long)c->alone);
}

static void print_summary(const struct zr_config *cfg, const struct zr_run_report *r)
{
	char took[32], planned[32], peak[32];

	printf("\n%s %lld step%s, %.2f M tokens in %s",
	       r->interrupted ? "interrupted after" : "trained", (long long)r->process_steps,
	       r->process_steps == 1 ? "" : "s", (double)r->tokens / 1e6,
	       zr_duration_text(r->seconds, took));
	if (r->process_steps)
		printf(" (%.0f tokens/s in its steps)", r->tokens_per_s);
	putchar('\n');
	if (r->resumed >= 0)
		printf("resumed     after step %lld; in all %lld steps, %.2f M tokens\n",
		       (long long)r->resumed, (long long)r->steps, (double)r->total_tokens / 1e6);
	if (r->checkpoints.saved)
		printf("checkpoints %lld of %s; training waited %.2f s of the %.2f s that they "
		       "took\n",
		       (long long)r->checkpoints.saved, zr_bytes_text(r->checkpoints.bytes, peak),
		       r->checkpoints.stall, r->checkpoints.seconds);
	if (r->skipped)
		printf("skipped     %lld step%s with non-finite numbers\n", (long long)r->skipped,
		       r->skipped == 1 ? "" : "s");
	if (r->steps)
		printf("loss        %.4f -> %.4f\n", (double)r->first_loss, (double)r->last_loss);
	print_evals(r);
	if (r->best.step >= 0)
		printf("best        %.4f after step %lld\n", r->best.loss, (long long)r->best.step);
	if (r->enough)
		printf("ended early %s\n", r->stopped_text);
	printf("memory      %s planned%s, %s peak of %s\n", zr_bytes_text(r->planned, planned),
	       r->world > 1 ? " per rank" : "", zr_bytes_text(r->process_peak, peak),
	       r->world > 1 ? "rank 0" : "the process");
	if (r->graphed)
		print_graphs(&r->graphs);
	if (r->world > 1)
		printf("received    %s per step and rank (planned %s)\n",
		       zr_bytes_text(r->received, peak), zr_bytes_text(r->received_plan, planned));
	printf("written     %s: %s config.ini summary.json%s\n", zr_rundir(cfg),
	       r->adapters ? "adapter_model.safetensors adapter_config.json" : "model.safetensors",
	       r->exported ? " model-16bit/" : "");
	print_sample(zr_rundir(cfg));
	printf("digest: losses=%016llx params=%016llx\n", (unsigned long long)r->losses_digest,
	       (unsigned long long)r->params_digest);
	zr_outlet_push();
}

/* As the data plugin has the text of tokens, or the tokenizer.json of the model that the training
 * begins with. A tokenizer that cannot be used knows none. */
static int token_lengths(const struct zr_setup *s, uint16_t **out, struct zr_error *err)
{
	char file[ZR_MODEL_FILE];
	struct zr_error unused = { 0 };
	struct zr_token_source from = { .data = zr_config_find(s->cfg, "data"),
					.vocabulary = s->facts.decl.vocabulary,
					.add_tokens = zr_config_find(s->cfg, "model")->add_tokens };
	int rc = zr_token_lengths(&from, out, err);

	const char *dir = zr_config_find(s->cfg, "model")->path;
	if (rc || *out || !dir || !zr_dir_has(dir, "tokenizer.json", file))
		return rc;

	from.tokenizer = from.dir = file;
	zr_token_lengths(&from, out, &unused);
	return 0;
}

static int is_local(const struct zr_config *cfg, const char *section)
{
	const struct zr_section *comm = zr_config_find(cfg, section);
	return comm && comm->plugin && !strcmp(comm->plugin->desc->id, "local");
}

/* Loads the configuration. Machines share no memory, so that comm/tcp stands in for comm/local
 * there. */
static int load(const struct zr_train_args *a, struct zr_config **cfg, struct zr_error *err)
{
	const char *overrides[ZR_CMD_OVERRIDES + ZR_RESTART_OVERRIDES + ZR_LAUNCH_OVERRIDES];
	int n = a->n_overrides;
	int rc = zr_config_load(a->conf, a->overrides, n, cfg, err);
	if (rc || !a->is_launched)
		return rc;

	memcpy(overrides, a->overrides, sizeof overrides);
	if (is_local(*cfg, "comm"))
		overrides[n++] = "comm.plugin=tcp";
	if (is_local(*cfg, "comm.host"))
		overrides[n++] = "comm.host.plugin=tcp";
	if (n == a->n_overrides)
		return 0;

	zr_config_free(*cfg);
	return zr_config_load(a->conf, overrides, n, cfg, err);
}

/* Runs this process as one rank, which may be the only one. first: of those on this machine.
 * Returns the exit code; *err says why it failed. */
static int train(const struct zr_train_args *a, int first, struct zr_error *err)
{
	struct zr_config *cfg;
	struct zr_run_report report;

	if (!first)
		zr_log_level(ZR_LOG_ERROR); /* rank 0 says it */
	int rc = load(a, &cfg, err);
	if (rc)
		return zr_exit_code(rc);

	zr_cmd_log(cfg);
	const struct zr_run_how how = { .from = a->resume,
					.other_data = a->other_data,
					.verify = a->verify,
					.bytes = token_lengths };
	rc = zr_run_train(cfg, &how, stdout, &report, err);
	if (!rc && report.rank == 0)
		print_summary(cfg, &report);
	zr_config_free(cfg);
	if (!rc && report.stopped)
		rc = zr_err(err, report.stopped, "%s", report.stopped_text);
	else if (!rc && report.checkpoints.failed)
		rc = zr_err(err, ZR_EIO,
			    "trained, but not all is saved: %lld checkpoint%s failed, the last "
			    "because: %s",
			    (long long)report.checkpoints.failed,
			    report.checkpoints.failed == 1 ? "" : "s", report.checkpoints.why);
	if (rc)
		return zr_exit_code(rc);
	return report.interrupted ? 130 : 0;
}

static int train_alone(const struct zr_train_args *a)
{
	struct zr_error err = { 0 };
	int code = train(a, 1, &err);
	zr_signals_flush(stdout);
	return err.code ? zr_cmd_failed(&err) : code;
}

int zr_train_rank(int rank, void *arg, struct zr_error *why)
{
	zr_stacks_watch();
	return train(arg, rank == 0, why);
}

int zr_train_try(const struct zr_train_args *a)
{
	struct zr_config *cfg;
	struct zr_error err = { 0 };
	int status = 0;

	zr_outlet_push();
	pid_t pid = fork();
	if (pid == 0) {
		/* a configuration that is a pipe may never arrive */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		zr_crash_watch(NULL);
		zr_log_level(ZR_LOG_ERROR); /* a rank says what is no error */
		int code;
		if (load(a, &cfg, &err))
			code = zr_cmd_failed(&err);
		else
			code = 0;
		zr_crash_unwatch();
		_exit(code);
	}

	if (pid < 0) {
		fprintf(stderr, "zeroth: cannot start a process: %s\n", strerror(errno));
		return 4;
	}

	if (zr_child_wait(pid, &status))
		return 0; /* the ranks find out themselves */
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		return 4; /* the child has said where it crashed */
	if (!WIFEXITED(status)) {
		fprintf(stderr, "zeroth: %s: cannot load the configuration\n", a->conf);
		return 4;
	}

	return WEXITSTATUS(status);
}

int zr_train_check(const struct zr_cmd_usage *usage, const struct zr_train_args *a, int ranks)
{
	if (a->min_ranks && !a->restarts)
		return zr_cmd_refuse(usage, "--min-ranks %d: is for --restarts", a->min_ranks);
	if (a->other_data && !a->resume)
		return zr_cmd_refuse(usage, "--other-data: is for --resume");
	if (ranks && a->min_ranks > ranks)
		return zr_cmd_refuse(usage, "--min-ranks %d: expected a number of ranks in [1, %d]",
				     a->min_ranks, ranks);
	return 0;
}

/* An attempt on this machine. */
static int train_here(int ranks, void *args, struct zr_crew_end *end)
{
	const struct zr_train_args *a = args;
	const struct zr_crew_how crew = { .n = ranks,
					  .rank_main = zr_train_rank,
					  .arg = args,
					  .watchdog = a->watchdog,
					  .beat = &zr_beat_shared()->count };
	int code = zr_supervise_crew(&crew, end);
	zr_beat_look(zr_beat_shared());
	return code;
}

int zr_cmd_train(int argc, char **argv)
{
	struct zr_train_args a = { 0 };
	struct zr_cmd_operands operands;

	int rc = zr_cmd_parse(argc, argv, &zr_train_usage, NULL, &a, &operands);
	if (rc >= 0)
		return rc;

	a.conf = operands.at[0];
	if (!a.ranks && (a.restarts || a.watchdog > 0))
		a.ranks = 1;
	rc = zr_train_check(&zr_train_usage, &a, a.ranks);
	if (rc)
		return rc;

	zr_outlets_begin();
	if (!a.ranks)
		return train_alone(&a);

	const char *other = zr_other_launcher();
	if (other) {
		fprintf(stderr,
			"zeroth: -n %d starts ranks, but another launcher has done so (%s): drop "
			"one of the two\n",
			a.ranks, other);
		return 2;
	}

	rc = zr_train_try(&a);
	if (rc)
		return rc;

	const struct zr_restart_how how = { .ranks = a.ranks,
					    .restarts = a.restarts,
					    .min_ranks = a.min_ranks,
					    .resume = &a.resume,
					    .overrides = a.overrides,
					    .n_overrides = &a.n_overrides,
					    .attempt = train_here,
					    .arg = &a };
	return zr_restart_train(&how);
}
