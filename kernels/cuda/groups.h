/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.h - states in 8 bits (moments8.h), four elements per thread: the threads of a group find
 * its scale together.
 */
#ifndef ZEROTH_KERNELS_CUDA_GROUPS_H
#define ZEROTH_KERNELS_CUDA_GROUPS_H

#include "../cpu/moments8.h"
#include "storage.h"

#define ZR_GROUP_THREADS (ZR_MOMENT8_GROUP / 4) /* four elements each */

/* The largest number that one of the threads of a group has, in all of them. */
ZR_DEVICE uint32_t zr_group_max(uint32_t x)
{
	for (int mask = ZR_GROUP_THREADS / 2; mask > 0; mask /= 2) {
		uint32_t y = __shfl_xor_sync(ZR_FULL_WARP, x, mask, ZR_WARP);
		x = y > x ? y : x;
	}
	return x;
}

/* Four codes, of elements of which the first is there. */
ZR_DEVICE zr_packed<uint8_t> zr_load_codes8(const void *state, zr_place at)
{
	return *(const zr_packed<uint8_t> *)(const void *)zr_codes8(state, at.i);
}

/* What is beyond n is 0. */
ZR_DEVICE zr_quad zr_load8(const void *state, zr_place at, int root)
{
	zr_quad q = {};
	if (!at.n)
		return q;
	const zr_packed<uint8_t> code = zr_load_codes8(state, at);
	const float scale = zr_from_f16(*zr_scale8(state, at.i));
	for (int k = 0; k < 4; k++) {
		float y = root ? zr_root8(code.x[k], scale) : zr_signed8((int8_t)code.x[k], scale);
		q.x[k] = k >= at.n ? 0 : root ? y * y : y;
	}
	return q;
}

/* The scale of the group whose new elements are q, in all of its threads; the first one keeps it.
 * All threads of a warp are here, and have read the old scales. */
ZR_DEVICE float zr_new_scale8(void *state, zr_place at, const zr_quad &q)
{
	uint32_t most = 0;
#pragma unroll
	for (int k = 0; k < 4; k++) /* no bound that varies: q stays in registers */
		most = k < at.n ? zr_most8(most, q.x[k]) : most;
	const uint16_t h = zr_scale8_of(zr_group_max(most));
	if (at.n && at.i % ZR_MOMENT8_GROUP == 0)
		*zr_scale8(state, at.i) = h;
	return zr_from_f16(h);
}

/* As zr_new_scale8. */
ZR_DEVICE void zr_store8(void *state, zr_place at, zr_quad q, int root)
{
	for (int k = 0; k < at.n; k++)
		q.x[k] = root ? zr_sqrt(q.x[k]) : q.x[k];
	const float scale = zr_new_scale8(state, at, q);
	for (int k = 0; k < at.n; k++)
		zr_codes8(state, at.i)[k] = !(scale > 0) ? 0 :
					    root         ? (uint8_t)zr_root8_code(q.x[k], scale) :
							   (uint8_t)zr_signed8_code(q.x[k], scale);
}

#endif
