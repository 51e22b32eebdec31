/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - what a rank says of operations and of others when it fails (invariant I5).
 */
#include "mpi.h"

#define NAMED 8 /* ranks that a report names before it counts */

void zm_op_text(const struct zm_header *op, int32_t group, char *out, size_t room)
{
	out[0] = 0;
	comm_say(out, room, "%s over the %s (step %lld, op %d", comm_kind_name(op->kind),
		 comm_group_name(group), (long long)op->step, op->op);
	if (op->unit >= 0)
		comm_say(out, room, ", unit %d", op->unit);
	comm_say(out, room, ")");
}

/* 1 if the rank's note says where it waits, and this rank has not seen that completed. Of another
 * node it sees nothing. */
static int waits(const struct zr_inst *c, int32_t rank)
{
	const struct zm_note *n = &c->peer[rank].note;
	const struct zm_group *g = &c->group[n->group];
	int member = 0;
	for (int32_t r = 0; r < g->size; r++)
		member |= zm_in_world(g, r) == rank;
	return n->what == NOTE_WAITS && (!member || n->seq > g->common_seq);
}

static void rank_text(struct zr_inst *c, const struct zm_pend *p, int32_t rank, char *out,
		      size_t room)
{
	const struct zm_peer *peer = &c->peer[rank];
	const struct zm_group *g = &c->group[p->group];
	const struct zm_note *n = &peer->note;
	char op[160];
	if (peer->left) {
		comm_say(out, room, "rank %d (has left)", rank);
	} else if (waits(c, rank)) {
		zm_op_text(&n->at, n->group, op, sizeof op);
		comm_say(out, room, "rank %d (waits in %s)", rank, op);
	} else if (!g->common.kind) {
		comm_say(out, room, "rank %d (has not come to anything yet)", rank);
	} else {
		zm_op_text(&g->common, p->group, op, sizeof op);
		comm_say(out, room, "rank %d (last seen in %s)", rank, op);
	}
}

/* 1 if a note says that the rank has posted p. */
static int has_come(struct zr_inst *c, const struct zm_pend *p, int32_t rank)
{
	const struct zm_note *n = &c->peer[rank].note;
	return rank == c->rank || (n->what && n->posted[p->group] >= p->seq);
}

void zm_missing_text(struct zr_inst *c, const struct zm_pend *p, char *out, size_t room)
{
	const struct zm_group *g = &c->group[p->group];
	int32_t named = 0, more = 0;
	out[0] = 0;
	for (int32_t k = 0; k < g->size; k++) {
		const int32_t r = zm_in_world(g, k);
		if (has_come(c, p, r))
			continue;
		if (named == NAMED) {
			more++;
			continue;
		}
		if (named++)
			comm_say(out, room, ", ");
		rank_text(c, p, r, out, room);
	}

	if (more)
		comm_say(out, room, " and %d more", more);
	if (!named)
		comm_say(out, room, "the data of ranks that all have come");
}

/* "all_gather over the world (step 3, op 17, unit 2) of 1024 f32 in 2 segments" */
static void header_text(const struct zm_header *h, int32_t group, char *out, size_t room)
{
	zm_op_text(h, group, out, room);
	if (h->kind == ZR_COMM_BROADCAST)
		comm_say(out, room, " from rank %d", h->root);
	if (h->n_seg)
		comm_say(out, room, " of %lld %s in %d segment%s", (long long)h->total,
			 comm_dtype_name(h->dtype), h->n_seg, h->n_seg == 1 ? "" : "s");
}

int zm_differ(struct zr_inst *c, const struct zm_pend *p, int32_t peer, const char *what,
	      int32_t common)
{
	const struct zm_group *g = &c->group[p->group];
	int32_t low = g->rank, high = peer;
	if (peer < g->rank) {
		low = peer;
		high = g->rank;
	}
	char first[300], second[300], others[64] = "";
	header_text(&p->all[low], p->group, first, sizeof first);
	header_text(&p->all[high], p->group, second, sizeof second);
	if (common >= 0)
		snprintf(others, sizeof others, "; all others call what rank %d calls",
			 zm_in_world(g, common));
	return zm_stop(c, "ranks differ in %s: rank %d calls %s, rank %d calls %s%s", what,
		       zm_in_world(g, low), first, zm_in_world(g, high), second, others);
}
