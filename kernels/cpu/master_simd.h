/* SPDX-License-Identifier: Apache-2.0
 *
 * master_simd.h - the elements of master.h with vectors, same bits: n <= ZR_W from element i on;
 * `bits` of the remainder, 8 or 16.
 */
#ifndef ZEROTH_KERNELS_CPU_MASTER_SIMD_H
#define ZEROTH_KERNELS_CPU_MASTER_SIMD_H

#include "simd.h"

ZR_INLINE vi vrem8(const uint8_t *rem, int n)
{
	uint8_t tail[ZR_W] = { 0 };
	if (n == ZR_W)
		return vishl(vbload(rem), 8);
	for (int k = 0; k < n; k++)
		tail[k] = rem[k];
	return vishl(vbload(tail), 8);
}

ZR_INLINE void vput_rem8(uint8_t *rem, vi x, int n)
{
	uint8_t tail[ZR_W];
	vbstore(n == ZR_W ? rem : tail, vishr(x, 8));
	for (int k = 0; n != ZR_W && k < n; k++)
		rem[k] = tail[k];
}

ZR_INLINE vf vjoined(const uint16_t *lowp, const void *rem, int64_t i, int n, int bits)
{
	const uint16_t *low16 = (const uint16_t *)rem + i;
	vi low, high;

	if (bits == 8)
		low = vrem8((const uint8_t *)rem + i, n);
	else if (n == ZR_W)
		low = viwiden(vhload(low16));
	else
		low = viwiden(vhload_n(low16, n));
	high = viwiden(n == ZR_W ? vhload(lowp + i) : vhload_n(lowp + i, n));

	high = visub(high, vishr(low, 15));
	return vfrom_bits(vior(vishl(high, 16), low));
}

ZR_INLINE void vsplit(uint16_t *lowp, void *rem, int64_t i, vf x, int n, int bits)
{
	uint16_t *low16 = (uint16_t *)rem + i;

	if (bits == 8) {
		x = vround24(x);
		vput_rem8((uint8_t *)rem + i, vbits(x), n);
	} else if (n == ZR_W) {
		vhstore(low16, vinarrow(vbits(x)));
	} else {
		vhstore_n(low16, vinarrow(vbits(x)), n);
	}
	vstore_n(lowp, i, ZR_BF16, x, n);
}

#endif
