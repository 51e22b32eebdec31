/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.h - whether a plan fits this machine, what this process takes of it, and numbers of bytes as
 * text.
 */
#ifndef ZR_TRAIN_FIT_H
#define ZR_TRAIN_FIT_H

#include "core/setup.h"

/* The memory that the machine had available when this function was first called, by this process or
 * by the one that forked it. main() calls it before anything is allocated: later the ranks would
 * see different numbers, without the memory that they already hold and that zr_plan_need counts. */
uint64_t zr_memory_at_start(void);

uint64_t zr_process_memory(void); /* resident bytes of this process, no allocation */

/* Bytes that all regions add, and what is kept; bytes that several regions take in turn, counted
 * once too often. */
uint64_t zr_plan_tier(const struct zr_plan *p, int tier);
uint64_t zr_plan_shared(const struct zr_plan *p, int tier);

/* Bytes of this machine's memory that all its ranks need, if each needs as much as this one: the
 * plan, and what plugins hold already. */
uint64_t zr_plan_need(const struct zr_setup *s);

/* ZR_EFIT, with the bytes needed, the bytes available and advice, if the plan exceeds a tier of
 * this rank, or if all ranks of this machine exceed its memory. machine: bytes of its memory; 0:
 * what this machine had available. */
int zr_plan_check(const struct zr_setup *s, uint64_t machine, struct zr_error *err);

const char *zr_tier_name(int32_t tier); /* ZR_TIER_* */

/* "12.3 MiB" into buf, which it returns. */
const char *zr_bytes_text(uint64_t bytes, char buf[32]);

#endif
