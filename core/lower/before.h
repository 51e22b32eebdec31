/* SPDX-License-Identifier: Apache-2.0
 *
 * before.h - which instructions are over before which others start. It is told in issue order what
 * each instruction waits for. Two numbers per instruction and in-order queue answer most questions:
 * how many instructions of that queue are over once this one is, and which one of that queue is the
 * first to wait for this one. Only paths without any instruction of these queues are searched.
 */
#ifndef ZR_CORE_BEFORE_H
#define ZR_CORE_BEFORE_H

#include "core/lower/instr.h"
#include "core/plan.h"

struct zr_before {
	const struct zr_setup *setup;
	const struct zr_lowered *p;
	/* [p->n] each, in one allocation */
	int32_t *position;            /* on its queue, if that runs in order */
	int32_t *over[ZR_Q_IN_ORDER]; /* so many of that queue are over once it is, with itself */
	int32_t *next[ZR_Q_IN_ORDER]; /* position of the first one that waits for it */
	int32_t *seen;                /* the last search that came here */
	int32_t *waited;              /* 1: an instruction that was issued waited for it */
	int32_t *stack;
	int32_t count[ZR_Q_IN_ORDER], last[ZR_Q_IN_ORDER], search;
	uint32_t requests[ZR_OFFLOADS]; /* posted to each store and not waited for */
};

int zr_before_new(struct zr_before *b, const struct zr_setup *s, const struct zr_lowered *p);
void zr_before_free(struct zr_before *b);

/* Instruction j is next. It waits for i, which is in its list of dependencies by now. */
void zr_before_enter(struct zr_before *b, int32_t j);
void zr_before_wait(struct zr_before *b, int32_t j, int32_t i);
int zr_before(struct zr_before *b, int32_t i, int32_t j); /* i < j */

/* The store that i is a request to, as an index of setup.offload. -1: none, or it is waited for. */
int zr_before_request(const struct zr_before *b, int32_t i);

#endif
