/* SPDX-License-Identifier: Apache-2.0
 *
 * master.h - a master as its bf16 rounding and the bits below, as struct zr_op_master says: one
 * element, for the scalar kernels and those of a GPU.
 */
#ifndef ZEROTH_KERNELS_CPU_MASTER_H
#define ZEROTH_KERNELS_CPU_MASTER_H

#include "scalar.h"

/* Rounded half away from zero to 24 bits; infinity stays, a NaN is made quiet. */
ZR_INLINE float zr_master24(float x)
{
	uint32_t u = zr_bits(x);
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return zr_from_bits(u | 0x00400000u);
	return zr_from_bits((u + 0x80u) & ~0xffu);
}

/* Rounding half away from zero makes the join exact: the bf16 is one above the upper half exactly
 * if the top bit of the lower half is set. (With ties to even, 0x8000 would be ambiguous.) */
ZR_INLINE float zr_master_joined(const struct zr_op_master *op, int64_t i)
{
	uint32_t low = op->rem_bits == 8 ? (uint32_t)((const uint8_t *)op->rem)[i] << 8 :
					   ((const uint16_t *)op->rem)[i];
	uint32_t high = op->lowp[i] - (low >> 15);
	return zr_from_bits(high << 16 | low);
}

ZR_INLINE void zr_master_split(const struct zr_op_master *op, int64_t i, float x)
{
	if (op->rem_bits == 8)
		((uint8_t *)op->rem)[i] = (uint8_t)(zr_bits(x = zr_master24(x)) >> 8);
	else
		((uint16_t *)op->rem)[i] = (uint16_t)zr_bits(x);
	op->lowp[i] = zr_bf16(x);
}

#endif
