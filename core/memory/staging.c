/* SPDX-License-Identifier: Apache-2.0
 *
 * staging.c - sets of buffers through which an update reads and writes what it cannot reach.
 */
#include "core/base/numbers.h"
#include "core/memory/plan.h"

#include "core/memory/subgroup.h"
#include "core/setup.h"

/* The largest sub-group that a program updates: blocks. */
static uint64_t subgroup_blocks(const struct zr_plan *p, const struct zr_program *prog)
{
	int64_t most = 1;
	for (int32_t i = 0; i < prog->n; i++) {
		const struct zr_pop *op = &prog->op[i];
		for (int32_t k = 0; op->kind == ZR_P_UPDATE && k < op->n; k++) {
			int64_t held = p->unit[prog->unit[op->first + k]].held.per;
			int64_t n = 1 + (op->subgroup - 1) / ZR_BLOCK;
			if (op->subgroup <= 0 || n > held)
				n = held;
			if (n > most)
				most = n;
		}
	}
	return (uint64_t)most;
}

/* With which the disk works between updates among layers, in one of so many parts of what is
 * updated. All ranks choose alike. */
static int sets_of_layers(const struct zr_setup_facts *f, const struct zr_staging *g, int parts)
{
	int64_t group = g->blocks * ZR_BLOCK * (int64_t)g->ranks;
	int64_t most[] = { f->layout.blocks * ZR_BLOCK / group / parts,
			   (1 << 30) / (int64_t)g->set_bytes, 64 };
	int64_t sets = 3 * ((f->typical_unit + group - 1) / group);
	for (int i = 0; i < 3; i++)
		sets = zr_fewer(sets, most[i]);
	return (int)sets;
}

/* What a rank has in host memory for the whole run. */
static uint64_t kept_in_memory(const struct zr_setup *s)
{
	uint64_t bytes = 0;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		const struct zr_region *r = &s->plan.region[i];
		const int device = r->store == ZR_STORE_DEVICE && !s->facts.device_info.unified;
		if (r->store <= ZR_STORE_HOST && !device)
			bytes += r->bytes;
	}
	return bytes;
}

/* Sets beside the fewest, where layers are computed between the updates of units. Within the next
 * forward, which nobody asked for, they take half of what memory has anyway, at most. */
static int more_sets(const struct zr_setup *s, const struct zr_staging *g)
{
	const struct zr_setup_programs *p = &s->programs;
	if (!p->recorded[ZR_PROG_LAST_MICRO].updates && !p->recorded[ZR_PROG_ONWARD].updates)
		return 0;

	if (!p->recorded[ZR_PROG_ONWARD].updates)
		return sets_of_layers(&s->facts, g, 4);

	int64_t most = (int64_t)(kept_in_memory(s) / 2 / g->set_bytes);
	return (int)zr_fewer(sets_of_layers(&s->facts, g, 3), most);
}

/* How many sub-groups are under way: as the slowest store among the optimizer's and the
 * gradient's wishes; `copies` to a device are made while the next sub-group is computed. */
static void pipeline(const struct zr_setup *s, struct zr_staging *g, int copies)
{
	int buffers = 0, read = 0, write = copies, waits = copies; /* reads, for the last write */
	for (int i = 0; i < ZR_OFFLOADS; i++) {
		const struct zr_tier_info *t = &s->facts.tier[i];
		if (!t->size || t->direct)
			continue;
		if (t->buffers > (uint32_t)buffers)
			buffers = (int)t->buffers;
		read |= t->pipeline_read != 0;
		write |= t->pipeline_write != 0;
		waits |= t->pipeline_write && !t->in_order;
	}

	int least = 1 + read + write;
	if (!buffers && read && g->set_bytes)
		buffers = least + more_sets(s, g);
	g->least = least;
	g->sets = 1;
	if (g->set_bytes && buffers > least)
		g->sets = buffers;
	else if (g->set_bytes)
		g->sets = least;

	g->ahead = 0;
	if (read && g->set_bytes)
		g->ahead = g->sets - 1 - waits;
}

/* The largest set of buffers that any tensor's sub-group takes. Returns whether copies to a device
 * are among what is staged. */
static int size_sets(const struct zr_setup *s, struct zr_staging *g)
{
	const struct zr_setup_facts *f = &s->facts;
	int copies = 0;
	for (int32_t i = 0; i < f->layout.n_tensors; i++) {
		int32_t unit = f->layout.tensor[i].unit;
		struct zr_subgroup subgroup = { .unit = unit,
						.optimizer = zr_optimizer_of(&s->roles, i),
						.tensor = i };
		if (f->frozen[i])
			continue;

		g->set_bytes = zr_max(g->set_bytes, zr_staged_at(s, &subgroup, g->n_data));
		g->ranks = zr_max(g->ranks, (uint64_t)zr_group_ranks(f, f->groups[unit].state));
		copies |= zr_datum_staged(s, unit, ZR_D_LOWP);
	}

	g->set_bytes = zr_up(g->set_bytes, ZR_PAGE);
	return copies;
}

/* Whether an update within the forward may begin with data that came beside the backward: not with
 * sums on disk, which are not complete yet, nor behind sums over parameters, which read all, or
 * matrices, which pass through the same buffers; nor in the fewest buffers, which share memory with
 * activations. */
static int reads_early(const struct zr_setup *s)
{
	const struct zr_staging *g = &s->plan.staging;
	int waits = s->plan.partial.width > 0 || g->sets <= g->least;
	for (int32_t i = 0; i < s->roles.n_optimizers; i++)
		waits |= zr_is_whole(&s->roles.optimizer[i]);
	for (int32_t u = 0; u < s->facts.layout.n_units; u++)
		waits |= zr_datum_staged(s, u, ZR_D_GRAD);
	return s->programs.recorded[ZR_PROG_ONWARD].updates && !waits;
}

void zr_staging_size(const struct zr_setup *s, struct zr_plan *p)
{
	const struct zr_program *backward = &s->programs.recorded[ZR_PROG_LAST_MICRO];
	const struct zr_program *update = &s->programs.recorded[ZR_PROG_UPDATE];
	struct zr_staging *g = &p->staging;
	g->n_data = ZR_D_STATE + (int32_t)s->roles.n_states;
	g->blocks = (int64_t)zr_max(subgroup_blocks(p, backward), subgroup_blocks(p, update));
	pipeline(s, g, size_sets(s, g));
	g->bytes = g->set_bytes * (uint64_t)g->sets;

	/* what is read in one program for another one has a place of its own */
	if (reads_early(s)) {
		g->early = g->sets;
		p->region[ZR_R_STAGING].bytes = g->bytes;
	}

	/* sums on disk have two buffers of it */
	if (backward->updates && p->region[ZR_R_GRAD].tier == ZR_TIER_DISK)
		g->bytes = zr_max(g->bytes, 2 * (uint64_t)g->blocks * ZR_BLOCK * 4);
}
