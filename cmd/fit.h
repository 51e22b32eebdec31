/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.h - whether a plan fits this machine, and bytes for people.
 */
#ifndef ZR_CMD_FIT_H
#define ZR_CMD_FIT_H

#include "core/setup.h"

/* ZR_EFIT with needed, available and what to change, if the plan exceeds a tier of this rank, or with those of all ranks
 * here the machine. machine: its bytes of memory, 0: what this one has available. */
int zr_plan_check(const struct zr_setup *s, uint64_t machine, struct zr_error *err);

const char *zr_tier_name(int32_t tier); /* ZR_TIER_* */

/* "12.3 MiB" into buf, which it returns. */
const char *zr_bytes_text(uint64_t bytes, char buf[32]);

#endif
