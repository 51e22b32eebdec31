/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - waiting for operations. A rank looks until nothing has moved for some microseconds; then
 * it sleeps until a connection has something for it.
 */
#define _GNU_SOURCE
#include "tcp.h"

#define LOOK 50e-6 /* seconds without a byte before it sleeps */
#define NAP  100   /* the longest sleep, in ms: who aborts does not wake it */
/* seconds after which the others are told where this rank waits; at most a quarter of the
 * timeout */
#define TELL 1.0

static int stop_late(struct zr_inst *c, const struct tc_pend *p, double waited)
{
	char op[160], missing[800];
	comm_op_text(&p->own, p->group, op, sizeof op);
	tc_missing_text(c, p, missing, sizeof missing);
	return tc_stop(c, "timeout: %s of rank %d waited %.3g s for %s", op, c->rank, waited,
		       missing);
}

/* Somebody has left without posting p. */
static int check_left(struct zr_inst *c, const struct tc_pend *p)
{
	const struct tc_group *g = &c->group[p->group];
	char op[160];
	for (int32_t k = 0; k < g->size; k++) {
		const int32_t r = tc_in_world(g, k);
		if (!c->peer[r].left || c->peer[r].note.posted[p->group] >= p->own.seq)
			continue;
		comm_op_text(&p->own, p->group, op, sizeof op);
		c->follows = 1;
		return tc_stop(c, "rank %d has left; %s waits for it", r, op);
	}
	return 0;
}

/* Another rank says that it waits in p, or in a later operation: it wants to know about this
 * one. */
static int is_asked(const struct zr_inst *c, const struct tc_pend *p)
{
	for (int32_t r = 0; r < c->world; r++) {
		const struct tc_note *n = &c->peer[r].note;
		if (n->what == NOTE_WAITS && n->group == p->group && n->at.seq >= p->own.seq)
			return 1;
	}
	return 0;
}

/* What to do beside looking, now and then. */
static int be_patient(struct zr_inst *c, struct tc_pend *p, double waited)
{
	double tell = c->o->timeout / 4 < TELL ? c->o->timeout / 4 : TELL;
	int rc = tc_enter(c);
	if (!rc)
		rc = tc_read_notes(c);
	if (!rc)
		rc = check_left(c, p);
	if (rc)
		return rc;

	if (!p->told && (waited > tell || is_asked(c, p))) {
		p->told = 1;
		tc_send_note(c, NOTE_WAITS, p);
	}
	if (waited > c->o->timeout)
		return stop_late(c, p, waited);
	return 0;
}

static int find(struct zr_inst *c, zr_ticket t, struct tc_pend **p)
{
	*p = tc_pend_of(c, t);
	if ((*p)->ticket != t)
		return zr_fail(c->h, ZR_ESTATE, "ticket %llu is not outstanding",
			       (unsigned long long)t);
	return tc_enter(c);
}

int tc_test(struct zr_inst *c, zr_ticket t)
{
	struct tc_pend *p;
	if (!t)
		return 1;

	int rc = find(c, t, &p);
	if (rc)
		return rc;

	rc = tc_advance(c);
	if (rc < 0)
		return rc;
	if (tc_is_done(c, p))
		return 1;

	rc = tc_read_notes(c);
	if (rc)
		return rc;
	return check_left(c, p);
}

int tc_wait(struct zr_inst *c, zr_ticket t)
{
	struct tc_pend *p;
	if (!t)
		return 0;

	int rc = find(c, t, &p);
	const double start = tc_now();
	double last = start; /* time something moved */
	while (!rc) {
		int moved = tc_advance(c);
		if (moved < 0)
			return moved;
		if (tc_is_done(c, p))
			break;

		const double now = tc_now();
		if (moved)
			last = now;
		if (now - last < LOOK)
			continue;
		rc = be_patient(c, p, now - start);
		if (!rc)
			tc_sleep(c, NAP);
	}

	if (rc)
		return rc;

	p->ticket = 0;
	return 0;
}

int tc_gather(struct zr_inst *c, int32_t group, const struct zr_comm_seg *bytes, int32_t about)
{
	const struct zr_comm_op op = { .size = sizeof op,
				       .kind = ZR_COMM_ALL_GATHER,
				       .group = group,
				       .dtype = ZR_U8,
				       .n_seg = 1,
				       .seg = bytes,
				       .tag = { -1, about, -1 } };
	zr_ticket ticket;

	int rc = tc_post(c, &op, &ticket);
	if (rc)
		return rc;
	return tc_wait(c, ticket);
}
