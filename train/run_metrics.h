/* SPDX-License-Identifier: Apache-2.0
 *
 * run_metrics.h - what monitors are told of a step. [step]
 */
#ifndef ZR_TRAIN_RUN_METRICS_H
#define ZR_TRAIN_RUN_METRICS_H

#include "train/forecast/breakdown.h"
#include "train/metrics.h"
#include "train/pace.h"
#include "train/run_eval.h"

struct zr_run_step {
	const struct zr_setup *setup;
	const struct zr_step_result *result;
	const struct zr_pace *pace;
	int64_t step;                     /* its number, from 1 */
	const struct zr_eval_sets *evals; /* of which those after this step count */
	const struct zr_parts *part;      /* NULL: not wanted */
};

/* Returns how many. */
uint32_t zr_run_metrics(const struct zr_run_step *s, struct zr_metric m[ZR_METRICS_PER_STEP]);

#endif
