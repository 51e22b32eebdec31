/* SPDX-License-Identifier: Apache-2.0
 *
 * types.c - see gguf.h: elements as the types of tensors have them.
 */
#include <math.h>
#include <string.h>

#include "files/gguf/gguf.h"
#include "files/pretrained/tensors.h"

#define Q8_BYTES (2 + ZR_GGUF_BLOCK) /* of a block: its scale in F16, its codes */

uint64_t zr_gguf_bytes(int32_t type, int64_t elements)
{
	if (type == ZR_GGUF_F32)
		return (uint64_t)elements * 4;
	if (type == ZR_GGUF_Q8_0)
		return (uint64_t)elements / ZR_GGUF_BLOCK * Q8_BYTES;
	return (uint64_t)elements * 2;
}

/* To nearest even; NaN becomes quiet. Training rounds bf16 half away from zero; files of llama.cpp
 * are made so. */
static uint16_t to_bf16(float x)
{
	uint32_t b;

	memcpy(&b, &x, sizeof b);
	if ((b & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(b >> 16 | 0x40);
	return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

static void encode_halves(int32_t type, const float *x, int64_t n, uint16_t *to, int64_t *infinite)
{
	const uint16_t endless = type == ZR_GGUF_BF16 ? 0x7f80 : 0x7c00;

	for (int64_t i = 0; i < n; i++) {
		to[i] = type == ZR_GGUF_BF16 ? to_bf16(x[i]) : zr_narrow_f16(x[i]);
		*infinite += (to[i] & 0x7fff) == endless && isfinite(x[i]);
	}
}

static int encode_block(const float *x, unsigned char *to)
{
	float largest = 0;

	for (int i = 0; i < ZR_GGUF_BLOCK; i++) {
		if (!isfinite(x[i]))
			return ZR_EINVAL;
		largest = fmaxf(largest, fabsf(x[i]));
	}

	const float scale = largest / 127;
	const uint16_t half = zr_narrow_f16(scale);
	if (half == 0x7c00)
		return ZR_EINVAL;

	/* A scale that is too small to be inverted is 0 in F16: what it scales means nothing. */
	float inverse = scale > 0 ? 1 / scale : 0;
	if (!isfinite(inverse))
		inverse = 0;

	memcpy(to, &half, sizeof half);
	for (int i = 0; i < ZR_GGUF_BLOCK; i++) {
		const signed char code = (signed char)roundf(x[i] * inverse);
		memcpy(to + sizeof half + i, &code, 1);
	}

	return 0;
}

int zr_gguf_encode(int32_t type, const float *x, int64_t n, void *to, int64_t *infinite)
{
	if (type == ZR_GGUF_F32) {
		memcpy(to, x, (size_t)n * sizeof *x);
		return 0;
	}

	if (type != ZR_GGUF_Q8_0) {
		encode_halves(type, x, n, to, infinite);
		return 0;
	}

	unsigned char *at = to;
	for (int64_t i = 0; i < n; i += ZR_GGUF_BLOCK, at += Q8_BYTES) {
		int rc = encode_block(x + i, at);
		if (rc)
			return rc;
	}

	return 0;
}
