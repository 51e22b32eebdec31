/* SPDX-License-Identifier: Apache-2.0
 *
 * mx.c - casts into ZR_MXINT8, and out of it, scalar.
 */
#include "mx.h"

#include "codes.h"
#include "table.h"

/* Elements [from, from + ZR_MX_SHARING) of op, those behind its end as 0. */
static void load(const struct zr_op_cast *op, int64_t from, float *x)
{
	for (int i = 0; i < ZR_MX_SHARING; i++) {
		x[i] = 0;
		if (from + i < op->n)
			x[i] = (float)zr_get(op->src.data, from + i, op->src.dtype);
	}
}

static uint32_t scale_of(const float *x)
{
	uint32_t most = 0;
	for (int i = 0; i < ZR_MX_SHARING; i++)
		most = zr_magnitude(x[i]) > most ? zr_magnitude(x[i]) : most;
	return zr_mx_scale(most);
}

static uint8_t encode(const float *x, uint8_t *code)
{
	const uint32_t scale = scale_of(x);
	if (!zr_mx_has_codes(scale)) {
		memset(code, 0, ZR_MX_SHARING);
		return (uint8_t)scale;
	}

	const float factor = zr_mx_factor(scale);
	for (int i = 0; i < ZR_MX_SHARING; i++)
		code[i] = (uint8_t)zr_mx_code(x[i] * factor);
	return (uint8_t)scale;
}

void ZR_SCALAR(mx_encode)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	for (int64_t b = lo; b < hi; b++) {
		uint8_t *code = (uint8_t *)op->dst.data + b * ZR_MX_BLOCK;
		uint8_t *scale = code + ZR_BLOCK;
		for (int g = 0; g < ZR_MX_SCALES; g++) {
			float x[ZR_MX_SHARING];
			load(op, b * ZR_BLOCK + g * ZR_MX_SHARING, x);
			scale[g] = encode(x, code + g * ZR_MX_SHARING);
		}
	}
}

void ZR_SCALAR(mx_decode)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	for (int64_t i = lo * ZR_BLOCK; i < hi * ZR_BLOCK && i < op->n; i++)
		zr_put(op->dst.data, i, op->dst.dtype, (zr_real)zr_mx_get(op->src.data, i));
}
