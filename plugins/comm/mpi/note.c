/* SPDX-License-Identifier: Apache-2.0
 *
 * note.c - messages from rank to rank beside the collectives: where a rank waits, that it leaves,
 * and what the others said. They are small, so that sending one does not block; a rank whose last
 * message is not sent yet sends no new one.
 */
#include "mpi.h"

#include <string.h>

void zm_tell_waiting(struct zr_inst *c, struct zm_pend *p)
{
	if (p->told || !zm_note_sent(c))
		return;
	p->told = 1;
	c->note.group = p->group;
	c->note.at = p->own;
	zm_send_note(c, NOTE_WAITS);
}

static int take(struct zr_inst *c, int32_t rank, const struct zm_note *n)
{
	struct zm_peer *peer = &c->peer[rank];
	if (n->group < 0 || n->group >= GROUPS) {
		c->follows = 1;
		return zm_stop(c, "rank %d sent what is no note: do all ranks run the same zeroth?",
			       rank);
	}
	peer->note = *n;
	peer->left |= n->what == NOTE_LEFT;
	c->follows |= n->what == NOTE_STOPPED;
	if (n->what == NOTE_STOPPED)
		return zm_break(c, n->why);
	return 0;
}

/* Somebody has left without posting p. */
static int check_left(struct zr_inst *c, const struct zm_pend *p)
{
	const struct zm_group *g = &c->group[p->group];
	char op[160];
	for (int32_t k = 0; k < g->size; k++) {
		const int32_t r = zm_in_world(g, k);
		if (!c->peer[r].left || c->peer[r].note.posted[p->group] >= p->own.seq)
			continue;
		comm_op_text(&p->own, p->group, op, sizeof op);
		c->follows = 1;
		return zm_stop(c, "rank %d has left; %s waits for it", r, op);
	}
	return 0;
}

int zm_read_notes(struct zr_inst *c, const struct zm_pend *p)
{
	struct zm_note n;
	MPI_Status st;
	int there = 0, rc = 0;
	while (!rc && MPI_Iprobe(MPI_ANY_SOURCE, 0, c->notes, &there, &st) == MPI_SUCCESS &&
	       there) {
		memset(&n, 0, sizeof n);
		rc = zm_mpi_failed(c,
				   MPI_Recv(&n, sizeof n, MPI_BYTE, st.MPI_SOURCE, 0, c->notes,
					    MPI_STATUS_IGNORE),
				   "MPI_Recv");
		n.why[sizeof n.why - 1] = 0;
		if (!rc)
			rc = take(c, st.MPI_SOURCE, &n);
	}
	if (rc || !p)
		return rc;
	return check_left(c, p);
}

static int all_left(const struct zr_inst *c)
{
	for (int32_t r = 0; r < c->world; r++)
		if (r != c->rank && !c->peer[r].left)
			return 0;
	return 1;
}

void zm_goodbye(struct zr_inst *c)
{
	double start = zm_now();
	if (!zm_push_note(c)) {
		zm_break(c, "a message to another rank does not leave");
		return;
	}
	zm_send_note(c, NOTE_LEFT);
	while (!c->broken && !(all_left(c) && zm_note_sent(c))) {
		double waited = zm_now() - start;
		zm_doze(waited);
		if (zm_read_notes(c, NULL) == 0 && waited > c->o->timeout)
			zm_break(c, "timeout: other ranks do not come to the end of the run");
	}

	c->follows = 0; /* if others stopped now, then because of this one */
}
