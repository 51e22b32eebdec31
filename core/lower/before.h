/* SPDX-License-Identifier: Apache-2.0
 *
 * before.h - which instructions are over before which others start. It is told in issue order what
 * each instruction waits for, and puts instructions of which each comes after the one before on a
 * lane: the first lanes are the queues that run in order, on the others it finds room where it can.
 * How much of each lane is over once an instruction is answers all questions about those on lanes.
 * For the rest it knows what of the in-order queues waits for them first, else it searches.
 */
#ifndef ZR_CORE_BEFORE_H
#define ZR_CORE_BEFORE_H

#include "core/lower/instr.h"
#include "core/memory/plan.h"

#define ZR_LANES 16

struct zr_before {
	const struct zr_setup *setup;
	const struct zr_lowered *p;
	int32_t (*over)[ZR_LANES]; /* [p->n] so many of each lane are over once it is, and itself */
	/* [p->n] each, in one allocation */
	int32_t *lane;                /* -1: none */
	int32_t *next[ZR_Q_IN_ORDER]; /* over[.][queue] of the first one there that waits for it */
	int32_t *seen;                /* the last search that came here */
	int32_t *waited;              /* 1: an instruction that was issued waited for it */
	int32_t *stack;
	/* the last one; the first of those on its comm since one on the other */
	int32_t collective, run;
	int32_t count[ZR_LANES], last[ZR_Q_IN_ORDER], search;
	uint32_t requests[ZR_OFFLOADS]; /* posted to each store and not waited for */
};

int zr_before_new(struct zr_before *b, const struct zr_setup *s, const struct zr_lowered *p);
void zr_before_free(struct zr_before *b);

/* Instruction j is next. It waits for i, which is in its list by now. It waits for nothing else. */
void zr_before_enter(struct zr_before *b, int32_t j);
void zr_before_wait(struct zr_before *b, int32_t j, int32_t i);
void zr_before_leave(struct zr_before *b, int32_t j);

int zr_is_before(struct zr_before *b, int32_t i, int32_t j); /* i < j */

/* Two comms move on only while somebody waits for them: what a rank waits for on one must not need
 * what another rank has not waited for on the other. So collectives [result, j) of the other comm
 * are over before j is posted; j: there are none, or j is no collective. For each j in turn. */
int32_t zr_before_switch(struct zr_before *b, int32_t j);

/* The store that i is a request to, as an index of setup.offload, -1: none; or it is waited for. */
int zr_store_of(const struct zr_plan *plan, const struct zr_lowered *p, int32_t i);
int zr_before_request(const struct zr_before *b, int32_t i);

#endif
