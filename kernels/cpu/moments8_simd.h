/* SPDX-License-Identifier: Apache-2.0
 *
 * moments8_simd.h - whole groups of moments8.h with vectors, same operations, same bits. A group is
 * ZR_V8 vectors; a kernel stages a last group that is not whole. It takes up to ZR_GROUPS8 of a
 * block at a time: it computes all of them, and then puts them, as a group alone would wait for its
 * scale longer than the processor looks ahead.
 */
#ifndef ZEROTH_KERNELS_CPU_MOMENTS8_SIMD_H
#define ZEROTH_KERNELS_CPU_MOMENTS8_SIMD_H

#include "moments8.h"
#include "simd.h"

#define ZR_GROUPS8 8
#define ZR_V8 (ZR_MOMENT8_GROUP / ZR_W)

/* Whole groups of elements [i, hi) that are taken at a time: of one block, 0: there is none. */
ZR_INLINE int64_t vgroups8(int64_t i, int64_t hi)
{
	int64_t most = ZR_GROUPS8 - i / ZR_MOMENT8_GROUP % ZR_GROUPS8;
	int64_t n = (hi - i) / ZR_MOMENT8_GROUP;
	return n < most ? n : most;
}

/* A vector of moments whose codes are at `code`; `each` is a 255th of the scale. */
ZR_INLINE vf vsigned8(const uint8_t *code, float scale)
{
	vf q = vload_i8(code);
	return vset(scale) * (q / (vset(254) - vabs(q)));
}

ZR_INLINE vf vroot8(const uint8_t *code, float each)
{
	return vload_u8(code) * vset(each);
}

/* The largest magnitude of a group, as bits. */
ZR_INLINE uint32_t vmost8(const vf *x)
{
	vi most = vbits(vabs(x[0]));
#pragma GCC unroll 4
	for (int k = 1; k < ZR_V8; k++)
		most = vimax(most, vbits(vabs(x[k])));
	return vimaxh(most);
}

/* Value and bits of zr_from_f16, zr_scale8_of. */
ZR_INLINE float vscale8(uint16_t h) { return _cvtsh_ss(h); }
ZR_INLINE uint16_t vscale8_of(uint32_t most)
{
	uint16_t h = _cvtss_sh(zr_from_bits(most), _MM_FROUND_TO_NEAREST_INT);
	h = h > ZR_SCALE8_MOST ? ZR_SCALE8_MOST : h;
	h = h == 0 && most != 0 ? 1 : h;
	return most >= 0x7f800000u ? ZR_SCALE8_NAN : h;
}

/* A group of first moments at x, or of roots of second ones, whose largest magnitude is `most`. */
ZR_INLINE void vput_signed8(uint8_t *code, uint16_t *to, const float *x, uint32_t most)
{
	float scale = vscale8(*to = vscale8_of(most));
	vf y[ZR_V8];
	if (!(scale > 0)) {
		memset(code, 0, ZR_MOMENT8_GROUP);
		return;
	}
#pragma GCC unroll 4
	for (int k = 0; k < ZR_V8; k++) {
		vf m = vload_f32(x + k * ZR_W);
		y[k] = vset(254) * (m / (vset(scale) + vabs(m)));
		y[k] = vmax(y[k], vset(-127));
	}
	vstore_i8(code, y);
}

ZR_INLINE void vput_root8(uint8_t *code, uint16_t *to, const float *x, uint32_t most)
{
	float scale = vscale8(*to = vscale8_of(most));
	vf y[ZR_V8];
	if (!(scale > 0)) {
		memset(code, 0, ZR_MOMENT8_GROUP);
		return;
	}
#pragma GCC unroll 4
	for (int k = 0; k < ZR_V8; k++)
		y[k] = vmax(vmin(vload_f32(x + k * ZR_W) * vset(255 / scale), vset(255)), vset(1));
	vstore_u8(code, y);
}

#endif
