/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - operations, and what other ranks do, as text for those that fail (invariant I5).
 */
#include "local.h"

#define NAMED 8 /* ranks that a report names before it counts */

void zl_op_text(int32_t kind, int32_t group, const struct zr_comm_tag *tag, char *out, size_t room)
{
	out[0] = 0;
	comm_say(out, room, "%s over the %s", comm_kind_name(kind), comm_group_name(group));
	if (kind != COMM_MEM)
		comm_say(out, room, " (step %lld, op %d", (long long)tag->step, tag->op);
	if (kind != COMM_MEM && tag->unit >= 0)
		comm_say(out, room, ", unit %d", tag->unit);
	if (kind != COMM_MEM)
		comm_say(out, room, ")");
}

const char *zl_doing(struct zr_inst *c)
{
	if (c->doing)
		return c->doing;
	const struct slot *s =
		slot_of(lane_of(c, c->in->group, c->group[c->in->group].rank), c->in->seq);
	zl_op_text(s->kind, c->in->group, &s->tag, c->text, sizeof c->text);
	return c->text;
}

static void doing_text(struct zr_inst *c, int32_t rank, char *out, size_t room)
{
	struct doing *d = &c->area->seat[rank].doing;
	struct zr_comm_tag tag = { atomic_load(&d->step), atomic_load(&d->op),
				   atomic_load(&d->unit) };
	int32_t kind = atomic_load(&d->kind);
	char op[160];
	zl_op_text(kind & 255, kind >> 8, &tag, op, sizeof op);
	if (atomic_load(&c->area->seat[rank].left))
		comm_say(out, room, "rank %d (has left)", rank);
	else if (!kind)
		comm_say(out, room, "rank %d (has not posted anything yet)", rank);
	else if (atomic_load(&d->waiting))
		comm_say(out, room, "rank %d (waits in %s)", rank, op);
	else
		comm_say(out, room, "rank %d (computing after %s)", rank, op);
}

void zl_missing_text(struct zr_inst *c, int32_t group, enum word w, uint32_t target, char *out,
		     size_t room)
{
	const struct group *g = &c->group[group];
	int32_t named = 0, more = 0;
	out[0] = 0;
	for (int32_t r = 0; r < g->size; r++) {
		if (r == g->rank ||
		    (int32_t)(atomic_load(&lane_of(c, group, r)->word[w]) - target) >= 0)
			continue;
		if (named == NAMED) {
			more++;
			continue;
		}
		if (named++)
			comm_say(out, room, ", ");
		doing_text(c, rank_in_world(g, r), out, room);
	}

	if (more)
		comm_say(out, room, " and %d more", more);
}
