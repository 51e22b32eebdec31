/* SPDX-License-Identifier: Apache-2.0
 *
 * traffic.h - what a step moves between ranks, by its programs.
 */
#ifndef ZR_TRAIN_FORECAST_TRAFFIC_H
#define ZR_TRAIN_FORECAST_TRAFFIC_H

#include "core/setup.h"

/* Bytes that this rank receives in one step. */
uint64_t zr_traffic_received(const struct zr_setup *s);

#endif
