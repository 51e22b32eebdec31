/* SPDX-License-Identifier: Apache-2.0
 *
 * master.simd.c - master.c with vectors, same bits.
 */
#include "simd.h"
#include "table.h"

ZR_INLINE void join(const struct zr_op_master *op, int64_t i, int n)
{
	vi low = viwiden(n == ZR_W ? vhload(op->rem + i) : vhload_n(op->rem + i, n));
	vi high = viwiden(n == ZR_W ? vhload(op->lowp + i) : vhload_n(op->lowp + i, n));

	high = visub(high, vishr(low, 15));
	vstore_n(op->master, i, ZR_F32, vfrom_bits(vior(vishl(high, 16), low)), n);
}

ZR_INLINE void split(const struct zr_op_master *op, int64_t i, int n)
{
	vf x = vload_n(op->master, i, ZR_F32, n);

	vstore_n(op->lowp, i, ZR_BF16, x, n);
	if (n == ZR_W)
		vhstore(op->rem + i, vinarrow(vbits(x)));
	else
		vhstore_n(op->rem + i, vinarrow(vbits(x)), n);
}

void ZR_SIMD(master_join)(const struct zr_op_master *op, int64_t lo, int64_t hi)
{
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		join(op, i, ZR_W);
	if (i < hi)
		join(op, i, (int)(hi - i));
}

void ZR_SIMD(master_split)(const struct zr_op_master *op, int64_t lo, int64_t hi)
{
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		split(op, i, ZR_W);
	if (i < hi)
		split(op, i, (int)(hi - i));
}
