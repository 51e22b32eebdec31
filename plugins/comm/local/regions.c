/* SPDX-License-Identifier: Apache-2.0
 *
 * regions.c - where an address lies in the memory that ranks share, and where that is for others.
 */
#include "local.h"

void *zl_mem_peer(struct zr_inst *c, const void *mine, int32_t group, int32_t rank)
{
	const struct group *node = node_of(c);
	if (group < ZR_GROUP_SELF || group > ZR_GROUP_WORLD || rank < 0 ||
	    rank >= c->group[group].size)
		return NULL;

	int32_t there = c->group[group].first + rank - node->first;
	for (int k = 0; k < c->n_regions; k++) {
		struct region *r = &c->region[k];
		uint64_t off = (uint64_t)((uintptr_t)mine - (uintptr_t)r->base) -
			       (uint64_t)node->rank * r->stride;
		if (!r->base || off >= r->stride) /* not in the own range */
			continue;
		if (there < 0 || there >= node->size)
			return NULL;
		return r->base + (uint64_t)there * r->stride + off;
	}
	return NULL;
}

uint64_t zl_mem_at(const struct zr_inst *c, const void *p, uint64_t bytes)
{
	for (int k = 0; k < c->n_regions; k++) {
		const struct region *r = &c->region[k];
		uint64_t off = (uint64_t)((uintptr_t)p - (uintptr_t)r->base);
		if (r->base && off < region_bytes(c, r) && bytes <= region_bytes(c, r) - off)
			return r->at + off;
	}
	return 0;
}

char *zl_mem_here(const struct zr_inst *c, uint64_t at)
{
	for (int k = 0; k < c->n_regions; k++) {
		const struct region *r = &c->region[k];
		if (r->base && at - r->at < region_bytes(c, r))
			return r->base + (at - r->at);
	}
	return NULL;
}
