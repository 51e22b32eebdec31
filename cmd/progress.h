/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.h - what a user sees of a training: on a terminal one line that is redrawn, elsewhere
 * plain lines, and a line for every evaluation. The control thread of rank 0 writes them to stdout.
 */
#ifndef ZR_CMD_PROGRESS_H
#define ZR_CMD_PROGRESS_H

#include <stdio.h>

#include "core/session.h"

struct zr_progress {
	FILE *out;
	int tty;
	int64_t total, every;     /* steps; steps between plain lines */
	double start, last, ema;  /* seconds; ema of one step's time */
	double last_drawn;
	double val_loss;
	int have_val;
	uint64_t device_bytes;    /* planned on the device's tier */
	int unified;
	int scaled;               /* there is a loss scale to show */
	double tokens_per_s;      /* of the last step */
};

uint64_t zr_process_memory(void); /* resident bytes of this process, no allocation */
const char *zr_duration_text(double seconds, char buf[32]);

void zr_progress_begin(struct zr_progress *p, FILE *out, const struct zr_setup *s, uint64_t every);
void zr_progress_step(struct zr_progress *p, int64_t step, const struct zr_step_result *r);
void zr_progress_round(struct zr_progress *p, int64_t done, int64_t all); /* of an evaluation */
/* name: of the set, "": the held-out part. */
void zr_progress_eval(struct zr_progress *p, int64_t step, const char *name, double loss,
		      double accuracy);
void zr_progress_end(struct zr_progress *p);

#endif
