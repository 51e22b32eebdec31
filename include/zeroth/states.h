/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/states.h - STABLE, since minor 4; a part of <zeroth/elementwise.h>. The states that a
 * checkpoint has in fp32, bf16 or 8 bits, for an optimizer that keeps them in another of these:
 * what zr_optimizer_v1.upgrade does for optimizers of that header. In host memory; whole blocks.
 */
#ifndef ZEROTH_STATES_H
#define ZEROTH_STATES_H

#include <zeroth/elementwise.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_STATE8_GROUP 32 /* elements with one scale */

/* A scale is in fp16, from 2^-24 to 65504, or a NaN. */
ZR_FN float zr_scale_of(uint16_t h)
{
	if (h >= 0x7c00)
		return zr_float_of(0x7fc00000u);
	return h < 0x400 ? (float)h * 5.96046448e-08f : /* 2^-24 */
			   zr_float_of(((uint32_t)h << 13) + 0x38000000u);
}
ZR_FN uint16_t zr_scale_for(uint32_t most) /* the bits of the largest magnitude */
{
	const float x = zr_float_of(most);
	if (most >= 0x7f800000u)
		return 0x7e00;
	if (x >= 65520)
		return 0x7bff;
	if (x < 6.10351562e-05f) /* 2^-14: to the nearest multiple of 2^-24; no number becomes 0 */
		return (uint16_t)(most && x < 5.96046448e-08f ? 1 :
								zr_bits_of(x + 0.5f) - 0x3f000000u);
	return (uint16_t)((most - 0x38000000u + 0xfffu + (most >> 13 & 1)) >> 13);
}
/* The nearest integer, ties to even, in [least, most]. */
ZR_FN int zr_code_of(float x, float least, float most)
{
	const float y = x < most ? x : most;
	return (int)(((y > least ? y : least) + 12582912.0f) - 12582912.0f);
}

/* 32 elements of a state in fp32, from the i-th of `b` on; a multiple of 32. */
ZR_FN void zr_state_get(const struct zr_buf *b, uint64_t i, int root, float *x)
{
	const uint8_t *block = (const uint8_t *)b->data + i / ZR_BLOCK * ZR_STATE8_BYTES;
	const uint8_t *code = block + i % ZR_BLOCK;
	uint16_t h = 0;
	memcpy(&h, block + ZR_BLOCK + i % ZR_BLOCK / ZR_STATE8_GROUP * 2, b->dtype ? 0 : 2);
	const float scale = zr_scale_of(h), unit = scale / 255;
	for (int k = 0; k < ZR_STATE8_GROUP; k++) {
		const int q = b->dtype ? 0 : (int8_t)code[k];
		if (b->dtype == ZR_F32)
			x[k] = ((const float *)b->data)[i + (uint64_t)k];
		else if (b->dtype)
			x[k] = zr_float_of((uint32_t)((const uint16_t *)b->data)[i + (uint64_t)k]
					   << 16);
		else if (root)
			x[k] = ((float)code[k] * unit) * ((float)code[k] * unit);
		else
			x[k] = scale * ((float)q / (float)(254 - (q < 0 ? -q : q)));
	}
}

ZR_FN void zr_state_put8(uint8_t *block, uint64_t i, int root, const float *x)
{
	float y[ZR_STATE8_GROUP];
	uint32_t most = 0;
	for (int k = 0; k < ZR_STATE8_GROUP; k++) {
		y[k] = root ? zr_sqrt(x[k]) : x[k];
		if ((zr_bits_of(y[k]) & 0x7fffffffu) > most)
			most = zr_bits_of(y[k]) & 0x7fffffffu;
	}
	const uint16_t h = zr_scale_for(most);
	const float scale = zr_scale_of(h);
	memcpy(block + ZR_BLOCK + i / ZR_STATE8_GROUP * 2, &h, 2);
	for (int k = 0; k < ZR_STATE8_GROUP; k++)
		block[i + (uint64_t)k] =
			!(scale > 0) ?
				0 :
				(uint8_t)(root ? zr_code_of(y[k] * (255 / scale), 1, 255) :
						 zr_code_of(254 * (y[k] / (scale + zr_abs(y[k]))),
							    -127, 127));
}

/* upgrade(): between fp32, bf16 and 8 bits. */
static inline int zr_elementwise_upgrade(const struct zr_elementwise_inst *inst, uint32_t from,
					 const struct zr_buf *old, uint32_t n_old,
					 const struct zr_buf *now)
{
	if (from != 1)
		return zr_fail(inst->h, ZR_ENOTSUP, "states of version %u are not known", from);
	for (uint32_t j = 0; j < n_old; j++)
		for (uint64_t i = 0; old[j].data && i < old[j].count; i += ZR_STATE8_GROUP) {
			const int root = inst->e.roots >> j & 1;
			float x[ZR_STATE8_GROUP];
			zr_state_get(&old[j], i, root, x);
			if (!now[j].dtype)
				zr_state_put8((uint8_t *)now[j].data +
						      i / ZR_BLOCK * ZR_STATE8_BYTES,
					      i % ZR_BLOCK, root, x);
			for (uint64_t k = 0; now[j].dtype && k < ZR_STATE8_GROUP; k++) {
				/* bf16: half away from zero; a NaN stays one */
				const uint32_t u = zr_bits_of(x[k]) + (x[k] == x[k] ? 0x8000u : 0);
				const uint16_t h =
					(uint16_t)((x[k] == x[k] ? u : u | 0x400000u) >> 16);
				if (now[j].dtype == ZR_F32)
					((float *)now[j].data)[i + k] = x[k];
				else
					((uint16_t *)now[j].data)[i + k] = h;
			}
		}
	return ZR_OK;
}

#ifdef __cplusplus
}
#endif
#endif
