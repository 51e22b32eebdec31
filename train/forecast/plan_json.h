/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_json.h - what `zeroth plan --json` prints, which a run leaves as plan.json.
 */
#ifndef ZR_TRAIN_FORECAST_PLAN_JSON_H
#define ZR_TRAIN_FORECAST_PLAN_JSON_H

#include <jansson.h>

#include "core/setup.h"
#include "train/forecast/forecast.h"

#define ZR_PLAN_KEPT "kept by stores" /* for their own use, as for checksums */

/* Layers that run in a phase, ZR_FORWARD and its kin: ZR_RECOMPUTE are those whose forward runs
 * again in backward; ZR_BACKWARD those from the lowest one with a trainable tensor on. */
int zr_plan_uses(const struct zr_setup_programs *p, int32_t phase);

#define ZR_PLAN_FROZEN (-1)

/* The number of tensors of a parameter group, or with ZR_PLAN_FROZEN of those that are in no group,
 * and in *elements the number of their parameters. */
int32_t zr_plan_tensors(const struct zr_setup *s, int32_t group, int64_t *elements);

/* have: bytes of memory that the machine has. The caller owns the result; NULL: out of memory. */
json_t *zr_plan_json(const struct zr_setup *s, uint64_t have, int fits);

/* Writes *plan, of zr_plan_json() before memory was taken, to plan.json of the run directory; NULL:
 * no memory. f: of a step, by what `by` names, is added; seconds 0: none. */
int zr_plan_write(const struct zr_setup *s, json_t *plan, const struct zr_forecast *f,
		  const char *by, struct zr_error *err);

#endif
