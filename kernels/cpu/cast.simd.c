/* SPDX-License-Identifier: Apache-2.0
 *
 * cast.simd.c - cast.c with vectors, same bits.
 */
#include "cast_heads.h"
#include "simd.h"
#include "table.h"

ZR_INLINE void convert(const struct zr_op_cast *op, int64_t lo, int64_t hi, int32_t to,
		       int32_t from)
{
	int64_t i = lo;

	for (; i + ZR_W <= hi; i += ZR_W)
		vstore(op->dst.data, i, to, vload(op->src.data, i, from));
	if (i < hi)
		vstore_n(op->dst.data, i, to, vload_n(op->src.data, i, from, (int)(hi - i)),
			 (int)(hi - i));
}

void ZR_SIMD(cast)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	if (op->dst.dtype == op->src.dtype)
		memcpy(zr_at(op->dst.data, lo, op->dst.dtype),
		       zr_at(op->src.data, lo, op->src.dtype),
		       (size_t)((hi - lo) * zr_size(op->src.dtype)));
	else if (op->dst.dtype == ZR_F32)
		ZR_BY_DTYPE(op->src.dtype, convert, op, lo, hi, ZR_F32);
	else if (op->dst.dtype == ZR_BF16)
		ZR_BY_DTYPE(op->src.dtype, convert, op, lo, hi, ZR_BF16);
	else
		ZR_BY_DTYPE(op->src.dtype, convert, op, lo, hi, ZR_F16);
}

void ZR_SIMD(cast_heads)(const struct zr_op_cast_heads *o, int64_t lo, int64_t hi)
{
	zr_cast_rows(o, lo, hi, ZR_SIMD(cast));
}
