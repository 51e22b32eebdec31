/* SPDX-License-Identifier: Apache-2.0
 *
 * program.h - a recorded program: the schedule walked once, with the stage's verbs recorded at
 * its points and waits inferred. What is allocated and what runs are lowered from it
 * (core/lower/instr.h); its hash must be the same on all ranks.
 */
#ifndef ZR_CORE_PROGRAM_H
#define ZR_CORE_PROGRAM_H

#include <stdint.h>
#include <zeroth/zero.h>

#include "core/base/error.h"
#include "core/base/list.h"
#include "core/model/schedule.h"

struct zr_setup;

enum zr_pop_kind {
	ZR_P_LAYER,   /* run a use */
	ZR_P_GATHER,  /* post: param group -> gathered copies */
	ZR_P_DROP,    /* gathered copies end */
	ZR_P_REDUCE,  /* post: gradients to their owners */
	ZR_P_UPDATE,  /* optimizer on the blocks that are held */
	ZR_P_PUBLISH, /* post: new values -> param group */
	ZR_P_WAIT,    /* completes `target`; of a reduce also folds */
	ZR_P_SPILL,   /* post: activations to the other tier */
	ZR_P_FETCH,   /* post: and back */
	ZR_P_HOP      /* ends a hop of `target`, begins the next one: see route.h */
};

struct zr_pop {
	int32_t kind;
	int32_t use;      /* LAYER; of SPILL and FETCH number of the move in setup.train_act */
	int32_t first, n; /* units of the list: program.unit[first .. first + n) */
	/* WAIT: number of the operation it completes, with all hops that are left; HOP: that it
	 * helps on */
	int32_t target;
	/* 1: a PUBLISH of frozen units, or its WAIT: run when they get their values */
	int32_t once;
	/* GATHER, SPILL, FETCH while it is recorded: 1 and those not begun, 0: it is over */
	int32_t hops;
	int64_t subgroup; /* UPDATE: elements per sub-group, 0: whole */
	/* that this rank receives from others; of SPILL and FETCH: moved between tiers */
	uint64_t bytes;
};

struct zr_program {
	int32_t id; /* ZR_PROG_* */
	int32_t n, cap, n_unit, cap_unit;
	struct zr_pop *op;
	int32_t *unit;
	int updates;  /* 1: it updates units: update, or last_micro of some stages */
	int own_sums; /* 1: sums of gradients begin and end in this program */
	/* the operation before which the update of the step before is over, 0: it is not in here */
	int32_t updated;
	uint64_t hash;
};

/* Asks the setup's stage. Refuses one that uses a unit it did not gather, forgets a drop,
 * reduces, updates or publishes not exactly once: with the point and the unit. [main] */
int zr_program_record(struct zr_setup *s, int32_t id, struct zr_program *out, struct zr_error *err);
void zr_program_free(struct zr_program *p);

/* What core makes of recorded programs, beside ZR_PROG_*: the update, and within it the first
 * micro-batch of the next step. */
#define ZR_PROG_ONWARD (ZR_PROG_EVAL + 1)
#define ZR_RECORDS     (ZR_PROG_ONWARD + 1)

/* onward.c: that program, of all others, where [train] update_in_forward and the stage leave the
 * update to it; else it stays empty. [main] */
int zr_program_onward(struct zr_setup *s, struct zr_error *err);

/* By ZR_PROG_*, ZR_P_*, and ZR_FORWARD and its kin. */
extern const char *const zr_program_name[], *const zr_pop_name[], *const zr_phase_name[];

#endif
