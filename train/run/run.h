/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - a whole training run: setup, fit, run directory, steps, evaluations, signals, weights,
 * summary. [main]
 */
#ifndef ZR_TRAIN_RUN_RUN_H
#define ZR_TRAIN_RUN_RUN_H

#include "core/exec/graphs.h"
#include "files/checkpoint/checkpoint.h"
#include "train/forecast/breakdown.h"
#include "train/run_eval.h"

struct zr_run_report {
	int rank, world;
	/* attempted steps of the whole run, also those before a checkpoint; steps of these that
	 * were skipped */
	int64_t steps, skipped;
	int64_t total_tokens;  /* tokens of these steps */
	int64_t resumed;       /* step of the checkpoint that the run resumed from; -1: none */
	double resume_seconds; /* to read it */
	struct zr_saver_stats checkpoints;
	int64_t process_steps, tokens; /* of this process alone */
	/* duration of its training, with evaluations and saving */
	double seconds;
	double step_seconds, tokens_per_s; /* of its steps alone */
	float first_loss, last_loss;
	int64_t evals;                           /* evaluations of this process */
	int64_t eval_from, eval_at;              /* steps done at the first of them, at the last */
	int n_sets;                              /* that each of these had */
	struct zr_run_set set[ZR_EVAL_SETS + 1]; /* valid but for what it points to, if evals > 0 */
	struct zr_best best; /* of the evaluations that decide; step -1: none do */
	int enough;          /* 1: [train] patience ended it; stopped_text says why */
	int64_t parameters;
	/* bytes per step that rank 0 receives from other ranks: recorded and measured */
	uint64_t received_plan, received;
	int breakdown; /* 1: the parts of a step are wanted: */
	/* seconds in all steps of this process: of rank 0, of the rank with fewest, with most */
	struct zr_parts part, part_min, part_max;
	/* sum over the updates after the first one, and number of these updates */
	double update_seconds;
	int64_t updates;
	uint64_t planned, process_peak; /* bytes */
	uint64_t losses_digest, params_digest;
	int interrupted; /* signal number, or 0 */
	int exported;    /* model-16bit/ is there */
	int adapters;    /* and adapters, instead of the model */
	int stopped;     /* ZR_ENUMERIC if non-finite numbers ended it, or 0 */
	char stopped_text[1024];
	int graphed; /* 1: the device makes graphs: */
	struct zr_graph_counts graphs;
	char device[64], variant[64];
	char experts_variant[64]; /* of what computes experts on the host; "": the device does */
};

struct zr_run_how {
	const char *from; /* "auto" or a path, see resume.h; NULL: a new run */
	int other_data;   /* whose data need not be that of the checkpoint */
	int verify;       /* ranks compare all bytes of their files, see alike.h */
	/* *out: [vocabulary] bytes of the text of each token, to be freed, or NULL: not known. The
	 * same on all ranks. NULL: nobody asks. */
	int (*bytes)(const struct zr_setup *s, uint16_t **out, struct zr_error *err);
};

/* Runs until train.steps, a signal of signals.h (after the step), or a non-finite stop; the weights
 * and the summary are written in each of these cases and the report is filled. how: NULL for a
 * new run. Negative on any other failure. Signals stay caught, so that the process can report and
 * end. */
int zr_run_train(struct zr_config *cfg, const struct zr_run_how *how, FILE *out,
		 struct zr_run_report *report, struct zr_error *err);

/* summary.c: the report as summary.json in the run directory. */
struct zr_setup;
int zr_summary_write(const struct zr_setup *s, const struct zr_run_report *r, struct zr_error *err);

#endif
