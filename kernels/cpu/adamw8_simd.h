/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw8_simd.h - AdamW with moments in 8 bits, with vectors.
 */
#ifndef ZEROTH_KERNELS_CPU_ADAMW8_SIMD_H
#define ZEROTH_KERNELS_CPU_ADAMW8_SIMD_H

#include "kept_simd.h"

/* From so many elements on, a copy in bf16 goes around the caches: these would read it first, up to
 * a tenth of what the update moves, and lose it before the next forward. */
#define ADAMW_LARGE (1 << 18)

ZR_INLINE struct vkept adamw_masters(const struct zr_op_adamw *op)
{
	return (struct vkept){ op->master, op->lowp, op->rem, op->n >= ADAMW_LARGE };
}

/* As adamw in table.h, of an operation whose moments are ZR_U8. */
void ZR_SIMD(adamw8)(const struct zr_op_adamw *op, int64_t lo, int64_t hi);

#endif
