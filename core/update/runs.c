/* SPDX-License-Identifier: Apache-2.0
 *
 * runs.c - which blocks this rank updates, with which optimizer, and where their states lie: those
 * of one optimizer's tensors one after the other, in canonical order, without what is frozen. A
 * part of the plan.
 */
#include <stdlib.h>

#include "core/base/numbers.h"
#include "core/setup.h"

struct zr_share zr_rank_holds(const struct zr_setup_facts *f, int32_t tensor, int rank)
{
	const struct zr_place *t = &f->layout.tensor[tensor];
	struct zr_share share = zr_unit_share(f, t->unit, f->groups[t->unit].state, rank);
	int64_t lo = t->offset / ZR_BLOCK, end = share.first + share.n;
	share.n = 0;
	if (zr_intersect(lo, lo + t->blocks, &share.first, &end))
		share.n = end - share.first;
	return share;
}

/* A tensor's blocks that this rank holds: with the run before them, if that has the same optimizer
 * and ends there. */
static void add_run(const struct zr_setup *s, struct zr_plan *p, int32_t tensor, int64_t *held)
{
	const struct zr_place *t = &s->facts.layout.tensor[tensor];
	struct zr_share mine = zr_rank_holds(&s->facts, tensor, s->facts.process.rank);
	struct zr_block_run r = { t->unit, zr_optimizer_of(&s->roles, tensor), mine.first, mine.n,
				  0 };
	struct zr_block_run *last = NULL;
	if (p->n_runs)
		last = &p->run[p->n_runs - 1];
	if (!r.n || s->facts.frozen[tensor])
		return;

	r.state = held[r.optimizer];
	held[r.optimizer] += r.n;
	if (last && last->unit == r.unit && last->optimizer == r.optimizer &&
	    last->first + last->n == r.first)
		last->n += r.n;
	else
		p->run[p->n_runs++] = r;
}

/* Most blocks that one rank holds of an optimizer's tensors: all arenas are alike. */
static int64_t most_held(const struct zr_setup *s, int32_t optimizer)
{
	int64_t most = 0;
	for (int rank = 0; rank < s->facts.process.world; rank++) {
		int64_t sum = 0;
		for (int32_t i = 0; i < s->facts.layout.n_tensors; i++)
			if (zr_optimizer_of(&s->roles, i) == optimizer && !s->facts.frozen[i])
				sum += zr_rank_holds(&s->facts, i, rank).n;
		if (sum > most)
			most = sum;
	}
	return most;
}

int zr_runs_place(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	int64_t *held = calloc((size_t)s->roles.n_optimizers + 1, sizeof *held);
	if (!held)
		return zr_err(err, ZR_ENOMEM, "out of memory for the plan");

	for (int32_t u = 0; u < s->facts.layout.n_units; u++) {
		const struct zr_unit_place *unit = &s->facts.layout.unit[u];
		p->first_run[u] = p->n_runs;
		for (int32_t i = unit->first; i < unit->first + unit->count; i++)
			add_run(s, p, i, held);
	}

	p->first_run[s->facts.layout.n_units] = p->n_runs;
	free(held);
	for (int32_t k = 0; k < s->roles.n_optimizers; k++) {
		const struct zr_optimizer *o = &s->roles.optimizer[k];
		int64_t blocks = most_held(s, k);
		for (uint32_t i = o->first_state; i < o->first_state + o->n_states; i++) {
			p->state_bytes[i] = zr_state_bytes(zr_setup_state(&s->roles, i));
			p->state[i] = zr_room(&p->region[ZR_R_STATE].bytes,
					      (uint64_t)blocks * p->state_bytes[i]);
		}
	}
	return 0;
}
