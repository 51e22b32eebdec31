/* SPDX-License-Identifier: Apache-2.0
 *
 * piece.c - the data of operations in host memory: small ones go with the message to all, others in
 * pieces through memory of the GPU. Sums are added on the host, in rank order (invariant I1).
 */
#define _GNU_SOURCE
#include "nccl.h"
#include "plugins/comm/sum.h"

#include <string.h>

/* Kinds in which a rank sends each other one a part of its own. */
static int is_apart(int32_t kind)
{
	return kind == ZR_COMM_ALL_TO_ALL || kind == ZR_COMM_REDUCE_SCATTER;
}

static uint64_t element(const struct nn_pend *p)
{
	return comm_dtype_bytes(p->own.dtype);
}

static char *at_element(const struct nn_pend *p, const void *base, int64_t k)
{
	return (char *)(uintptr_t)base + (uint64_t)k * element(p);
}

/* to = the sum of n elements of each rank, `stride` bytes apart. */
static void add(struct zr_inst *c, const struct nn_pend *p, char *to, const char *from,
		uint64_t stride, int64_t n)
{
	const struct nn_group *g = &c->group[p->group];

	for (int32_t r = 0; r < g->size; r++)
		g->talk->source[r] = from + (uint64_t)r * stride;
	zl_sum(p->own.dtype, &to, 1, g->talk->source, g->size, (uint64_t)n * element(p), 0);
}

/* Of elements [at, at + n) of a segment: what the ranks sent, `stride` bytes apart. */
static void take(struct zr_inst *c, const struct nn_pend *p, const struct zr_comm_seg *s,
		 int64_t at, int64_t n, const char *from, uint64_t stride)
{
	const struct nn_group *g = &c->group[p->group];
	char *to = at_element(p, s->recv, at);
	if (nn_adds(p->own.kind)) {
		add(c, p, to, from, stride, n);
		return;
	}

	if (p->own.kind == ZR_COMM_BROADCAST) {
		memcpy(to, from + (uint64_t)p->own.root * stride, (uint64_t)n * element(p));
		return;
	}

	for (int32_t r = 0; r < g->size; r++)
		memcpy(at_element(p, to, r * s->count), from + (uint64_t)r * stride,
		       (uint64_t)n * element(p));
}

/* ---- with the message ------------------------------------------------------------ */

/* What a rank sends of a segment, in a message to all. */
static uint64_t whole(const struct zr_inst *c, const struct nn_pend *p, const struct zr_comm_seg *s)
{
	const uint64_t parts = is_apart(p->own.kind) ? (uint64_t)c->group[p->group].size : 1;
	return parts * (uint64_t)s->count * element(p);
}

uint64_t nn_inline_bytes(const struct zr_inst *c, const struct nn_pend *p)
{
	uint64_t sum = 0;

	for (int32_t i = 0; i < p->own.n_seg && sum <= NN_MESSAGE; i++)
		sum += whole(c, p, &p->seg[i]);
	return sum;
}

void nn_inline_put(const struct zr_inst *c, const struct nn_pend *p, char *to)
{
	const int sends = p->own.kind != ZR_COMM_BROADCAST ||
			  p->own.root == c->group[p->group].rank;
	for (int32_t i = 0; i < p->own.n_seg && sends; i++) {
		const uint64_t bytes = whole(c, p, &p->seg[i]);
		if (bytes)
			memcpy(to, p->seg[i].send, bytes);
		to += bytes;
	}
}

void nn_inline_take(struct zr_inst *c, const struct nn_pend *p, const char *from, uint64_t stride)
{
	const int32_t rank = c->group[p->group].rank;

	for (int32_t i = 0; i < p->own.n_seg; i++) {
		const struct zr_comm_seg *s = &p->seg[i];
		const char *own = from;
		if (is_apart(p->own.kind))
			own = at_element(p, from, rank * s->count);
		if (s->count)
			take(c, p, s, 0, s->count, own, stride);
		from += whole(c, p, s);
	}
}

/* ---- pieces ---------------------------------------------------------------------- */

/* Elements of each rank that go at a time; whole lines. */
static int64_t most(const struct zr_inst *c, const struct nn_pend *p)
{
	const struct nn_group *g = &c->group[p->group];
	const uint64_t ranks = p->own.kind == ZR_COMM_BROADCAST ? 1 : (uint64_t)g->size;
	return (int64_t)(g->talk->half / ranks / 64 * 64 / element(p));
}

static int64_t within(int64_t n, int64_t at, int64_t count)
{
	if (count <= at)
		return 0;
	return count - at < n ? count - at : n;
}

/* What goes from this rank and what comes, of each rank in a place of `stride` bytes. */
struct turn {
	uint64_t stride;
	int64_t sent, received; /* elements of a rank whose counts tell nothing else */
};

static int64_t sent_to(const struct nn_pend *p, const struct turn *t, int32_t rank)
{
	if (p->own.kind == COMM_EXCHANGE)
		return within(p->n, p->at, p->exchange.send_count[rank]);
	return t->sent;
}

static int64_t received_from(const struct nn_pend *p, const struct turn *t, int32_t rank)
{
	if (p->own.kind == COMM_EXCHANGE)
		return within(p->n, p->at, p->exchange.recv_count[rank]);
	return t->received;
}

/* Each rank sends each other one what lies in its place. */
static ncclResult_t send_apart(const struct nn_group *g, const struct nn_pend *p,
			       const struct turn *turn)
{
	const struct nn_talk *t = g->talk;
	ncclResult_t e = ncclSuccess;

	for (int32_t r = 0; r < g->size && nn_is_noted(e); r++) {
		const uint64_t to = (uint64_t)sent_to(p, turn, r) * element(p);
		const uint64_t from = (uint64_t)received_from(p, turn, r) * element(p);
		char *out = t->device + (uint64_t)r * turn->stride;
		if (to)
			e = ncclSend(out, to, ncclUint8, r, t->comm, t->stream);
		if (from && nn_is_noted(e))
			e = ncclRecv(out + t->half, from, ncclUint8, r, t->comm, t->stream);
	}

	return e;
}

static int move(struct zr_inst *c, const struct nn_pend *p, const struct turn *turn, uint64_t sent,
		uint64_t received)
{
	const struct nn_group *g = &c->group[p->group];
	const struct nn_talk *t = g->talk;
	char *to = t->device + t->half;
	int rc = nn_talk_begin(c, t, sent);
	if (rc)
		return rc;

	ncclResult_t e = ncclGroupStart();
	if (!nn_is_noted(e))
		return nn_end_group(c, t->comm, e);
	if (p->own.kind == ZR_COMM_ALL_GATHER || p->own.kind == ZR_COMM_ALL_REDUCE)
		e = ncclAllGather(t->device, to, turn->stride, ncclUint8, t->comm, t->stream);
	else if (p->own.kind == ZR_COMM_BROADCAST)
		e = ncclBroadcast(t->device, to, turn->stride, ncclUint8, p->own.root, t->comm,
				  t->stream);
	else
		e = send_apart(g, p, turn);
	rc = nn_end_group(c, t->comm, e);
	if (rc)
		return rc;
	return nn_talk_end(c, t, received);
}

/* ---- of segments ----------------------------------------------------------------- */

static int start_segment(struct zr_inst *c, struct nn_pend *p)
{
	const struct nn_group *g = &c->group[p->group];

	while (p->at_seg < p->own.n_seg && p->at == p->seg[p->at_seg].count) {
		p->at_seg++;
		p->at = 0;
	}

	if (p->at_seg == p->own.n_seg)
		return 1;

	const struct zr_comm_seg *s = &p->seg[p->at_seg];
	const uint64_t ranks = (uint64_t)g->size;
	p->n = within(most(c, p), p->at, s->count);
	const struct turn turn = { (uint64_t)p->n * element(p), p->n, p->n };
	uint64_t sent = turn.stride, received = turn.stride * ranks;
	char *to = g->talk->pinned;
	if (is_apart(p->own.kind)) {
		sent = received;
		for (int32_t r = 0; r < g->size; r++)
			memcpy(to + (uint64_t)r * turn.stride,
			       at_element(p, s->send, r * s->count + p->at), turn.stride);
	} else if (p->own.kind != ZR_COMM_BROADCAST) {
		memcpy(to, at_element(p, s->send, p->at), turn.stride);
	} else {
		received = turn.stride;
		if (p->own.root == g->rank)
			memcpy(to, at_element(p, s->send, p->at), turn.stride);
		else
			sent = 0;
	}

	return move(c, p, &turn, sent, received);
}

static void take_segment(struct zr_inst *c, const struct nn_pend *p)
{
	const struct nn_talk *t = c->group[p->group].talk;
	const struct zr_comm_seg *s = &p->seg[p->at_seg];
	const uint64_t stride = (uint64_t)p->n * element(p);
	if (p->own.kind == ZR_COMM_BROADCAST)
		memcpy(at_element(p, s->recv, p->at), t->pinned + t->half, stride);
	else
		take(c, p, s, p->at, p->n, t->pinned + t->half, stride);
}

/* ---- of exchanges ---------------------------------------------------------------- */

/* The largest count from `at` on that goes to a rank or comes from one. */
static int64_t largest(const struct nn_group *g, const struct nn_pend *p)
{
	int64_t n = 0;

	for (int32_t r = 0; r < g->size; r++) {
		const int64_t to = p->exchange.send_count[r], from = p->exchange.recv_count[r];
		if (to - p->at > n)
			n = to - p->at;
		if (from - p->at > n)
			n = from - p->at;
	}

	return n;
}

static int start_exchange(struct zr_inst *c, struct nn_pend *p)
{
	const struct nn_group *g = &c->group[p->group];
	const struct turn turn = { (uint64_t)most(c, p) * element(p), 0, 0 };
	const uint64_t all = turn.stride * (uint64_t)g->size;
	int64_t first = 0;
	if (!largest(g, p))
		return 1;

	p->n = most(c, p);
	for (int32_t r = 0; r < g->size; r++) {
		const int64_t n = sent_to(p, &turn, r);
		if (n)
			memcpy(g->talk->pinned + (uint64_t)r * turn.stride,
			       at_element(p, p->exchange.send, first + p->at),
			       (uint64_t)n * element(p));
		first += p->exchange.send_count[r];
	}

	return move(c, p, &turn, all, all);
}

static void take_exchange(struct zr_inst *c, const struct nn_pend *p)
{
	const struct nn_group *g = &c->group[p->group];
	const uint64_t stride = (uint64_t)p->n * element(p);
	const char *from = g->talk->pinned + g->talk->half;
	const struct turn turn = { stride, 0, 0 };
	int64_t first = 0;

	for (int32_t r = 0; r < g->size; r++) {
		const int64_t n = received_from(p, &turn, r);
		if (n)
			memcpy(at_element(p, p->exchange.recv, first + p->at),
			       from + (uint64_t)r * stride, (uint64_t)n * element(p));
		first += p->exchange.recv_count[r];
	}
}

/* ---- of either ------------------------------------------------------------------- */

int nn_piece_start(struct zr_inst *c, struct nn_pend *p)
{
	p->at += p->n;
	p->n = 0;
	if (p->own.kind == COMM_EXCHANGE)
		return start_exchange(c, p);
	return start_segment(c, p);
}

void nn_piece_take(struct zr_inst *c, const struct nn_pend *p)
{
	if (p->own.kind == COMM_EXCHANGE)
		take_exchange(c, p);
	else
		take_segment(c, p);
}
