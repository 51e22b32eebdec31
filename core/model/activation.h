/* SPDX-License-Identifier: Apache-2.0
 *
 * activation.h - what becomes of activations between forward and backward: the policy's answers,
 * and the lives that follow from the schedule.
 */
#ifndef ZR_CORE_ACTIVATION_H
#define ZR_CORE_ACTIVATION_H

#include <stdint.h>

#include "core/base/error.h"

struct zr_setup;
struct zr_setup_facts;
struct zr_schedule;

/* Where a use finds and leaves activations: numbers of lives. */
struct zr_use_place {
	int32_t in;  /* output of the layer below; unused by the input layer */
	int32_t out; /* of a forward or recompute; -1: nobody reads it */
	int32_t saved;
};

/* One way of a buffer to another tier, or back. It leaves when the forward has read it last, beside
 * the use after that, and returns beside the use before its reader; hops between host memory and
 * disk have a use of their own (route.h). */
struct zr_act_move {
	int32_t use;   /* it is posted after this one if it leaves, before it if it returns */
	int32_t back;  /* 1: it returns */
	int32_t layer; /* whose */
	int32_t saved; /* 1: what the layer saved, 0: its output */
	int32_t life;  /* that ends, or begins */
	uint64_t offloaded, bytes; /* place from the start of ZR_R_ACT_OFFLOADED */
};

/* All lives of a schedule. */
struct zr_activations {
	struct zr_use_place *use; /* [uses] */
	struct zr_act_move *move; /* [n_moves] in the order in which they are posted */
	/* [n_lives] of a buffer from when it is written to when it is read last, or leaves */
	uint64_t *life_bytes;
	int32_t n_moves, n_lives;
	uint64_t offloaded_bytes;
};

/* Fills s->act; an answer that cannot be is refused with the layer's name. Needs s->layer_bytes. */
int zr_activation_ask(struct zr_setup *s, struct zr_error *err);

/* training: with the moves that s->act asks for. */
int zr_activation_place(const struct zr_setup *s, const struct zr_schedule *uses, int training,
			struct zr_activations *out, struct zr_error *err);
uint32_t
zr_activation_align(const struct zr_setup_facts *f); /* of a buffer, as what moves it likes it */
void zr_activation_free(struct zr_activations *a);

#endif
