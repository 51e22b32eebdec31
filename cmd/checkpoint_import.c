/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_import.c - see checkpoint_import.h. The training is opened as for its first step, gets
 * the values of the other program, and is saved: so what is written is whole or absent, and of any
 * stage and number of ranks.
 */
#include "cmd/checkpoint_import.h"

#include <math.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/others/others.h"
#include "train/resume.h"
#include "train/rundir.h"
#include "train/trainer.h"

struct import {
	const struct zr_checkpoint_import *how;
	struct zr_trainer t;
	struct zr_others others;
};

/* Of the values of steps that came before, nothing is known. */
static void forget_losses(struct zr_trainer *t)
{
	for (int64_t i = 0; i < t->session->step; i++)
		t->losses[i] = NAN;
}

static int check_world(const struct import *m, struct zr_error *err)
{
	const int64_t steps = (int64_t)m->t.setup->facts.train->steps;

	if (m->t.setup->facts.process.world != 1)
		return zr_err(
			err, ZR_EINVAL,
			"checkpoint import runs in one process: its checkpoint is for any number "
			"of ranks");
	if (zr_config_find(m->t.cfg, "adapter"))
		return zr_err(err, ZR_EINVAL,
			      "%s: [adapter]: checkpoints of adapters are not imported; [adapter] "
			      "path begins with adapters of PEFT",
			      m->how->conf);
	if (m->others.step > steps)
		return zr_err(err, ZR_EINVAL, "%s: it is at step %lld, and [train] steps = %lld",
			      m->how->from, (long long)m->others.step, (long long)steps);
	return 0;
}

/* All that can be refused before memory is taken. */
static int open_others(struct import *m, struct zr_error *err)
{
	int rc = zr_trainer_setup(&m->t, 0, err);
	if (!rc)
		rc = zr_others_open(m->how->from, m->how->weights, m->t.setup, &m->others, err);
	if (!rc)
		rc = check_world(m, err);
	if (!rc)
		rc = zr_others_check(&m->others, m->t.setup, err);
	if (!rc)
		rc = zr_trainer_check_dirs(&m->t, err);
	return rc;
}

static int take(struct import *m, struct zr_error *err)
{
	int rc = zr_trainer_open(&m->t, 0, err);
	if (!rc)
		rc = zr_trainer_ready(&m->t, err);
	if (!rc && m->t.session->frozen_hash)
		rc = zr_err(err, ZR_EINVAL,
			    "%s: [checkpoint] save = trainable and [model] store leave out what is "
			    "frozen, which an import has to read: leave them out",
			    m->how->conf);
	if (!rc)
		rc = zr_others_take(&m->others, m->t.session, err);
	if (rc)
		return rc;

	m->t.begun = 1;
	m->t.evals.best = ZR_BEST_NONE;
	forget_losses(&m->t);
	return 0;
}

static int save(struct import *m, char dir[PATH_MAX], struct zr_error *err)
{
	int rc = zr_trainer_open_dirs(&m->t, err);
	if (!rc)
		rc = zr_checkpoint_dir(m->t.cfg, dir, err);
	if (!rc)
		rc = zr_trainer_open_saver(&m->t, dir, err);
	if (!rc)
		rc = zr_trainer_save(&m->t, err);
	if (!rc)
		rc = zr_saver_finish(m->t.saver, err);
	if (!rc && zr_saver_stats_of(m->t.saver)->failed)
		rc = zr_err(err, ZR_EIO, "%s", zr_saver_stats_of(m->t.saver)->why);
	return rc;
}

int zr_checkpoint_import(const struct zr_checkpoint_import *how, struct zr_error *err)
{
	struct import m = { .how = how };
	struct zr_config *cfg = NULL;
	char dir[PATH_MAX];

	int rc = zr_config_load(how->conf, how->option, how->options, &cfg, err);
	if (rc)
		return rc;

	zr_cmd_log(cfg);
	m.t.cfg = cfg;
	rc = open_others(&m, err);
	if (!rc)
		rc = take(&m, err);
	if (!rc)
		rc = save(&m, dir, err);
	if (!rc)
		printf("imported    %s of %s, step %lld, to %s\n"
		       "go on with  zeroth train %s -o run.dir=%s --resume auto\n",
		       how->weights ? "the weights" : "all", how->from,
		       (long long)m.t.session->step, dir, how->conf, zr_rundir(cfg));

	zr_others_close(&m.others);
	zr_trainer_leave_dirs(&m.t, rc != 0);
	zr_trainer_close(&m.t);
	zr_config_free(cfg);
	return rc;
}
