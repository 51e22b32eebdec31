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

/* Whether the counts and places of an exchange are such that some group could run it. */
static inline int comm_exchange_is_sound(const struct zr_comm_exchange *x, int32_t ranks)
{
	const uint64_t bytes = comm_dtype_bytes(x->dtype);
	uint64_t sent = 0, received = 0;
	for (int32_t r = 0; r < ranks; r++) {
		const int64_t most = INT64_MAX / 16 / ranks;
		if (x->send_count[r] < 0 || x->send_count[r] > most || x->recv_count[r] < 0 ||
		    x->recv_count[r] > most)
			return 0;

		sent += (uint64_t)x->send_count[r] * bytes;
		received += (uint64_t)x->recv_count[r] * bytes;
	}

	return bytes && !(sent && received && comm_overlap(x->send, sent, x->recv, received));
}

/* ---- groups by the ranks in them -------------------------------------------------- */

/* The place of a rank in an ascending list without doubles; -1: it is not there, or the list is
 * none. */
static inline int32_t comm_place_in(const int32_t *ranks, int32_t n, int32_t rank, int32_t world)
{
	int32_t place = -1;
	for (int32_t k = 0; k < n; k++) {
		const int32_t least = k ? ranks[k - 1] + 1 : 0;
		if (ranks[k] < least || ranks[k] >= world)
			return -1;

		if (ranks[k] == rank)
			place = k;
	}
	return place;
}

/* A number that two lists share only if they are equal, as far as 64 bits tell. */
static inline uint64_t comm_list_sign(int32_t number, const int32_t *ranks, int32_t n)
{
	uint64_t hash = (uint64_t)number * 0x9e3779b97f4a7c15u;
	for (int32_t k = 0; k < n; k++) {
		hash = (hash ^ (uint64_t)ranks[k]) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	return hash;
}

#endif
