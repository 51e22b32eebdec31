/* SPDX-License-Identifier: Apache-2.0
 *
 * piece.h - addresses inside the buffers of a sub-group.
 */
#ifndef ZR_OPTIMIZER_PIECE_H
#define ZR_OPTIMIZER_PIECE_H

#include <zeroth/optimizer.h>

/* Element `off` of a buffer of fp32; NULL if the buffer is absent. */
static inline float *piece_f32(const struct zr_buf *b, int64_t off)
{
	return b->data ? (float *)b->data + off : NULL;
}

/* The same for a type of four bytes (fp32) or of two. */
static inline void *piece_at(const struct zr_buf *b, int64_t off)
{
	return b->data ? (char *)b->data + off * (b->dtype == ZR_F32 ? 4 : 2) : NULL;
}

#endif
