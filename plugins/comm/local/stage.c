/* SPDX-License-Identifier: Apache-2.0
 *
 * stage.c - operations on buffers that peers cannot read: neither memory of mem_alloc, nor in the
 * same process, nor readable through the kernel. Every rank has a bounded staging buffer. In
 * rounds, each rank puts a stretch of what it sends there, all meet, each reads what it needs, all
 * meet again.
 *
 * What a rank sends is cut into parts. With `parts` = the ranks, rank r needs part r of everybody;
 * with 1, all of it.
 */
#include "local.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

struct pass {
	struct zr_inst *c;
	const struct pend *p;
	const struct group *g;
	int32_t dtype; /* 0: copies */
	int32_t parts; /* of `send`: 1 or the ranks */
	int32_t only;  /* the one rank that sends, -1: all do */
	const char *send;
	/* sums: of the own part; copies: rank r's data go to recv + r * stride */
	char *recv;
	uint64_t stride; /* bytes of a part */
	uint64_t total;  /* bytes of all parts; the last ones may be shorter */
};

static char *stage_of(const struct pass *s, int32_t r)
{
	return s->c->stage + (uint64_t)rank_in_world(s->g, r) * s->c->o->staging;
}

/* Bytes of part k in the stretch of `room` bytes from offset. */
static uint64_t stretch(const struct pass *s, int32_t k, uint64_t offset, uint64_t room)
{
	uint64_t lo = (uint64_t)k * s->stride + offset, end = (uint64_t)(k + 1) * s->stride;
	if (end > s->total)
		end = s->total;
	if (lo >= end)
		return 0;
	return zl_least(end - lo, room);
}

static void put(const struct pass *s, uint64_t offset, uint64_t room)
{
	if (s->only >= 0 && s->only != s->g->rank)
		return;
	if (s->parts == 1) {
		int32_t k = s->only >= 0 ? 0 : s->g->rank;
		memcpy(stage_of(s, s->g->rank), s->send + offset, stretch(s, k, offset, room));
		return;
	}
	for (int32_t k = 0; k < s->parts; k++)
		memcpy(stage_of(s, s->g->rank) + (uint64_t)k * room,
		       s->send + (uint64_t)k * s->stride + offset, stretch(s, k, offset, room));
}

static void take_sum(const struct pass *s, uint64_t offset, uint64_t room)
{
	uint64_t n = stretch(s, s->g->rank, offset, room);
	for (int32_t r = 0; r < s->g->size; r++)
		s->c->source[r] =
			(struct source){ stage_of(s, r) + (uint64_t)s->g->rank * room, 0 };
	if (n)
		zl_sum_all(s->c, s->dtype, s->recv + offset, n, s->g->size, 0);
	atomic_fetch_add_explicit(&s->c->sent, (uint64_t)(s->g->size - 1) * n,
				  memory_order_relaxed);
}

/* Of what rank r sends, the part that this rank takes, and its place in the result. */
struct taken {
	int32_t part, place;
};

static struct taken taken_of(const struct pass *s, int32_t r)
{
	if (s->only >= 0)
		return (struct taken){ 0, 0 };
	if (s->parts == 1)
		return (struct taken){ r, r };
	return (struct taken){ s->g->rank, r };
}

static void take_copies(const struct pass *s, uint64_t offset, uint64_t room)
{
	const uint64_t from = s->parts == 1 ? 0 : (uint64_t)s->g->rank * room;
	for (int32_t r = 0; r < s->g->size; r++) {
		if (s->only >= 0 && r != s->only)
			continue;

		const struct taken t = taken_of(s, r);
		const uint64_t n = stretch(s, t.part, offset, room);
		memcpy(s->recv + (uint64_t)t.place * s->stride + offset, stage_of(s, r) + from, n);
		if (r != s->g->rank)
			atomic_fetch_add_explicit(&s->c->sent, n, memory_order_relaxed);
	}
}

static int meet(const struct pass *s)
{
	uint32_t here = ++s->c->sync[s->p->group - ZR_GROUP_NODE];
	zl_raise(s->c, s->p->group, SYNC, here);
	return zl_reach(s->c, s->p, SYNC, here, 1);
}

static int run_rounds(const struct pass *s)
{
	uint64_t room = s->c->o->staging / (uint64_t)s->parts / 64 * 64;
	for (uint64_t offset = 0; offset < s->stride; offset += room) {
		put(s, offset, room);
		int rc = meet(s);
		if (rc < 0)
			return rc;
		if (s->dtype)
			take_sum(s, offset, room);
		else
			take_copies(s, offset, room);
		rc = meet(s);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int all_reduce(struct pass s, int64_t count, uint64_t esz)
{
	s.stride = (uint64_t)zl_part(count, s.g->size) * esz;
	s.total = (uint64_t)count * esz;
	struct pass gather = s;
	s.parts = s.g->size;
	s.recv += zl_least((uint64_t)s.g->rank * s.stride, s.total);
	int rc = run_rounds(&s);
	if (rc)
		return rc;

	gather.dtype = 0;
	gather.parts = 1;
	gather.send = s.recv;
	return run_rounds(&gather);
}

static int segment(struct zr_inst *c, const struct pend *p, const struct slot *op,
		   const struct shared_seg *seg)
{
	uint64_t esz = comm_dtype_bytes(op->dtype), bytes = (uint64_t)seg->count * esz;
	const struct group *g = &c->group[p->group];
	struct pass s = { .c = c,
			  .p = p,
			  .g = g,
			  .parts = 1,
			  .only = -1,
			  .stride = bytes,
			  .total = bytes * (uint64_t)g->size };
	s.send = (const char *)(uintptr_t)seg->send;
	s.recv = (char *)(uintptr_t)seg->recv;
	switch (op->kind) {
	case ZR_COMM_REDUCE_SCATTER:
		s.dtype = op->dtype;
		s.parts = g->size;
		break;
	case ZR_COMM_ALL_TO_ALL:
		s.parts = g->size;
		break;
	case ZR_COMM_BROADCAST:
		s.only = op->root;
		break;
	case ZR_COMM_ALL_REDUCE:
		s.dtype = op->dtype;
		return all_reduce(s, seg->count, esz);
	}
	return run_rounds(&s);
}

/* The most bytes that a rank of the group sends to one in an exchange. */
static uint64_t largest(struct zr_inst *c, const struct pend *p, uint64_t esz)
{
	const int32_t ranks = c->group[p->group].size;
	int64_t most = 0;
	for (int32_t r = 0; r < ranks; r++) {
		const struct lane *l = lane_of(c, p->group, r);
		for (int32_t k = 0; k < ranks; k++) {
			const int64_t count = seg_of(l, slot_of(l, p->seq), k)->count;
			if (count > most)
				most = count;
		}
	}
	return (uint64_t)most * esz;
}

/* Bytes of a segment in the stretch of `room` bytes from offset. */
static uint64_t bytes_in(const struct shared_seg *seg, uint64_t esz, uint64_t offset, uint64_t room)
{
	const uint64_t bytes = (uint64_t)seg->count * esz;
	if (offset >= bytes)
		return 0;

	return zl_least(bytes - offset, room);
}

/* What goes to each rank, in the stretch of `room` bytes from offset. */
static void put_parts(const struct pass *s, const struct lane *l, const struct slot *op,
		      uint64_t offset, uint64_t room)
{
	const uint64_t esz = comm_dtype_bytes(op->dtype);
	for (int32_t r = 0; r < s->g->size; r++) {
		const struct shared_seg *to = seg_of(l, op, r);
		const uint64_t n = bytes_in(to, esz, offset, room);

		if (n)
			memcpy(stage_of(s, s->g->rank) + (uint64_t)r * room,
			       (const char *)(uintptr_t)to->send + offset, n);
	}
}

static void take_parts(const struct pass *s, const struct lane *l, const struct slot *op,
		       uint64_t offset, uint64_t room)
{
	const uint64_t esz = comm_dtype_bytes(op->dtype);
	for (int32_t r = 0; r < s->g->size; r++) {
		const struct shared_seg *from = seg_of(l, op, s->g->size + r);
		const uint64_t n = bytes_in(from, esz, offset, room);

		if (n)
			memcpy((char *)(uintptr_t)from->recv + offset,
			       stage_of(s, r) + (uint64_t)s->g->rank * room, n);

		if (r != s->g->rank)
			atomic_fetch_add_explicit(&s->c->sent, n, memory_order_relaxed);
	}
}

/* Counts differ from pair to pair: the rounds go on until the largest has passed. */
static int exchange(struct zr_inst *c, const struct pend *p, const struct lane *l,
		    const struct slot *op)
{
	const struct pass s = { .c = c, .p = p, .g = &c->group[p->group] };
	const uint64_t most = largest(c, p, comm_dtype_bytes(op->dtype));
	const uint64_t room = c->o->staging / (uint64_t)s.g->size / 64 * 64;
	for (uint64_t offset = 0; offset < most; offset += room) {
		put_parts(&s, l, op, offset, room);
		int rc = meet(&s);
		if (rc < 0)
			return rc;

		take_parts(&s, l, op, offset, room);
		rc = meet(&s);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int zl_stage(struct zr_inst *c, const struct pend *p)
{
	const struct lane *l = lane_of(c, p->group, c->group[p->group].rank);
	const struct slot *op = slot_of(l, p->seq);
	int rc = 0;
	if (!c->stage) {
		void *m = mmap(NULL, (uint64_t)c->world * c->o->staging, PROT_READ | PROT_WRITE,
			       MAP_SHARED, c->fd, (off_t)c->stage_at);
		if (m == MAP_FAILED)
			return zl_stop(c, "rank %d cannot map the staging buffers: %s", c->rank,
				       strerror(errno));

		c->stage = m;
	}

	if (op->kind == COMM_EXCHANGE)
		return exchange(c, p, l, op);

	for (int32_t i = 0; i < op->n_seg && rc == 0; i++)
		rc = segment(c, p, op, seg_of(l, op, i));
	return rc;
}
