/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.h - whether a plan fits this machine, and bytes for people.
 */
#ifndef ZR_CMD_FIT_H
#define ZR_CMD_FIT_H

#include "core/setup.h"

/* What the machine had available when this was first called, by this process or by the one that forked it: main() does so
 * before anything is taken. Later some of what zr_plan_need counts is gone from it, and ranks do not see the same. */
uint64_t zr_memory_at_start(void);

/* Bytes of this machine's memory that all its ranks take, each like this one: the plan, and what plugins hold already. */
uint64_t zr_plan_need(const struct zr_setup *s);

/* ZR_EFIT with needed, available and what to change, if the plan exceeds a tier of this rank, or with those of all ranks
 * here the machine. machine: its bytes of memory, 0: what this one had available. */
int zr_plan_check(const struct zr_setup *s, uint64_t machine, struct zr_error *err);

const char *zr_tier_name(int32_t tier); /* ZR_TIER_* */

/* "12.3 MiB" into buf, which it returns. */
const char *zr_bytes_text(uint64_t bytes, char buf[32]);

#endif
