/* SPDX-License-Identifier: Apache-2.0
 *
 * tally.h - what the operations of a layer would cost: a table of operations that computes nothing
 * and touches no memory, but adds up their work and, by the rates of a machine, their seconds. A
 * model is given it in place of the device's. [main]
 */
#ifndef ZR_TRAIN_FORECAST_TALLY_H
#define ZR_TRAIN_FORECAST_TALLY_H

#include <zeroth/device.h>

#include "train/forecast/rates.h"

#define ZR_TALLY_BITS 8

/* A rate that was asked for: large programs ask for few, millions of times. */
struct zr_tally_asked {
	char name[ZR_RATE_NAME];
	double at[ZR_RATE_DIMS], rate;
};

struct zr_tally {
	struct zr_ops ops;         /* whose `dev` is this struct */
	const struct zr_ops *real; /* answers queries of work memory */
	const struct zr_rates *rates;
	int ranks, threads; /* how many do the same at once */
	int streams;        /* the device computes while it reads its memory, as cards do */
	int on_host;        /* what is asked for runs beside the device: "host.NAME" */
	double seconds;
	double flops; /* of products and attention, as they are usually counted: 2 per multiply and
			 add */
	double without; /* seconds of operations of which no rate is known, guessed by bytes that
			   they touch */
	struct zr_tally_asked asked[1 << ZR_TALLY_BITS];
};

void zr_tally_open(struct zr_tally *t, const struct zr_ops *real, const struct zr_rates *rates,
		   int ranks, int threads);

/* Seconds of `work` at the rate of `name`, whose size has `dims` numbers; 0: no such rate. */
double zr_tally_seconds(struct zr_tally *t, double work, const char *name, int dims, double a,
			double b, double c);

/* Seconds to touch so many bytes, half of them written. */
double zr_tally_bytes(struct zr_tally *t, double bytes);

#endif
