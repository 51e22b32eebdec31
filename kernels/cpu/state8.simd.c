/* SPDX-License-Identifier: Apache-2.0
 *
 * state8.simd.c - state8.c with vectors, same operations, same bits.
 */
#include "moments8_simd.h"
#include "table.h"

/* ZR_SOME8 elements of a block, from element i on. */
ZR_INLINE void get_signed(const void *codes, float *x, int64_t i)
{
	struct groups8 scale = vgroups8(vscales8(zr_scale8(codes, i)));
	const uint8_t *code = zr_codes8(codes, i);

	for (int k = 0; k < ZR_SOME8; k += ZR_MOMENT8_GROUP) {
		vf y[ZR_V8];
		vgroup_signed8(y, code + k, scale.x[k / ZR_MOMENT8_GROUP]);
		for (int j = 0; j < ZR_V8; j++)
			vstore_f32(x + k + j * ZR_W, y[j]);
	}
}

ZR_INLINE void get_root(const void *codes, float *x, int64_t i)
{
	struct groups8 each = vgroups8(vscales8(zr_scale8(codes, i)) / 255);
	const uint8_t *code = zr_codes8(codes, i);
	for (int k = 0; k < ZR_SOME8; k += ZR_W) {
		vf root = vroot8(code + k, each.x[k / ZR_MOMENT8_GROUP]);
		vstore_f32(x + k, root * root);
	}
}

ZR_INLINE v8 put_scales(void *codes, const float *x, int64_t i)
{
	vi most[ZR_GROUPS8];

	for (int g = 0; g < ZR_GROUPS8; g++) {
		vf y[ZR_V8];
#pragma GCC unroll 4
		for (int k = 0; k < ZR_V8; k++)
			y[k] = vload_f32(x + g * ZR_MOMENT8_GROUP + k * ZR_W);
		most[g] = vmost8(y);
	}
	return vput_scales8(zr_scale8(codes, i), most);
}

ZR_INLINE void put_signed(void *codes, const float *x, int64_t i)
{
	v8 scale = put_scales(codes, x, i);
	vput_signed8(zr_codes8(codes, i), x, scale);
}

ZR_INLINE void put_root(void *codes, const float *x, int64_t i)
{
	float root[ZR_SOME8];
	for (int k = 0; k < ZR_SOME8; k += ZR_W)
		vstore_f32(root + k, vsqrt(vload_f32(x + k)));
	v8 scale = put_scales(codes, root, i);
	vput_root8(zr_codes8(codes, i), root, scale);
}

void ZR_SIMD(state8_get)(const void *codes, int root, float *x, int64_t lo, int64_t hi)
{
	int n;

	for (int64_t i = lo; i < hi; i += n) {
		/* group by group at either end of the range */
		n = vsome8(i, hi) == ZR_SOME8 ? ZR_SOME8 : zr_group8(i, hi);
		if (n < ZR_SOME8)
			zr_get8(codes, i, n, root, x + (i - lo));
		else if (root)
			get_root(codes, x + (i - lo), i);
		else
			get_signed(codes, x + (i - lo), i);
	}
}

void ZR_SIMD(state8_put)(void *codes, int root, const float *x, int64_t lo, int64_t hi)
{
	int n;

	for (int64_t i = lo; i < hi; i += n) {
		/* group by group at either end of the range */
		n = vsome8(i, hi) == ZR_SOME8 ? ZR_SOME8 : zr_group8(i, hi);
		if (n < ZR_SOME8)
			zr_put8(codes, i, n, root, x + (i - lo));
		else if (root)
			put_root(codes, x + (i - lo), i);
		else
			put_signed(codes, x + (i - lo), i);
	}
}
