/* SPDX-License-Identifier: Apache-2.0
 *
 * raise.h - the largest of numbers that several threads have, in memory that they share. A maximum
 * has no order, so the bits do not depend on who comes first.
 */
#ifndef ZEROTH_KERNELS_CPU_RAISE_H
#define ZEROTH_KERNELS_CPU_RAISE_H

#include "scalar.h"

/* *to becomes x where that is larger; a NaN is not. */
static inline void zr_raise(zr_real *to, zr_real x)
{
	zr_real seen;

	__atomic_load(to, &seen, __ATOMIC_RELAXED);
	while (x > seen &&
	       !__atomic_compare_exchange(to, &seen, &x, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

#endif
