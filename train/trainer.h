/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.h - one rank's training, from its configuration to its end: what `zeroth train` and
 * libzeroth do alike. Who trains decides when to step, evaluate and save, and what to print.
 *
 * The order of calls: find, setup, check_dirs, open, ready, resume, begin, open_saver, open_dirs,
 * open_metrics, then steps, evaluations and saves, leave_dirs and close. A new training leaves out
 * find and resume. Who writes no files leaves out check_dirs, open_saver, open_dirs, open_metrics
 * and leave_dirs. All functions but those that say otherwise are collective over the ranks. A
 * failure is final, but that of a checkpoint. [main]
 */
#ifndef ZR_TRAIN_TRAINER_H
#define ZR_TRAIN_TRAINER_H

#include <limits.h>

#include "files/checkpoint/checkpoint.h"
#include "train/forecast/breakdown.h"
#include "train/lock.h"
#include "train/metrics.h"
#include "train/pace.h"
#include "train/run_eval.h"

struct zr_trainer {
	struct zr_config *cfg;  /* borrowed, set by the caller; all else is zero at first */
	struct zr_setup *setup; /* what follows is owned */
	struct zr_session *session;
	struct zr_eval_sets evals;
	struct zr_metrics *metrics; /* of rank 0; NULL: nobody is told */
	struct zr_saver *saver;     /* NULL: nothing is saved */
	struct zr_pace pace;
	float *losses; /* [train.steps] of every step, also before a checkpoint */
	int rank0;     /* 1: this is rank 0 */
	int begun;     /* parameters have values */

	char from[PATH_MAX]; /* where it resumes from; "": it is a new training */
	int64_t resumed;     /* steps of the checkpoint there; -1: none was read */
	int64_t first;       /* steps that came before this process */

	struct zr_locks locks; /* of the directories below, on rank 0 */
	/* how many directories were made for the run, and for checkpoints that lie elsewhere */
	int made, made_checkpoints;

	struct zr_step_result result; /* of the last step */
	struct zr_error stopped;      /* why the training ends with it; code 0: it goes on */
	int pending;                  /* the monitors do not know of that yet */
};

/* Roles, layout and plan, without memory, and whether they can be trained, exported and held.
 * machine: bytes of its memory; 0: what it had available, see fit.h. */
int zr_trainer_setup(struct zr_trainer *t, uint64_t machine, struct zr_error *err);

/* Rank 0 alone: whether the directories that the training will write to can be made, or gone on
 * with. Nothing is made. */
int zr_trainer_check_dirs(struct zr_trainer *t, struct zr_error *err);

/* Takes all memory, once all ranks are known to read the same files: all bytes of them with
 * `verify`, see alike.h. */
int zr_trainer_open(struct zr_trainer *t, int verify, struct zr_error *err);

/* Opens the evaluations, and reads the frozen tensors that checkpoints leave out, with which a
 * checkpoint is then compared. */
int zr_trainer_ready(struct zr_trainer *t, struct zr_error *err);

/* Where a training resumes from: t->from. name: "auto" or a path, see resume.h. libzeroth calls it
 * after ready, when its program asks for it. Not collective. */
int zr_trainer_find(struct zr_trainer *t, const char *name, struct zr_error *err);
/* Goes on from the checkpoint there. other_data: the data need not be that of the checkpoint. name:
 * as before; with "auto" and no checkpoint t->resumed stays -1. */
int zr_trainer_resume(struct zr_trainer *t, const char *name, int other_data, struct zr_error *err);

/* Gives parameters their first values, unless they have some. */
int zr_trainer_begin(struct zr_trainer *t, struct zr_error *err);

/* dir: where checkpoints go, as rank 0 has it. */
int zr_trainer_open_saver(struct zr_trainer *t, const char *dir, struct zr_error *err);

/* Rank 0 alone: dir = where checkpoints go; makes and locks it where it lies outside the run's.
 * After a failure it may be called again. */
int zr_trainer_open_checkpoints(struct zr_trainer *t, char dir[PATH_MAX], struct zr_error *err);
/* Rank 0 alone: makes and locks the directories of the run and of checkpoints. */
int zr_trainer_open_dirs(struct zr_trainer *t, struct zr_error *err);
/* Rank 0 alone: opens the monitors. */
int zr_trainer_open_metrics(struct zr_trainer *t, struct zr_error *err);

/* One step. stop: see zr_session_step. t->result is what it was, t->stopped says whether the
 * training ends with it. Rank 0 warns of a step that was skipped. */
int zr_trainer_step(struct zr_trainer *t, int stop, struct zr_error *err);

/* Evaluates one set after the last step. The monitors get its numbers with those of this step. */
int zr_trainer_evaluate(struct zr_trainer *t, struct zr_run_set *set, const struct zr_eval_how *how,
			struct zr_error *err);

/* The numbers of the last step, of the evaluations that followed it, and `part`, see breakdown.h
 * (NULL: not wanted). Returns how many. Not collective. */
uint32_t zr_trainer_numbers(const struct zr_trainer *t, const struct zr_parts *part,
			    struct zr_metric m[ZR_METRICS_PER_STEP]);
/* Not collective: rank 0 gives the monitors what they do not know yet of the last step. */
void zr_trainer_push(struct zr_trainer *t, const struct zr_parts *part);

/* XXH3-64 of the losses of all steps so far. Not collective. */
uint64_t zr_trainer_losses_digest(const struct zr_trainer *t);

/* Saves a checkpoint, which is in progress afterwards with [checkpoint] async. */
int zr_trainer_save(struct zr_trainer *t, struct zr_error *err);

/* Nothing is saved, and no monitor told, any more: gives up the directories. made_only: removes
 * those that were made here and have nothing but the files of a training that did nothing. Not
 * collective. */
void zr_trainer_leave_dirs(struct zr_trainer *t, int made_only);

/* Frees all. A zeroed one is fine. */
void zr_trainer_close(struct zr_trainer *t);

#endif
