/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh.c - see mesh.h.
 */
#include "core/model/mesh.h"

struct zr_mesh zr_mesh_of(const struct zr_boot_info *r)
{
	return (struct zr_mesh){
		.group = { [ZR_GROUP_SELF] = { 1, 0 },
			   [ZR_GROUP_NODE] = { r->local_world, r->local_rank },
			   [ZR_GROUP_WORLD] = { r->world, r->rank } },
		.even = r->world == r->nodes * r->local_world &&
			r->rank == r->node * r->local_world + r->local_rank,
	};
}

static struct zr_share cut(int64_t blocks, int64_t per, int64_t number)
{
	int64_t first = per * number < blocks ? per * number : blocks;
	return (struct zr_share){ per, first, blocks - first < per ? blocks - first : per };
}

struct zr_share zr_share_of(int64_t blocks, int64_t shares, int64_t number)
{
	return cut(blocks, (blocks + shares - 1) / shares, number);
}

struct zr_share zr_mesh_share(const struct zr_mesh *m, int32_t group, int64_t blocks, int32_t rank)
{
	const struct zr_axis *a = &m->group[group], *all = &m->group[ZR_GROUP_WORLD];
	int64_t per = zr_share_of(blocks, all->n, 0).per * (all->n / a->n);
	if (all->n % a->n) /* nodes of other sizes than this one have shares of their own */
		per = zr_share_of(blocks, a->n, 0).per;
	return cut(blocks, per, rank == all->rank ? a->rank : rank % a->n);
}

int32_t zr_mesh_part(const struct zr_mesh *m, int32_t group, int32_t rank)
{
	int32_t n = m->group[group].n;
	return rank % n * (m->group[ZR_GROUP_WORLD].n / n) + rank / n;
}
