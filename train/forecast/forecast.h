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

/* What goes on at the same time in a forecast: the queues of the engine, ZR_Q_*, but that a card
 * copies to its memory and from it at once. */
enum zr_forecast_queue { ZR_FQ_IN = ZR_QUEUES, ZR_FQ_OUT, ZR_FORECAST_QUEUES };

struct zr_forecast {
	double seconds;                   /* of a step */
	double queue[ZR_FORECAST_QUEUES]; /* that each is busy with it */
	double program[ZR_LOWERED];       /* that each takes in it, all its runs together */
	double critical;        /* if no queue had to wait for anything but dependencies */
	double flops;           /* of products and attention of this rank in a step */
	double again;           /* of these, those of what is computed again */
	double guessed;         /* seconds in `queue` by bytes alone: no rate was measured */
	uint64_t received;      /* bytes from other ranks in a step */
	uint64_t read, written; /* bytes of stores on disk */
	uint64_t copied;        /* bytes between memories */
	int binding;            /* the queue that is busy longest */
};

/* s: with ranks that are there, or planned for alone. Calls the model's layers with operations that
 * compute nothing. Fails if a layer fails, or memory runs out. */
int zr_forecast_make(struct zr_setup *s, const struct zr_rates *rates, struct zr_forecast *out,
		     struct zr_error *err);

/* "compute", "copy in" */
const char *zr_forecast_queue_name(int queue);

/* Of an instruction. */
struct zr_cost {
	double seconds; /* on its queue */
	double beside;  /* that it takes from what computes, as checksums of what a disk moves do */
	int queue;      /* enum zr_forecast_queue, or ZR_Q_* */
};

/* cost.c: that of each instruction of a program, cost [p->n], and what it adds to the sums of *f
 * but seconds. */
int zr_forecast_costs(struct zr_setup *s, const struct zr_rates *rates, const struct zr_lowered *p,
		      struct zr_cost *cost, struct zr_forecast *f, struct zr_error *err);

/* simulate.c: seconds of one run of a program; with `unbound`, queues take any number at once.
 * end: [p->n] work memory. */
double zr_forecast_run(const struct zr_setup_facts *f, const struct zr_lowered *p,
		       const struct zr_cost *cost, int unbound, double *end);

#endif
