/* SPDX-License-Identifier: Apache-2.0
 *
 * account.h - the ledger: bytes per tier and category, planned and held. What the plan says and
 * what is allocated meet here (invariant I2).
 */
#ifndef ZR_CORE_ACCOUNT_H
#define ZR_CORE_ACCOUNT_H

#include <stdint.h>

#define ZR_ACCOUNT_MAX 32

struct zr_account_line {
	const char *what; /* "parameters", "gradients", ...: static */
	int32_t tier;     /* ZR_TIER_* of zeroth/zero.h */
	uint64_t held;    /* bytes allocated now */
	uint64_t peak;
};

struct zr_account {
	struct zr_account_line line[ZR_ACCOUNT_MAX];
	int n;
};

/* What was allocated, or, negative, given back. */
void zr_account_add(struct zr_account *a, int tier, const char *what, int64_t bytes);

#endif
