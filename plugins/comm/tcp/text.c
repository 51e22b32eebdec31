/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - what a rank says of operations and of others when it fails (invariant I5).
 */
#include "tcp.h"

#define NAMED 8 /* ranks that a report names before it counts */

const char *tc_difference(const struct tc_header *x, const struct tc_header *y)
{
	if (x->kind != y->kind)
		return "the kind of operation";
	if (x->step != y->step || x->op != y->op || x->unit != y->unit)
		return "the place in the program";
	if (x->root != y->root)
		return "the root";
	if (x->dtype != y->dtype)
		return "the type of elements";
	if (x->n_seg != y->n_seg)
		return "the number of segments";
	if (x->kind == COMM_EXCHANGE)
		return NULL; /* counts are compared pair by pair */
	if (x->total != y->total || x->counts != y->counts)
		return "the number of elements";
	return NULL;
}

void tc_op_text(const struct tc_header *op, int32_t group, char *out, size_t room)
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
static int is_waiting(const struct zr_inst *c, int32_t rank)
{
	const struct tc_note *n = &c->peer[rank].note;
	const struct tc_group *g = &c->group[n->group];
	return n->what == NOTE_WAITS && (tc_place_in(g, rank) < 0 || n->at.seq > g->common.seq);
}

static void rank_text(const struct zr_inst *c, const struct tc_pend *p, int32_t rank, char *out,
		      size_t room)
{
	const struct tc_peer *peer = &c->peer[rank];
	const struct tc_group *g = &c->group[p->group];
	const struct tc_note *n = &peer->note;
	char op[160];
	if (peer->left) {
		comm_say(out, room, "rank %d (has left)", rank);
	} else if (is_waiting(c, rank)) {
		tc_op_text(&n->at, n->group, op, sizeof op);
		comm_say(out, room, "rank %d (waits in %s)", rank, op);
	} else if (!g->common.kind) {
		comm_say(out, room, "rank %d (has not come to anything yet)", rank);
	} else {
		tc_op_text(&g->common, p->group, op, sizeof op);
		comm_say(out, room, "rank %d (last seen in %s)", rank, op);
	}
}

void tc_missing_text(const struct zr_inst *c, const struct tc_pend *p, char *out, size_t room)
{
	const struct tc_group *g = &c->group[p->group];
	int32_t named = 0, more = 0;
	out[0] = 0;
	for (int32_t k = 0; k < g->size; k++) {
		if (p->all[k].kind)
			continue;
		if (named == NAMED) {
			more++;
			continue;
		}
		if (named++)
			comm_say(out, room, ", ");
		rank_text(c, p, tc_in_world(g, k), out, room);
	}

	if (more)
		comm_say(out, room, " and %d more", more);
	if (!named)
		comm_say(out, room, "the data of ranks that all have come");
}

/* "all_gather over the world (step 3, op 17, unit 2) of 1024 f32 in 2 segments" */
static void header_text(const struct tc_header *h, int32_t group, char *out, size_t room)
{
	tc_op_text(h, group, out, room);
	if (h->kind == ZR_COMM_BROADCAST)
		comm_say(out, room, " from rank %d", h->root);
	if (h->n_seg)
		comm_say(out, room, " of %lld %s in %d segment%s", (long long)h->total,
			 comm_dtype_name(h->dtype), h->n_seg, h->n_seg == 1 ? "" : "s");
}

int tc_differ(struct zr_inst *c, const struct tc_pend *p, int32_t peer, const char *what,
	      int32_t common)
{
	const struct tc_group *g = &c->group[p->group];
	int32_t low = peer < g->rank ? peer : g->rank, high = peer < g->rank ? g->rank : peer;
	char first[300], second[300], others[64] = "";
	header_text(&p->all[low], p->group, first, sizeof first);
	header_text(&p->all[high], p->group, second, sizeof second);
	if (common >= 0)
		snprintf(others, sizeof others, "; all others call what rank %d calls",
			 tc_in_world(g, common));
	return tc_stop(c, "ranks differ in %s: rank %d calls %s, rank %d calls %s%s", what,
		       tc_in_world(g, low), first, tc_in_world(g, high), second, others);
}
