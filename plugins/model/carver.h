/* SPDX-License-Identifier: Apache-2.0
 *
 * carver.h - cuts buffers of a model into their parts: a layout is described once, for its size
 * (base 0) and for its use.
 */
#ifndef ZR_MODEL_CARVER_H
#define ZR_MODEL_CARVER_H

#include <stdint.h>

struct carver {
	uintptr_t base;
	uint64_t used;
};

static inline void *carver_take(struct carver *v, uint64_t bytes)
{
	uintptr_t at = v->base + v->used;
	v->used += (bytes + 63) / 64 * 64;
	return (void *)at;
}

static inline uint64_t carver_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
