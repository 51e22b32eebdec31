/* SPDX-License-Identifier: Apache-2.0
 *
 * cast.c - dst = src converted between ZR_F32, ZR_BF16 (half away from zero) and ZR_F16 (ties to
 * even), scalar.
 */
#include "cast_heads.h"
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(cast)(const struct zr_op_cast *op, int64_t lo, int64_t hi)
{
	if (op->dst.dtype == op->src.dtype) {
		memcpy(zr_at(op->dst.data, lo, op->dst.dtype),
		       zr_at(op->src.data, lo, op->src.dtype),
		       (size_t)((hi - lo) * zr_size(op->src.dtype)));
		return;
	}
	for (int64_t i = lo; i < hi; i++)
		zr_put(op->dst.data, i, op->dst.dtype, zr_get(op->src.data, i, op->src.dtype));
}

void ZR_SCALAR(cast_heads)(const struct zr_op_cast_heads *o, int64_t lo, int64_t hi)
{
	zr_cast_rows(o, lo, hi, ZR_SCALAR(cast));
}
