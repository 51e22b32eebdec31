/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.c - what follows from a setup: whole, shares and places of its units.
 */
#include "core/base/numbers.h"
#include "core/setup.h"

const struct zr_state *zr_setup_state(const struct zr_setup_roles *r, uint32_t i)
{
	const struct zr_optimizer *o = r->optimizer;
	while (i >= o->first_state + o->n_states)
		o++;
	return zr_optimizer_state(o, i - o->first_state);
}

int64_t zr_group_ranks(const struct zr_setup_facts *f, int32_t group)
{
	return f->mesh.group[group].n;
}

int32_t zr_machine_ranks(const struct zr_setup_facts *f)
{
	if (f->ranks.machine_ranks > 0)
		return f->ranks.machine_ranks;
	return (int32_t)zr_group_ranks(f, ZR_GROUP_NODE);
}

struct zr_share zr_unit_share(const struct zr_setup_facts *f, int32_t unit, int32_t group,
			      int32_t rank)
{
	/* 32 blocks of any type are whole pages, as comm wants them */
	uint64_t grain = 1;
	if (f->frozen_unit[unit] > 1)
		grain = 32 * (uint64_t)f->process.world;

	const int64_t blocks = f->layout.unit[unit].blocks;
	const int64_t padded = (int64_t)zr_up((uint64_t)blocks, grain);
	struct zr_share share = zr_mesh_share(&f->mesh, group, padded, rank);
	share.first = zr_fewer(share.first, blocks);
	share.n = zr_fewer(share.n, blocks - share.first);
	return share;
}

int64_t zr_unit_padded_elements(const struct zr_setup_facts *f, int32_t unit)
{
	return zr_unit_share(f, unit, ZR_GROUP_SELF, f->process.rank).per * ZR_BLOCK;
}

int zr_unit_apart(const struct zr_setup_facts *f, int32_t unit)
{
	return f->groups[unit].param != ZR_GROUP_SELF &&
	       f->groups[unit].param != f->groups[unit].state;
}

int32_t zr_unit_master(const struct zr_setup_facts *f, int32_t unit)
{
	int unused = f->mode == ZR_MODE_SAMPLE && f->types.dtype != ZR_F32;
	if (unused || f->frozen_unit[unit])
		return ZR_MASTER_NONE;
	return f->types.master;
}

int zr_offloaded(const struct zr_setup_facts *f, int store)
{
	return store >= ZR_STORE_OPTIMIZER && f->tier[store - ZR_STORE_OPTIMIZER].size > 0;
}

int32_t zr_store_tier(const struct zr_setup_facts *f, int store)
{
	if (store == ZR_STORE_DEVICE && !f->device_info.unified)
		return ZR_TIER_DEVICE;
	if (store < ZR_STORE_OPTIMIZER)
		return ZR_TIER_HOST;
	if (f->tier[store - ZR_STORE_OPTIMIZER].direct)
		return ZR_TIER_HOST;
	return ZR_TIER_DISK;
}

int zr_on_disk(const struct zr_setup_facts *f, int store)
{
	return zr_offloaded(f, store) && zr_store_tier(f, store) == ZR_TIER_DISK;
}

int zr_unit_offloaded(const struct zr_setup_facts *f, int32_t unit)
{
	return zr_offloaded(f, ZR_STORE_PARAM) && f->groups[unit].param != ZR_GROUP_SELF;
}

int zr_unit_view(const struct zr_setup_facts *f, int32_t unit)
{
	int32_t group = f->groups[unit].param;
	return f->views && group != ZR_GROUP_SELF && zr_group_ranks(f, group) > 1 &&
	       !zr_unit_offloaded(f, unit);
}

int zr_sums_locally(const struct zr_setup_facts *f)
{
	return f->train->reduction == ZR_REDUCE_LOCAL && f->process.world > 1 &&
	       f->batch.accumulation > 1;
}

int32_t zr_sums_tree(const struct zr_setup_facts *f)
{
	return (int32_t)f->train->sum_group * f->slices.ranks;
}

int32_t zr_sums_turns(const struct zr_setup_facts *f)
{
	const int32_t tree = zr_sums_tree(f), ranks = f->process.world;
	if (tree <= ranks)
		return 1;
	return tree / ranks;
}

/* Where ranks divide experts, of these so many contributions come at a time. */
int32_t zr_sums_waiting(const struct zr_setup_facts *f)
{
	const int32_t tree = zr_sums_tree(f), ranks = f->homes.ranks;
	if (ranks > 1 && tree > ranks)
		return zr_tree_levels(tree / ranks);
	return zr_tree_levels(zr_sums_turns(f));
}

int zr_sums_way(const struct zr_setup_facts *f, int32_t unit)
{
	int64_t ranks = zr_group_ranks(f, f->groups[unit].state);
	if (ranks == f->process.world)
		return ZR_SUMS_STAY;
	if (ranks == 1 && !zr_on_disk(f, ZR_STORE_GRADIENT))
		return ZR_SUMS_MEET;
	return ZR_SUMS_PASS;
}

/* Elements; 0: gradients do not come in parts. */
static uint64_t most_of_a_part(const struct zr_setup_facts *f)
{
	const uint64_t given = f->train->gradient_part_size;
	if (given != ZR_AUTO_COUNT)
		return given;
	if (zr_on_disk(f, ZR_STORE_GRADIENT))
		return 8 << 20;
	return 0;
}

/* Parts are whole rows and whole blocks, and all layers that use the unit must know of them. */
int64_t zr_unit_part(const struct zr_setup_facts *f, int32_t unit)
{
	const struct zr_unit_place *u = &f->layout.unit[unit];
	const int64_t cols = f->layout.tensor[u->first].decl->dims[1], two = cols & -cols;
	const int64_t least = cols / zr_fewer(two, ZR_BLOCK);
	const uint64_t most = most_of_a_part(f);
	int64_t part = (int64_t)(most / ZR_BLOCK) / least * least;
	if (!part && most)
		part = least;
	if (part >= u->blocks || u->count > 1 || f->frozen_unit[unit] || zr_sums_locally(f) ||
	    zr_codes_gradients(f) || zr_sliced(&f->slices))
		return 0;

	for (uint32_t i = 0; i < f->decl.n_layers; i++) {
		const struct zr_layer *l = zr_layer_at(&f->decl, (int32_t)i);
		for (uint32_t k = 0, tensor = 1; k < l->n_units; k++) {
			if (l->units[k] == unit && f->layer_bytes[i].rows_of != tensor)
				return 0;

			tensor += (uint32_t)f->layout.unit[l->units[k]].count;
		}
	}
	if (!zr_offloaded(f, ZR_STORE_GRADIENT))
		return 0;
	return part;
}
