/* SPDX-License-Identifier: Apache-2.0
 *
 * lower_gather.c - parameters and activations between tiers and ranks: gathered copies come before
 * their uses, new values return from their owners, activations leave for another tier and come
 * back. A transfer has several hops (core/program/route.h); the record says when the next one
 * begins. Where comm maps the shares of all ranks one after the other, a gather moves nothing.
 */
#include "core/base/numbers.h"
#include "core/lower/lower.h"

/* ---- gathers ---- */

/* From where to where a hop brings a unit. at: of it in the bounce buffer, in host memory, which is
 * for all shares or for this rank's. */
static struct zr_sent_received ends_of(const struct zr_lowering *l, const struct zr_pop *op,
				       int32_t u, const struct zr_route *r, int32_t hop,
				       uint64_t at)
{
	struct zr_operand full = l->gathered[u], bounce = l->bounce[op - l->record->op];
	struct zr_operand shard = zr_low_share(l, u);
	uint64_t share = zr_unit_share_bytes(l->s, u);
	uint64_t before = (uint64_t)l->f->mesh.group[l->f->groups[u].param].rank * share;

	bounce = zr_operand_part(bounce, at, zr_route_bounce_bytes(l->f, r, u));

	/* where ranks meet, and this rank's share there */
	struct zr_operand meet = r->whole ? bounce : full;
	struct zr_operand own = zr_operand_part(meet, before, share);
	if (hop == ZR_HOP_READ && r->bounce && !r->whole)
		return (struct zr_sent_received){ shard, bounce };
	if (hop == ZR_HOP_READ)
		return (struct zr_sent_received){ shard, own };
	if (hop == ZR_HOP_COPY && r->whole)
		return (struct zr_sent_received){ bounce, full };
	if (hop == ZR_HOP_COPY)
		return (struct zr_sent_received){ bounce, own };
	if (r->hop[0] == ZR_HOP_READ)
		return (struct zr_sent_received){ own, meet };
	return (struct zr_sent_received){ shard, meet };
}

/* Where units are of several types, they are gathered as bytes. */
static int32_t gathered_type(const struct zr_setup_facts *f)
{
	return f->stored || f->gather_codes ? ZR_U8 : f->types.dtype;
}

static void gather_hop(struct zr_lowering *l, const struct zr_pop *op, const struct zr_route *r,
		       int32_t hop)
{
	uint64_t at = 0;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = l->unit = zr_low_units(l, op)[i];
		l->part[i] = ends_of(l, op, u, r, hop, at);
		if (hop == ZR_HOP_RANKS)
			l->part[i] = zr_low_code(l, op, i, l->f->groups[u].param, l->part[i]);
		else
			zr_low_move(l, l->part[i].send, l->part[i].recv);
		at += zr_route_bounce_bytes(l->f, r, u);
	}

	l->unit = zr_low_units(l, op)[0];
	if (hop == ZR_HOP_RANKS)
		zr_low_collective(l, ZR_COMM_ALL_GATHER, l->f->groups[l->unit].param,
				  gathered_type(l->f), 0, op->n);
}

static struct zr_operand gathered_copy(struct zr_lowering *l, int32_t u, int moves)
{
	uint64_t ranks = (uint64_t)zr_group_ranks(l->f, l->f->groups[u].param);
	struct zr_operand o = zr_low_share(l, u);
	if (moves && zr_computes_on_host(&l->f->homes, u))
		return zr_low_buffer(l, ZR_R_BOUNCE, ranks * o.bytes, ZR_PAGE);
	if (moves)
		return zr_low_buffer(l, ZR_R_GATHER, ranks * o.bytes,
				     l->plan->unit[u].offloaded ? ZR_PAGE : 64);
	if (zr_unit_view(l->f, u)) {
		o.whose = ZR_VIEW;
		o.unit = u;
	}
	return o;
}

/* ---- experts that ranks divide ---- */

/* Rank k of a group, as a home. */
static int32_t home_of_member(const struct zr_lowering *l, int32_t group, int32_t k)
{
	const struct zr_axis *a = &l->f->mesh.group[group];
	return (l->f->process.rank - a->rank + k) % l->f->homes.ranks;
}

/* How far apart this rank's shares of the j-th experts of all homes are, 0: not equally. */
static uint64_t shares_apart(const struct zr_lowering *l, const struct zr_pop *op, int32_t j)
{
	const int32_t *units = zr_low_units(l, op);
	const int32_t homes = l->f->homes.ranks, here = op->n / homes;
	const struct zr_operand first = zr_low_share(l, units[j]);
	const uint64_t apart = zr_low_share(l, units[here + j]).at - first.at;

	for (int32_t h = 1; h < homes; h++) {
		const struct zr_operand share = zr_low_share(l, units[h * here + j]);
		if (share.region != first.region || share.at != first.at + (uint64_t)h * apart)
			return 0;
	}
	return apart;
}

/* This rank's shares of the experts that every rank of the group has at home, of each the j-th:
 * what it sends to that rank. */
static struct zr_operand shares_for_homes(struct zr_lowering *l, const struct zr_pop *op,
					  int32_t group, int32_t j)
{
	const int32_t *units = zr_low_units(l, op);
	const int32_t ranks = l->f->mesh.group[group].n, here = op->n / l->f->homes.ranks;
	struct zr_operand from = zr_low_share(l, units[j]);
	const uint64_t share = from.bytes, apart = shares_apart(l, op, j);
	struct zr_operand to =
		zr_low_buffer(l, zr_low_meeting_region(l), share * (uint64_t)ranks, ZR_PAGE);

	if (group == ZR_GROUP_EXPERT && apart) {
		from.bytes += (uint64_t)(ranks - 1) * apart;
		zr_low_move_parts(l, from, to, ranks, share);
		return to;
	}

	for (int32_t k = 0; k < ranks; k++) {
		const int32_t unit = units[home_of_member(l, group, k) * here + j];
		zr_low_move(l, zr_low_share(l, unit),
			    zr_operand_part(to, share * (uint64_t)k, share));
	}
	return to;
}

/* From the ranks of a group, to each what it has at home. to: [experts here]. */
static void send_shares(struct zr_lowering *l, const struct zr_pop *op, int32_t group,
			struct zr_operand (*to)(struct zr_lowering *, const struct zr_pop *,
						int32_t))
{
	const int32_t here = op->n / l->f->homes.ranks;

	for (int32_t j = 0; j < here; j++)
		l->part[j] = (struct zr_sent_received){ shares_for_homes(l, op, group, j),
							to(l, op, j) };
	zr_low_collective(l, ZR_COMM_ALL_TO_ALL, group, gathered_type(l->f), 0, here);
}

/* The copy of the j-th expert of this rank. */
static struct zr_operand expert_here(struct zr_lowering *l, const struct zr_pop *op, int32_t j)
{
	const int32_t here = op->n / l->f->homes.ranks;
	return l->gathered[zr_low_units(l, op)[l->f->homes.rank * here + j]];
}

/* Where that arrives: it goes on to the host if comm is on the device. */
static struct zr_operand expert_that_comes(struct zr_lowering *l, const struct zr_pop *op,
					   int32_t j)
{
	const struct zr_operand here = expert_here(l, op, j);

	if (l->f->homes.on_host && !zr_comm_on_host(l->f))
		return zr_low_buffer(l, ZR_R_COMM, here.bytes, ZR_PAGE);
	return here;
}

/* What the ranks that divide experts have of it. */
static struct zr_operand shares_of_neighbours(struct zr_lowering *l, const struct zr_pop *op,
					      int32_t j)
{
	const uint64_t share = zr_unit_share_bytes(l->s, zr_low_units(l, op)[j]);
	return zr_low_buffer(l, zr_low_meeting_region(l), share * (uint64_t)l->f->homes.ranks,
			     ZR_PAGE);
}

/* Over all ranks: first among those that divide experts, then among the homes of the same ones. */
static void gather_from_all(struct zr_lowering *l, const struct zr_pop *op)
{
	const int32_t here = op->n / l->f->homes.ranks;

	if (l->f->homes.ranks == l->f->process.world) {
		send_shares(l, op, ZR_GROUP_EXPERT, expert_that_comes);
		return;
	}

	send_shares(l, op, ZR_GROUP_EXPERT, shares_of_neighbours);
	for (int32_t j = 0; j < here; j++)
		l->part[j] =
			(struct zr_sent_received){ l->part[j].recv, expert_that_comes(l, op, j) };
	zr_low_collective(l, ZR_COMM_ALL_GATHER, ZR_GROUP_CROSS, gathered_type(l->f), 0, here);
}

/* Only those of this rank come: each rank sends each other one its share of what is there. */
static void gather_experts(struct zr_lowering *l, const struct zr_pop *op)
{
	const int32_t *units = zr_low_units(l, op);
	const int32_t here = op->n / l->f->homes.ranks, first = l->f->homes.rank * here;
	const int32_t group = l->f->groups[units[0]].param;
	const int moves = zr_route_gather(l->f, units[0]).n > 0;

	l->unit = units[0];
	for (int32_t j = 0; j < here; j++)
		l->gathered[units[first + j]] = gathered_copy(l, units[first + j], moves);
	if (!moves)
		return;

	if (group == ZR_GROUP_WORLD)
		gather_from_all(l, op);
	else if (zr_group_ranks(l->f, group) > 1)
		send_shares(l, op, group, expert_that_comes);
	else
		for (int32_t j = 0; j < here; j++)
			l->part[j].recv = zr_low_share(l, units[first + j]);

	for (int32_t j = 0; j < here; j++)
		if (l->part[j].recv.region != expert_here(l, op, j).region)
			zr_low_move(l, l->part[j].recv, expert_here(l, op, j));
}

void zr_low_gather(struct zr_lowering *l, const struct zr_pop *op)
{
	if (zr_low_of_experts(l, op)) {
		gather_experts(l, op);
		return;
	}

	struct zr_route r = zr_route_gather(l->f, zr_low_units(l, op)[0]);
	uint64_t through = 0;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = zr_low_units(l, op)[i];
		l->gathered[u] = gathered_copy(l, u, r.n > 0);
		through += zr_route_bounce_bytes(l->f, &r, u);
	}
	if (r.bounce)
		l->bounce[op - l->record->op] = zr_low_buffer(l, ZR_R_BOUNCE, through, ZR_PAGE);
	zr_low_next(l, op);
}

/* ---- activations ---- */

static void move_hop(struct zr_lowering *l, const struct zr_pop *op, const struct zr_route *r,
		     int32_t hop)
{
	const struct zr_act_move *m = &l->s->programs.train_act.move[op->use];
	struct zr_operand resident = zr_low_activation(l, m->life),
			  offloaded = zr_mine(ZR_R_ACT_OFFLOADED, m->offloaded, m->bytes);
	struct zr_operand *bounce = &l->bounce[op - l->record->op];
	if (r->bounce && !bounce->buffer)
		*bounce = zr_low_buffer(l, ZR_R_BOUNCE, m->bytes, ZR_PAGE);

	/* from `from` to `to` it leaves, and the other way it comes back */
	struct zr_operand from = r->bounce ? *bounce : resident, to = offloaded;
	if (hop == ZR_HOP_COPY) {
		to = from;
		from = resident;
	}

	if (m->back) {
		struct zr_operand there = to;
		to = from;
		from = there;
	}
	zr_low_move(l, from, to);
	l->source[op - l->record->op] = from;
}

/* ---- hops ---- */

static struct zr_route route_of(const struct zr_lowering *l, const struct zr_pop *op)
{
	if (op->kind == ZR_P_GATHER)
		return zr_route_gather(l->f, zr_low_units(l, op)[0]);
	return zr_route_move(l->f, op->kind == ZR_P_FETCH);
}

void zr_low_next(struct zr_lowering *l, const struct zr_pop *op)
{
	struct zr_route r = route_of(l, op);
	if (op->kind == ZR_P_GATHER && zr_low_of_experts(l, op))
		return;
	int32_t number = (int32_t)(op - l->record->op), *at = &l->hop[number], whose = l->op;
	if (*at >= r.n)
		return;

	zr_low_keep(l, &l->source[number]);
	l->op = number;
	zr_low_decode(l, op); /* what the hop before brought */
	if (op->kind == ZR_P_GATHER)
		gather_hop(l, op, &r, r.hop[*at]);
	else
		move_hop(l, op, &r, r.hop[*at]);
	l->op = whose;
	++*at;
}

/* After the last hop of an operation. */
static void decode_came(struct zr_lowering *l, const struct zr_pop *op)
{
	int32_t whose = l->op;
	l->op = (int32_t)(op - l->record->op);
	zr_low_decode(l, op);
	l->op = whose;
}

void zr_low_rest(struct zr_lowering *l, const struct zr_pop *op)
{
	int32_t n = route_of(l, op).n, number = (int32_t)(op - l->record->op);
	if (op->kind == ZR_P_GATHER && zr_low_of_experts(l, op))
		return;
	while (l->hop[number] < n)
		zr_low_next(l, op);
	decode_came(l, op);
	if (op->kind == ZR_P_GATHER)
		zr_low_keep(l, &l->bounce[number]);
	else
		zr_low_keep(l, &l->source[number]);
}

/* ---- new values ---- */

static uint64_t held_bytes(const struct zr_lowering *l, int32_t u)
{
	return (uint64_t)l->plan->unit[u].held.per * zr_unit_block(l->f, u);
}

/* Where all of a unit is while it is published. */
static struct zr_operand whole_unit(struct zr_lowering *l, int32_t u)
{
	const struct zr_setup *s = l->s;
	uint64_t bytes =
		(uint64_t)zr_group_ranks(&s->facts, s->facts.groups[u].state) * held_bytes(l, u);
	if (s->facts.groups[u].param == ZR_GROUP_SELF)
		return zr_of_spot(s->plan.unit[u].param, bytes);
	if (zr_group_ranks(&s->facts, s->facts.groups[u].state) == 1 && !s->plan.unit[u].offloaded)
		return zr_of_spot(s->plan.unit[u].held_copy, bytes);
	if (s->plan.unit[u].offloaded)
		return zr_low_buffer(l, ZR_R_BOUNCE, bytes, ZR_PAGE);
	return zr_low_buffer(l, ZR_R_GATHER, bytes, 64);
}

/* From a group that holds masters to those that have the parameters. Whole parameters: all-gather
 * in place. Split otherwise: the whole unit is gathered and this rank's share of it kept
 * (zr_low_published). Split alike: the update wrote where it belongs. */
static void publish_from(struct zr_lowering *l, const struct zr_pop *op, int32_t group)
{
	const struct zr_setup *s = l->s;
	const struct zr_axis *a = &s->facts.mesh.group[group];
	int32_t n = 0;
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = l->unit = zr_low_units(l, op)[i];
		const struct zr_unit_memory *m = &s->plan.unit[u];
		if (s->facts.groups[u].state != group || s->facts.groups[u].param == group)
			continue;
		uint64_t bytes = held_bytes(l, u);
		struct zr_operand whole = whole_unit(l, u);
		struct zr_operand send = zr_of_spot(m->held_copy, bytes);
		l->whole[op->first + i] = whole;
		if (m->offloaded) {
			struct zr_operand own =
				zr_operand_part(whole, (uint64_t)a->rank * bytes, bytes);
			zr_low_move(l, send, own);
			send = own;
		}

		l->part[n] = (struct zr_sent_received){ send, whole };
		if (a->n > 1)
			l->part[n] = zr_low_code(l, op, i, group, l->part[n]);
		n++;
	}

	l->unit = -1;
	if (op->n)
		l->unit = zr_low_units(l, op)[0];
	if (n && a->n > 1)
		zr_low_collective(l, ZR_COMM_ALL_GATHER, group, gathered_type(&s->facts), 0, n);
}

/* Over each group its own units of a list, by one collective. */
void zr_low_publish(struct zr_lowering *l, const struct zr_pop *op)
{
	for (int32_t group = ZR_GROUP_SELF; group <= ZR_GROUP_WORLD; group++)
		publish_from(l, op, group);
}

void zr_low_published(struct zr_lowering *l, const struct zr_pop *op)
{
	const struct zr_setup *s = l->s;
	zr_low_decode(l, op);
	for (int32_t i = 0; i < op->n; i++) {
		int32_t u = l->unit = zr_low_units(l, op)[i];
		const struct zr_unit_memory *m = &s->plan.unit[u];
		if (!zr_unit_apart(&s->facts, u))
			continue;
		struct zr_operand whole = l->whole[op->first + i];
		uint64_t n = zr_unit_share_bytes(s, u);
		uint64_t at = (uint64_t)s->facts.mesh.group[s->facts.groups[u].param].rank * n;
		uint64_t end = zr_min(at + n, whole.bytes);
		/* with the padding, or that alone: all ranks wait for it */
		zr_low_keep(l, &whole);
		if (at < end)
			zr_low_move(l, zr_operand_part(whole, at, end - at),
				    zr_of_spot(m->param, end - at));
	}
}

void zr_low_fence(struct zr_lowering *l)
{
	if (!l->f->views)
		return;
	zr_low_collective(l, ZR_COMM_FENCE, ZR_GROUP_WORLD, ZR_F32, 0, 0);
	for (int32_t u = 0; u < l->f->layout.n_units; u++)
		if (zr_unit_view(l->f, u))
			zr_low_seen(l, zr_low_share(l, u));
}

struct zr_operand zr_low_activation(struct zr_lowering *l, int32_t life)
{
	struct zr_operand *o = &l->life[life];
	if (!o->buffer)
		*o = zr_low_buffer(l, ZR_R_ACT, l->act->life_bytes[life],
				   zr_activation_align(l->f));
	return *o;
}
