/* SPDX-License-Identifier: Apache-2.0
 *
 * scale_heads.h - which elements of a matrix belong to which head, for scale_heads.
 */
#ifndef ZEROTH_KERNELS_CPU_SCALE_HEADS_H
#define ZEROTH_KERNELS_CPU_SCALE_HEADS_H

#include "scalar.h"

/* The head of element `e` of the matrix, -1: none. */
ZR_INLINE int64_t zr_scaled_head(const struct zr_op_scale_heads *o, int64_t e)
{
	const int64_t line = (o->flags & ZR_SCALE_COLUMNS ? e % o->width : e / o->width) - o->begin;

	if (line < 0 || line >= o->heads * o->apart || line % o->apart >= o->lines)
		return -1;
	return line / o->apart;
}

#endif
