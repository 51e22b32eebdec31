/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h - what a user sees of a training: on a terminal one line that is redrawn, elsewhere
 * plain lines, and a line for every evaluation. The control thread of rank 0 writes them to stdout.
 */
#ifndef ZR_TRAIN_RUN_PROGRESS_H
#define ZR_TRAIN_RUN_PROGRESS_H

#include <stdio.h>

#include "train/evaluate.h"
#include "train/pace.h"
#include "train/run/timeline.h"

/* What steps wait for: evaluations, checkpoints. */
enum { ZR_PAUSE_EVAL, ZR_PAUSE_SAVE, ZR_PAUSES };

struct zr_pause {
	int64_t every;  /* steps, and after the last one; 0: never */
	double seconds; /* of the last time; 0: there was none */
};

struct zr_progress {
	FILE *out;
	int tty;
	int64_t total, every; /* steps; steps between plain lines */
	const struct zr_pace *pace;
	double last, ema; /* seconds; ema of one step's time and what follows it */
	struct zr_pause pause[ZR_PAUSES];
	double last_drawn;
	double val_loss;
	int have_val;
	int scaled;            /* there is a loss scale to show */
	int qk_clip;           /* and a largest score */
	struct zr_parts parts; /* since the line of parts before, */
	int64_t parts_of;      /* of so many steps */
};

const char *zr_duration_text(double seconds, char buf[32]);

/* pace lives as long as p. */
void zr_progress_begin(struct zr_progress *p, FILE *out, const struct zr_setup *s,
		       const struct zr_pace *pace, uint64_t every);
void zr_progress_step(struct zr_progress *p, int64_t step, const struct zr_step_result *r);
/* The parts of a step, which come as a line every so many steps. */
void zr_progress_parts(struct zr_progress *p, int64_t step, const struct zr_parts *part);
void zr_progress_round(struct zr_progress *p, int64_t done, int64_t all); /* of an evaluation */
/* name: of the set, "": the held-out part. */
void zr_progress_eval(struct zr_progress *p, int64_t step, const char *name,
		      const struct zr_eval_result *r);
/* Call it when a pause ends that began when the last step ended. */
void zr_progress_pause(struct zr_progress *p, int which);
void zr_progress_end(struct zr_progress *p);

#endif
