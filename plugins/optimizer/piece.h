/* SPDX-License-Identifier: Apache-2.0
 *
 * piece.h - addresses inside the buffers of a sub-group.
 */
#ifndef ZR_OPTIMIZER_PIECE_H
#define ZR_OPTIMIZER_PIECE_H

#include <zeroth/device.h>
#include <zeroth/optimizer.h>

/* Element `off` of a buffer of fp32; NULL if the buffer is absent. */
static inline float *piece_f32(const struct zr_buf *b, int64_t off)
{
	return b->data ? (float *)b->data + off : NULL;
}

/* The same for a type of four bytes (fp32) or of two, or, without a type, for moments in 8 bits,
 * where a block starts at `off`. */
static inline void *piece_at(const struct zr_buf *b, int64_t off)
{
	int64_t bytes = b->dtype == ZR_F32 ? off * 4 :
			b->dtype	   ? off * 2 :
					     off / ZR_BLOCK * ZR_MOMENT8_BYTES;
	return b->data ? (char *)b->data + bytes : NULL;
}

#endif
