/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - what a rank says of operations and of others when it fails (invariant I5).
 */
#include "tcp.h"

/* Where the rank's note says that it waits, unless this rank has seen that completed; NULL: it is
 * not known. Of another node this rank sees nothing. */
static const struct comm_header *waits_in(const struct zr_inst *c, int32_t rank)
{
	const struct tc_note *n = &c->peer[rank].note;
	const struct tc_group *g = &c->group[n->group];
	if (n->what != NOTE_WAITS)
		return NULL;
	if (tc_place_in(g, rank) >= 0 && n->at.seq <= g->common.seq)
		return NULL;
	return &n->at;
}

/* Of an operation that all have come to: who has not sent or taken everything. */
static void add_unfinished(const struct zr_inst *c, const struct tc_pend *p,
			   struct comm_missing *missing)
{
	const struct tc_group *g = &c->group[p->group];
	for (int32_t k = 0; k < g->size; k++) {
		const int32_t r = tc_in_world(g, k);
		const struct tc_peer *peer = &c->peer[r];
		const int moves = peer->in[p->group].seq <= p->own.seq ||
				  peer->out[p->group].seq <= p->own.seq;

		if (k != g->rank && moves)
			comm_missing_add(missing, &(struct comm_seen){ .rank = r, .has_come = 1 });
	}
}

void tc_missing_text(const struct zr_inst *c, const struct tc_pend *p, char *out, size_t room)
{
	const struct tc_group *g = &c->group[p->group];
	struct comm_missing missing = { .out = out, .room = room };
	out[0] = 0;
	for (int32_t k = 0; k < g->size; k++) {
		const int32_t r = tc_in_world(g, k);
		if (p->all[k].kind)
			continue;

		comm_missing_add(&missing, &(struct comm_seen){
						   .rank = r,
						   .has_left = c->peer[r].left,
						   .waits = waits_in(c, r),
						   .waits_group = c->peer[r].note.group,
						   .group = p->group,
						   .last = &g->common,
					   });
	}
	if (!missing.named)
		add_unfinished(c, p, &missing);
	comm_missing_end(&missing);
}

int tc_differ(struct zr_inst *c, const struct tc_pend *p, int32_t peer, const char *what)
{
	const struct tc_group *g = &c->group[p->group];
	const int32_t common = comm_common(p->all, g->size, g->rank, peer);
	const struct comm_differing d = {
		.what = what,
		.group = p->group,
		.rank = { c->rank, tc_in_world(g, peer) },
		.common = common < 0 ? -1 : tc_in_world(g, common),
		.header = { &p->own, &p->all[peer] },
	};
	char text[800];
	comm_differing_text(&d, text, sizeof text);
	return tc_stop(c, "%s", text);
}
