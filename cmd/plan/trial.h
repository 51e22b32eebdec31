/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.h - a configuration with other values in place of some of its own, planned but not run: the
 * rows of comparisons and searches. [main]
 */
#ifndef ZR_CMD_PLAN_TRIAL_H
#define ZR_CMD_PLAN_TRIAL_H

#include <jansson.h>

#include "cmd/cmd.h"
#include "train/forecast/forecast.h"
#include "train/forecast/source.h"

/* What `zeroth plan` is asked. */
struct zr_plan_args {
	const char *operand;
	const char *overrides[ZR_CMD_OVERRIDES];
	int n_overrides, json, ranks; /* ranks 0: not given */
	int program, compare, no_compare, fit;
	uint64_t memory, device, host, disk;        /* bytes, 0: not given */
	double endurance;                           /* 10^15 bytes, 0: not given */
	const char *rates, *card, *network, *scale; /* NULL: not given */
};

/* The first file of data that is not there, as cfg has it; NULL: all are there. */
const char *zr_data_absent(const struct zr_config *cfg);
/* The setup of a plan for so many ranks. Where data is absent, none is looked at: the vocabulary is
 * the model's. */
int zr_plan_open(struct zr_config *cfg, int ranks, struct zr_setup **out, struct zr_error *err);
#define ZR_DATA_ABSENT "the data was not looked at: %s is not there"

#define ZR_TRIAL_SETS 16

struct zr_trial {
	const char *set[ZR_TRIAL_SETS]; /* "section.key=value"; ends with NULL; borrowed */
	int ranks;
	int keep_offload; /* 1: its own [offload.X] count */
	/* filled by zr_trial_run: */
	int refused; /* 1: `why` says what cannot be */
	char why[256];
	uint64_t device, host, disk; /* bytes of a rank */
	uint64_t machine;            /* and of all that share its memory */
	int separate;                /* the device has a memory of its own */
	int clips;                   /* gradients are clipped */
	int device_sums;             /* and adds up micro-batches whose sums lie elsewhere */
	int forecast;                /* 1: f is known */
	double tokens;               /* of a step */
	int64_t sequences;
	struct zr_forecast f;
};

/* Plans a->operand with the overrides of `a`, but for what either says of [offload.X], and with
 * those of the trial. Fails only where memory ran out. */
int zr_trial_run(const struct zr_plan_args *a, struct zr_rate_source *rates, struct zr_trial *t,
		 struct zr_error *err);

/* "zero.plugin=stage0" and so on. */
extern const char *const zr_trial_stage[];

/* Where state and parameters may lie. */
struct zr_tiers {
	const char *name;
	const char *set[5]; /* ends with NULL */
	int stage3;         /* 1: parameters move, which only stage 3 can */
	int host;           /* 1: makes a difference only if the device has a memory of its own */
};
extern const struct zr_tiers zr_trial_tiers[];
extern const int zr_n_trial_tiers;

/* Whether these tiers make sense with a stage, on a device with a memory of its own or not. */
int zr_tiers_suit(const struct zr_tiers *o, int stage, int separate);

/* Adds a value to those of a trial; NULL adds none. */
void zr_trial_set(struct zr_trial *t, const char *set);
void zr_trial_set_all(struct zr_trial *t, const char *const *sets); /* ends with NULL */

/* Bytes of a rank, and its step; "refused" where it cannot be. NULL: no memory. */
json_t *zr_trial_json(const struct zr_trial *t);

/* compare.c: a table of stages and tiers, or, with a->json, an array of it in *out. */
int zr_plan_compare(const struct zr_plan_args *a, struct zr_rate_source *rates, json_t **out,
		    struct zr_error *err);

/* search.c: the fastest that fits a->device, host and disk. ZR_EFIT: nothing does. */
int zr_plan_search(const struct zr_plan_args *a, struct zr_rate_source *rates,
		   struct zr_error *err);

/* scale.c: a row for each number of ranks in a->scale. peak: of a card, 0: not known. */
int zr_plan_scale(const struct zr_plan_args *a, struct zr_rate_source *rates, double peak,
		  struct zr_error *err);

#endif
