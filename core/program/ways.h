/* SPDX-License-Identifier: Apache-2.0
 *
 * ways.h - of a program that is being recorded: operations that go a way of several legs, and moves of activations.
 */
#ifndef ZR_CORE_WAYS_H
#define ZR_CORE_WAYS_H

#include <stdint.h>

#include "core/error.h"

struct zr_way {
	int32_t op, left; /* number of the operation; legs that it has not begun */
	int32_t over;     /* 1: it was waited for */
};

struct zr_ways {
	struct zr_way *way;    /* [n], owned */
	int32_t n, cap, first; /* those before the first are over */
};

/* Operation `op` begins the first of its legs. */
int zr_ways_add(struct zr_ways *w, int32_t op, int32_t legs, struct zr_error *err);
void zr_ways_end(struct zr_ways *w, int32_t op); /* it is waited for; nothing if it is not there */

#endif
