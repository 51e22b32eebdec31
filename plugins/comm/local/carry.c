/* SPDX-License-Identifier: Apache-2.0
 *
 * carry.c - small operations: what a rank sends goes into its lane together with the announcement.
 * So the ranks meet once: its buffers are its own again as soon as it has posted, and whoever has
 * all announcements has all data. Each rank adds up all of an all_reduce, in rank order as ever.
 */
#include "local.h"

#include <string.h>

#define UNIT 16 /* bytes: segments begin at multiples of it */

/* Whether what a rank sends has a part for each rank. */
static int sends_parts(int32_t kind)
{
	return kind == ZR_COMM_REDUCE_SCATTER || kind == ZR_COMM_ALL_TO_ALL;
}

/* Bytes of what every rank sends of a segment. */
static uint64_t sent_bytes(int32_t kind, int32_t ranks, uint64_t bytes)
{
	if (sends_parts(kind))
		return bytes * (uint64_t)ranks;
	return bytes;
}

/* The place in a payload of the segment after one that begins at `at`. */
static uint64_t after(uint64_t at, uint64_t bytes)
{
	return (at + bytes + UNIT - 1) / UNIT * UNIT;
}

uint64_t zl_carried_bytes(const struct zr_comm_op *op, int32_t ranks)
{
	uint64_t all = 0, esz = comm_dtype_bytes(op->dtype);
	for (int32_t i = 0; i < op->n_seg && all <= CARRIED; i++)
		all = after(all, sent_bytes(op->kind, ranks, (uint64_t)op->seg[i].count * esz));
	if (op->kind >= ZR_COMM_BARRIER || all > CARRIED)
		return 0;
	return all;
}

/* Of a rank's operation. */
static char *payload_of(struct lane *l, const struct slot *own, uint32_t seq)
{
	struct mark *m = mark_of(l, seq);
	if (own->carries <= (int32_t)sizeof m->data)
		return m->data;
	return l->payload + own->payload % PAYLOAD;
}

void zl_carry(struct zr_inst *c, const struct zr_comm_op *op, struct lane *l, uint32_t seq)
{
	const struct group *g = &c->group[op->group];
	const uint64_t esz = comm_dtype_bytes(op->dtype);
	char *to = payload_of(l, slot_of(l, seq), seq);
	if (op->kind == ZR_COMM_BROADCAST && op->root != g->rank)
		return;

	for (int32_t i = 0; i < op->n_seg; i++) {
		uint64_t n = sent_bytes(op->kind, g->size, (uint64_t)op->seg[i].count * esz);
		if (n)
			memcpy(to, op->seg[i].send, n);
		to += after(0, n);
	}
}

/* The data of a segment; from[r]: where it begins in the payload of rank r. */
static void move(const struct slot *s, const char *const *from, int32_t ranks, int32_t rank,
		 char *to, uint64_t bytes)
{
	const uint64_t own = sends_parts(s->kind) ? (uint64_t)rank * bytes : 0;
	const char *part[MAX_RANKS];
	for (int32_t r = 0; r < ranks; r++)
		part[r] = from[r] + own;

	switch (s->kind) {
	case ZR_COMM_ALL_GATHER:
	case ZR_COMM_ALL_TO_ALL:
		for (int32_t r = 0; r < ranks; r++)
			memcpy(to + (uint64_t)r * bytes, part[r], bytes);
		break;
	case ZR_COMM_BROADCAST:
		memcpy(to, part[s->root], bytes);
		break;
	default:
		zl_sum(s->dtype, &to, 1, part, ranks, bytes, 0);
	}
}

/* Bytes that this rank gets of a segment, counted as if it had read no more than it must. */
static uint64_t received(const struct slot *s, const struct group *g, int64_t count, uint64_t esz)
{
	const uint64_t bytes = (uint64_t)count * esz, others = (uint64_t)(g->size - 1);
	uint64_t part, lo, hi;
	if (s->kind == ZR_COMM_BROADCAST)
		return s->root == g->rank ? 0 : bytes;
	if (s->kind != ZR_COMM_ALL_REDUCE)
		return others * bytes;

	part = (uint64_t)zl_part(count, g->size) * esz;
	lo = zl_least(part * (uint64_t)g->rank, bytes);
	hi = zl_least(lo + part, bytes);
	return others * (hi - lo) + bytes - (hi - lo);
}

void zl_carry_move(struct zr_inst *c, const struct pend *p)
{
	const struct group *g = &c->group[p->group];
	const struct lane *own = lane_of(c, p->group, g->rank);
	const struct slot *s = slot_of(own, p->seq);
	const uint64_t esz = comm_dtype_bytes(s->dtype);
	const char *from[MAX_RANKS];
	uint64_t sent = 0;
	for (int32_t r = 0; r < g->size; r++) /* payloads lie alike on all ranks */
		from[r] = payload_of(lane_of(c, p->group, r), s, p->seq);

	for (int32_t i = 0; i < s->n_seg; i++) {
		const struct shared_seg *seg = seg_of(own, s, i);
		const uint64_t bytes = (uint64_t)seg->count * esz;
		const uint64_t next = after(0, sent_bytes(s->kind, g->size, bytes));
		if (bytes)
			move(s, from, g->size, g->rank, (char *)(uintptr_t)seg->recv, bytes);
		sent += received(s, g, seg->count, esz);
		for (int32_t r = 0; r < g->size; r++)
			from[r] += next;
	}

	atomic_fetch_add_explicit(&c->sent, sent, memory_order_relaxed);
}
