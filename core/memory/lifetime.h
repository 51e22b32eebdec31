/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime.h - offsets for buffers that live for a while only: those that never live at the same time may
 * share bytes. First fit by decreasing size, so the result depends on the list alone.
 */
#ifndef ZR_CORE_LIFETIME_H
#define ZR_CORE_LIFETIME_H

#include "core/error.h"

struct zr_lifetime {
	uint64_t bytes;
	uint64_t align;      /* of the offset; 0: 64 */
	int32_t first, last; /* points of the program at which it holds data, both included; last
			      * INT32_MAX: to its end, and its place is below that of all others */
	uint64_t offset;     /* result */
};

/* Fills the offsets and *total, the bytes of the whole region. [main] allocates a little. */
int zr_lifetime_assign(struct zr_lifetime *list, int n, uint64_t *total, struct zr_error *err);

#endif
