/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.c - what the thread of a rank does for each command.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "embed/engine.h"
#include "train/resume.h"
#include "train/rundir.h"
#include "train/weights.h"

/* ---- open ------------------------------------------------------------------------ */

#define TEXT_PATH "/proc/self/fd/%d"

/* The name of a text is that of a descriptor, which no message should have. */
static void name_text(const struct zeroth *e, struct zr_error *err)
{
	char path[64], *at = err->text;
	size_t n = (size_t)snprintf(path, sizeof path, TEXT_PATH, e->text_fd);
	while (e->text_fd >= 0 && (at = strstr(at, path))) {
		memcpy(at, "text", 4);
		memmove(at + 4, at + n, strlen(at + n) + 1);
	}
}

/* Reading a configuration may fork a process that looks at plugins, which must not happen while
 * another thread loads some: all ranks have read theirs before any goes on. */
static void wait_for_configs(struct zeroth *e)
{
	pthread_mutex_lock(&e->lock);
	e->loaded++;
	pthread_cond_broadcast(&e->asked);
	while (e->loaded < e->n)
		pthread_cond_wait(&e->asked, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

static int load_config(struct rank *r, struct zr_error *err)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* libinih has a global limit */
	const struct zeroth *e = r->engine;
	const char **option = calloc((size_t)e->n_options + 3, sizeof *option);
	char path[64] = "";
	int n = 0;
	if (!option)
		return zr_err(err, ZR_ENOMEM, "out of memory");

	for (int i = 0; i < e->n_options; i++)
		option[n++] = e->option[i];
	if (e->n > 1)
		option[n++] = "boot.plugin=threads";
	if (e->model.size) {
		option[n++] = "model.plugin=functions";
		option[n++] = "data.plugin=functions";
	}
	if (e->text_fd >= 0)
		snprintf(path, sizeof path, TEXT_PATH, e->text_fd);
	pthread_mutex_lock(&one);
	int rc = zr_config_load(*path ? path : e->path, option, n, &r->t.cfg, err);
	pthread_mutex_unlock(&one);
	free(option);
	return rc;
}

/* A model of the program's own is computed by the program, which reads the device's memory. */
static int check(const struct rank *r, struct zr_error *err)
{
	const struct zr_setup *s = r->t.setup;
	if (!r->engine->model.size || s->device_info.host_access)
		return 0;
	return zr_err(err, ZR_ENOTSUP,
		      "[device] %s: a model of the program's own needs a "
		      "device whose memory the program reads, as cpu",
		      s->device.section->plugin->desc->id);
}

/* Whether the program names a directory for the run. */
static int has_dir(const struct rank *r)
{
	return strcmp(zr_rundir(r->t.cfg), "auto") != 0;
}

static int open_all(struct rank *r, struct zr_error *err)
{
	int rc = load_config(r, err);
	wait_for_configs(r->engine);
	if (!rc)
		rc = zr_trainer_setup(&r->t, r->engine->memory, err);
	if (rc)
		return rc;

	rank_say_unused(r);
	rc = check(r, err);
	if (!rc)
		rc = zr_trainer_open(&r->t, 0, err);
	if (!rc)
		rc = zr_trainer_ready(&r->t, err);
	return rc;
}

/* ---- the beginning --------------------------------------------------------------- */

/* The first rank of all makes the directory of the run, if there is one, and opens the monitors. */
static int open_run(struct rank *r, struct zr_error *err)
{
	int rc = 0;
	if (!r->t.rank0)
		return 0;

	if (has_dir(r)) {
		rc = zr_rundir_check(r->t.cfg, *r->t.from != 0, err);
		if (!rc)
			rc = zr_trainer_open_dirs(&r->t, err);
		if (!rc)
			rc = zr_rundir_write_config(r->t.cfg, err);
	}

	if (rc)
		return rc;
	return zr_trainer_open_metrics(&r->t, err);
}

static int begin(struct rank *r, struct zr_error *err)
{
	if (r->begun)
		return 0;

	int rc = zr_trainer_begin(&r->t, err);
	if (!rc)
		rc = open_run(r, err);
	r->begun = !rc;
	return rc;
}

static int resume(struct rank *r, struct zr_error *err)
{
	const char *name = r->engine->name;
	if (r->begun)
		return zr_err(err, ZR_ESTATE, "zeroth_resume: the training has begun");

	int rc = zr_trainer_find(&r->t, name, err);
	if (!rc)
		rc = zr_trainer_resume(&r->t, name, 0, err);
	if (!r->number)
		r->engine->resumed = r->t.resumed;
	if (rc)
		return rc;
	return begin(r, err);
}

/* ---- steps ----------------------------------------------------------------------- */

/* All micro-batches are done: what backward did ends here, and the rest is the step's. */
static void at_boundary(void *arg, const struct zr_lowered *p, int32_t n, int waited)
{
	static const struct zr_error none = { 0 };
	struct rank *r = arg;
	if (p->id != ZR_S_BOUNDARY || n || waited || !r->parts || r->ending)
		return;
	rank_answer(r, &none);
	r->ending = rank_next(r) == CMD_END;
	if (r->ending && r->t.setup->process.world > 1)
		zr_setup_abort(r->t.setup, "the engine is closed within a step");
}

static int step(struct rank *r, int parts, struct zr_error *err)
{
	const int64_t all = (int64_t)r->t.setup->train->steps;
	int rc = begin(r, err);
	if (!rc && r->t.session->step >= all)
		return zr_err(err, ZR_ESTATE, "all %lld steps of [train] steps are done",
			      (long long)all);
	if (rc)
		return rc;

	r->parts = r->fresh = parts;
	r->t.session->ran = parts ? at_boundary : NULL;
	r->t.session->ran_arg = r;
	rc = zr_trainer_step(&r->t, 0, err);
	if (rc)
		return rc;
	if (r->t.result.action != ZR_STEP_STOP)
		return 0;
	if (!r->t.result.overflow)
		return zr_err(err, ZR_ENUMERIC,
			      "step %lld: [precision] ends the training, and all "
			      "numbers are finite; the parameters are those before this step",
			      (long long)r->t.session->step);
	return zr_err(err, ZR_ENUMERIC,
		      "step %lld: non-finite numbers in %s%s%s, rank %d; the "
		      "parameters are those before this step",
		      (long long)r->t.session->step, r->t.result.unit ? "the gradient of " : "the ",
		      r->t.result.overflow, r->t.result.unit ? "" : " of the step",
		      r->t.result.bad_rank);
}

/* ---- evaluations ----------------------------------------------------------------- */

static int infer(struct rank *r, struct zr_error *err)
{
	struct zr_rows rows = { 0 };
	int rc = begin(r, err);
	r->inferring = 1;
	if (!rc)
		rc = zr_session_eval(r->t.session, r->t.setup->source, 0, r->t.setup->process.rank,
				     &rows, err);
	r->inferring = 0;
	r->loss = 0;
	for (int64_t i = 0; !rc && i < rows.n; i++)
		r->loss += (double)rows.loss[i] / (double)rows.n;
	return rc;
}

static int evaluate(struct rank *r, struct zr_error *err)
{
	const struct zr_eval_how how = { 0 };
	struct zr_run_set *set = NULL;
	int rc = begin(r, err);
	for (int i = 0; i < r->t.evals.n; i++)
		if (!strcmp(r->t.evals.set[i].name, r->engine->name))
			set = &r->t.evals.set[i];
	if (!rc && !set)
		rc = zr_err(err, ZR_EINVAL,
			    *r->engine->name ? "there is no [eval.%s]" :
					       "nothing of [data] is held out%s",
			    r->engine->name);
	if (!rc && r->engine->model.size)
		rc = zr_eval_once(r->t.setup, set->set.from, 0, &set->set, err);
	if (!rc)
		rc = zr_trainer_evaluate(&r->t, set, &how, err);
	if (!rc && !r->number)
		r->engine->eval = set->last;
	return rc;
}

/* ---- files ----------------------------------------------------------------------- */

/* What one rank could not do, all ranks return, so that none waits for another in what follows, and
 * the engine goes on. Only where they cannot tell each other, the failure ends it. */
static int agree(struct rank *r, const struct zr_error *mine, struct zr_error *err)
{
	const struct zr_ckpt_word *bad = NULL;
	struct zr_ckpt_word word = { 0 };
	struct zr_ckpt_word *words = calloc((size_t)r->t.setup->process.world, sizeof *words);
	if (!words)
		return zr_err(err, ZR_ENOMEM, "out of memory");
	if (mine->code)
		zr_ckpt_say(&word, mine);
	int rc = zr_ckpt_share(r->t.session, &word, words, &bad, err);
	r->harmless = !rc && bad;
	if (r->harmless)
		rc = zr_err(err, (int)bad->code, "%s", bad->text);
	free(words);
	return rc;
}

/* Releases those that were added after the first n. */
static void release_after(struct zr_locks *l, int n)
{
	struct zr_locks late = { .n = l->n - n };
	memcpy(late.held, l->held + n, (size_t)late.n * sizeof *late.held);
	l->n = n;
	zr_locks_release(&late);
}

/* The first rank of all finds the directory, and makes and locks it if it is not the run's. */
static int find_checkpoints(struct rank *r, int is_own, char dir[PATH_MAX], struct zr_error *err)
{
	const int locks = r->t.locks.n;
	int made = 0;
	int rc = zr_checkpoint_dir(r->t.cfg, dir, err);
	rc = rc || *r->t.from ? rc : zr_checkpoint_dir_check(r->t.cfg, err);
	if (rc || !is_own)
		return rc;

	rc = zr_dir_make(dir, &made, err);
	if (!rc && (rc = zr_locks_add_checkpoints(&r->t.locks, dir, err))) {
		release_after(&r->t.locks, locks);
		zr_dir_unmake(dir, made, 0);
	}
	return rc;
}

static int open_saver(struct rank *r, struct zr_error *err)
{
	const struct zr_checkpoint_opts *o = zr_config_find(r->t.cfg, "checkpoint")->opts;
	const int is_own = strcmp(o->dir, "auto") != 0;
	struct zr_error why = { 0 };
	char dir[PATH_MAX] = "";
	r->harmless = !is_own && !strcmp(zr_rundir(r->t.cfg), "auto");
	if (r->harmless)
		return zr_err(err, ZR_EINVAL, "zeroth_save: give [checkpoint] dir or [run] dir");
	if (r->t.setup->process.rank == 0)
		find_checkpoints(r, is_own, dir, &why);
	int rc = agree(r, &why, err);
	if (rc)
		return rc;
	return zr_trainer_open_saver(&r->t, dir, err);
}

static int save(struct rank *r, struct zr_error *err)
{
	int rc = begin(r, err);
	rc = rc || r->t.saver ? rc : open_saver(r, err);
	if (rc)
		return rc;

	const int64_t failed = zr_saver_stats_of(r->t.saver)->failed;
	rc = zr_trainer_save(&r->t, err);
	if (!rc)
		rc = zr_saver_finish(r->t.saver, err);
	const struct zr_saver_stats *now = zr_saver_stats_of(r->t.saver);
	if (rc || now->failed == failed)
		return rc;

	r->harmless = 1;
	return zr_err(err, ZR_EIO, "%s", *now->why ? now->why : "the checkpoint cannot be written");
}

/* Whether the file alone failed, after its rank had taken part in all that ranks read from each
 * other: zr_st_finish() begins these texts with its name, or that of its temporary file. Memory may
 * have ended before. */
static int is_of_file(const struct zr_error *why, const char *file)
{
	const size_t n = strlen(file);
	if (why->code == ZR_ENOMEM || strncmp(why->text, file, n))
		return 0;
	return !strncmp(why->text + n, ": ", 2) || !strncmp(why->text + n, ".tmp: ", 6);
}

static int save_weights(struct rank *r, struct zr_error *err)
{
	const char *file = r->engine->name;
	struct zr_error why = { 0 };
	int rc = begin(r, err);
	if (rc)
		return rc;
	rc = zr_weights_save(r->t.session, file, &why);
	if (rc && !is_of_file(&why, file))
		return zr_err(err, rc, "%s", why.text);
	return agree(r, &why, err);
}

struct visit {
	struct rank *r;
	const struct zr_layout *layout;
	struct zr_error *err;
};

/* What the program's function answered. */
static int answered(int rc, int64_t tensor, struct zr_error *err)
{
	if (!rc)
		return 0;
	return zr_err(err, rc < 0 ? rc : ZR_EINTERNAL,
		      "values of tensor %lld: the "
		      "function failed with code %d",
		      (long long)tensor, rc);
}

static int get_values(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	const struct visit *v = arg;
	const struct zeroth *e = v->r->engine;
	const int64_t i = t - v->layout->tensor;
	return answered(e->get(e->arg, i, first, n, x), i, v->err);
}

static int put_values(void *arg, int32_t i, int64_t first, int64_t n, float *x,
		      struct zr_error *err)
{
	struct zeroth *e = ((struct visit *)arg)->r->engine;
	pthread_mutex_lock(&e->put_lock);
	int rc = e->put(e->arg, i, first, n, x);
	pthread_mutex_unlock(&e->put_lock);
	return answered(rc, i, err);
}

static int visit(struct rank *r, int put, struct zr_error *err)
{
	struct visit v = { r, &r->t.setup->layout, err };
	int rc = begin(r, err);
	if (rc)
		return rc;
	if (put)
		return zr_session_fill(r->t.session, put_values, &v, err);
	rc = zr_session_masters(r->t.session, r->number ? NULL : get_values, &v, err);
	return rc ? zr_err(err, rc, "reading parameters failed with code %d", rc) : 0;
}

static int digest(struct rank *r, struct zr_error *err)
{
	uint64_t d;
	int rc = begin(r, err);
	if (!rc)
		rc = zr_weights_digest(r->t.session, &d, err);
	if (!rc && !r->number)
		r->engine->digest = d;
	return rc;
}

/* ---- the thread ------------------------------------------------------------------ */

static int run(struct rank *r, enum command c, struct zr_error *err)
{
	switch (c) {
	case CMD_OPEN:
		return open_all(r, err);
	case CMD_STEP:
		return step(r, 0, err);
	case CMD_FORWARD:
		return step(r, 1, err);
	case CMD_INFER:
		return infer(r, err);
	case CMD_EVALUATE:
		return evaluate(r, err);
	case CMD_RESUME:
		return resume(r, err);
	case CMD_SAVE:
		return save(r, err);
	case CMD_WEIGHTS:
		return save_weights(r, err);
	case CMD_GET:
	case CMD_PUT:
		return visit(r, c == CMD_PUT, err);
	case CMD_DIGEST:
		return digest(r, err);
	default:
		return zr_err(err, ZR_EINTERNAL, "unknown command %d", c);
	}
}

static void close_all(struct rank *r)
{
	zr_trainer_push(&r->t, NULL);
	zr_trainer_leave_dirs(&r->t, 0);
	zr_trainer_close(&r->t);
	zr_config_free(r->t.cfg);
}

void *rank_main(void *arg)
{
	struct rank *r = arg;
	enum command c;
	rank_here = r;
	while (!r->ending && (c = rank_next(r)) != CMD_END) {
		struct zr_error err = { 0 };
		int rc = run(r, c, &err);
		if (rc && !err.code)
			zr_err(&err, rc, "failed with code %d", rc);
		name_text(r->engine, &err);
		if (rc && r->t.setup && !r->harmless)
			zr_setup_abort(r->t.setup, err.text);
		if (!r->ending)
			rank_answer(r, &err);
	}

	close_all(r);
	return NULL;
}
