/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h - what a run says before its first step, and what is known of it at its end. [main]
 */
#ifndef ZR_TRAIN_RUN_REPORT_H
#define ZR_TRAIN_RUN_REPORT_H

#include "train/run/run.h"
#include "train/run/timeline.h"
#include "train/trainer.h"

/* Prints model, data, device, batch, memory and directory: rank 0 alone. */
void zr_run_announce(const struct zr_trainer *t, FILE *out);

/* Fills what follows from the trainer and the timeline. Collective. */
int zr_run_report_end(struct zr_run_report *rep, const struct zr_trainer *t,
		      const struct zr_timeline *timeline, struct zr_error *err);

#endif
