/* SPDX-License-Identifier: Apache-2.0
 *
 * moments.h - averages from one type to another, in host memory: what a checkpoint has in fp32,
 * bf16 or 8 bits, for an optimizer that keeps it in another of these.
 */
#ifndef ZR_OPTIMIZER_MOMENTS_H
#define ZR_OPTIMIZER_MOMENTS_H

#include <zeroth/optimizer.h>

#include "moments8.h"

static inline void moments_get(const struct zr_buf *from, int64_t i, int root, float *x)
{
	if (!from->dtype)
		zr_get8(from->data, i, ZR_MOMENT8_GROUP, root, x);
	for (int k = 0; from->dtype && k < ZR_MOMENT8_GROUP; k++)
		x[k] = zr_get(from->data, i + k, from->dtype);
}

static inline void moments_put(const struct zr_buf *to, int64_t i, int root, const float *x)
{
	if (!to->dtype)
		zr_put8(to->data, i, ZR_MOMENT8_GROUP, root, x);
	for (int k = 0; to->dtype && k < ZR_MOMENT8_GROUP; k++)
		zr_put(to->data, i + k, to->dtype, x[k]);
}

/* upgrade() of an optimizer whose states are n averages, `root` the number of the one that 8 bits
 * keep as its root; -1: none. Types are fp32, bf16, or 0: 8 bits. */
static inline void moments_convert(const struct zr_buf *old, const struct zr_buf *now, uint32_t n,
				   int root)
{
	float x[ZR_MOMENT8_GROUP];
	for (uint32_t s = 0; s < n; s++)
		for (uint64_t i = 0; old[s].data && i < old[s].count; i += ZR_MOMENT8_GROUP) {
			moments_get(&old[s], (int64_t)i, (int)s == root, x);
			moments_put(&now[s], (int64_t)i, (int)s == root, x);
		}
}

#endif
