/* SPDX-License-Identifier: Apache-2.0
 *
 * compare.c - whether all ranks have posted the same operation, and what is said where they have
 * not.
 */
#include "local.h"

static uint64_t mix(uint64_t hash, int64_t x)
{
	hash = (hash ^ (uint64_t)x) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 32;
}

uint64_t zl_sign(const struct zr_comm_op *op, const struct slot *s)
{
	uint64_t hash = (uint64_t)s->tag.step;
	const int32_t also[] = { s->tag.op, s->tag.unit, s->n_seg, s->kind, s->dtype, s->root };
	for (size_t i = 0; i < sizeof also / sizeof *also; i++)
		hash = mix(hash, also[i]);
	for (int32_t i = 0; i < op->n_seg && op->kind != COMM_EXCHANGE; i++)
		hash = mix(hash, op->seg[i].count);
	return hash;
}

static const char *difference(const struct lane *a, const struct slot *x, const struct lane *b,
			      const struct slot *y)
{
	if (x->kind != y->kind)
		return "the kind of operation";
	if (x->tag.step != y->tag.step || x->tag.op != y->tag.op || x->tag.unit != y->tag.unit)
		return "the place in the program";
	if (x->root != y->root)
		return "the root";
	if (x->dtype != y->dtype)
		return "the type of elements";
	if (x->n_seg != y->n_seg)
		return "the number of segments";

	for (int32_t i = 0; i < x->n_seg && x->kind != COMM_EXCHANGE; i++)
		if (seg_of(a, x, i)->count != seg_of(b, y, i)->count)
			return "the number of elements";
	return NULL;
}

static const char *differ(const struct zr_inst *c, const struct pend *p, int32_t a, int32_t b)
{
	const struct lane *l = lane_of(c, p->group, a), *m = lane_of(c, p->group, b);
	return difference(l, slot_of(l, p->seq), m, slot_of(m, p->seq));
}

/* Whether all ranks but one call what `rank` calls. */
static int is_common(const struct zr_inst *c, const struct pend *p, int32_t rank)
{
	int32_t size = c->group[p->group].size, others = 0;
	for (int32_t r = 0; r < size; r++)
		others += differ(c, p, rank, r) != NULL;
	return size > 2 && others == 1;
}

/* The one of this rank and a peer that all others are like; -1: neither. */
static int32_t common_of(const struct zr_inst *c, const struct pend *p, int32_t peer)
{
	const int32_t own = c->group[p->group].rank;
	if (is_common(c, p, own))
		return own;
	if (is_common(c, p, peer))
		return peer;
	return -1;
}

/* "all_gather over the world (step 3, op 17, unit 2) of 2 segments, 1024 f32" */
static void slot_text(const struct lane *l, const struct slot *s, int32_t group, char *out,
		      size_t room)
{
	int64_t total = 0;
	for (int32_t i = 0; i < s->n_seg; i++)
		total += seg_of(l, s, i)->count;
	zl_op_text(s->kind, group, &s->tag, out, room);
	if (s->kind == ZR_COMM_BROADCAST)
		comm_say(out, room, " from rank %d", s->root);
	if (s->n_seg)
		comm_say(out, room, " of %lld %s in %d segment%s", (long long)total,
			 comm_dtype_name(s->dtype), s->n_seg, s->n_seg == 1 ? "" : "s");
}

/* common: the one of both ranks that all others are like, or -1. */
static int say_difference(struct zr_inst *c, const struct pend *p, int32_t peer, const char *what,
			  int32_t common)
{
	const struct group *g = &c->group[p->group];
	int32_t low = g->rank, high = peer;
	if (peer < g->rank) {
		low = peer;
		high = g->rank;
	}
	const struct lane *a = lane_of(c, p->group, low), *b = lane_of(c, p->group, high);
	char first[300], second[300], others[64] = "";
	slot_text(a, slot_of(a, p->seq), p->group, first, sizeof first);
	slot_text(b, slot_of(b, p->seq), p->group, second, sizeof second);

	if (common >= 0)
		snprintf(others, sizeof others, "; all others call what rank %d calls",
			 rank_in_world(g, common));
	return zl_stop(c, "ranks differ in %s: rank %d calls %s, rank %d calls %s%s", what,
		       rank_in_world(g, low), first, rank_in_world(g, high), second, others);
}

/* Of an exchange: whether rank `to` of the group expects what rank `from` sends to it. */
static int expects(struct zr_inst *c, const struct pend *p, int32_t from, int32_t to)
{
	const struct group *g = &c->group[p->group];
	const struct lane *a = lane_of(c, p->group, from), *b = lane_of(c, p->group, to);
	const struct slot *s = slot_of(a, p->seq);
	const int64_t sent = seg_of(a, s, to)->count;
	const int64_t expected = seg_of(b, slot_of(b, p->seq), g->size + from)->count;
	char text[300];
	if (sent == expected)
		return 0;

	zl_op_text(s->kind, p->group, &s->tag, text, sizeof text);
	return zl_stop(c, COMM_PAIR_DIFFERS, rank_in_world(g, from), (long long)sent,
		       comm_dtype_name(s->dtype), rank_in_world(g, to), (long long)expected, text);
}

/* Each rank compares the pairs that it is in. */
static int compare_pairs(struct zr_inst *c, const struct pend *p)
{
	const struct group *g = &c->group[p->group];
	for (int32_t r = 0; r < g->size; r++) {
		int rc = expects(c, p, g->rank, r);
		if (!rc)
			rc = expects(c, p, r, g->rank);

		if (rc)
			return rc;
	}
	return 0;
}

int zl_compare(struct zr_inst *c, const struct pend *p)
{
	const struct group *g = &c->group[p->group];
	const uint64_t own = mark_of(lane_of(c, p->group, g->rank), p->seq)->sign;
	for (int32_t r = 0; r < g->size; r++) {
		if (mark_of(lane_of(c, p->group, r), p->seq)->sign == own)
			continue;

		const char *what = differ(c, p, g->rank, r);
		if (what)
			return say_difference(c, p, r, what, common_of(c, p, r));
	}

	const struct lane *l = lane_of(c, p->group, g->rank);
	if (slot_of(l, p->seq)->kind == COMM_EXCHANGE)
		return compare_pairs(c, p);
	return 0;
}
