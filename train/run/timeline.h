/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.h - where the time of a step goes: what the session calls before and after each
 * instruction begins, or is waited for. Time since the call before belongs to that instruction. A
 * device that computes later says by its own clock when it computed, if it has one; else each of
 * its operations is waited for. [step] but for open and close
 */
#ifndef ZR_TRAIN_RUN_TIMELINE_H
#define ZR_TRAIN_RUN_TIMELINE_H

#include "train/forecast/breakdown.h"
#include "train/run/trace.h"

struct zr_span {
	double from, to; /* zr_now() */
};

struct zr_timeline {
	struct zr_session *session;
	uint8_t *part_of[ZR_LOWERED];       /* [instructions of the program] */
	struct zr_span *beside[ZR_LOWERED]; /* [those] when the thread beside computed it */
	struct zr_trace *trace;             /* NULL: none is wanted */
	struct zr_clock *clock;             /* of the device; NULL: it has none, or nobody asks */
	int tracing;                        /* 1: this step */
	int timing;                         /* 1: the device has marks in this step */
	int wanted;                         /* 1: the parts of each step are wanted */
	int running;                        /* 1: a step */
	int wait;           /* 1: in this step each operation of the device is waited for */
	double began, last; /* the step, and the session's last call: zr_now() */
	uint64_t mark;      /* before the instruction that begins, or is waited for */
	int64_t copy;       /* marks of the copy that begins */
	double update; /* seconds of this step in updates, also those in the backward, what they
			* publish included */
	/* of this step they add up to it; with a clock, to what the device passed since the step
	 * before ended */
	struct zr_parts part;
	struct zr_parts sum; /* and of all steps of this process */
};

/* From now on what the session runs is watched, and chosen steps are traced: see zr_trace_open;
 * with run_dir NULL none is. t lives as long as the session. Collective. */
int zr_timeline_open(struct zr_timeline *t, struct zr_session *s, const char *run_dir,
		     struct zr_error *err);
void zr_timeline_close(struct zr_timeline *t); /* a zeroed one is fine */

/* A step begins; ends: its seconds. */
void zr_timeline_begin(struct zr_timeline *t);
double zr_timeline_end(struct zr_timeline *t);
/* No step comes any more: what the device still does is waited for, and is in the sums. [main] */
void zr_timeline_last(struct zr_timeline *t);

/* The sums over steps: of this rank, and of the ranks with the smallest and the largest.
 * Collective, where parts are wanted. [main] */
int zr_timeline_ranks(const struct zr_timeline *t, struct zr_parts *mine, struct zr_parts *min,
		      struct zr_parts *max, struct zr_error *err);

#endif
