/* SPDX-License-Identifier: Apache-2.0
 *
 * breakdown.h - the parts that the time of a step is divided into: by what the main thread ran or
 * waited for, or on a device that computes later by what that computed, and by what the main thread
 * did while it computed nothing (train/run/clock.h).
 */
#ifndef ZR_TRAIN_FORECAST_BREAKDOWN_H
#define ZR_TRAIN_FORECAST_BREAKDOWN_H

#include "core/setup.h"

enum zr_operand_part {
	ZR_PART_FORWARD,
	ZR_PART_BACKWARD,    /* and what it computes again of the forward */
	ZR_PART_REDUCE,      /* gradients on their way to those who add them, and adding */
	ZR_PART_GATHER_WAIT, /* parameters from other ranks and from host memory */
	ZR_PART_READ_WAIT,   /* from a store; activations that return */
	ZR_PART_OPTIMIZER,
	ZR_PART_WRITE_WAIT, /* to a store; activations that leave */
	ZR_PART_PUBLISH,    /* new parameters to all who hold them */
	ZR_PART_BOUNDARY,   /* loss, norm and non-finite numbers of all ranks */
	ZR_PART_DATA,       /* the batch */
	/* a device that computes later had nothing to compute, or was about to: the main thread was
	 * telling it what comes next, or already had */
	ZR_PART_LAUNCH,
	ZR_PART_OTHER, /* all else */
	ZR_PARTS
};

/* Seconds. */
struct zr_parts {
	double of[ZR_PARTS];
	double idle; /* of all of them, those in which no kernel ran; NaN: nobody knows */
};

#define ZR_IDLE_METRIC "idle_s"

/* "gather wait", and the metric of its seconds: "gather_wait_s". */
extern const char *const zr_part_name[ZR_PARTS], *const zr_part_metric[ZR_PARTS];

/* The part of instruction n of a program of s, which may have been lowered for another rank. */
enum zr_operand_part zr_part_of(const struct zr_setup_programs *programs,
				const struct zr_lowered *p, int32_t n);

#endif
