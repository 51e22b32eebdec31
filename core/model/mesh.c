/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh.c - see mesh.h.
 */
#include "core/model/mesh.h"

#include "core/base/numbers.h"

/* Ranks of one place in all nodes; or, where ranks divide experts, of the same experts. */
static struct zr_axis cross_of(const struct zr_boot_info *r, int32_t experts)
{
	if (experts > 1)
		return (struct zr_axis){ r->world / experts, r->rank / experts };
	return (struct zr_axis){ r->nodes, r->node };
}

struct zr_mesh zr_mesh_of(const struct zr_boot_info *r, int32_t sequence, int32_t experts)
{
	return (struct zr_mesh){ .axis = { [ZR_AXIS_DATA] = { r->world / sequence,
							      r->rank / sequence },
					   [ZR_AXIS_SEQUENCE] = { sequence, r->rank % sequence },
					   [ZR_AXIS_EXPERT] = { experts, r->rank % experts } },
				 .group = { [ZR_GROUP_SELF] = { 1, 0 },
					    [ZR_GROUP_NODE] = { r->local_world, r->local_rank },
					    [ZR_GROUP_WORLD] = { r->world, r->rank },
					    [ZR_GROUP_SEQUENCE] = { sequence, r->rank % sequence },
					    [ZR_GROUP_EXPERT] = { experts, r->rank % experts },
					    [ZR_GROUP_CROSS] = cross_of(r, experts) },
				 .even = r->world == r->nodes * r->local_world &&
					 r->rank == r->node * r->local_world + r->local_rank };
}

static struct zr_share cut(int64_t blocks, int64_t per, int64_t number)
{
	int64_t first = zr_fewer(per * number, blocks);
	return (struct zr_share){ per, first, zr_fewer(blocks - first, per) };
}

struct zr_share zr_share_of(int64_t blocks, int64_t shares, int64_t number)
{
	return cut(blocks, (blocks + shares - 1) / shares, number);
}

struct zr_share zr_mesh_share(const struct zr_mesh *m, int32_t group, int64_t blocks, int32_t rank)
{
	int32_t n = m->group[group].n, world = m->group[ZR_GROUP_WORLD].n;
	return cut(blocks, zr_share_of(blocks, world, 0).per * (world / n), rank % n);
}

int32_t zr_rank_part(int32_t ranks, int32_t world, int32_t rank)
{
	return rank % ranks * (world / ranks) + rank / ranks;
}
