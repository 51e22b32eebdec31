/* SPDX-License-Identifier: Apache-2.0
 *
 * route.c - see route.h.
 */
#include "core/program/route.h"

#include "core/setup.h"

static void add_hop(struct zr_route *r, int32_t hop)
{
	r->hop[r->n++] = hop;
}

int zr_comm_on_host(const struct zr_setup_facts *f)
{
	return f->process.world > 1 && !f->device_info.host_access && !f->device_comm;
}

/* offloaded: [offload.param] holds shares; ranks: others have shares, too, that are not seen in
 * place. */
static struct zr_route gather(const struct zr_setup_facts *f, int offloaded, int ranks)
{
	struct zr_route r = { 0 };
	int disk = offloaded && zr_on_disk(f, ZR_STORE_PARAM);
	r.whole = ranks && offloaded && zr_comm_on_host(f);
	r.bounce = r.whole || (disk && !f->device_info.host_access);
	/* a collective takes shares from where they lie, if it can address them */
	if (offloaded && (disk || !ranks || (!f->device_info.host_access && !r.whole)))
		add_hop(&r, ZR_HOP_READ);
	if (r.bounce && !r.whole)
		add_hop(&r, ZR_HOP_COPY);
	if (ranks)
		add_hop(&r, ZR_HOP_RANKS);
	if (r.whole)
		add_hop(&r, ZR_HOP_COPY);
	return r;
}

/* Of one that stays in host memory, where [offload.param] is or brings it. */
static struct zr_route gather_on_host(const struct zr_setup_facts *f, int ranks)
{
	struct zr_route r = { 0 };

	if (zr_on_disk(f, ZR_STORE_PARAM))
		add_hop(&r, ZR_HOP_READ);
	if (ranks)
		add_hop(&r, ZR_HOP_RANKS);
	return r;
}

struct zr_route zr_route_gather(const struct zr_setup_facts *f, int32_t unit)
{
	if (zr_computes_on_host(&f->homes, unit))
		return gather_on_host(f, zr_group_ranks(f, f->groups[unit].param) > 1);
	return gather(f, zr_unit_offloaded(f, unit),
		      zr_group_ranks(f, f->groups[unit].param) > 1 && !zr_unit_view(f, unit));
}

struct zr_route zr_route_of_split(const struct zr_setup_facts *f)
{
	int offloaded = zr_offloaded(f, ZR_STORE_PARAM);
	return gather(f, offloaded, f->process.world > 1 && (offloaded || !f->views));
}

struct zr_route zr_route_move(const struct zr_setup_facts *f, int32_t back)
{
	int disk = zr_store_tier(f, ZR_STORE_ACTIVATION) == ZR_TIER_DISK;
	struct zr_route r = { .bounce = disk && !f->device_info.host_access };
	if (back)
		add_hop(&r, ZR_HOP_READ);
	if (r.bounce)
		add_hop(&r, ZR_HOP_COPY);
	if (!back)
		add_hop(&r, ZR_HOP_WRITE);
	return r;
}

uint64_t zr_unit_share_bytes(const struct zr_setup *s, int32_t unit)
{
	return (uint64_t)s->plan.unit[unit].param_per * zr_unit_block(&s->facts, unit);
}

uint64_t zr_route_bounce_bytes(const struct zr_setup_facts *f, const struct zr_route *r,
			       int32_t unit)
{
	int32_t group = f->groups[unit].param;
	int64_t ranks = zr_group_ranks(f, group);
	int64_t n = zr_unit_share(f, unit, group, f->process.rank).per;
	int none = !r->bounce || (ranks == 1 && !zr_unit_offloaded(f, unit)); /* a share serves */
	if (none)
		return 0;
	return (uint64_t)(r->whole ? ranks * n : n) * zr_unit_block(f, unit);
}
