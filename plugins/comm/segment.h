/* SPDX-License-Identifier: Apache-2.0
 *
 * segment.h - what every comm plugin asks of a segment: the size of its elements, and whether its
 * result lies well.
 */
#ifndef ZR_COMM_SEGMENT_H
#define ZR_COMM_SEGMENT_H

#include <zeroth/comm.h>

/* Bytes of an element; 0: none of ours. */
static inline uint64_t comm_dtype_bytes(int32_t dtype)
{
	return dtype <= ZR_U8 ? zr_bytes_of(dtype, 1) : 0;
}

static inline int comm_overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
	return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Where the result of a segment may lie: apart from what peers read, or exactly in place. */
static inline int comm_placed_well(const struct zr_comm_op *op, int rank, int size,
				   const struct zr_comm_seg *s)
{
	uint64_t n = (uint64_t)s->count * comm_dtype_bytes(op->dtype), all = n * (uint64_t)size;
	uint64_t own = n * (uint64_t)rank;
	switch (op->kind) {
	case ZR_COMM_ALL_GATHER:
		return (char *)s->recv + own == s->send || !comm_overlap(s->recv, all, s->send, n);
	case ZR_COMM_REDUCE_SCATTER:
		return (const char *)s->send + own == s->recv ||
		       !comm_overlap(s->recv, n, s->send, all);
	case ZR_COMM_ALL_REDUCE:
		return s->send == s->recv || !comm_overlap(s->recv, n, s->send, n);
	case ZR_COMM_ALL_TO_ALL:
		return !comm_overlap(s->recv, all, s->send, all);
	case ZR_COMM_BROADCAST:
		return op->root != rank || s->send == s->recv ||
		       !comm_overlap(s->recv, n, s->send, n);
	}
	return 1;
}

#endif
