/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/scheduler.h - STABLE. Role "scheduler", interface "zr.scheduler/1": the learning rate as a
 * pure function of the step, so that a checkpoint need not save its state.
 */
#ifndef ZEROTH_SCHEDULER_H
#define ZEROTH_SCHEDULER_H

#include <zeroth/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* GROWABLE. */
struct zr_sched_point {
	uint32_t size;
	int32_t group;       /* parameter group */
	int64_t step;        /* updates applied before this one; skipped steps do not count */
	int64_t total_steps; /* of the run */
	double base;         /* the group's own lr */
};

/* GROWABLE. */
struct zr_scheduler_v1 {
	uint32_t size, rsv;
	/* [pure] [any] Stores the learning rate of the update at `at` in *lr: finite and >= 0. The
	 * host calls it for points in any order. */
	int (*value)(struct zr_inst *, const struct zr_sched_point *at, double *lr);
};

#ifdef __cplusplus
}
#endif
#endif
