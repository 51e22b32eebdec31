/* SPDX-License-Identifier: Apache-2.0
 *
 * warmup.h - the rise that DeepSpeed's three warm-up schedules share:
 *
 *   gamma(i) = ln(i+1) / ln(N) or i / N for 0 <= i < N,  N = max(2, warmup_num_steps)
 *
 * i is the number of the update before this one (DeepSpeed's last_batch_iteration): -1 at the
 * first, where each schedule has a value of its own.
 */
#ifndef ZR_SCHEDULER_WARMUP_H
#define ZR_SCHEDULER_WARMUP_H

#include <zeroth/scheduler.h>

#include <math.h>

enum { WARMUP_LOG, WARMUP_LINEAR };
static const char *const warmup_types[] = { "log", "linear", NULL };

#define WARMUP_MAX_LR(S)                                                                           \
	ZR_OPT(S, warmup_max_lr, ZR_T_F64, ZR_O_NUMERIC | ZR_O_AUTO | ZR_O_STAYS_AUTO, "auto", 0,  \
	       ZR_HI, "",                                                                          \
	       "Learning rate after the warm-up, of every parameter group; auto is each group's "  \
	       "own lr.")
#define WARMUP_NUM_STEPS(S)                                                                        \
	ZR_OPT(S, warmup_num_steps, ZR_T_I64, ZR_O_NUMERIC, "1000", 1, ZR_HI, "updates",           \
	       "Length of the warm-up; 1 counts as 2.")
#define WARMUP_TYPE(S)                                                                             \
	ZR_OPT_ENUM(S, warmup_type, ZR_O_NUMERIC, "log", warmup_types,                             \
		    "Shape of the warm-up: log rises fast first, linear evenly.")
#define WARMUP_TOTAL_NUM_STEPS(S)                                                                  \
	ZR_OPT(S, total_num_steps, ZR_T_I64, ZR_O_NUMERIC | ZR_O_AUTO, "auto", 1, ZR_HI,           \
	       "updates",                                                                          \
	       "Where the decay ends, counted from the start of the run; auto is [train] steps.")

static inline int64_t warmup_length(int64_t warmup_num_steps)
{
	return warmup_num_steps < 2 ? 2 : warmup_num_steps;
}

static inline double warmup_gamma(int32_t type, int64_t length, int64_t i)
{
	if (type == WARMUP_LINEAR)
		return (double)i / (double)length;
	return 1.0 / log((double)length) * log((double)(i + 1));
}

/* total_num_steps, which stays `auto` where the length of the run is not known while resolving. */
static inline int64_t warmup_total(int64_t total_num_steps, const struct zr_sched_point *at)
{
	return total_num_steps == ZR_AUTO_I64 ? at->total_steps : total_num_steps;
}

/* Says, as DeepSpeed does, that a schedule ends inside its warm-up. */
static inline void warmup_warn(const struct zr_host *h, int64_t total_num_steps,
			       int64_t warmup_num_steps)
{
	if (total_num_steps != ZR_AUTO_I64 && total_num_steps < warmup_length(warmup_num_steps))
		zr_log(h, ZR_LOG_WARN,
		       "total_num_steps = %lld ends the schedule inside its warm-up of %lld "
		       "updates",
		       (long long)total_num_steps, (long long)warmup_length(warmup_num_steps));
}

#endif
