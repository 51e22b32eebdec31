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

/* With which the disk works between updates in the backward. All ranks choose alike. */
static int sets_of_layers(const struct zr_setup_facts *f, const struct zr_staging *g)
{
	int64_t group = g->blocks * ZR_BLOCK * (int64_t)g->ranks;
	int64_t most[] = { f->layout.blocks * ZR_BLOCK / group / 4,
			   (1 << 30) / (int64_t)g->set_bytes, 64 };
	int64_t sets = 3 * ((f->typical_unit + group - 1) / group);
	for (int i = 0; i < 3; i++)
		sets = zr_fewer(sets, most[i]);
	return (int)sets;
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
	if (!buffers && read && g->set_bytes && s->programs.recorded[ZR_PROG_LAST_MICRO].updates)
		buffers = least + sets_of_layers(&s->facts, g);
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
						.optimizer = zr_optimizer_of(&s->roles, i) };
		if (f->frozen[i])
			continue;

		g->set_bytes = zr_max(g->set_bytes, zr_staged_at(s, &subgroup, g->n_data));
		g->ranks = zr_max(g->ranks, (uint64_t)zr_group_ranks(f, f->groups[unit].state));
		copies |= zr_datum_staged(s, unit, ZR_D_LOWP);
	}

	g->set_bytes = zr_up(g->set_bytes, ZR_PAGE);
	return copies;
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

	/* sums on disk have two buffers of it */
	if (backward->updates && p->region[ZR_R_GRAD].tier == ZR_TIER_DISK)
		g->bytes = zr_max(g->bytes, 2 * (uint64_t)g->blocks * ZR_BLOCK * 4);
}
