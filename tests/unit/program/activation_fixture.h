/* SPDX-License-Identifier: Apache-2.0
 *
 * activation_fixture.h - setups of tests/lib/matrix.ini with six blocks whose activation policy
 * answers what a test wants, a store for [offload.activation] that puts transfers off, and a walk
 * of programs with a memory that remembers who wrote it.
 */
#ifndef ZR_TESTS_ACTIVATION_FIXTURE_H
#define ZR_TESTS_ACTIVATION_FIXTURE_H

#include "core/session.h"
#include "tests/lib/plan_fixture.h"

enum { L = 6, LAYERS = L + 2 }; /* blocks; with the embedding and the head */
#define SIX "model.layers=6"

uint64_t up(uint64_t n, uint64_t to);

/* What the planted policy answers. */
extern struct zr_act_choice planted[LAYERS];

/* Number i of 3^(L+1): each block keeps all, its output or nothing; the embedding its output or
 * nothing. */
void plant(int i);
/* Any answer for each of them, offloading too; anything may follow from the seed. */
void plant_any(uint32_t seed);

struct zr_setup *six(const char *option); /* one rank, not to be trained */

/* Everything that follows from the policy again, with the planted one. */
int ask_again(struct zr_setup *s, struct zr_error *err);

/* Gives the setup an [offload.activation] store whose transfers happen as late as may be: when they
 * are waited for. A read fills its target with rubbish when it is posted. Of the tier disk, with
 * this alignment. */
void plant_store(struct zr_setup *s, uint64_t align);
int store_outstanding(void);  /* transfers posted and not waited for */
uint64_t store_moved(void);   /* bytes since plant_store() */
void store_fail(int64_t nth); /* the nth wait from now fails */

/* Walks a program of activations: what a layer reads must be what was written, and nothing may
 * touch what is moving. */
void walk_program(const struct zr_setup *s, int32_t id);

/* The schedule as "f0 f1 .. b7 r5 r6 b6 .." */
void schedule_text(const struct zr_schedule *uses, char *buf);

/* Losses and norms of two steps with dropout. */
struct bits {
	float loss[2];
	double norm[2];
};
struct training {
	const char *option[2];
	int planted;    /* with the planted policy */
	uint64_t align; /* > 0: with the planted store */
	int apart;      /* device memory that only copies reach: transfers go through the staging */
};
struct bits train_bits(struct training t);

#endif
