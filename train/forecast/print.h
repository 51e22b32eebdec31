/* SPDX-License-Identifier: Apache-2.0
 *
 * print.h - a forecast for people and for programs. [main]
 */
#ifndef ZR_TRAIN_FORECAST_PRINT_H
#define ZR_TRAIN_FORECAST_PRINT_H

#include <jansson.h>

#include "train/forecast/forecast.h"

/* Seconds with a unit that suits them: "1.32 s", "45.1 ms". */
const char *zr_seconds_text(double s, char buf[32]);

/* endurance: bytes that may be written to the disks of a machine in their life; 0: not stated.
 * Warns where this is over in less than a year. */
void zr_forecast_print(const struct zr_setup_facts *facts, const struct zr_forecast *f,
		       const char *by, double endurance);

/* NULL: no memory. */
json_t *zr_forecast_json(const struct zr_setup_facts *facts, const struct zr_forecast *f,
			 const char *by, double endurance);

/* Bytes that a rank writes to disks in a day of such steps. */
double zr_forecast_wear(const struct zr_forecast *f);

#endif
