/* SPDX-License-Identifier: Apache-2.0
 *
 * post.c - operations when they are posted: checked, numbered, and as much of them sent as goes.
 */
#include "tcp.h"

#include <stdlib.h>
#include <string.h>

/* ---- checks ---------------------------------------------------------------------- */

static int is_group(const struct zr_inst *c, int32_t group)
{
	return group >= ZR_GROUP_SELF && group < GROUPS && c->group[group].size;
}

static int check_segment(struct zr_inst *c, const struct zr_comm_op *op, int32_t i)
{
	const struct tc_group *g = &c->group[op->group];
	const struct zr_comm_seg *s = &op->seg[i];
	const char *kind = comm_kind_name(op->kind);
	if (s->count < 0 || s->count > INT64_MAX / 16 / g->size)
		return zr_fail(c->h, ZR_EINVAL, "segment %d of %s has %lld elements", i, kind,
			       (long long)s->count);
	if (s->count && !comm_placed_well(op, g->rank, g->size, s))
		return zr_fail(c->h, ZR_EINVAL,
			       "segment %d of %s: the result would overwrite what is sent", i,
			       kind);
	return 0;
}

static int check_segments(struct zr_inst *c, const struct zr_comm_op *op)
{
	const char *kind = comm_kind_name(op->kind);
	if (op->kind == ZR_COMM_BARRIER ? op->n_seg != 0 : op->n_seg < 0)
		return zr_fail(c->h, ZR_EINVAL, "%s of %d segments", kind, op->n_seg);
	if (op->n_seg && !comm_dtype_bytes(op->dtype))
		return zr_fail(c->h, ZR_EINVAL, "%s of unknown type %d", kind, op->dtype);

	int rc = 0;
	for (int32_t i = 0; !rc && i < op->n_seg; i++)
		rc = check_segment(c, op, i);
	return rc;
}

static int check_op(struct zr_inst *c, const struct zr_comm_op *op)
{
	const char *kind = comm_kind_name(op->kind);
	if (op->kind < ZR_COMM_ALL_GATHER || op->kind > ZR_COMM_FENCE)
		return zr_fail(c->h, ZR_EINVAL, "unknown kind of operation %d", op->kind);
	if (!is_group(c, op->group))
		return zr_fail(c->h, ZR_EINVAL, "%s over unknown group %d", kind, op->group);
	if (tc_adds(op->kind) && op->dtype != ZR_F32 && op->dtype != ZR_F64 && op->dtype != ZR_I64)
		return zr_fail(c->h, ZR_ENOTSUP, "%s adds f32, f64 and i64, not %s", kind,
			       comm_dtype_name(op->dtype));
	if (op->kind == ZR_COMM_BROADCAST && (op->root < 0 || op->root >= c->group[op->group].size))
		return zr_fail(c->h, ZR_EINVAL, "broadcast from rank %d of %d", op->root,
			       c->group[op->group].size);
	return check_segments(c, op);
}

static int check_exchange(struct zr_inst *c, const struct zr_comm_exchange *x)
{
	if (!is_group(c, x->group))
		return zr_fail(c->h, ZR_EINVAL, "exchange over unknown group %d", x->group);

	const struct tc_group *g = &c->group[x->group];
	return comm_check_exchange(c->h, x, g->size, g->rank);
}

/* ---- what needs no other rank ---------------------------------------------------- */

static int has_data(int32_t kind)
{
	return kind < ZR_COMM_BARRIER;
}

/* A group of one rank: the result is a copy. */
static void copy_alone(const struct zr_comm_op *op)
{
	for (int32_t i = 0; i < op->n_seg && has_data(op->kind); i++) {
		const struct zr_comm_seg *s = &op->seg[i];
		if (s->count && s->send != s->recv)
			memcpy(s->recv, s->send, (uint64_t)s->count * comm_dtype_bytes(op->dtype));
	}
}

/* Whether all ranks find a segment worth lending. */
static int is_big(const struct zr_comm_op *op)
{
	for (int32_t i = 0; i < op->n_seg && has_data(op->kind); i++)
		if ((uint64_t)op->seg[i].count * comm_dtype_bytes(op->dtype) >= LENT)
			return 1;
	return 0;
}

/* This rank's own part of the result, where that is none of a sum. */
static void copy_own(const struct tc_group *g, const struct tc_pend *p)
{
	for (int32_t i = 0; i < p->own.n_seg && has_data(p->own.kind); i++) {
		const struct zr_comm_seg *s = &p->seg[i];
		uint64_t bytes = (uint64_t)s->count * comm_dtype_bytes(p->own.dtype),
			 own = bytes * (uint64_t)g->rank;
		char *to = s->recv;
		const char *from = s->send;
		if (p->own.kind == ZR_COMM_ALL_GATHER)
			to += own;
		else if (p->own.kind == ZR_COMM_ALL_TO_ALL)
			to += own, from += own;
		else if (p->own.kind != ZR_COMM_BROADCAST || g->rank != p->own.root)
			continue;
		if (bytes && to != from)
			memcpy(to, from, bytes);
	}
}

/* ---- post ------------------------------------------------------------------------ */

static struct tc_pend *free_pend(struct zr_inst *c)
{
	for (int at = 0; at < WINDOW; at++)
		if (!c->pend[at].ticket)
			return &c->pend[at];
	return NULL;
}

static int make_room(struct zr_inst *c, struct tc_pend *p, int32_t kind)
{
	const size_t world = (size_t)c->world;
	if (!p->all)
		p->all = calloc(world, sizeof *p->all);
	if (!p->pair && kind == COMM_EXCHANGE)
		p->pair = calloc(world, sizeof *p->pair);

	if (p->all && (p->pair || kind != COMM_EXCHANGE))
		return 0;
	return zr_fail(c->h, ZR_ENOMEM, "no memory for the headers of %d ranks", c->world);
}

/* A free place for an operation of which `own` says all but the number. */
static int begin(struct zr_inst *c, int32_t group, const struct comm_header *own,
		 struct tc_pend **out)
{
	struct tc_group *g = &c->group[group];
	struct tc_pend *p = *out = free_pend(c);
	if (!p)
		return ZR_EAGAIN;

	int rc = make_room(c, p, own->kind);
	if (rc)
		return rc;

	*p = (struct tc_pend){ .group = group, .own = *own, .all = p->all, .pair = p->pair };
	p->own.seq = ++g->posted;
	memset(p->all, 0, (size_t)g->size * sizeof *p->all);
	p->all[g->rank] = p->own;
	g->queue[g->posted % WINDOW] = (int32_t)(p - c->pend);
	return 0;
}

/* Its buffers are known: what can be sent is. */
static int start(struct zr_inst *c, struct tc_pend *p, zr_ticket *out)
{
	p->ticket = ++c->next * WINDOW + (zr_ticket)(p - c->pend);
	*out = p->ticket;
	int rc = tc_advance(c);
	return rc < 0 ? rc : 0;
}

/* Of two ranks that send, each sends as much either way, and waits once less if it adds all
 * itself. */
static uint64_t most_small(const struct zr_inst *c, const struct tc_group *g)
{
	if (g->size == 2 && !tc_lends_to(c, g, 1 - g->rank))
		return 2 * tc_piece_bytes(2);
	return SMALL / (uint64_t)g->size;
}

/* Two pieces at most, so that all of it is taken while what this rank sends is still under way. */
static int is_small(const struct zr_inst *c, const struct tc_group *g,
		    const struct comm_header *own)
{
	uint64_t bytes = (uint64_t)own->total * comm_dtype_bytes(own->dtype);
	return own->kind == ZR_COMM_ALL_REDUCE && own->n_seg == 1 && bytes <= most_small(c, g);
}

int tc_post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *out)
{
	int rc = tc_enter(c);
	if (!rc)
		rc = check_op(c, op);
	if (rc)
		return rc;

	const struct tc_group *g = &c->group[op->group];
	if (g->size == 1) {
		copy_alone(op);
		*out = 0;
		return 0;
	}

	const struct comm_header own = comm_header_of(op);
	struct tc_pend *p;
	rc = begin(c, op->group, &own, &p);
	if (rc)
		return rc;

	p->seg = op->seg;
	p->small = is_small(c, g, &own);
	if (tc_adds(op->kind))
		p->pieces = tc_count_pieces(g, p);
	p->big = is_big(op);
	rc = start(c, p, out);
	copy_own(g, p); /* while what was sent is on its way */
	return rc;
}

/* ---- exchanges ------------------------------------------------------------------- */

static void lay_pairs(const struct zr_comm_exchange *x, int32_t ranks, struct tc_pair *pair)
{
	const uint64_t each = comm_dtype_bytes(x->dtype);
	char *send = (char *)x->send, *recv = x->recv;
	for (int32_t r = 0; r < ranks; r++) {
		pair[r] = (struct tc_pair){
			.send = send,
			.recv = recv,
			.sent = (uint64_t)x->send_count[r] * each,
			.received = (uint64_t)x->recv_count[r] * each,
		};
		send += pair[r].sent;
		recv += pair[r].received;
	}
}

int tc_exchange(struct zr_inst *c, const struct zr_comm_exchange *x, zr_ticket *out)
{
	int rc = tc_enter(c);
	if (!rc)
		rc = check_exchange(c, x);
	if (rc)
		return rc;

	const int32_t ranks = c->group[x->group].size;
	if (ranks == 1) {
		struct tc_pair own;
		lay_pairs(x, 1, &own);
		tc_keep_own(&own);
		*out = 0;
		return 0;
	}

	const struct comm_header own = comm_header_of_exchange(x);
	struct tc_pend *p;
	rc = begin(c, x->group, &own, &p);
	if (rc)
		return rc;

	lay_pairs(x, ranks, p->pair);
	return start(c, p, out);
}
