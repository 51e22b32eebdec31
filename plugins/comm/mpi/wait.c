/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - waiting for operations. The first microseconds are looked through; then each look is
 * followed by a sleep of a small part of what was waited already, so that a wait neither burns a
 * core nor lasts noticeably longer.
 *
 * The second halves of all_reduces and the pieces of reduce_scatters are posted in the order of the
 * operations, by whichever wait comes by, for ranks may wait for their tickets in different orders.
 */
#define _GNU_SOURCE
#include "mpi.h"

#include <string.h>

/* seconds after which the others are told where this rank waits; at most a quarter of the
 * timeout */
#define TELL 1.0

/* All have posted: compares. */
static int meet(struct zr_inst *c, struct zm_pend *p)
{
	struct zm_group *g = &c->group[p->group];
	for (int32_t r = 0; r < g->size; r++) {
		const char *what = comm_difference(&p->own, &p->all[r]);
		if (what)
			return zm_differ(c, p, r, what);
	}

	if (p->own.seq > g->common.seq)
		g->common = p->own;
	p->stage = MET;
	return 0;
}

/* 1 if the data are here. */
static int arrived(struct zr_inst *c, struct zm_pend *p)
{
	int done = 0;
	if (!p->n_req)
		return 1;

	int rc = MPI_Testall(p->n_req, p->req, &done, MPI_STATUSES_IGNORE);
	rc = zm_mpi_failed(c, rc, comm_kind_name(p->own.kind));
	if (rc)
		return rc;
	return done;
}

/* Operations whose first data tell what the second ones are. */
static int has_second_half(const struct zm_pend *p)
{
	return p->own.kind == ZR_COMM_ALL_REDUCE || p->own.kind == COMM_EXCHANGE;
}

static int start_second_half(struct zr_inst *c, struct zm_pend *p)
{
	p->stage = SECOND;
	if (p->own.kind == COMM_EXCHANGE)
		return zm_exchange_data(c, p);
	return zm_second_half(c, p);
}

/* Takes p as far as it goes, but what is posted in turn only if `second`: 1 done, 0 not yet, <
 * 0. */
static int advance(struct zr_inst *c, struct zm_pend *p, int second)
{
	int done = 0, rc;
	if (p->stage == POSTED) {
		rc = zm_mpi_failed(c, MPI_Test(&p->meet, &done, MPI_STATUS_IGNORE),
				   "MPI_Iallgather");
		if (rc || !done)
			return rc;

		rc = meet(c, p);
		if (rc)
			return rc;
	}

	if (p->stage == MET && p->in_pieces) {
		if (!second)
			return 0;

		rc = zm_advance_pieces(c, p);
		if (rc <= 0)
			return rc;

		p->stage = DONE;
	}

	if (p->stage == MET && (!has_second_half(p) || second)) {
		rc = arrived(c, p);
		if (rc <= 0)
			return rc;

		zm_finish(c, p);
		p->stage = DONE;
		if (has_second_half(p)) {
			rc = start_second_half(c, p);
			if (rc)
				return rc;
		}
	}

	if (p->stage == SECOND) {
		rc = arrived(c, p);
		if (rc <= 0)
			return rc;

		zm_finish_sum(c, p);
		p->stage = DONE;
	}
	return p->stage == DONE;
}

/* Posts of sums and exchanges what can be: in each group up to the first of which not everything
 * can. */
static int advance_sums(struct zr_inst *c)
{
	int blocked[GROUPS] = { 0 }, left = 0, rc = 0;
	for (int i = 0; i < c->n_sums; i++) {
		struct zm_pend *p = &c->pend[c->sums[i]];
		if (!rc && !blocked[p->group]) {
			rc = advance(c, p, 1);
			if (rc > 0)
				rc = 0;
			blocked[p->group] = !zm_lets_others(p);
		}
		if (!zm_lets_others(p))
			c->sums[left++] = c->sums[i];
	}

	c->n_sums = left;
	return rc;
}

static int look(struct zr_inst *c, struct zm_pend *p)
{
	if (c->n_sums) {
		int rc = advance_sums(c);
		if (rc)
			return rc;
	}
	return advance(c, p, 0);
}

static int late(struct zr_inst *c, struct zm_pend *p, double waited)
{
	char op[160], missing[800];
	comm_op_text(&p->own, p->group, op, sizeof op);
	zm_missing_text(c, p, missing, sizeof missing);
	return zm_stop(c, "timeout: %s of rank %d waited %.3g s for %s", op, c->rank, waited,
		       missing);
}

/* Somebody else says that it waits in p, too, or in a later operation: it wants to know about this
 * rank. */
static int asked(const struct zr_inst *c, const struct zm_pend *p)
{
	for (int32_t r = 0; r < c->world; r++)
		if (c->peer[r].note.what == NOTE_WAITS && c->peer[r].note.group == p->group &&
		    c->peer[r].note.at.seq >= p->own.seq)
			return 1;
	return 0;
}

/* What to do beside looking, now and then. */
static int be_patient(struct zr_inst *c, struct zm_pend *p, double waited)
{
	double tell = c->o->timeout / 4 < TELL ? c->o->timeout / 4 : TELL;
	int rc = zm_enter(c);
	if (!rc)
		rc = zm_read_notes(c, p);
	if (rc)
		return rc;

	if (!p->told && (waited > tell || asked(c, p)))
		zm_tell_waiting(c, p);
	if (waited > c->o->timeout)
		return late(c, p, waited);
	return 0;
}

static int find(struct zr_inst *c, zr_ticket t, struct zm_pend **p)
{
	*p = zm_pend_of(c, t);
	if ((*p)->ticket != t)
		return zr_fail(c->h, ZR_ESTATE, "ticket %llu is not outstanding",
			       (unsigned long long)t);
	return zm_enter(c);
}

int zm_test(struct zr_inst *c, zr_ticket t)
{
	struct zm_pend *p;
	if (!t)
		return 1;

	int rc = find(c, t, &p);
	if (rc)
		return rc;

	rc = look(c, p);
	if (rc)
		return rc;
	return zm_read_notes(c, p);
}

int zm_wait(struct zr_inst *c, zr_ticket t)
{
	struct zm_pend *p;
	if (!t)
		return 0;

	int rc = find(c, t, &p);
	if (rc)
		return rc;

	double start = zm_now(), waited = 0;
	while ((rc = look(c, p)) == 0) {
		waited = zm_now() - start;
		if (waited > ZM_LOOK)
			rc = be_patient(c, p, waited);
		if (rc)
			return rc;

		if (c->moved > start)
			waited = zm_now() - c->moved;
		zm_doze(waited);
	}

	if (rc < 0)
		return rc;

	p->ticket = 0;
	return 0;
}
