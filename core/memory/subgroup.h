/* SPDX-License-Identifier: Apache-2.0
 *
 * subgroup.h - sub-groups: runs of whole blocks of a unit that this rank holds, with their
 * master, gradient, compute copy and optimizer state, wherever those live. What the processor
 * cannot reach goes through a set of buffers in the staging: read before, written after. [step]
 */
#ifndef ZR_CORE_SUBGROUP_H
#define ZR_CORE_SUBGROUP_H

#include "core/base/numbers.h"
#include "core/memory/tier.h"

struct zr_setup_facts;

struct zr_subgroup {
	int32_t unit, set;
	int32_t optimizer; /* of all its blocks; ZR_ANY: whichever, and it comes without states */
	int32_t tensor;    /* one of theirs: all have states of as many bytes per block */
	int32_t run;       /* that has them; without states -1 */
	int64_t first, n;  /* blocks of the unit */
	int64_t at;        /* first, counted from the first block that this rank holds */
};
#define ZR_ANY (-1)

/* Whether a unit has this kind of data at all: a compute copy apart from its master, a master. */
int zr_has_datum(const struct zr_setup *s, int32_t unit, int d);

/* What follows from the plan alone: bytes per block, where a sub-group's data is kept, whether
 * it has any, whether it passes through a set of buffers, because what updates it cannot reach
 * it; where it is in that set, as far into a page as where it is kept, or, of one kind more,
 * where all end. */
uint64_t zr_block_bytes(const struct zr_setup *s, const struct zr_subgroup *p, int d);
struct zr_spot zr_datum_spot(const struct zr_setup *s, const struct zr_subgroup *p, int d);
int zr_subgroup_has(const struct zr_setup *s, const struct zr_subgroup *p, int d);
int zr_datum_staged(const struct zr_setup *s, int32_t unit, int d);
uint64_t zr_staged_at(const struct zr_setup *s, const struct zr_subgroup *p, int d);

/* Where what updates a sub-group reaches what is kept of its masters, and the operations that do
 * it. */
struct zr_masters {
	const struct zr_ops *ops;
	char *master; /* NULL: nothing but the copy */
	char *lowp;   /* the compute copy, NULL: it is the master */
};

/* Bits of a split master that its compute copy lacks; else 0. */
int32_t zr_unit_rem_bits(const struct zr_setup_facts *f, int32_t unit);

/* Blocks [from, from + n) of the sub-group as fp32 in x, which the same operations reach. put keeps
 * what is at x and makes the compute copy, rounded stochastically where that is all there is. */
int zr_master_get(struct zr_session *s, const struct zr_subgroup *p, const struct zr_masters *m,
		  int64_t from, int64_t n, float *x, struct zr_error *err);
int zr_master_put(struct zr_session *s, const struct zr_subgroup *p, const struct zr_masters *m,
		  int64_t from, int64_t n, float *x, struct zr_error *err);

/* n blocks of masters in x and what is kept of them: from there or, back, rounded to the
 * nearest. */
int zr_master_convert(struct zr_session *s, const struct zr_subgroup *p, const struct zr_masters *m,
		      int64_t n, float *x, int back, struct zr_error *err);

/* Of a sub-group, counted from its first block, what this rank counts in sums over parameters:
 * others may hold it, too. 0: nothing. */
static inline int zr_counted(const struct zr_plan *plan, const struct zr_subgroup *p, int64_t *from,
			     int64_t *end)
{
	const struct zr_share *c = &plan->unit[p->unit].counted;
	*from = c->first - p->first;
	*end = *from + c->n;
	return zr_intersect(0, p->n, from, end);
}

/* Segments of blocks [first, first + n) of a unit: its tensors clipped to that range. */
uint64_t zr_cut_segments(const struct zr_session *s, int32_t unit, int64_t first, int64_t n,
			 struct zr_seg *out);

/* A sub-group of blocks [first, first + n) of a run. */
struct zr_subgroup zr_subgroup_in(const struct zr_plan *p, const struct zr_block_run *r,
				  int64_t first, int64_t n);

#endif
