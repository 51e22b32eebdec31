/* SPDX-License-Identifier: Apache-2.0
 *
 * move.c - sends and receives as much of all streams as goes without waiting: see tcp.h.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define AT_ONCE (16u << 20) /* bytes that are read before other streams have their turn */

/* A stretch of a stream. bytes 0: nothing can move now, or `over`: the phase ends here, and with
 * the last one the operation. */
struct stretch {
	char *at;
	uint64_t bytes;
	int over;
};

static struct tc_pend *find_op(struct zr_inst *c, const struct tc_group *g, uint64_t seq)
{
	return seq <= g->posted ? &c->pend[g->queue[seq % WINDOW]] : NULL;
}

int tc_is_done(const struct zr_inst *c, const struct tc_pend *p)
{
	int32_t others = c->group[p->group].size - 1;
	return p->met && p->sent == others && p->got == others && p->added == p->pieces;
}

/* ---- what is whose --------------------------------------------------------------- */

/* What of a segment goes to rank r. */
static struct stretch sent_part(const struct tc_group *g, const struct tc_pend *p, int32_t seg,
				int32_t r)
{
	if (p->own.kind == COMM_EXCHANGE)
		return (struct stretch){ p->pair[r].send, p->pair[r].sent, 0 };

	const struct zr_comm_seg *s = &p->seg[seg];
	char *from = (char *)s->send;
	uint64_t bytes = (uint64_t)s->count * comm_dtype_bytes(p->own.dtype);
	switch (p->own.kind) {
	case ZR_COMM_ALL_GATHER:
		return (struct stretch){ from, bytes, 0 };
	case ZR_COMM_BROADCAST:
		return (struct stretch){ from, g->rank == p->own.root ? bytes : 0, 0 };
	case ZR_COMM_ALL_TO_ALL:
		return (struct stretch){ from + bytes * (uint64_t)r, bytes, 0 };
	case ZR_COMM_REDUCE_SCATTER:
	case ZR_COMM_ALL_REDUCE:
		return (struct stretch){ from + tc_part_at(g, p, seg, r), tc_part(g, p, seg, r),
					 0 };
	}
	return (struct stretch){ NULL, 0, 0 };
}

/* Where what rank r sends of a segment goes, but for sums, which are staged. */
static struct stretch received_part(const struct tc_group *g, const struct tc_pend *p, int32_t seg,
				    int32_t r)
{
	(void)g;
	if (p->own.kind == COMM_EXCHANGE)
		return (struct stretch){ p->pair[r].recv, p->pair[r].received, 0 };

	const struct zr_comm_seg *s = &p->seg[seg];
	uint64_t bytes = (uint64_t)s->count * comm_dtype_bytes(p->own.dtype);
	switch (p->own.kind) {
	case ZR_COMM_ALL_GATHER:
	case ZR_COMM_ALL_TO_ALL:
		return (struct stretch){ (char *)s->recv + bytes * (uint64_t)r, bytes, 0 };
	case ZR_COMM_BROADCAST:
		return (struct stretch){ s->recv, r == p->own.root ? bytes : 0, 0 };
	}
	return (struct stretch){ NULL, 0, 0 };
}

/* The part of an all_reduce that rank r has added. */
static struct stretch result_part(const struct tc_group *g, const struct tc_pend *p, int32_t seg,
				  int32_t r)
{
	return (struct stretch){ (char *)p->seg[seg].recv + tc_part_at(g, p, seg, r),
				 tc_part(g, p, seg, r), 0 };
}

/* ---- where a stream is ----------------------------------------------------------- */

/* Segments whose bytes move; those of an exchange are one for each pair. */
static int32_t moved_segments(const struct tc_pend *p)
{
	if (p->own.kind == COMM_EXCHANGE)
		return 1;
	return p->own.kind < ZR_COMM_BARRIER ? p->own.n_seg : 0;
}

int tc_lends_to(const struct zr_inst *c, const struct tc_group *g, int32_t r)
{
	return c->lends && tc_place_in(&c->group[ZR_GROUP_NODE], tc_in_world(g, r)) >= 0;
}

/* Whether this rank and rank r lend each other what p moves: both know all that decides. A small
 * sum takes the place of what would be lent. */
static int is_lent(const struct zr_inst *c, const struct tc_group *g, const struct tc_pend *p,
		   int32_t r)
{
	if (p->small || !tc_lends_to(c, g, r))
		return 0;
	if (p->own.kind == COMM_EXCHANGE)
		return p->pair[r].sent >= LENT || p->pair[r].received >= LENT;
	if (p->own.kind == ZR_COMM_BROADCAST && r != p->own.root && g->rank != p->own.root)
		return 0;
	return p->big;
}

static int has_phase(const struct tc_pend *p, const struct tc_cursor *at)
{
	switch (at->phase) {
	case PHASE_AGREED:
		return p->own.kind == COMM_EXCHANGE;
	case PHASE_RESULT:
		return p->own.kind == ZR_COMM_ALL_REDUCE && !p->small;
	case PHASE_READ:
		return at->lent;
	}
	return 1;
}

/* The next phase, once one is through. Whether there is one. */
static int next_phase(const struct tc_pend *p, struct tc_cursor *at)
{
	at->seg = 0;
	at->at = at->told = 0;
	at->phase++;
	while (at->phase < PHASES && !has_phase(p, at))
		at->phase++;
	if (at->phase < PHASES)
		return 1;

	at->phase = PHASE_HEADER;
	at->piece = 0;
	at->seq++;
	return 0;
}

typedef struct stretch part_fn(const struct tc_group *g, const struct tc_pend *p, int32_t seg,
			       int32_t r);

static void pass_segment(struct tc_cursor *at)
{
	at->seg++;
	at->at = at->told = 0;
}

/* What is left of the segment that the cursor is in, passing over those that are through. */
static struct stretch left_of_part(const struct tc_group *g, const struct tc_pend *p,
				   struct tc_cursor *at, int32_t r, part_fn *part)
{
	for (; at->seg < moved_segments(p); pass_segment(at)) {
		struct stretch x = part(g, p, at->seg, r);
		if (at->at < x.bytes)
			return (struct stretch){ x.at + at->at, x.bytes - at->at, 0 };
	}
	return (struct stretch){ .over = 1 };
}

/* ---- sending --------------------------------------------------------------------- */

/* What rank r is told of p: of an exchange, how many elements it gets. */
static struct comm_header header_for(const struct tc_pend *p, int32_t r)
{
	struct comm_header h = p->own;
	if (h.kind == COMM_EXCHANGE)
		h.total = (int64_t)(p->pair[r].sent / comm_dtype_bytes(h.dtype));
	return h;
}

static struct stretch rest_of_header(struct tc_cursor *at)
{
	const uint64_t left = sizeof at->header - at->at;
	return (struct stretch){ (char *)&at->header + at->at, left, !left };
}

/* Where the next part lies that is lent to rank r. */
static struct stretch next_address(const struct tc_group *g, const struct tc_pend *p,
				   struct tc_cursor *at, int32_t r, part_fn *part)
{
	for (; at->seg < moved_segments(p); pass_segment(at)) {
		const struct stretch x = part(g, p, at->seg, r);
		const uint64_t left = sizeof at->address - at->at;
		if (!x.bytes || !left)
			continue;

		at->address = (uintptr_t)x.at;
		return (struct stretch){ (char *)&at->address + at->at, left, 0 };
	}
	return (struct stretch){ .over = 1 };
}

/* One byte. */
static struct stretch rest_of_word(struct tc_cursor *at)
{
	return (struct stretch){ &at->word, 1 - at->at, at->at };
}

/* Whether all was read that comes in an operation. */
static int has_read(const struct tc_cursor *in, uint64_t seq)
{
	return in->seq > seq || (in->seq == seq && in->phase == PHASE_READ);
}

/* Of the part that this rank adds what is added so far, and not sent to this peer. */
static struct stretch next_result(const struct tc_group *g, struct tc_pend *p, struct tc_cursor *at)
{
	struct stretch x = left_of_part(g, p, at, g->rank, result_part);
	if (x.over || p->added == p->pieces || at->seg < p->add_seg)
		return x;

	uint64_t added = at->seg == p->add_seg ? p->add_at : 0;
	x.bytes = added > at->at ? added - at->at : 0;
	return x;
}

static struct stretch sent_in_phase(const struct tc_group *g, struct tc_pend *p,
				    struct tc_peer *peer, int32_t r)
{
	struct tc_cursor *at = &peer->out[p->group];
	part_fn *part = at->phase == PHASE_RESULT ? result_part : sent_part;
	const int32_t whose = at->phase == PHASE_RESULT ? g->rank : r;
	const struct stretch not_yet = { NULL, 0, 0 };
	switch (at->phase) {
	case PHASE_HEADER:
		if (!at->at)
			at->header = header_for(p, r);
		return rest_of_header(at);
	case PHASE_AGREED:
		return p->met ? rest_of_word(at) : not_yet;
	case PHASE_RESULT:
		if (!at->lent)
			return next_result(g, p, at);
		if (p->added < p->pieces) /* what is lent is whole */
			return not_yet;
		break;
	case PHASE_READ:
		return has_read(&peer->in[p->group], at->seq) ? rest_of_word(at) : not_yet;
	}
	if (at->lent)
		return next_address(g, p, at, whose, part);
	return left_of_part(g, p, at, whose, part);
}

/* What goes to rank r of the group next. */
static struct stretch next_sent(const struct tc_group *g, struct tc_pend *p, struct tc_peer *peer,
				int32_t r)
{
	struct stretch x;
	do
		x = sent_in_phase(g, p, peer, r);
	while (x.over && next_phase(p, &peer->out[p->group]));
	return x;
}

/* A header that goes out now has what comes behind it beside it: a small operation is one packet.
 * Bytes that went, or < 0; the cursor is behind them. over: the operation is through. */
static ssize_t send_next(const struct tc_group *g, struct tc_pend *p, struct tc_peer *peer,
			 int32_t r, struct stretch x, int *over)
{
	struct tc_cursor *at = &peer->out[p->group];
	const struct tc_cursor before = *at;
	struct stretch behind = { NULL, 0, 0 };
	if (at->phase == PHASE_HEADER) {
		at->at = sizeof at->header;
		behind = next_sent(g, p, peer, r);
	}

	struct iovec both[] = { { x.at, x.bytes }, { behind.at, behind.bytes } };
	struct msghdr m = { .msg_iov = both, .msg_iovlen = behind.bytes ? 2 : 1 };
	ssize_t n = sendmsg(peer->fd[p->group], &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	*over = 0;
	if (n < (ssize_t)x.bytes || before.phase != PHASE_HEADER) {
		*at = before;
		at->at += n > 0 ? (uint64_t)n : 0;
		return n;
	}

	*over = behind.over;
	if (!behind.over)
		at->at += (uint64_t)n - x.bytes;
	return n;
}

/* Rank r of the group has all of p. */
static void count_sent(struct zr_inst *c, struct tc_group *g, struct tc_pend *p)
{
	p->sent++;
	if (p->small)
		tc_add_pieces(c, g, p);
}

static int send_to(struct zr_inst *c, int32_t k, int32_t r)
{
	struct tc_group *g = &c->group[k];
	struct tc_peer *peer = &c->peer[tc_in_world(g, r)];
	struct tc_cursor *at = &peer->out[k];
	struct tc_pend *p;
	int moved = 0;
	while ((p = find_op(c, g, at->seq))) {
		if (at->phase == PHASE_HEADER)
			at->lent = is_lent(c, g, p, r);

		struct stretch x = next_sent(g, p, peer, r);
		if (x.over) {
			count_sent(c, g, p);
			moved = 1;
			continue;
		}
		if (!x.bytes)
			return moved;

		int over;
		ssize_t n = send_next(g, p, peer, r, x, &over);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return moved;
		if (n < 0)
			return tc_lost(c, tc_in_world(g, r), errno);

		if (over)
			count_sent(c, g, p);
		moved = 1;
	}
	return moved;
}

/* ---- receiving ------------------------------------------------------------------- */

void tc_keep_own(const struct tc_pair *own)
{
	if (own->sent)
		memcpy(own->recv, own->send, own->sent);
}

/* Of an exchange: whether all send what this rank expects of them. */
static int compare_pairs(struct zr_inst *c, struct tc_group *g, struct tc_pend *p)
{
	const int64_t bytes = (int64_t)comm_dtype_bytes(p->own.dtype);
	char op[160];
	for (int32_t r = 0; r < g->size; r++) {
		const int64_t sent = p->all[r].total;
		const int64_t expected = (int64_t)p->pair[r].received / bytes;
		if (r == g->rank || sent == expected)
			continue;

		comm_op_text(&p->own, p->group, op, sizeof op);
		return tc_stop(c, COMM_PAIR_DIFFERS, tc_in_world(g, r), (long long)sent,
			       comm_dtype_name(p->own.dtype), c->rank, (long long)expected, op);
	}
	tc_keep_own(&p->pair[g->rank]);
	return 0;
}

/* All have come: compares. */
static int compare_headers(struct zr_inst *c, struct tc_group *g, struct tc_pend *p)
{
	for (int32_t r = 0; r < g->size; r++) {
		const char *what = comm_difference(&p->own, &p->all[r]);
		if (what)
			return tc_differ(c, p, r, what);
	}

	if (p->own.kind == COMM_EXCHANGE) {
		int rc = compare_pairs(c, g, p);
		if (rc)
			return rc;
	}
	p->met = 1;
	if (p->own.seq > g->common.seq)
		g->common = p->own;
	return 0;
}

static int is_header(const struct comm_header *h, uint64_t seq)
{
	const int known = (h->kind >= ZR_COMM_ALL_GATHER && h->kind <= ZR_COMM_FENCE) ||
			  h->kind == COMM_EXCHANGE;
	return known && h->seq == seq;
}

/* The header of rank r is here. */
static int take_header(struct zr_inst *c, struct tc_group *g, struct tc_pend *p, int32_t r,
		       const struct comm_header *h)
{
	if (!is_header(h, p->own.seq))
		return tc_stop(c,
			       "rank %d sent what is no header: do all ranks run the same zeroth?",
			       tc_in_world(g, r));
	p->all[r] = *h;
	p->came++;
	return p->came == g->size - 1 ? compare_headers(c, g, p) : 0;
}

/* Of a sum: where the next bytes of rank r's part go, which is staging. */
static struct stretch staged_part(struct tc_group *g, struct tc_pend *p, struct tc_cursor *at,
				  int32_t r)
{
	const uint64_t most = tc_piece_bytes(g->size);
	for (; at->seg < moved_segments(p); pass_segment(at)) {
		uint64_t all = tc_part(g, p, at->seg, g->rank), in = at->at % most;
		if (at->at == all)
			continue;
		if (g->adds && g->adds != p)
			return (struct stretch){ NULL, 0, 0 }; /* the sum before is not over */
		if (at->piece >= p->added + 2)
			return (struct stretch){ NULL, 0, 0 };

		uint64_t left = all - at->at < most - in ? all - at->at : most - in;
		char *half = g->staging + most * (uint64_t)g->size * (at->piece % 2);
		g->adds = p;
		return (struct stretch){ half + most * (uint64_t)r + in, left, 0 };
	}
	return (struct stretch){ .over = 1 };
}

/* Counts a piece that rank r's part of is here. */
static void count_staged(struct zr_inst *c, struct tc_group *g, struct tc_pend *p,
			 struct tc_cursor *at)
{
	const uint64_t most = tc_piece_bytes(g->size), all = tc_part(g, p, at->seg, g->rank);
	if (at->at % most && at->at < all)
		return;
	p->arrived[at->piece++ % 2]++;
	tc_add_pieces(c, g, p);
}

static struct stretch received_in_phase(struct tc_group *g, struct tc_pend *p, struct tc_cursor *at,
					int32_t r)
{
	const struct stretch not_yet = { NULL, 0, 0 };
	if (at->phase == PHASE_HEADER)
		return rest_of_header(at);
	if (comm_difference(&p->own, &p->all[r]))
		return not_yet; /* once all have come, it is said */
	if (at->phase == PHASE_AGREED || at->phase == PHASE_READ)
		return rest_of_word(at);
	if (p->own.kind == COMM_EXCHANGE && !p->met)
		return not_yet; /* counts are compared first */
	if (at->phase == PHASE_RESULT)
		return left_of_part(g, p, at, r, result_part);
	if (tc_adds(p->own.kind))
		return staged_part(g, p, at, r);
	return left_of_part(g, p, at, r, received_part);
}

/* Whether the cursor is in a part that is lent: first its address comes. */
static int is_in_lent(const struct tc_cursor *at)
{
	return at->lent && (at->phase == PHASE_DATA || at->phase == PHASE_RESULT);
}

static int lacks_address(const struct tc_cursor *at)
{
	return is_in_lent(at) && at->told < sizeof at->address;
}

/* What comes from rank r of the group next. */
static struct stretch next_received(struct tc_group *g, struct tc_pend *p, struct tc_cursor *at,
				    int32_t r)
{
	struct stretch x;
	do
		x = received_in_phase(g, p, at, r);
	while (x.over && next_phase(p, at));
	if (x.bytes && lacks_address(at))
		return (struct stretch){ (char *)&at->address + at->told,
					 sizeof at->address - at->told, 0 };
	return x;
}

/* Bytes came. */
static int take_bytes(struct zr_inst *c, struct tc_group *g, struct tc_pend *p,
		      struct tc_cursor *at, int32_t r, uint64_t n)
{
	if (lacks_address(at)) {
		at->told += n;
		return 0;
	}

	at->at += n;
	if (at->phase == PHASE_HEADER) {
		if (at->at < sizeof at->header)
			return 0;
		return take_header(c, g, p, r, &at->header);
	}
	if (at->phase != PHASE_DATA && at->phase != PHASE_RESULT)
		return 0;

	atomic_fetch_add_explicit(&c->received, n, memory_order_relaxed);
	if (at->phase == PHASE_DATA && tc_adds(p->own.kind))
		count_staged(c, g, p, at);
	return 0;
}

/* Bytes of the stretch that are here now, or < 0. */
static int64_t take_stretch(struct zr_inst *c, int32_t k, int32_t rank, const struct stretch *x)
{
	const struct tc_cursor *at = &c->peer[rank].in[k];
	if (is_in_lent(at) && !lacks_address(at)) {
		const uint64_t bytes = x->bytes < AT_ONCE ? x->bytes : AT_ONCE;
		int rc = tc_fetch(c, rank, at->address + at->at, x->at, bytes);
		return rc ? rc : (int64_t)bytes;
	}

	ssize_t n;
	do
		n = recv(c->peer[rank].fd[k], x->at, x->bytes, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return n;
	if (n < 0 && errno == EAGAIN)
		return 0;
	return tc_lost(c, rank, n ? errno : 0);
}

static int receive_from(struct zr_inst *c, int32_t k, int32_t r)
{
	struct tc_group *g = &c->group[k];
	struct tc_peer *peer = &c->peer[tc_in_world(g, r)];
	struct tc_cursor *at = &peer->in[k];
	struct tc_pend *p;
	int moved = 0;
	while ((p = find_op(c, g, at->seq))) {
		if (at->phase == PHASE_HEADER)
			at->lent = is_lent(c, g, p, r);

		struct stretch x = next_received(g, p, at, r);
		if (x.over) {
			p->got++;
			moved = 1;
			continue;
		}
		if (!x.bytes)
			return moved;

		int64_t n = take_stretch(c, k, tc_in_world(g, r), &x);
		if (n < 0)
			return (int)n;
		if (!n)
			return moved;

		int rc = take_bytes(c, g, p, at, r, (uint64_t)n);
		if (rc)
			return rc;

		moved = 1;
	}
	return moved;
}

int tc_advance(struct zr_inst *c)
{
	int moved = 0;
	for (int32_t k = ZR_GROUP_NODE; k < GROUPS; k++) {
		const struct tc_group *g = &c->group[k];
		for (int32_t i = 1; i < g->size; i++) {
			/* each begins with the next one, so that not all send to one */
			int32_t r = (g->rank + i) % g->size;
			int sent = send_to(c, k, r);
			if (sent < 0)
				return sent;

			int got = receive_from(c, k, r);
			if (got < 0)
				return got;

			moved |= sent | got;
		}
	}
	return moved;
}

/* ---- waiting --------------------------------------------------------------------- */

/* What of a connection is worth waking up for. */
static short wanted(struct zr_inst *c, int32_t k, int32_t r)
{
	struct tc_group *g = &c->group[k];
	struct tc_peer *peer = &c->peer[tc_in_world(g, r)];
	struct tc_pend *in = find_op(c, g, peer->in[k].seq), *out = find_op(c, g, peer->out[k].seq);
	short events = 0;
	if (in && next_received(g, in, &peer->in[k], r).bytes)
		events |= POLLIN;
	if (out && next_sent(g, out, peer, r).bytes)
		events |= POLLOUT;
	return events;
}

void tc_sleep(struct zr_inst *c, int milliseconds)
{
	nfds_t n = 0;
	for (int32_t r = 0; r < c->world; r++)
		if (c->peer[r].fd[NOTES] >= 0 && !c->peer[r].ended)
			c->poll[n++] =
				(struct pollfd){ .fd = c->peer[r].fd[NOTES], .events = POLLIN };
	for (int32_t k = ZR_GROUP_NODE; k < GROUPS; k++) {
		const struct tc_group *g = &c->group[k];
		for (int32_t r = 0; r < g->size; r++) {
			short events = r == g->rank ? 0 : wanted(c, k, r);
			if (events)
				c->poll[n++] =
					(struct pollfd){ .fd = c->peer[tc_in_world(g, r)].fd[k],
							 .events = events };
		}
	}

	poll(c->poll, n, milliseconds);
}
