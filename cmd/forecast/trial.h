/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.h - a configuration with other values in place of some of its own, planned but not run: the
 * rows of comparisons and searches. [main]
 */
#ifndef ZR_CMD_FORECAST_TRIAL_H
#define ZR_CMD_FORECAST_TRIAL_H

#include "cmd/cmd.h"
#include "cmd/forecast/forecast.h"
#include "cmd/forecast/source.h"

#define ZR_TRIAL_SETS 16

struct zr_trial {
	const char *set[ZR_TRIAL_SETS]; /* "section.key=value"; ends with NULL; borrowed */
	int ranks;
	/* filled by zr_trial_run: */
	int refused; /* 1: `why` says what cannot be */
	char why[256];
	uint64_t device, host, disk; /* bytes of a rank */
	uint64_t machine;	     /* and of all that share its memory */
	int separate;		     /* the device has a memory of its own */
	int forecast;		     /* 1: f is known */
	double tokens;		     /* of a step */
	struct zr_forecast f;
};

/* Plans a->operand with the overrides of `a`, but for what either says of [offload.X], and with
 * those of the trial. Fails only where memory ran out. */
int zr_trial_run(const struct zr_cmd_args *a, struct zr_rate_source *rates, struct zr_trial *t,
		 struct zr_error *err);

/* compare.c: a table of stages and tiers. */
int zr_plan_compare(const struct zr_cmd_args *a, struct zr_rate_source *rates,
		    struct zr_error *err);

#endif
