/* SPDX-License-Identifier: Apache-2.0
 *
 * mx.simd.c - mx.c with vectors, same bits.
 */
#include "mx.h"

#include "simd.h"
#include "table.h"

#define PARTS (ZR_MX_SHARING / ZR_W)

struct group {
	vf part[PARTS];
};

/* Of the elements that are left, those in a part. */
ZR_INLINE int lanes(int64_t left, int part)
{
	left -= part * ZR_W;
	return left > 0 ? vlanes(left) : 0;
}

/* The group from an element on; what is behind the end of op is 0. */
ZR_INLINE struct group load(const struct zr_op_cast *op, int64_t from, int32_t dtype)
{
	const int64_t left = op->n - from;
	struct group x;
	if (left >= ZR_MX_SHARING) {
		UNROLL for (int p = 0; p < PARTS; p++)
			x.part[p] = vload(op->src.data, from + p * ZR_W, dtype);
		return x;
	}
	for (int p = 0; p < PARTS; p++)
		x.part[p] = vload_n(op->src.data, from + p * ZR_W, dtype, lanes(left, p));
	return x;
}

ZR_INLINE uint32_t scale_of(const struct group *x)
{
	vi most = viset(0);
	UNROLL for (int p = 0; p < PARTS; p++)
		most = vimax(most, vishr(vishl(vbits(x->part[p]), 1), 1));
	return zr_mx_scale(vimaxh(most));
}

ZR_INLINE uint8_t encode(const struct group *x, uint8_t *code)
{
	const uint32_t scale = scale_of(x);
	if (!zr_mx_has_codes(scale)) {
		memset(code, 0, ZR_MX_SHARING);
		return (uint8_t)scale;
	}

	const vf factor = vset(zr_mx_factor(scale));
	UNROLL for (int p = 0; p < PARTS; p++)
		vstore_8(code + p * ZR_W, vmin(vmax(x->part[p] * factor, vset(-127)), vset(127)));
	return (uint8_t)scale;
}

ZR_INLINE void encode_blocks(const struct zr_op_cast *op, int64_t lo, int64_t hi, int32_t dtype)
{
	for (int64_t b = lo; b < hi; b++) {
		uint8_t *code = (uint8_t *)op->dst.data + b * ZR_MX_BLOCK;
		uint8_t *scale = code + ZR_BLOCK;
		for (int g = 0; g < ZR_MX_SCALES; g++) {
			struct group x = load(op, b * ZR_BLOCK + g * ZR_MX_SHARING, dtype);
			scale[g] = encode(&x, code + g * ZR_MX_SHARING);
		}
	}
}

void ZR_SIMD(mx_encode)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->src.dtype, encode_blocks, op, lo, hi);
}

ZR_INLINE void decode_blocks(const struct zr_op_cast *op, int64_t lo, int64_t hi, int32_t to)
{
	const int64_t end = hi * ZR_BLOCK < op->n ? hi * ZR_BLOCK : op->n;
	for (int64_t i = lo * ZR_BLOCK; i < end; i += ZR_W) {
		const uint8_t *block = (const uint8_t *)op->src.data + i / ZR_BLOCK * ZR_MX_BLOCK;
		const int64_t at = i % ZR_BLOCK;
		vf unit = vset(zr_mx_unit(block[ZR_BLOCK + at / ZR_MX_SHARING]));
		vstore_n(op->dst.data, i, to, vload_i8(block + at) * unit, vlanes(end - i));
	}
}

void ZR_SIMD(mx_decode)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dst.dtype, decode_blocks, op, lo, hi);
}
