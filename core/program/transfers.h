/* SPDX-License-Identifier: Apache-2.0
 *
 * transfers.h - of a program that is being recorded: operations of several hops, and moves of
 * activations.
 */
#ifndef ZR_CORE_TRANSFERS_H
#define ZR_CORE_TRANSFERS_H

#include <stdint.h>

#include "core/error.h"

struct zr_transfer {
	int32_t op, left; /* number of the operation; hops that it has not begun */
	int32_t over;     /* 1: it was waited for */
};

struct zr_transfers {
	struct zr_transfer *transfer; /* [n], owned */
	int32_t n, cap, first; /* those before the first are over */
};

/* Operation `op` begins the first of its hops. */
int zr_transfers_add(struct zr_transfers *t, int32_t op, int32_t hops, struct zr_error *err);
void zr_transfers_end(struct zr_transfers *t, int32_t op); /* it is waited for; nothing if it is not there */

#endif
