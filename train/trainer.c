/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.c - see trainer.h.
 */
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/log.h"
#include "train/adapter.h"
#include "train/alike.h"
#include "train/fit.h"
#include "train/launcher.h"
#include "train/resume.h"
#include "train/room.h"
#include "train/run_metrics.h"
#include "train/rundir.h"
#include "train/settings.h"
#include "train/weights.h"
#include "train/weights/export.h"

static const struct zr_checkpoint_opts *checkpoint_opts(const struct zr_trainer *t)
{
	return zr_config_find(t->cfg, "checkpoint")->opts;
}

/* ---- before memory is taken -------------------------------------------------------- */

/* Refuses ranks of another launcher that do not know each other: each would train the whole model
 * in the same run directory. */
static int check_launcher(const struct zr_trainer *t, struct zr_error *err)
{
	const int32_t world = t->setup->facts.process.world;

	const char *ours = getenv("ZEROTH_LOCAL_WORLD"); /* what -n has started */
	if (ours && atoi(ours) > 1 && atoi(ours) != world)
		return zr_err(err, ZR_EINVAL,
			      "-n %d started %d ranks, but [boot] found %d: leave "
			      "out -n, or choose plugin = local for [boot]",
			      atoi(ours), atoi(ours), world);

	const char *other = world == 1 ? zr_other_launcher() : NULL;
	if (!other)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "a launcher started several ranks (%s), but [boot] found "
		      "only one: choose a plugin for [boot] that knows this launcher",
		      other);
}

static int check_export(const struct zr_trainer *t, struct zr_error *err)
{
	if (!zr_room_exports(t->cfg))
		return 0;
	if (zr_config_find(t->cfg, "adapter"))
		return zr_config_blame(t->cfg, "zero", ZR_EINVAL, err,
				       "gather_16bit_weights_on_model_save: adapters are merged by "
				       "`zeroth checkpoint export --merge`");

	int rc = zr_export_check(t->setup, err);
	if (rc || t->setup->facts.types.dtype != ZR_F32)
		return rc;
	return zr_config_blame(t->cfg, "zero", ZR_EINVAL, err,
			       "gather_16bit_weights_on_model_save needs a [precision] of 16 bits; "
			       "model.safetensors has the weights in fp32");
}

int zr_trainer_setup(struct zr_trainer *t, uint64_t machine, struct zr_error *err)
{
	t->resumed = -1;
	int rc = zr_setup_open(t->cfg, ZR_MODE_TRAIN, 0, 0, &t->setup, err);
	if (rc)
		return rc;

	rc = zr_adapter_settle(t->setup, err);
	if (rc)
		return rc;

	t->setup->facts.settings = zr_settings_hash(t->setup);
	rc = check_launcher(t, err);
	if (!rc)
		rc = check_export(t, err);
	if (!rc)
		rc = zr_plan_check(t->setup, machine, err);
	t->rank0 = !rc && t->setup->facts.process.rank == 0;
	return rc;
}

/* ---- directories ------------------------------------------------------------------- */

/* Whether checkpoints go to RUN/checkpoints, which is made and locked with RUN. */
static int are_in_run(const struct zr_trainer *t)
{
	return !strcmp(checkpoint_opts(t)->dir, "auto");
}

/* Locks the directories of a training, which has not made them, where they are there. */
static int lock_what_is_there(struct zr_trainer *t, struct zr_error *err)
{
	char dir[PATH_MAX];
	int rc = 0;

	if (zr_is_there(zr_rundir(t->cfg), &rc, err))
		rc = zr_locks_add(&t->locks, zr_rundir(t->cfg), err);
	if (rc || are_in_run(t))
		return rc;

	rc = zr_checkpoint_dir(t->cfg, dir, err);
	if (!rc && zr_is_there(dir, &rc, err))
		rc = zr_locks_add_checkpoints(&t->locks, dir, err);
	return rc;
}

int zr_trainer_open_checkpoints(struct zr_trainer *t, char dir[PATH_MAX], struct zr_error *err)
{
	const int held = t->locks.n;
	int made = 0;

	int rc = zr_checkpoint_dir(t->cfg, dir, err);
	if (rc || are_in_run(t))
		return rc;

	rc = zr_dir_make(dir, &made, err);
	if (rc)
		return rc;

	rc = zr_locks_add_checkpoints(&t->locks, dir, err);
	if (rc) {
		zr_locks_release_after(&t->locks, held);
		zr_dir_unmake(dir, made, 0);
		return rc;
	}

	if (made)
		t->made_checkpoints = made;
	return 0;
}

int zr_trainer_check_dirs(struct zr_trainer *t, struct zr_error *err)
{
	const int resumes = *t->from != 0;

	int rc = zr_rundir_check(t->cfg, resumes, err);
	if (!rc)
		rc = zr_room_check(t->setup, err);
	if (!rc)
		rc = lock_what_is_there(t, err);
	if (rc || resumes)
		return rc;
	return zr_checkpoint_dir_check(t->cfg, err);
}

int zr_trainer_open_dirs(struct zr_trainer *t, struct zr_error *err)
{
	char dir[PATH_MAX];

	int rc = zr_rundir_make(t->cfg, *t->from != 0, &t->made, err);
	if (!rc)
		rc = zr_locks_add(&t->locks, zr_rundir(t->cfg), err);
	if (!rc)
		rc = zr_trainer_open_checkpoints(t, dir, err);
	t->setup->facts.process.run_dir = zr_rundir(t->cfg);
	return rc;
}

void zr_trainer_leave_dirs(struct zr_trainer *t, int made_only)
{
	char dir[PATH_MAX];

	zr_saver_close(t->saver);
	t->saver = NULL;
	zr_metrics_close(t->metrics);
	t->metrics = NULL;
	zr_locks_release(&t->locks);
	if (t->made_checkpoints && !zr_checkpoint_dir(t->cfg, dir, NULL))
		zr_dir_unmake(dir, t->made_checkpoints, 0);
	if (made_only)
		zr_dir_unmake(zr_rundir(t->cfg), t->made, 1);
}

/* ---- the beginning ----------------------------------------------------------------- */

int zr_trainer_open(struct zr_trainer *t, int verify, struct zr_error *err)
{
	const uint64_t steps = t->setup->facts.train->steps;

	t->losses = calloc(steps, sizeof *t->losses);
	if (!t->losses)
		return zr_err(err, ZR_ENOMEM, "out of memory for the losses of %llu steps",
			      (unsigned long long)steps);

	int rc = zr_alike_check(t->setup, verify, err);
	if (!rc)
		rc = zr_session_open(t->setup, &t->session, err);
	return rc;
}

/* What [checkpoint] save and [model] store ask for together, where that cannot be. */
static int refuse_left_out(const struct zr_trainer *t, int any, int model, struct zr_error *err)
{
	const int all = checkpoint_opts(t)->save == ZR_SAVE_ALL, stored = t->setup->facts.stored;
	const char *why = "save = trainable needs [model] path: what is left out must be somewhere "
			  "else";

	if (!any)
		why = "save = trainable leaves nothing out: there is no [train] freeze";
	else if (all && model)
		why = "save = all is not for [model] store: take it out";
	else if (stored)
		why = "store needs [model] path: checkpoints leave out what is frozen";
	return zr_config_blame(t->cfg, stored && !model ? "model" : "checkpoint", ZR_EINVAL, err,
			       "%s", why);
}

/* Reads frozen tensors that checkpoints leave out, before the checkpoint is read, which checks that
 * they have not changed. */
static int leave_out(struct zr_trainer *t, struct zr_error *err)
{
	const int all = checkpoint_opts(t)->save == ZR_SAVE_ALL;
	const int model = zr_config_model_json(t->cfg) != NULL;
	int any = 0;

	if (all && !t->setup->facts.stored)
		return 0;

	for (int32_t i = 0; i < t->setup->facts.layout.n_tensors; i++)
		any |= t->setup->facts.frozen[i];
	if (!any || !model || all)
		return refuse_left_out(t, any, model, err);

	int rc = zr_weights_begin(t->session, err);
	if (rc)
		return rc;
	return zr_checkpoint_leave_out(t->session, err);
}

int zr_trainer_ready(struct zr_trainer *t, struct zr_error *err)
{
	int rc = zr_run_evals_open(t->session, &t->evals, err);
	if (rc)
		return rc;
	return leave_out(t, err);
}

int zr_trainer_find(struct zr_trainer *t, const char *name, struct zr_error *err)
{
	return zr_resume_path(t->cfg, name, t->from, err);
}

/* A training from the beginning would take the place of a model that no checkpoint has. */
static int keep_model(const struct zr_trainer *t, struct zr_error *err)
{
	const struct zr_dir_kind has = zr_dir_look(zr_rundir(t->cfg));
	if (!t->rank0 || (!has.weights && !has.adapters))
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "run directory %s has the model of a run that ended, and %s "
		      "no checkpoint to go on from: choose another [run] dir or remove it; "
		      "[checkpoint] every saves checkpoints",
		      zr_rundir(t->cfg), t->from);
}

int zr_trainer_resume(struct zr_trainer *t, const char *name, int other_data, struct zr_error *err)
{
	t->session->other_data = other_data;
	int rc = zr_checkpoint_load(t->session, t->from, t->losses, &t->evals.best, &t->resumed,
				    err);
	if (rc)
		return rc;
	if (t->resumed < 0 && strcmp(name, "auto"))
		return zr_err(err, ZR_EINVAL, "%s: no checkpoint there", t->from);
	if (t->resumed < 0)
		return keep_model(t, err);

	t->first = t->session->step;
	t->begun = 1;
	return 0;
}

int zr_trainer_begin(struct zr_trainer *t, struct zr_error *err)
{
	double elapsed = 0;
	int rc = 0;

	if (!t->begun && !t->session->frozen_hash)
		rc = zr_weights_begin(t->session, err);
	if (rc)
		return rc;

	if (t->rank0 && *t->from)
		elapsed = zr_pace_elapsed_before(zr_rundir(t->cfg), t->from, t->first);
	zr_pace_begin(&t->pace, t->setup, elapsed);
	t->begun = 1;
	return 0;
}

int zr_trainer_open_saver(struct zr_trainer *t, const char *dir, struct zr_error *err)
{
	return zr_saver_open(t->session, dir, checkpoint_opts(t), &t->saver, err);
}

int zr_trainer_open_metrics(struct zr_trainer *t, struct zr_error *err)
{
	return zr_metrics_open(t->setup, *t->from ? t->first : -1, &t->metrics, err);
}

/* ---- steps ------------------------------------------------------------------------- */

uint32_t zr_trainer_numbers(const struct zr_trainer *t, const struct zr_parts *part,
			    struct zr_metric m[ZR_METRICS_PER_STEP])
{
	const struct zr_run_step step = { .setup = t->setup,
					  .step = t->session->step,
					  .result = &t->result,
					  .pace = &t->pace,
					  .evals = &t->evals,
					  .part = part };

	return zr_run_metrics(&step, m);
}

void zr_trainer_push(struct zr_trainer *t, const struct zr_parts *part)
{
	struct zr_metric m[ZR_METRICS_PER_STEP];
	if (!t->pending || !t->metrics)
		return;

	zr_metrics_push(t->metrics, t->session->step, m, zr_trainer_numbers(t, part, m));
	t->pending = 0;
}

/* Why a step was not applied. */
static void refusal_text(const struct zr_step_result *s, char *out, size_t size)
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
static void note_action(struct zr_trainer *t)
{
	const struct zr_step_result *s = &t->result;
	const long long step = (long long)t->session->step;
	char why[256], scale[80] = "";

	if (s->action == ZR_STEP_APPLY)
		return;

	refusal_text(s, why, sizeof why);
	if (s->action == ZR_STEP_SKIP) {
		if (t->setup->facts.types.scaled)
			snprintf(scale, sizeof scale, "; loss scale %.10g -> %.10g", s->scale,
				 s->next_scale);
		if (t->rank0)
			zr_logf(ZR_LOG_WARN, "train", "step %lld skipped: %s%s", step, why, scale);
		return;
	}

	if (t->setup->facts.types.scaled)
		snprintf(scale, sizeof scale, "; loss scale %.10g cannot fall", s->scale);
	zr_err(&t->stopped, ZR_ENUMERIC, "step %lld: %s%s; the weights are those before this step",
	       step, why, scale);
}

int zr_trainer_step(struct zr_trainer *t, int stop, struct zr_error *err)
{
	zr_trainer_push(t, NULL);
	const double start = zr_now();
	int rc = zr_session_step(t->session, stop, &t->result, err);
	if (rc)
		return rc;

	const int64_t step = t->session->step;
	zr_pace_step(&t->pace, step, zr_now() - start);
	t->losses[step - 1] = t->result.loss;
	t->pending = 1;
	note_action(t);
	return 0;
}

int zr_trainer_evaluate(struct zr_trainer *t, struct zr_run_set *set, const struct zr_eval_how *how,
			struct zr_error *err)
{
	int rc = zr_session_exchange(t->session, err);
	if (!rc)
		rc = zr_run_eval(&t->evals, set, t->session->step, how, err);
	if (rc)
		return rc;
	return zr_session_exchange(t->session, err);
}

uint64_t zr_trainer_losses_digest(const struct zr_trainer *t)
{
	return XXH3_64bits(t->losses, (size_t)t->session->step * sizeof *t->losses);
}

int zr_trainer_save(struct zr_trainer *t, struct zr_error *err)
{
	zr_trainer_push(t, NULL);
	if (t->metrics)
		zr_metrics_wait(t->metrics);
	return zr_saver_save(t->saver, t->losses, &t->evals.best, err);
}

void zr_trainer_close(struct zr_trainer *t)
{
	zr_trainer_push(t, NULL);
	zr_saver_close(t->saver);
	zr_metrics_close(t->metrics);
	zr_locks_release(&t->locks);
	zr_session_close(t->session);
	zr_setup_close(t->setup);
	free(t->losses);
}
