/* SPDX-License-Identifier: Apache-2.0
 *
 * moments8_simd.h - whole groups of moments8.h with vectors, same operations, same bits. A group is
 * ZR_V8 vectors; a kernel stages a last group that is not whole.
 */
#ifndef ZEROTH_KERNELS_CPU_MOMENTS8_SIMD_H
#define ZEROTH_KERNELS_CPU_MOMENTS8_SIMD_H

#include "moments8.h"
#include "simd.h"

#define ZR_V8 (ZR_MOMENT8_GROUP / ZR_W)

/* Vector k of a group whose codes are at `code`; `each` is a 255th of its scale. */
ZR_INLINE vf vsigned8(const uint8_t *code, int k, float scale)
{
	vf q = vload_i8(code + k * ZR_W);
	return vset(scale) * (q / (vset(254) - vabs(q)));
}

ZR_INLINE vf vroot8(const uint8_t *code, int k, float each)
{
	return vload_u8(code + k * ZR_W) * vset(each);
}

/* The largest magnitude of a group, as bits. */
ZR_INLINE uint32_t vmost8(const vf *x)
{
	vi most = vbits(vabs(x[0]));
	for (int k = 1; k < ZR_V8; k++)
		most = vimax(most, vbits(vabs(x[k])));
	return vimaxh(most);
}

/* x, a group of first moments, or of roots of second ones. */
ZR_INLINE void vput_signed8(uint8_t *code, uint16_t *to, const vf *x)
{
	uint16_t h = zr_scale8_of(vmost8(x));
	float scale = zr_from_f16(h);
	*to = h;
	if (!(scale > 0)) {
		memset(code, 0, ZR_MOMENT8_GROUP);
		return;
	}
	for (int k = 0; k < ZR_V8; k++) {
		vf y = vset(254) * x[k] / (vset(scale) + vabs(x[k]));
		vstore_8(code + k * ZR_W, vmax(vmin(y, vset(127)), vset(-127)));
	}
}

ZR_INLINE void vput_root8(uint8_t *code, uint16_t *to, const vf *x)
{
	uint16_t h = zr_scale8_of(vmost8(x));
	float scale = zr_from_f16(h);
	*to = h;
	if (!(scale > 0)) {
		memset(code, 0, ZR_MOMENT8_GROUP);
		return;
	}
	for (int k = 0; k < ZR_V8; k++) {
		/* a root is 0 or far above the smallest number */
		vf least = vzero_where_less(vset(1), x[k], vset(0x1p-126f));
		vstore_8(code + k * ZR_W,
			 vmax(vmin(x[k] * vset(255 / scale), vset(255)), least));
	}
}

#endif
