/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.h - how far a run is, how fast it goes, and how close that is to what its machine can do.
 * [step] but for begin
 */
#ifndef ZR_TRAIN_PACE_H
#define ZR_TRAIN_PACE_H

#include <jansson.h>

#include "core/session.h"

#define ZR_PACE_METRICS 11 /* most of them */

struct zr_pace {
	/* known from the start; 0: not known */
	int64_t step_tokens, step_sequences; /* of all ranks */
	int64_t epoch_sequences;
	double flops;    /* of a step and all ranks, without what is computed again */
	double nominal;  /* per second of all ranks, as the maker of the device says */
	double product;  /* and as products of matrices were measured to reach */
	double forecast; /* seconds of a step, and what it is bound by */
	const char *binding;
	uint64_t device_bytes; /* that are planned there; 0: host and device are one */

	/* of the run so far */
	double started; /* zr_now(), less what passed before a checkpoint */
	int64_t tokens;
	double epoch; /* NAN: not known */

	/* of the last step */
	double seconds, tokens_per_s;
	double smooth; /* seconds of one of about the last ten steps, but for the first */
	int64_t steps; /* of this process */
	double mfu, mfu_product, possible; /* parts of 1; NAN: not known */
};

/* elapsed: seconds of the run that this one continues. [main] */
void zr_pace_begin(struct zr_pace *p, const struct zr_setup *s, double elapsed);
/* What the machine can do, by a file of `zeroth bench`, if there is one that was measured on this
 * device, and what a step takes by it: plan.json of the run directory, which has `plan`, says so,
 * too. [main] */
int zr_pace_forecast(struct zr_pace *p, struct zr_setup *s, json_t *plan, struct zr_error *err);
void zr_pace_step(struct zr_pace *p, int64_t step, double seconds);
double zr_pace_elapsed(const struct zr_pace *p); /* seconds */

/* Returns how many. */
uint32_t zr_pace_metrics(const struct zr_pace *p, struct zr_metric m[ZR_PACE_METRICS]);

/* Seconds that a run took until a step, by metrics.jsonl of its directory or, where that begins
 * here, of the one that has the checkpoint or checkpoints; 0: not known. [main] */
double zr_pace_elapsed_before(const char *run, const char *checkpoint, int64_t step);

#endif
