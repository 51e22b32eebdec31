/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.h - where the time of a step goes: what the session calls after each instruction that
 * began, and after each one that was waited for. Time since the call before belongs to that
 * instruction. [step] but for open and close
 */
#ifndef ZR_TRAIN_RUN_TIMELINE_H
#define ZR_TRAIN_RUN_TIMELINE_H

#include "train/forecast/breakdown.h"
#include "train/run/trace.h"

struct zr_timeline {
	struct zr_session *session;
	uint8_t *part_of[ZR_LOWERED]; /* [instructions of the program] */
	struct zr_trace *trace;       /* NULL: none is wanted */
	int tracing;                  /* 1: this step */
	int wanted;                   /* 1: the parts of each step are wanted */
	int running;                  /* 1: a step */
	int wait;           /* 1: in this step each operation of the device is waited for */
	double began, last; /* the step, and the session's last call: zr_now() */
	double update; /* seconds of this step in updates, also those in the backward, what they
			* publish included */
	double part[ZR_PARTS]; /* seconds of this step: they add up to it */
	double sum[ZR_PARTS];  /* and of all steps of this process */
};

/* From now on what the session runs is watched. t lives as long as the session. */
int zr_timeline_open(struct zr_timeline *t, struct zr_session *s, struct zr_error *err);
/* And chosen steps are traced: see zr_trace_open. */
int zr_timeline_trace(struct zr_timeline *t, const char *run_dir, struct zr_error *err);
void zr_timeline_close(struct zr_timeline *t); /* a zeroed one is fine */

/* A step begins; ends: its seconds. */
void zr_timeline_begin(struct zr_timeline *t);
double zr_timeline_end(struct zr_timeline *t);

/* The sums over steps: of this rank, and of the ranks with the smallest and the largest.
 * Collective, where parts are wanted. [main] */
int zr_timeline_ranks(const struct zr_timeline *t, double mine[ZR_PARTS], double min[ZR_PARTS],
		      double max[ZR_PARTS], struct zr_error *err);

#endif
