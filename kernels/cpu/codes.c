/* SPDX-License-Identifier: Apache-2.0
 *
 * codes.c - casts into types of whole blocks, and out of them, scalar.
 */
#include "codes.h"
#include "table.h"

static void encode(int32_t dtype, const float *x, uint8_t *code, float *scale)
{
	uint32_t most = 0;

	for (int i = 0; i < ZR_SHARING; i++)
		most = zr_magnitude(x[i]) > most ? zr_magnitude(x[i]) : most;

	*scale = zr_code_scale(dtype, most);
	const float factor = zr_nf4_factor(*scale), divisor = zr_int8_divisor(*scale);
	for (int i = 0; dtype == ZR_NF4 && i < ZR_SHARING; i += 2)
		code[i / 2] =
			(uint8_t)(zr_nf4_code(x[i] * factor) << 4 | zr_nf4_code(x[i + 1] * factor));
	for (int i = 0; dtype == ZR_INT8 && i < ZR_SHARING; i++)
		code[i] = (uint8_t)zr_int8_code(x[i] / divisor);
}

void ZR_SCALAR(encode)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
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

static float value(int32_t dtype, const uint8_t *code, int i)
{
	const int shift = i % 2 ? 0 : 4;
	return dtype == ZR_NF4 ? zr_nf4_value(code[i / 2] >> shift & 15) : (float)(int8_t)code[i];
}

void ZR_SCALAR(decode)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	const int32_t dtype = op->src.dtype;

	for (int64_t b = lo; b < hi; b++) {
		const uint8_t *code = (const uint8_t *)op->src.data + b * zr_coded_block(dtype);
		const float *scale =
			(const float *)(const void *)(code + zr_code_bytes(dtype, ZR_BLOCK));
		for (int i = 0; i < ZR_BLOCK; i++)
			zr_put(op->dst.data, b * ZR_BLOCK + i, op->dst.dtype,
			       value(dtype, code, i) * scale[i / ZR_SHARING]);
	}
}
