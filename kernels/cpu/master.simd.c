/* SPDX-License-Identifier: Apache-2.0
 *
 * master.simd.c - master.c with vectors, same bits.
 */
#include "master_simd.h"
#include "table.h"

ZR_INLINE void join(const struct zr_op_master *op, int64_t lo, int64_t hi, int bits)
{
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		vstore_f32(op->master + i, vjoined(op->lowp, op->rem, i, ZR_W, bits));
	if (i < hi)
		vstore_f32_n(op->master + i, vjoined(op->lowp, op->rem, i, (int)(hi - i), bits),
			     (int)(hi - i));
}

ZR_INLINE void split(const struct zr_op_master *op, int64_t lo, int64_t hi, int bits)
{
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		vsplit(op->lowp, op->rem, i, vload_f32(op->master + i), ZR_W, bits);
	if (i < hi)
		vsplit(op->lowp, op->rem, i, vload_f32_n(op->master + i, (int)(hi - i)),
		       (int)(hi - i), bits);
}

void ZR_SIMD(master_join)(const struct zr_op_master *op, int64_t lo, int64_t hi)
{
	if (op->rem_bits == 8)
		join(op, lo, hi, 8);
	else
		join(op, lo, hi, 16);
}

void ZR_SIMD(master_split)(const struct zr_op_master *op, int64_t lo, int64_t hi)
{
	if (op->rem_bits == 8)
		split(op, lo, hi, 8);
	else
		split(op, lo, hi, 16);
}
