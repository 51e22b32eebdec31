/* SPDX-License-Identifier: Apache-2.0
 *
 * cast_heads.h - which elements cast_heads converts in one run.
 */
#ifndef ZEROTH_KERNELS_CPU_CAST_HEADS_H
#define ZEROTH_KERNELS_CPU_CAST_HEADS_H

#include "scalar.h"

/* Heads of a row that follow each other without gaps in both arrays. */
ZR_INLINE int64_t zr_heads_of_run(const struct zr_op_cast_heads *o)
{
	const int together = o->src_head == o->head_dim && o->dst_head == o->head_dim;

	return together ? o->heads : 1;
}

/* The cast of n heads of row r, from head h on. */
ZR_INLINE struct zr_op_cast zr_cast_of_heads(const struct zr_op_cast_heads *o, int64_t r, int64_t h,
					     int64_t n)
{
	const int64_t src = r * o->src_stride + h * o->src_head;
	const int64_t dst = r * o->dst_stride + h * o->dst_head;
	struct zr_op_cast op = { .size = sizeof op, .n = n * o->head_dim };

	op.src = zr_array_at(o->src.dtype, zr_at(o->src.data, src, o->src.dtype));
	op.dst = zr_array_at(o->dst.dtype, zr_at(o->dst.data, dst, o->dst.dtype));
	return op;
}

/* Rows [lo, hi), by a cast of runs. */
ZR_INLINE void zr_cast_rows(const struct zr_op_cast_heads *o, int64_t lo, int64_t hi,
			    void (*cast)(const struct zr_op_cast *, int64_t, int64_t))
{
	const int64_t n = zr_heads_of_run(o);

	for (int64_t r = lo; r < hi; r++)
		for (int64_t h = 0; h < o->heads; h += n) {
			const struct zr_op_cast op = zr_cast_of_heads(o, r, h, n);
			cast(&op, 0, op.n);
		}
}

#endif
