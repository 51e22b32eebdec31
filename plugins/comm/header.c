/* SPDX-License-Identifier: Apache-2.0
 *
 * header.c - see header.h.
 */
#include "plugins/comm/header.h"

#define NAMED 8 /* ranks that a report names before it counts */

struct comm_header comm_header_of(const struct zr_comm_op *op)
{
	struct comm_header h = {
		.kind = op->kind,
		.dtype = op->n_seg ? op->dtype : 0,
		.root = op->kind == ZR_COMM_BROADCAST ? op->root : 0,
		.n_seg = op->n_seg,
		.op = op->tag.op,
		.unit = op->tag.unit,
		.step = op->tag.step,
		.counts = 0xcbf29ce484222325u,
	};
	for (int32_t i = 0; i < op->n_seg; i++) {
		h.total += op->seg[i].count;
		h.counts = (h.counts ^ (uint64_t)op->seg[i].count) * 0x100000001b3u;
		h.counts ^= h.counts >> 29;
	}
	return h;
}

struct comm_header comm_header_of_exchange(const struct zr_comm_exchange *x)
{
	return (struct comm_header){ .kind = COMM_EXCHANGE,
				     .dtype = x->dtype,
				     .op = x->tag.op,
				     .unit = x->tag.unit,
				     .step = x->tag.step };
}

/* ---- agreement ------------------------------------------------------------------- */

/* The root is a choice of [comm] sums where there is none. */
const char *comm_difference(const struct comm_header *x, const struct comm_header *y)
{
	if (x->kind != y->kind)
		return "the kind of operation";
	if (x->step != y->step || x->op != y->op || x->unit != y->unit)
		return "the place in the program";
	if (x->root != y->root && x->kind == ZR_COMM_BROADCAST)
		return "the root";
	if (x->root != y->root)
		return "[comm] sums";
	if (x->dtype != y->dtype)
		return "the type of elements";
	if (x->n_seg != y->n_seg)
		return "the number of segments";
	if (x->kind == COMM_EXCHANGE)
		return NULL;
	if (x->total != y->total || x->counts != y->counts)
		return "the number of elements";
	return NULL;
}

/* Whether all ranks but one call what `rank` calls. */
static int is_common(const struct comm_header *all, int32_t ranks, int32_t rank)
{
	int32_t others = 0;
	for (int32_t r = 0; r < ranks; r++)
		others += comm_difference(&all[rank], &all[r]) != NULL;
	return ranks > 2 && others == 1;
}

int32_t comm_common(const struct comm_header *all, int32_t ranks, int32_t a, int32_t b)
{
	if (is_common(all, ranks, a))
		return a;
	if (is_common(all, ranks, b))
		return b;
	return -1;
}

/* ---- texts ----------------------------------------------------------------------- */

void comm_op_text(const struct comm_header *op, int32_t group, char *out, size_t room)
{
	out[0] = 0;
	comm_say(out, room, "%s over the %s (step %lld, op %d", comm_kind_name(op->kind),
		 comm_group_name(group), (long long)op->step, op->op);
	if (op->unit >= 0)
		comm_say(out, room, ", unit %d", op->unit);
	comm_say(out, room, ")");
}

/* "all_gather over the world (step 3, op 17, unit 2) of 1024 f32 in 2 segments" */
static void header_text(const struct comm_header *h, int32_t group, char *out, size_t room)
{
	comm_op_text(h, group, out, room);
	if (h->kind == ZR_COMM_BROADCAST)
		comm_say(out, room, " from rank %d", h->root);
	if (h->n_seg)
		comm_say(out, room, " of %lld %s in %d segment%s", (long long)h->total,
			 comm_dtype_name(h->dtype), h->n_seg, h->n_seg == 1 ? "" : "s");
}

/* The lower rank is named first. */
void comm_differing_text(const struct comm_differing *d, char *out, size_t room)
{
	const int low = d->rank[1] < d->rank[0], high = !low;
	char first[300], second[300];
	header_text(d->header[low], d->group, first, sizeof first);
	header_text(d->header[high], d->group, second, sizeof second);

	out[0] = 0;
	comm_say(out, room, "ranks differ in %s: rank %d calls %s, rank %d calls %s", d->what,
		 d->rank[low], first, d->rank[high], second);
	if (d->common >= 0)
		comm_say(out, room, "; all others call what rank %d calls", d->common);
}

/* ---- who is missing -------------------------------------------------------------- */

static void seen_text(const struct comm_seen *s, char *out, size_t room)
{
	char op[160];
	if (s->has_left) {
		comm_say(out, room, "rank %d (has left)", s->rank);
	} else if (s->has_come) {
		comm_say(out, room, "rank %d (has come, but not all of the data has moved)",
			 s->rank);
	} else if (s->waits) {
		comm_op_text(s->waits, s->waits_group, op, sizeof op);
		comm_say(out, room, "rank %d (waits in %s)", s->rank, op);
	} else if (!s->last->kind) {
		comm_say(out, room, "rank %d (has not come to anything yet)", s->rank);
	} else {
		comm_op_text(s->last, s->group, op, sizeof op);
		comm_say(out, room, "rank %d (last seen in %s)", s->rank, op);
	}
}

void comm_missing_add(struct comm_missing *m, const struct comm_seen *s)
{
	if (m->named == NAMED) {
		m->more++;
		return;
	}

	if (m->named++)
		comm_say(m->out, m->room, ", ");
	seen_text(s, m->out, m->room);
}

void comm_missing_end(struct comm_missing *m)
{
	if (m->more)
		comm_say(m->out, m->room, " and %d more", m->more);
	if (!m->named)
		comm_say(m->out, m->room, "the data of ranks that all have come");
}
