/* SPDX-License-Identifier: Apache-2.0
 *
 * cast.simd.c - cast.c with vectors, same bits.
 */
#include "simd.h"
#include "table.h"

ZR_INLINE void convert(const struct zr_op_cast *op, int64_t lo, int64_t hi, int32_t to,
		       int32_t from)
{
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		vstore(op->dst, i, to, vload(op->src, i, from));
	if (i < hi)
		vstore_n(op->dst, i, to, vload_n(op->src, i, from, (int)(hi - i)), (int)(hi - i));
}

void ZR_SIMD(cast)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	if (op->dst_dtype == op->src_dtype)
		memcpy(zr_at(op->dst, lo, op->dst_dtype), zr_at(op->src, lo, op->src_dtype),
		       (size_t)((hi - lo) * zr_size(op->src_dtype)));
	else if (op->dst_dtype == ZR_F32)
		ZR_BY_DTYPE(op->src_dtype, convert, op, lo, hi, ZR_F32);
	else if (op->dst_dtype == ZR_BF16)
		ZR_BY_DTYPE(op->src_dtype, convert, op, lo, hi, ZR_BF16);
	else
		ZR_BY_DTYPE(op->src_dtype, convert, op, lo, hi, ZR_F16);
}
