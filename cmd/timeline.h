/* SPDX-License-Identifier: Apache-2.0
 *
 * timeline.h - where the time of a step goes: what the session calls after each instruction that began, and
 * after each one that was waited for. Time since the call before belongs to that instruction. [step]
 */
#ifndef ZR_CMD_TIMELINE_H
#define ZR_CMD_TIMELINE_H

#include "core/session.h"

struct zr_timeline {
	double last;   /* when the session called last, zr_now() */
	double update; /* seconds of this step in updates, also those in the backward, what they publish included */
};

/* From now on what the session runs is watched. t lives as long as the session. */
void zr_timeline_watch(struct zr_timeline *t, struct zr_session *s);

/* A step begins. */
void zr_timeline_begin(struct zr_timeline *t);

#endif
