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
	if (!b->data)
		return NULL;
	return (float *)b->data + off;
}

/* The same for any type; without a type for moments in 8 bits, whose block starts at `off`. */
static inline void *piece_at(const struct zr_buf *b, int64_t off)
{
	if (!b->data)
		return NULL;
	if (!b->dtype)
		return (char *)b->data + off / ZR_BLOCK * ZR_MOMENT8_BYTES;
	return (char *)b->data + zr_bytes_of(b->dtype, off);
}

/* Bits of a split master that its copy lacks, 0: it is not split; and where those of element `off`
 * are, or NULL. */
static inline int32_t piece_rem_bits(const struct zr_opt_step *s)
{
	if (!ZR_HAS(s, struct zr_opt_step, rem))
		return 0;
	return (int32_t)s->rem_bits;
}

static inline void *piece_rem(const struct zr_opt_step *s, int64_t off)
{
	int32_t bits = piece_rem_bits(s);
	if (!bits)
		return NULL;
	return (char *)s->rem + off * bits / 8;
}

#endif
