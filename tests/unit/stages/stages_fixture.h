/* SPDX-License-Identifier: Apache-2.0
 *
 * stages_fixture.h - core as a stage sees it: walks a model's schedule, asks the stage at every
 * point, and refuses what core refuses. One rank is enough: a stage answers the same on all.
 * Nothing moves and nothing is computed.
 */
#ifndef ZR_STAGES_FIXTURE_H
#define ZR_STAGES_FIXTURE_H

#include <zeroth/zero.h>

#define FIXTURE_UNITS  16
#define FIXTURE_LAYERS 16
#define FIXTURE_USES   (3 * FIXTURE_LAYERS)

struct fixture_model {
	int32_t n_units, n_layers;
	int64_t elements[FIXTURE_UNITS];
	int64_t typical; /* told to options that are `auto`; 0: not known */
	int32_t hops;    /* likewise, of a gather */
	int32_t n[FIXTURE_LAYERS], unit[FIXTURE_LAYERS][FIXTURE_UNITS]; /* units of each layer */
	uint8_t recompute[FIXTURE_LAYERS];
};

/* What the stage promises by its options, in elements; more is refused. */
struct fixture_limits {
	int64_t live;           /* full copies, unless one use needs more */
	int64_t ahead;          /* gathered for a later use only */
	int64_t reduce, gather; /* in one list of several units; gather also of publish */
	int64_t waiting;        /* complete gradients, not reduced when a GRAD point is answered */
};

/* Falsifies the verb call number `call` on its way to the fixture. SHORT: without its last unit;
 * FAIL: returns ZR_ENOMEM. */
enum fixture_fault { FIXTURE_HONEST, FIXTURE_OMIT, FIXTURE_TWICE, FIXTURE_SHORT, FIXTURE_FAIL };

struct fixture {
	const struct fixture_model *model;
	struct fixture_limits limits;
	const struct zr_zero_v1 *zero;
	struct zr_inst *inst;
	enum fixture_fault fault;
	int64_t fault_call, calls;
	int local; /* no update needs scalars */

	char error[256]; /* the first thing refused, "" if nothing was */
	/* of the current program: "before 0: gather 0 1; after 0: drop 0 1; " */
	char said[1 << 14];
	int64_t peak_live, peak_need;

	/* the fixture's own */
	struct zr_stage stage;
	struct zr_groups groups[FIXTURE_UNITS];
	struct zr_use use[FIXTURE_USES];
	struct zr_point point;
	int32_t told_at, told_use; /* point that the end of `said` speaks of */
	uint8_t full[FIXTURE_UNITS], ahead[FIXTURE_UNITS];
	/* gradient: 1 complete, 2 reduced, 3 updated, 4 published; in UPDATE: 1 updated, 2
	 * published */
	uint8_t done[FIXTURE_UNITS];
	uint8_t early[FIXTURE_UNITS]; /* published in LAST_MICRO */
	uint8_t resident[FIXTURE_UNITS];
	int ended; /* programs that fixed `resident` */
};

/* Asks for the groups of all units; limits start as none. */
void fixture_open(struct fixture *r, const struct fixture_model *m, const struct zr_zero_v1 *zero,
		  struct zr_inst *inst);
/* One program. 0, or the code at which the stage or the fixture stopped. */
int fixture_program(struct fixture *r, int32_t program);
/* Two micro-batches, update, evaluation, and a second such step, so that what a program left behind
 * shows. */
int fixture_steps(struct fixture *r);

#endif
