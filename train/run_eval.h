/* SPDX-License-Identifier: Apache-2.0
 *
 * run_eval.h - the evaluations of a training: the held-out part of [data] and each [eval.NAME], and
 * what follows from the one that [train] best_by names. [step] but for open
 */
#ifndef ZR_TRAIN_RUN_EVAL_H
#define ZR_TRAIN_RUN_EVAL_H

#include "files/checkpoint/manifest.h"
#include "train/evaluate.h"

struct zr_run_set {
	const char *name; /* NAME; "": the held-out part */
	/* of its metrics: loss, accuracy; of the held-out part val_loss and "" */
	char key[2][96];
	struct zr_eval_set set;
	struct zr_eval_result first, last; /* of this process */
	int64_t at;                        /* steps done at the last; -1: there was none */
};

#define ZR_EVAL_SETS 8 /* beside the held-out part */

struct zr_eval_sets {
	struct zr_session *session;
	int n;
	int64_t times;    /* that all were evaluated */
	int64_t from, at; /* steps done at the first evaluation, at the last */
	struct zr_run_set set[ZR_EVAL_SETS + 1];
	struct zr_run_set *best_by; /* NULL: none decides */
	struct zr_best best;        /* with what a checkpoint knew */
	int improved;               /* the last time did */
};

/* Which there are; none is no failure, unless something is to go by it. */
int zr_run_evals_open(struct zr_session *s, struct zr_eval_sets *out, struct zr_error *err);

/* Evaluates one of them after `step`; what follows from it is decided where it is best_by. */
int zr_run_eval(struct zr_eval_sets *e, struct zr_run_set *set, int64_t step,
		const struct zr_eval_how *how, struct zr_error *err);
/* Evaluates all after `step`; step 0, before any update, is not compared. One at a run's end,
 * between two of [train] eval_every, may be the best, but patience does not count it: a run that
 * goes on from there ends where one without that end does. */
int zr_run_all_evals(struct zr_eval_sets *e, int64_t step, const struct zr_eval_how *how,
		     struct zr_error *err);
/* What one evaluation changes; `counts`: it is one of those that patience waits for. Returns
 * whether it is the best so far. */
int zr_best_note(struct zr_best *b, double loss, int64_t step, int counts);
/* Whether [train] patience is at its end, with the line that says so. */
int zr_run_evals_stop(const struct zr_eval_sets *e, char *why, size_t size);

#endif
