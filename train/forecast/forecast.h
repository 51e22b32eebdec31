/* SPDX-License-Identifier: Apache-2.0
 *
 * forecast.h - how long a step takes, before it runs: the costs of the instructions of its programs
 * by the rates of a machine, on the queues and with the dependencies that the executor has. All
 * ranks are taken to be alike and to arrive together. [main]
 *
 *   cost of an instruction = its work / the rate at its size            (tally.c, cost.c)
 *   it starts when the thread that issues it is there, what it waits for is over and its queue is
 *   free; it ends `cost` later                                           (simulate.c)
 */
#ifndef ZR_TRAIN_FORECAST_FORECAST_H
#define ZR_TRAIN_FORECAST_FORECAST_H

#include "core/setup.h"
#include "train/forecast/rates.h"

struct zr_forecast {
	double seconds;             /* of a step */
	double queue[ZR_QUEUES];    /* that each is busy with it */
	double program[ZR_LOWERED]; /* that each takes in it, all its runs together */
	double critical;            /* if no queue had to wait for anything but dependencies */
	double flops;               /* of products and attention of this rank in a step */
	double again;               /* of these, those of what is computed again */
	double guessed;             /* seconds in `queue` by bytes alone: no rate was measured */
	uint64_t received;          /* bytes from other ranks in a step */
	uint64_t read, written;     /* bytes of stores on disk */
	uint64_t copied;            /* bytes between memories */
	int binding;                /* ZR_Q_* of the queue that is busy longest */
};

/* s: with ranks that are there, or planned for alone. Calls the model's layers with operations that
 * compute nothing. Fails if a layer fails, or memory runs out. */
int zr_forecast_make(struct zr_setup *s, const struct zr_rates *rates, struct zr_forecast *out,
		     struct zr_error *err);

/* cost.c: seconds of each instruction of a program, and what it adds to the sums of *f but seconds:
 * cost [p->n]. beside [p->n]: those that an instruction on another queue takes from what computes,
 * as checksums of what a disk moves do. */
int zr_forecast_costs(struct zr_setup *s, const struct zr_rates *rates, const struct zr_lowered *p,
		      double *cost, double *beside, struct zr_forecast *f, struct zr_error *err);

/* simulate.c: seconds of one run of a program; with `unbound`, queues take any number at once.
 * beside: NULL: none. end: [p->n] work memory. */
double zr_forecast_run(const struct zr_setup_facts *f, const struct zr_lowered *p,
		       const double *cost, const double *beside, int unbound, double *end);

#endif
