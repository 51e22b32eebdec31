/* SPDX-License-Identifier: Apache-2.0
 *
 * host.c - operations in host memory, and exchanges in any. Each begins with a message of every
 * rank to all; what is small goes with it, all else follows in pieces. In a group they run one
 * after the other, in the order in which they were posted, driven by whoever waits.
 *
 * An exchange then tells each rank how much it gets, and all ranks whether each pair agreed. The
 * data of one in memory of GPUs go to the stream of such operations; what is posted there after it
 * waits until they have.
 */
#define _GNU_SOURCE
#include "nccl.h"

#include <stdlib.h>
#include <string.h>

/* What a rank says of the counts that others told it. */
struct verdict {
	int32_t from, rsv; /* the rank of the group whose count differs; -1: none */
	int64_t sent, expected;
};

static char *sent_of(const struct nn_talk *t)
{
	return t->pinned;
}

static char *received_of(const struct nn_talk *t)
{
	return t->pinned + t->half;
}

/* `bytes` of each rank, which lie in front of what is sent, to all. */
static int gather(struct zr_inst *c, const struct nn_group *g, uint64_t bytes)
{
	const struct nn_talk *t = g->talk;
	int rc = nn_talk_begin(c, t, bytes);
	if (rc)
		return rc;

	ncclResult_t e =
		ncclAllGather(t->device, t->device + t->half, bytes, ncclUint8, t->comm, t->stream);
	rc = nn_finish(c, t->comm, e, "ncclAllGather");
	if (rc)
		return rc;
	return nn_talk_end(c, t, bytes * (uint64_t)g->size);
}

/* ---- the message to all ---------------------------------------------------------- */

static int has_data(const struct nn_pend *p)
{
	return p->own.kind < ZR_COMM_BARRIER;
}

static int is_inline(const struct zr_inst *c, const struct nn_pend *p)
{
	return has_data(p) && nn_inline_bytes(c, p) <= sizeof((struct nn_message *)0)->data;
}

static int tell_all(struct zr_inst *c, struct nn_pend *p)
{
	struct nn_group *g = &c->group[p->group];
	struct nn_message *m = (struct nn_message *)sent_of(g->talk);
	m->header = p->own;
	m->before = p->before;
	if (is_inline(c, p))
		nn_inline_put(c, p, m->data);
	p->stage = NN_TOLD;
	return gather(c, g, sizeof *m);
}

/* The rank of the group, of this one and a peer, that all others are like; -1: neither. */
static int32_t common(const struct nn_group *g, const struct nn_message *m, int32_t peer)
{
	struct comm_header *all = malloc((size_t)g->size * sizeof *all);
	if (!all)
		return -1;

	for (int32_t r = 0; r < g->size; r++)
		all[r] = m[r].header;
	int32_t rank = comm_common(all, g->size, g->rank, peer);
	free(all);
	return rank < 0 ? -1 : nn_in_world(g, rank);
}

static int differ(struct zr_inst *c, const struct nn_pend *p, int32_t peer, const char *what)
{
	const struct nn_group *g = &c->group[p->group];
	const struct nn_message *m = (const struct nn_message *)received_of(g->talk);
	const struct comm_differing d = {
		.what = what,
		.group = p->group,
		.rank = { c->rank, nn_in_world(g, peer) },
		.common = common(g, m, peer),
		.header = { &p->own, &m[peer].header },
	};
	char text[800];
	comm_differing_text(&d, text, sizeof text);
	return nn_stop(c, ZR_EPEER, "%s", text);
}

static int differ_before(struct zr_inst *c, const struct nn_pend *p, int32_t peer)
{
	char text[160];
	comm_op_text(&p->own, p->group, text, sizeof text);
	return nn_stop(c, ZR_EPEER,
		       "ranks %d and %d posted other operations on memory of GPUs before %s: do "
		       "all run the same program?",
		       c->rank, nn_in_world(&c->group[p->group], peer), text);
}

/* All have told what they do. */
static int meet(struct zr_inst *c, const struct nn_pend *p)
{
	const struct nn_group *g = &c->group[p->group];
	const struct nn_message *m = (const struct nn_message *)received_of(g->talk);

	for (int32_t r = 0; r < g->size; r++) {
		const char *what = comm_difference(&p->own, &m[r].header);
		if (what)
			return differ(c, p, r, what);
		if (m[r].before != p->before)
			return differ_before(c, p, r);
	}

	g->talk->common = p->own;
	return ZR_OK;
}

/* ---- counts of exchanges --------------------------------------------------------- */

/* To each rank how many elements it gets. */
static int tell_counts(struct zr_inst *c, struct nn_pend *p)
{
	const struct nn_group *g = &c->group[p->group];
	const struct nn_talk *t = g->talk;
	const uint64_t each = sizeof(int64_t), all = each * (uint64_t)g->size;
	memcpy(sent_of(t), p->exchange.send_count, all);
	p->stage = NN_COUNTS;
	int rc = nn_talk_begin(c, t, all);
	if (rc)
		return rc;

	ncclResult_t e = ncclGroupStart();

	for (int32_t r = 0; r < g->size && nn_is_noted(e); r++) {
		e = ncclSend(t->device + (uint64_t)r * each, each, ncclUint8, r, t->comm,
			     t->stream);
		if (nn_is_noted(e))
			e = ncclRecv(t->device + t->half + (uint64_t)r * each, each, ncclUint8, r,
				     t->comm, t->stream);
	}

	rc = nn_end_group(c, t->comm, e);
	if (rc)
		return rc;
	return nn_talk_end(c, t, all);
}

static int tell_verdict(struct zr_inst *c, struct nn_pend *p)
{
	const struct nn_group *g = &c->group[p->group];
	const int64_t *expected = p->exchange.recv_count;
	const int64_t *sent = (const int64_t *)received_of(g->talk);
	struct verdict v = { .from = -1 };

	for (int32_t r = 0; r < g->size && v.from < 0; r++)
		if (sent[r] != expected[r])
			v = (struct verdict){ r, 0, sent[r], expected[r] };

	memcpy(sent_of(g->talk), &v, sizeof v);
	p->stage = NN_VERDICT;
	return gather(c, g, sizeof v);
}

/* All fail alike. */
static int hear_verdicts(struct zr_inst *c, const struct nn_pend *p)
{
	const struct nn_group *g = &c->group[p->group];
	const struct verdict *v = (const struct verdict *)received_of(g->talk);
	char text[160];
	int32_t r = 0;

	while (r < g->size && v[r].from < 0)
		r++;
	if (r == g->size)
		return ZR_OK;

	comm_op_text(&p->own, p->group, text, sizeof text);
	return nn_stop(c, ZR_EPEER, COMM_PAIR_DIFFERS, nn_in_world(g, v[r].from),
		       (long long)v[r].sent, comm_dtype_name(p->own.dtype), nn_in_world(g, r),
		       (long long)v[r].expected, text);
}

/* ---- one operation --------------------------------------------------------------- */

/* 1: the operation is over. */
static int next_piece(struct zr_inst *c, struct nn_pend *p)
{
	int rc = nn_piece_start(c, p);
	if (rc > 0)
		p->stage = NN_OVER;
	return rc;
}

static int begin_data(struct zr_inst *c, struct nn_pend *p)
{
	p->stage = NN_DATA;
	if (p->on_host)
		return next_piece(c, p);

	c->posting = p;
	int rc = nn_move_exchange(c, &p->exchange);
	if (!rc)
		rc = nn_cuda(c, cudaEventRecord(p->over, c->stream), "cudaEventRecord");
	c->posting = NULL;
	p->stage = NN_OVER;
	return rc ? rc : 1;
}

static int after_message(struct zr_inst *c, struct nn_pend *p)
{
	const struct nn_talk *t = c->group[p->group].talk;
	const struct nn_message *m = (const struct nn_message *)received_of(t);
	int rc = meet(c, p);
	if (rc)
		return rc;
	if (p->own.kind == COMM_EXCHANGE)
		return tell_counts(c, p);
	if (has_data(p) && !is_inline(c, p))
		return begin_data(c, p);

	if (has_data(p))
		nn_inline_take(c, p, m->data, sizeof *m);
	p->stage = NN_OVER;
	return 1;
}

/* What was sent for last has come: 1 the operation is over, 0 more is under way. */
static int go_on(struct zr_inst *c, struct nn_pend *p)
{
	int rc;

	switch (p->stage) {
	case NN_TOLD:
		return after_message(c, p);
	case NN_COUNTS:
		return tell_verdict(c, p);
	case NN_VERDICT:
		rc = hear_verdicts(c, p);
		if (rc)
			return rc;
		return begin_data(c, p);
	default:
		nn_piece_take(c, p);
		return next_piece(c, p);
	}
}

/* ---- all of a group -------------------------------------------------------------- */

void nn_host_post(struct zr_inst *c, struct nn_pend *p)
{
	struct nn_talk *t = c->group[p->group].talk;
	p->stage = NN_POSTED;
	p->before = c->group[p->group].before;
	p->own.seq = ++t->posted;
	t->queue[t->waiting++] = (int32_t)(p - c->pend);
}

/* The oldest one as far as it goes: 1 it is over, 0 it is not. */
static int advance_first(struct zr_inst *c, struct nn_talk *t)
{
	struct nn_pend *p = &c->pend[t->queue[0]];
	int rc = 0;
	if (p->stage == NN_POSTED)
		rc = tell_all(c, p);
	while (!rc) {
		rc = nn_talk_is_here(c, t);
		if (rc <= 0)
			return rc;
		rc = go_on(c, p);
	}

	return rc;
}

static int advance_group(struct zr_inst *c, struct nn_talk *t)
{
	while (t->waiting) {
		int rc = advance_first(c, t);
		if (rc <= 0)
			return rc;

		t->waiting--;
		memmove(t->queue, t->queue + 1, (size_t)t->waiting * sizeof *t->queue);
	}

	return ZR_OK;
}

int nn_host_advance(struct zr_inst *c)
{
	for (int g = 0; g < NN_GROUPS; g++) {
		int rc = c->group[g].talk ? advance_group(c, c->group[g].talk) : ZR_OK;
		if (rc)
			return rc;
	}

	return ZR_OK;
}

int nn_host_wait(struct zr_inst *c, struct nn_pend *p)
{
	const double start = nn_now();
	for (;;) {
		int rc = nn_host_advance(c);
		if (rc || p->stage == NN_OVER)
			return rc;

		const double waited = nn_now() - start;
		rc = nn_hear(c, waited);
		if (!rc)
			rc = nn_left_behind(c, p, waited);
		if (!rc && waited > c->o->timeout)
			rc = nn_late(c, p, waited);
		if (rc)
			return rc;
		nn_doze(c, waited);
	}
}

int nn_host_settle(struct zr_inst *c, int32_t group)
{
	const struct nn_talk *t = c->group[group].talk;

	for (int32_t i = 0; t && i < t->waiting; i++) {
		struct nn_pend *p = &c->pend[t->queue[i]];
		if (p->on_host || p->group != group)
			continue;

		int rc = nn_host_wait(c, p);
		if (rc)
			return rc;
		i = -1; /* the queue is another one */
	}

	return ZR_OK;
}
