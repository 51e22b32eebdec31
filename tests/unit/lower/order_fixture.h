/* SPDX-License-Identifier: Apache-2.0
 *
 * order_fixture.h - programs made by hand and at random, what they compute when they run in many
 * orders, and what is true of them by brute force.
 */
#ifndef ZR_TESTS_ORDER_FIXTURE_H
#define ZR_TESTS_ORDER_FIXTURE_H

#include "core/lower/instr.h"
#include "core/setup.h"

/* A setup with regions of `bytes` bytes each. The optimizer's state is in a store that takes
 * `inflight` requests. */
void fixture_setup(struct zr_setup *s, uint64_t bytes, uint32_t inflight);

int32_t fixture_add(struct zr_lowered *p, int kind, int queue);
void fixture_touch(struct zr_lowered *p, uint32_t access, int32_t region, int32_t whose,
		   uint64_t at, uint64_t bytes);
void fixture_depend(struct zr_lowered *p, int32_t on); /* of the instruction added last */
void fixture_free(struct zr_lowered *p);

/* Whether i is in the list of what instruction j waits for. */
int fixture_waits(const struct zr_lowered *p, int32_t j, int32_t i);
/* Takes dependency k away, or puts it back. */
struct fixture_cut {
	int32_t instr, at, dep;
};
struct fixture_cut fixture_take(struct zr_lowered *p, int32_t instr, int32_t k);
void fixture_put_back(struct zr_lowered *p, struct fixture_cut cut);

/* ---- random programs ---- */
uint32_t fixture_random(uint64_t *state, uint32_t n); /* below n */
void fixture_random_program(struct zr_lowered *p, uint64_t *state, int32_t n, int inside);
/* A setup of FIXTURE_BYTES, whose store takes up to 3 requests, and an empty program. */
void fixture_afresh(struct zr_setup *s, struct zr_lowered *p, uint64_t *state);

/* ---- by brute force ---- */
struct fixture_truth {
	int32_t n, words;
	uint64_t *bits;
};
void fixture_truth_make(struct fixture_truth *t, const struct zr_lowered *p);
int fixture_before(const struct fixture_truth *t, int32_t i, int32_t j);
void fixture_truth_free(struct fixture_truth *t);
int fixture_conflict(const struct zr_setup *s, const struct zr_lowered *p, int32_t i, int32_t j);
int fixture_right(const struct zr_setup *s, const struct zr_lowered *p);

/* ---- what a program computes ---- */
#define FIXTURE_BYTES 64 /* of a region */
struct fixture_run {
	uint64_t memory;  /* hash of all memory at the end */
	uint64_t reading; /* and of what each instruction read */
};
struct fixture_run fixture_in_order(const struct zr_setup *s, const struct zr_lowered *p);
/* Of the instructions that may start or end a random one does. Until `first` is over what it needs
 * goes first, and `last` is put off as long as possible; both -1: none. */
struct fixture_run fixture_shuffled(const struct zr_setup *s, const struct zr_lowered *p,
				    uint64_t seed, int32_t last, int32_t first);

#endif
