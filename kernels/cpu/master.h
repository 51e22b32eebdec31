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
	uint32_t low, high;
	if (op->rem_bits == 8)
		low = (uint32_t)((const uint8_t *)op->rem)[i] << 8;
	else
		low = ((const uint16_t *)op->rem)[i];

	high = op->lowp[i] - (low >> 15);
	return zr_from_bits(high << 16 | low);
}

ZR_INLINE void zr_master_split(const struct zr_op_master *op, int64_t i, float x)
{
	if (op->rem_bits == 8) {
		x = zr_master24(x);
		((uint8_t *)op->rem)[i] = (uint8_t)(zr_bits(x) >> 8);
	} else {
		((uint16_t *)op->rem)[i] = (uint16_t)zr_bits(x);
	}
	op->lowp[i] = zr_bf16(x);
}

/* Masters of an update: in fp32, with a copy or none, or, if split.rem is there, split. */
struct zr_kept {
	zr_real *master;
	void *lowp;
	int32_t lowp_dtype;
	struct zr_op_master split;
};

ZR_INLINE struct zr_kept zr_kept_at(float *master, void *lowp, int32_t dtype, void *rem,
				    int32_t bits)
{
	struct zr_kept k;
	memset(&k, 0, sizeof k);
	k.master = zr_reals(master);
	k.lowp = lowp;
	k.lowp_dtype = dtype;
	k.split.lowp = (uint16_t *)lowp;
	k.split.rem = rem;
	k.split.rem_bits = bits;
	return k;
}

ZR_INLINE zr_real zr_kept_get(const struct zr_kept *k, int64_t i)
{
	return k->split.rem ? zr_master_joined(&k->split, i) : k->master[i];
}

ZR_INLINE void zr_kept_put(const struct zr_kept *k, int64_t i, zr_real p)
{
	if (k->split.rem) {
		zr_master_split(&k->split, i, (float)p);
		return;
	}
	k->master[i] = p;
	if (k->lowp)
		zr_put(k->lowp, i, k->lowp_dtype, p);
}

#endif
