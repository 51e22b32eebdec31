/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - what a rank says of operations and of others when it fails (invariant I5).
 */
#include "mpi.h"

/* Where the rank's note says that it waits, unless this rank has seen that completed; NULL: it is
 * not known. Of another node this rank sees nothing. */
static const struct comm_header *waits_in(const struct zr_inst *c, int32_t rank)
{
	const struct zm_note *n = &c->peer[rank].note;
	const struct zm_group *g = &c->group[n->group];
	int member = 0;
	for (int32_t r = 0; r < g->size; r++)
		member |= zm_in_world(g, r) == rank;
	if (n->what != NOTE_WAITS || (member && n->at.seq <= g->common.seq))
		return NULL;
	return &n->at;
}

/* 1 if a note says that the rank has posted p. */
static int has_come(struct zr_inst *c, const struct zm_pend *p, int32_t rank)
{
	const struct zm_note *n = &c->peer[rank].note;
	return rank == c->rank || (n->what && n->posted[p->group] >= p->own.seq);
}

void zm_missing_text(struct zr_inst *c, const struct zm_pend *p, char *out, size_t room)
{
	const struct zm_group *g = &c->group[p->group];
	struct comm_missing missing = { .out = out, .room = room };
	out[0] = 0;
	for (int32_t k = 0; k < g->size; k++) {
		const int32_t r = zm_in_world(g, k);
		if (has_come(c, p, r))
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
	comm_missing_end(&missing);
}

int zm_differ(struct zr_inst *c, const struct zm_pend *p, int32_t peer, const char *what)
{
	const struct zm_group *g = &c->group[p->group];
	const int32_t common = comm_common(p->all, g->size, g->rank, peer);
	const struct comm_differing d = {
		.what = what,
		.group = p->group,
		.rank = { c->rank, zm_in_world(g, peer) },
		.common = common < 0 ? -1 : zm_in_world(g, common),
		.header = { &p->own, &p->all[peer] },
	};
	char text[800];
	comm_differing_text(&d, text, sizeof text);
	return zm_stop(c, "%s", text);
}
