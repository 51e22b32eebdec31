/* SPDX-License-Identifier: Apache-2.0
 *
 * activation.h - what becomes of activations between forward and backward: the policy's answers, and the lives and places
 * that follow from the schedule.
 */
#ifndef ZR_CORE_ACTIVATION_H
#define ZR_CORE_ACTIVATION_H

#include <stdint.h>

#include "core/error.h"

struct zr_setup;
struct zr_schedule;

/* Where a use finds and leaves activations: bytes from the start of ZR_R_ACT. */
struct zr_use_place {
	uint64_t in;    /* output of the layer below; unused by the input layer */
	uint64_t out;   /* of a forward or recompute */
	uint64_t saved;
};

/* Fills s->act; an answer that cannot be is refused with the layer's name. Needs s->layer_bytes. */
int zr_activation_ask(struct zr_setup *s, struct zr_error *err);

/* Fills place[uses->n] and raises *bytes to what these uses need. */
int zr_activation_place(const struct zr_setup *s, const struct zr_schedule *uses, struct zr_use_place *place, uint64_t *bytes,
			struct zr_error *err);

#endif
