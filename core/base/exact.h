/* SPDX-License-Identifier: Apache-2.0
 *
 * exact.h - sums of doubles without rounding, so that order, threads and ranks cannot change them
 * (invariant I1). A fixed-point number wide enough for every finite double (Kulisch's accumulator):
 * 32-bit digits in 64-bit limbs, so that 2^30 additions need no carry and two accumulators add limb
 * by limb, as integers, in any order: that is what ranks exchange.
 */
#ifndef ZR_CORE_BASE_EXACT_H
#define ZR_CORE_BASE_EXACT_H

#include <stdint.h>

#define ZR_EXACT_LIMBS 68 /* 2^-1088 .. 2^1088 in 32-bit digits */

struct zr_exact {
	int64_t limb[ZR_EXACT_LIMBS];
	int64_t adds;      /* since the last carry */
	int64_t nonfinite; /* NaN or infinite terms: counted, not added */
};

void zr_exact_add(struct zr_exact *e, double x);
void zr_exact_merge(struct zr_exact *e, const struct zr_exact *other);
/* the sum, rounded once (half to even); NaN if nonfinite > 0 */
double zr_exact_value(struct zr_exact *e);

#endif
