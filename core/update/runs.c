/* SPDX-License-Identifier: Apache-2.0
 *
 * runs.c - which blocks this rank updates, with which optimizer, and where their states lie: those
 * of one optimizer's tensors one after the other, in canonical order, without what is frozen. A
 * part of the plan.
 */
#include <string.h>

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

/* Of a tensor and a state of its optimizer, bytes per block: 0, it has none. */
static uint32_t *state_bytes(const struct zr_setup *s, const struct zr_plan *p, int32_t tensor,
			     uint32_t state)
{
	return &p->state_bytes[(size_t)tensor * s->roles.n_states + state];
}

static void fill_state_bytes(const struct zr_setup *s, const struct zr_plan *p, int32_t tensor)
{
	const struct zr_tensor *t = s->facts.layout.tensor[tensor].decl;
	const struct zr_optimizer *o = &s->roles.optimizer[zr_optimizer_of(&s->roles, tensor)];
	for (uint32_t i = 0; i < o->n_states && !s->facts.frozen[tensor]; i++)
		*state_bytes(s, p, tensor, o->first_state + i) = zr_state_bytes_of(o, i, t);
}

/* A tensor's blocks that this rank holds: with the run before them, if that has the same optimizer,
 * states of as many bytes, and ends there. */
static void add_run(const struct zr_setup *s, struct zr_plan *p, int32_t tensor)
{
	const struct zr_place *t = &s->facts.layout.tensor[tensor];
	const size_t row = s->roles.n_states * sizeof *p->state_bytes;
	struct zr_share mine = zr_rank_holds(&s->facts, tensor, s->facts.process.rank);
	struct zr_block_run r = { t->unit, zr_optimizer_of(&s->roles, tensor), tensor, mine.first,
				  mine.n };
	struct zr_block_run *last = NULL;
	if (p->n_runs)
		last = &p->run[p->n_runs - 1];
	if (!r.n || s->facts.frozen[tensor])
		return;

	if (last && last->unit == r.unit && last->optimizer == r.optimizer &&
	    last->first + last->n == r.first &&
	    !memcmp(state_bytes(s, p, last->tensor, 0), state_bytes(s, p, tensor, 0), row))
		last->n += r.n;
	else
		p->run[p->n_runs++] = r;
}

/* Room for blocks of one state behind others: disks want states by shape, whose blocks are of any
 * size beside each other, to begin on a page. */
static uint64_t add_blocks(const struct zr_optimizer *o, uint32_t i, uint64_t *end, uint64_t bytes)
{
	if (zr_is_by_shape(zr_optimizer_state(o, i)))
		*end = zr_up(*end, ZR_PAGE);
	uint64_t at = *end;
	*end += bytes;
	return at;
}

/* Most bytes that one rank holds of a state: all arenas are alike. */
static uint64_t most_held(const struct zr_setup *s, const struct zr_plan *p, int32_t optimizer,
			  uint32_t i)
{
	const struct zr_optimizer *o = &s->roles.optimizer[optimizer];
	uint64_t most = 0;
	for (int rank = 0; rank < s->facts.process.world; rank++) {
		uint64_t sum = 0;
		for (int32_t t = 0; t < s->facts.layout.n_tensors; t++) {
			const uint64_t n = (uint64_t)zr_rank_holds(&s->facts, t, rank).n;
			if (zr_optimizer_of(&s->roles, t) == optimizer && !s->facts.frozen[t])
				add_blocks(o, i, &sum,
					   n * *state_bytes(s, p, t, o->first_state + i));
		}
		most = zr_max(most, sum);
	}
	return most;
}

/* Where each run of this rank has one state. */
static void place_state(const struct zr_setup *s, struct zr_plan *p, int32_t optimizer, uint32_t i)
{
	const struct zr_optimizer *o = &s->roles.optimizer[optimizer];
	const uint32_t state = o->first_state + i;
	const uint64_t from = zr_room(&p->region[ZR_R_STATE].bytes, most_held(s, p, optimizer, i));
	uint64_t end = from;
	for (int32_t k = 0; k < p->n_runs; k++) {
		const struct zr_block_run *r = &p->run[k];
		if (r->optimizer == optimizer)
			p->state[(size_t)k * s->roles.n_states + state] = add_blocks(
				o, i, &end, (uint64_t)r->n * *state_bytes(s, p, r->tensor, state));
	}
}

void zr_runs_place(const struct zr_setup *s, struct zr_plan *p)
{
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++)
		fill_state_bytes(s, p, i);

	for (int32_t u = 0; u < s->facts.layout.n_units; u++) {
		const struct zr_unit_place *unit = &s->facts.layout.unit[u];
		p->first_run[u] = p->n_runs;
		for (int32_t i = unit->first; i < unit->first + unit->count; i++)
			add_run(s, p, i);
	}

	p->first_run[s->facts.layout.n_units] = p->n_runs;
	for (int32_t k = 0; k < s->roles.n_optimizers; k++)
		for (uint32_t i = 0; i < s->roles.optimizer[k].n_states; i++)
			place_state(s, p, k, i);
}
