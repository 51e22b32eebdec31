/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c - operations from post to wait: announced in the own ring, compared with those of the
 * peers, executed in the order of posting, consumed.
 */
#include "local.h"

#include <string.h>

/* ---- checks ---------------------------------------------------------------------- */

static int moves_data(int32_t kind)
{
	return kind < ZR_COMM_BARRIER || kind == COMM_EXCHANGE;
}

static int is_group(const struct zr_inst *c, int32_t group)
{
	return group >= ZR_GROUP_SELF && group < GROUPS && c->group[group].size;
}

static int check_segments(struct zr_inst *c, const struct zr_comm_op *op)
{
	const struct group *g = &c->group[op->group];
	uint64_t bytes = comm_dtype_bytes(op->dtype);
	const int32_t most = op->kind == ZR_COMM_BARRIER ? 0 : SEGS / 4;
	if (op->n_seg < 0 || op->n_seg > most)
		return zr_fail(c->h, ZR_EINVAL, "%s of %d segments", comm_kind_name(op->kind),
			       op->n_seg);
	if (op->n_seg && !bytes)
		return zr_fail(c->h, ZR_EINVAL, "%s of unknown type %d", comm_kind_name(op->kind),
			       op->dtype);

	for (int32_t i = 0; i < op->n_seg; i++) {
		const struct zr_comm_seg *s = &op->seg[i];
		if (s->count < 0 || s->count > INT64_MAX / 16 / g->size)
			return zr_fail(c->h, ZR_EINVAL, "segment %d of %s has %lld elements", i,
				       comm_kind_name(op->kind), (long long)s->count);
		if (s->count && !comm_placed_well(op, g->rank, g->size, s))
			return zr_fail(
				c->h, ZR_EINVAL,
				"segment %d of %s: the result would overwrite what peers read", i,
				comm_kind_name(op->kind));
	}
	return 0;
}

static int check_op(struct zr_inst *c, const struct zr_comm_op *op)
{
	if (op->kind < ZR_COMM_ALL_GATHER || op->kind > COMM_MEM)
		return zr_fail(c->h, ZR_EINVAL, "unknown kind of operation %d", op->kind);
	if (!is_group(c, op->group))
		return zr_fail(c->h, ZR_EINVAL, "%s over unknown group %d",
			       comm_kind_name(op->kind), op->group);
	if ((op->kind == ZR_COMM_REDUCE_SCATTER || op->kind == ZR_COMM_ALL_REDUCE) &&
	    op->dtype != ZR_F32 && op->dtype != ZR_F64 && op->dtype != ZR_I64)
		return zr_fail(c->h, ZR_ENOTSUP, "%s adds f32, f64 and i64, not %s",
			       comm_kind_name(op->kind), comm_dtype_name(op->dtype));
	if (op->kind == ZR_COMM_BROADCAST && (op->root < 0 || op->root >= c->group[op->group].size))
		return zr_fail(c->h, ZR_EINVAL, "broadcast from rank %d of %d", op->root,
			       c->group[op->group].size);
	return check_segments(c, op);
}

/* ---- post ------------------------------------------------------------------------ */

/* A group of one rank: the result is a copy. */
static void alone(const struct zr_comm_op *op)
{
	for (int32_t i = 0; i < op->n_seg && moves_data(op->kind); i++)
		if (op->seg[i].count && op->seg[i].send != op->seg[i].recv)
			memcpy(op->seg[i].recv, op->seg[i].send,
			       (uint64_t)op->seg[i].count * comm_dtype_bytes(op->dtype));
}

/* How many of the posted operations some rank has not executed: a peer, or this one, whose own
 * part stands there, too. */
static uint32_t most_behind(const struct zr_inst *c, int32_t group)
{
	const struct group *g = &c->group[group];
	uint32_t posted = c->posted[group - ZR_GROUP_NODE], behind = 0;
	for (int32_t r = 0; r < g->size; r++) {
		uint32_t gap = posted - atomic_load(&lane_of(c, group, r)->word[DONE]);
		behind = (int32_t)gap > (int32_t)behind ? gap : behind;
	}
	return behind;
}

/* 1 if the own lane has room for n more segments, and for so many bytes of payload in one piece:
 * those of an operation count until all have executed it. */
static int has_room(struct zr_inst *c, int32_t group, int32_t n, uint64_t payload)
{
	const int32_t k = group - ZR_GROUP_NODE;
	const struct lane *own = lane_of(c, group, c->group[group].rank);
	uint64_t *head = &c->payload_head[k], end = c->seg_head[k] + (uint64_t)n;
	if (*head % PAYLOAD + payload > PAYLOAD)
		*head += PAYLOAD - *head % PAYLOAD;
	if (end > c->seg_end[k] || *head + payload > c->payload_end[k]) {
		uint32_t posted = c->posted[k], behind = most_behind(c, group);
		const struct slot *oldest = slot_of(own, posted - behind + 1);
		uint64_t first_seg = c->seg_head[k], payload = *head;
		if (behind) {
			first_seg = oldest->first_seg;
			payload = oldest->payload;
		}
		c->seg_end[k] = SEGS + first_seg;
		c->payload_end[k] = PAYLOAD + payload;
	}
	return end <= c->seg_end[k] && *head + payload <= c->payload_end[k];
}

/* Bytes of a segment's send and recv as the kind says. */
static void seg_bytes(const struct zr_comm_op *op, int32_t ranks, int64_t count, uint64_t *send,
		      uint64_t *recv)
{
	uint64_t n = (uint64_t)count * comm_dtype_bytes(op->dtype), all = n * (uint64_t)ranks;
	*send = n;
	*recv = n;
	if (op->kind == ZR_COMM_REDUCE_SCATTER || op->kind == ZR_COMM_ALL_TO_ALL)
		*send = all;
	if (op->kind == ZR_COMM_ALL_GATHER || op->kind == ZR_COMM_ALL_TO_ALL)
		*recv = all;
}

static void share_segments(struct zr_inst *c, const struct zr_comm_op *op, struct lane *l,
			   struct slot *s)
{
	const struct group *g = &c->group[op->group];
	int across = op->group != ZR_GROUP_NODE && c->nodes > 1;
	for (int32_t i = 0; i < op->n_seg; i++) {
		const struct zr_comm_seg *from = &op->seg[i];
		struct shared_seg *to = &l->seg[(s->first_seg + (uint64_t)i) % SEGS];
		uint64_t send, recv;
		int read_recv = op->kind == ZR_COMM_ALL_REDUCE;
		int read_send = from->send && moves_data(op->kind) &&
				(op->kind != ZR_COMM_BROADCAST || op->root == g->rank);
		seg_bytes(op, g->size, from->count, &send, &recv);
		*to = (struct shared_seg){ .send = (uintptr_t)from->send,
					   .recv = (uintptr_t)from->recv,
					   .count = from->count };
		if (s->carries)
			continue;

		if (!across) {
			to->send_at = zl_mem_at(c, from->send, send);
			to->recv_at = zl_mem_at(c, from->recv, recv);
		}
		if (from->count && ((read_send && !to->send_at) || (read_recv && !to->recv_at)))
			s->private = 1;
	}
}

static void say_doing(struct zr_inst *c, const struct zr_comm_op *op)
{
	struct doing *d = &c->area->seat[c->rank].doing;
	atomic_store_explicit(&d->step, op->tag.step, memory_order_relaxed);
	atomic_store_explicit(&d->op, op->tag.op, memory_order_relaxed);
	atomic_store_explicit(&d->unit, op->tag.unit, memory_order_relaxed);
	atomic_store_explicit(&d->kind, op->kind | op->group << 8, memory_order_relaxed);
}

/* What the peers read of the operation, in the slot that its number has in the own ring. */
static const struct slot *fill_slot(struct zr_inst *c, const struct zr_comm_op *op, struct lane *l,
				    uint32_t seq, uint64_t carried)
{
	const int32_t k = op->group - ZR_GROUP_NODE;
	struct slot *s = &l->slot[seq % RING];
	*s = (struct slot){ .kind = op->kind,
			    .dtype = op->n_seg ? op->dtype : 0,
			    .n_seg = op->n_seg,
			    .tag = op->tag };
	if (op->kind == ZR_COMM_BROADCAST)
		s->root = op->root;
	s->first_seg = c->seg_head[k];
	s->payload = c->payload_head[k];
	s->carries = (int32_t)carried;
	share_segments(c, op, l, s);
	if (carried)
		zl_carry(c, op, l, seq);
	return s;
}

static void announce(struct zr_inst *c, const struct zr_comm_op *op, struct pend *p,
		     uint64_t carried)
{
	const int32_t k = op->group - ZR_GROUP_NODE;
	struct lane *l = lane_of(c, op->group, c->group[op->group].rank);
	*p = (struct pend){ .ticket = c->next, .seq = c->posted[k] + 1, .group = op->group };

	const struct slot *s = fill_slot(c, op, l, p->seq, carried);
	struct mark *m = mark_of(l, p->seq);
	m->sign = zl_sign(op, s);
	atomic_store_explicit(&m->seq, p->seq, memory_order_release);

	c->payload_head[k] += carried;
	c->seg_head[k] += (uint64_t)op->n_seg;
	c->posted[k] = p->seq;
	c->next++;
	c->outstanding++;
	say_doing(c, op);
	zl_raise(c, op->group, POSTED, p->seq);
}

/* Peers are behind with fences and barriers that this rank has left already. */
static int let_them_read(struct zr_inst *c, int32_t group)
{
	struct pend p = { .seq = c->posted[group - ZR_GROUP_NODE], .group = group };
	c->since = 0;
	c->doing = "a post with a full ring";
	return zl_reach(c, &p, DONE, p.seq, 1);
}

/* An operation that was checked, of several ranks. */
static int post_checked(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out)
{
	struct pend *p = &c->pend[c->next % WINDOW];
	if (p->ticket)
		return ZR_EAGAIN;

	uint64_t carried = zl_carried_bytes(op, c->group[op->group].size);
	if (!has_room(c, op->group, op->n_seg, carried)) {
		if (c->outstanding)
			return ZR_EAGAIN;

		/* nothing that the caller could complete would help */
		int rc = let_them_read(c, op->group);
		if (rc < 0)
			return rc;

		has_room(c, op->group, op->n_seg, carried);
	}

	announce(c, op, p, carried);
	*out = p->ticket;
	return 0;
}

int zl_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out)
{
	int rc = zl_aborted(c);
	if (!rc)
		rc = check_op(c, op);
	if (rc)
		return rc;

	if (c->group[op->group].size == 1) {
		alone(op);
		*out = 0;
		return 0;
	}
	return post_checked(c, op, out);
}

static int check_exchange(struct zr_inst *c, const struct zr_comm_exchange *x)
{
	if (!is_group(c, x->group))
		return zr_fail(c->h, ZR_EINVAL, "exchange over unknown group %d", x->group);

	const struct group *g = &c->group[x->group];
	return comm_check_exchange(c->h, x, g->size, g->rank);
}

static void keep_own(const struct zr_comm_exchange *x)
{
	if (x->send_count[0])
		memcpy(x->recv, x->send, (uint64_t)x->send_count[0] * comm_dtype_bytes(x->dtype));
}

/* What goes to each rank, then what comes of each. */
static void list_parts(const struct zr_comm_exchange *x, int32_t ranks, struct zr_comm_seg *seg)
{
	const uint64_t esz = comm_dtype_bytes(x->dtype);
	const char *send = x->send;
	char *recv = x->recv;
	for (int32_t r = 0; r < ranks; r++) {
		seg[r] = (struct zr_comm_seg){ send, NULL, x->send_count[r] };
		seg[ranks + r] = (struct zr_comm_seg){ NULL, recv, x->recv_count[r] };
		send += (uint64_t)x->send_count[r] * esz;
		recv += (uint64_t)x->recv_count[r] * esz;
	}
}

int zl_exchange(struct zr_inst *c, const struct zr_comm_exchange *x, zr_ticket *out)
{
	int rc = zl_aborted(c);
	if (!rc)
		rc = check_exchange(c, x);
	if (rc)
		return rc;

	const int32_t ranks = c->group[x->group].size;
	if (ranks == 1) {
		keep_own(x);
		*out = 0;
		return 0;
	}

	struct zr_comm_seg seg[2 * MAX_RANKS];
	list_parts(x, ranks, seg);

	const struct zr_comm_op op = { .size = sizeof op,
				       .kind = COMM_EXCHANGE,
				       .group = x->group,
				       .dtype = x->dtype,
				       .n_seg = 2 * ranks,
				       .seg = seg,
				       .tag = x->tag };
	return post_checked(c, &op, out);
}

/* ---- execution ------------------------------------------------------------------- */

static void executed(struct zr_inst *c, struct pend *p)
{
	p->stage = 2;
	zl_raise(c, p->group, DONE, p->seq);
}

/* 1 if some rank of the group has no way to read some buffer. All ranks come to the same answer. */
static int must_stage(struct zr_inst *c, const struct pend *p)
{
	const struct group *g = &c->group[p->group];
	int private = 0, apart = 0;
	for (int32_t r = 0; r < g->size; r++) {
		const struct lane *l = lane_of(c, p->group, r);
		private |= slot_of(l, p->seq)->private;
		apart |= atomic_load(&c->area->seat[rank_in_world(g, r)].pid) != c->pid;
	}
	return private && apart && !c->reads;
}

/* All have posted: compares and moves. */
static int begin(struct zr_inst *c, struct pend *p)
{
	const struct slot *s = slot_of(lane_of(c, p->group, c->group[p->group].rank), p->seq);
	int rc = zl_compare(c, p), moves = moves_data(s->kind) && !s->carries;
	int staged = !rc && moves && must_stage(c, p);
	if (!rc && s->carries)
		zl_carry_move(c, p);
	else if (!rc && staged)
		rc = zl_stage(c, p);
	else if (!rc && moves)
		rc = zl_move(c, p);
	if (rc)
		return rc;

	if (s->kind == ZR_COMM_ALL_REDUCE && moves && !staged) {
		p->stage = 1;
		p->meet = ++c->sync[p->group - ZR_GROUP_NODE];
		zl_raise(c, p->group, SYNC, p->meet);
	} else {
		executed(c, p);
	}
	return 0;
}

/* Takes p as far as it goes: 1 executed, 0 not yet (only if !block), < 0. */
static int advance(struct zr_inst *c, struct pend *p, int block)
{
	int rc;
	if (p->stage == 0) {
		rc = zl_reach(c, p, POSTED, p->seq, block);
		if (rc == 0)
			return 0;
		if (rc < 0 || begin(c, p) < 0)
			return ZR_EPEER;
	}

	if (p->stage == 1) {
		rc = zl_reach(c, p, SYNC, p->meet, block);
		if (rc <= 0)
			return rc;

		rc = zl_move_rest(c, p);
		if (rc < 0)
			return rc;

		executed(c, p);
	}
	return 1;
}

/* 1 if peers read this rank's buffers in the operation, which are thus in use until they are
 * done. */
static int is_read(struct zr_inst *c, const struct pend *p)
{
	const struct slot *s = slot_of(lane_of(c, p->group, c->group[p->group].rank), p->seq);
	return moves_data(s->kind) && !s->carries &&
	       (s->kind != ZR_COMM_BROADCAST || s->root == c->group[p->group].rank);
}

static int complete(struct zr_inst *c, struct pend *p, int block)
{
	for (; c->head <= p->ticket; c->head++) {
		int rc = advance(c, &c->pend[c->head % WINDOW], block);
		if (rc <= 0)
			return rc;
	}
	if (is_read(c, p))
		return zl_reach(c, p, DONE, p->seq, block);
	return 1;
}

static int enter(struct zr_inst *c, zr_ticket t, struct pend **p)
{
	*p = &c->pend[t % WINDOW];
	if (!c->area || (*p)->ticket != t)
		return zr_fail(c->h, ZR_ESTATE, "ticket %llu is not outstanding",
			       (unsigned long long)t);
	if (zl_is_aborted(c))
		return zl_stopped(c);

	c->since = 0;
	c->doing = NULL;
	c->in = *p;
	return 0;
}

int zl_test(struct zr_inst *c, zr_ticket t)
{
	struct pend *p;
	if (!t)
		return 1;
	int rc = enter(c, t, &p);
	if (rc)
		return rc;
	return complete(c, p, 0);
}

int zl_wait(struct zr_inst *c, zr_ticket t)
{
	struct pend *p;
	if (!t)
		return 0;

	int rc = enter(c, t, &p);
	if (rc)
		return rc;

	struct doing *d = &c->area->seat[c->rank].doing;
	atomic_store_explicit(&d->waiting, 1, memory_order_relaxed);
	rc = complete(c, p, 1);
	atomic_store_explicit(&d->waiting, 0, memory_order_relaxed);
	c->doing = "";
	if (rc < 0)
		return rc;

	p->ticket = 0;
	c->outstanding--;
	return 0;
}
