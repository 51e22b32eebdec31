/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h - where the rates of a forecast come from: a file that `zeroth bench` wrote, or a card
 * whose data sheet is known. [main]
 */
#ifndef ZR_TRAIN_FORECAST_SOURCE_H
#define ZR_TRAIN_FORECAST_SOURCE_H

#include "core/setup.h"
#include "train/forecast/rates.h"

struct zr_rate_source {
	struct zr_rates rates;
	int known;    /* 0: there are none, which `by` says */
	char by[448]; /* what they are, or what to do to get some */
};

/* The first that is given: a card, a file, [run] rates, this machine's file, which may be absent.
 * With both a card and a file, the file's rates take the place of the card's. path, card: NULL:
 * none. What was given is refused if it is not there. */
int zr_rate_source_open(const char *path, const char *card, const struct zr_config *cfg,
			struct zr_rate_source *out, struct zr_error *err);
/* Network cards of a machine, as "8x400": so many, of so many Gbit/s each. `by` says so. */
int zr_rate_source_network(struct zr_rate_source *r, const char *cards, struct zr_error *err);
void zr_rate_source_close(struct zr_rate_source *r); /* a zeroed one is fine */

/* Whether rates that were measured are those of the setup's device; else `by` says why not. */
int zr_rate_source_suits(struct zr_rate_source *r, const struct zr_setup_facts *f);

/* cards.c: rates that follow from a card's data sheet: peaks, times what our kernels were measured
 * to reach of them. */
int zr_card_rates(const char *card, struct zr_rates *out, struct zr_error *err);
/* What these rates are by, of a card that is known. */
void zr_card_by(const char *card, char *out, size_t room);
/* Operations per second at most, with fp32 sums; 0: the device is no known card. */
double zr_card_peak(const char *device, int32_t dtype);
/* Bytes per second that collectives reach of so many bit per second of a network. */
double zr_network_rate(double bits);
/* Bytes of memory of a card; 0: not known. */
uint64_t zr_card_memory(const char *card);

#endif
