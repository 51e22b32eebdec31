/* SPDX-License-Identifier: Apache-2.0
 *
 * codes.simd.c - codes.c with vectors, same bits.
 */
#include "codes.h"
#include "simd.h"
#include "table.h"

ZR_INLINE vi magnitude(const float *x)
{
	return vishr(vishl(vbits(vload_f32(x)), 1), 1);
}

static uint32_t largest(const float *x)
{
	vi a = magnitude(x);
	for (int i = ZR_W; i < ZR_SHARING; i += ZR_W)
		a = vimax(a, magnitude(x + i));
	return vimaxh(a);
}

/* Codes of ZR_W elements, the first of two in the high bits of a byte. */
ZR_INLINE void nf4_codes(vf x, uint8_t *code)
{
	static const float midpoint[15] = { ZR_NF4_MIDPOINTS };
	uint32_t lane[ZR_W];
	vi c = viset(0);

	for (int k = 0; k < 15; k++)
		c = vicount_above(c, x, vset(midpoint[k]));
	vistore(lane, c);
	for (int i = 0; i < ZR_W; i += 2)
		code[i / 2] = (uint8_t)(lane[i] << 4 | lane[i + 1]);
}

static void encode(int32_t dtype, const float *x, uint8_t *code, float *scale)
{
	*scale = zr_code_scale(dtype, largest(x));
	const vf factor = vset(zr_nf4_factor(*scale)), divisor = vset(zr_int8_divisor(*scale));
	for (int i = 0; dtype == ZR_NF4 && i < ZR_SHARING; i += ZR_W)
		nf4_codes(vload_f32(x + i) * factor, code + i / 2);
	for (int i = 0; dtype == ZR_INT8 && i < ZR_SHARING; i += ZR_W)
		vstore_8(code + i, vmin(vmax(vload_f32(x + i) / divisor, vset(-127)), vset(127)));
}

void ZR_SIMD(encode)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	const int32_t dtype = op->dst.dtype;

	for (int64_t b = lo; b < hi; b++) {
		uint8_t *code = (uint8_t *)op->dst.data + b * zr_coded_block(dtype);
		float *scale = (float *)(void *)(code + zr_code_bytes(dtype, ZR_BLOCK));
		const float *x = (const float *)op->src.data + b * ZR_BLOCK;
		for (int g = 0; g < ZR_SCALES; g++)
			encode(dtype, x + g * ZR_SHARING,
			       code + zr_code_bytes(dtype, g * ZR_SHARING), scale + g);
	}
}

ZR_INLINE void decode_block(const struct zr_op_cast *op, int64_t b, int32_t from, int32_t to)
{
	static const float nf4[16] = { ZR_NF4_VALUES };
	const struct vtable16 table = vtable16(nf4);
	const uint8_t *code = (const uint8_t *)op->src.data + b * zr_coded_block(from);
	const float *scale = (const float *)(const void *)(code + zr_code_bytes(from, ZR_BLOCK));

	for (int g = 0; g < ZR_SCALES; g++)
		for (int i = g * ZR_SHARING; i < (g + 1) * ZR_SHARING; i += ZR_W) {
			vf x;
			if (from == ZR_NF4)
				x = vlookup16(&table, viload_u4(code + i / 2));
			else
				x = vload_i8(code + i);
			vstore(op->dst.data, b * ZR_BLOCK + i, to, x * vset(scale[g]));
		}
}

ZR_INLINE void decode(const struct zr_op_cast *op, int64_t lo, int64_t hi, int32_t to)
{
	for (int64_t b = lo; b < hi; b++)
		if (op->src.dtype == ZR_NF4)
			decode_block(op, b, ZR_NF4, to);
		else
			decode_block(op, b, ZR_INT8, to);
}

void ZR_SIMD(decode)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	ZR_BY_DTYPE(op->dst.dtype, decode, op, lo, hi);
}
