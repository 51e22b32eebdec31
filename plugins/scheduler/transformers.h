/* SPDX-License-Identifier: Apache-2.0
 *
 * transformers.h - what the schedules of Hugging Face's transformers share: each is a factor of the
 * parameter group's own lr, with a warm-up of a number of updates or of a share of them. A schedule
 * is a table of its options and a function `factor`; see linear.c. Sums and products are in the
 * order of transformers' own, so that the factors are equal.
 *
 *   TRANSFORMERS_SCHEDULE("linear", "Warm-up, then a straight line down to 0.", tf_resolve, NULL);
 */
#ifndef ZR_SCHEDULER_TRANSFORMERS_H
#define ZR_SCHEDULER_TRANSFORMERS_H

#include "pure.h"
#include "plugins/descriptor.h"

#define PI 3.14159265358979323846

enum { ROUND_UP, ROUND_DOWN };
static const char *const warmup_roundings[] = { "up", "down", NULL };

enum { RAMP_LINEAR, RAMP_COSINE, RAMP_ONE_MINUS_SQRT };

/* The options of all of them; a schedule's table has those that it reads. */
struct tf_opts {
	int64_t warmup_num_steps, warmup_least_steps, warmup_most_steps;
	double warmup_ratio;
	int32_t warmup_rounding;
	int64_t total_num_steps; /* 0 or auto: not known, see tf_total() */
	double num_cycles;
	double min_lr, min_lr_rate, warmup_lr_rate, constant_lr_ratio;
	double lr_end, power;
	int64_t timescale;
	int64_t num_decay_steps, num_stable_steps;
	int32_t warmup_type, decay_type;
	uint8_t quadratic_warmup;
};

#define TF_WARMUP                                                                                  \
	ZR_OPT(struct tf_opts, warmup_num_steps, ZR_T_I64, ZR_O_NUMERIC | ZR_O_AUTO, "auto", 0,    \
	       ZR_HI, "updates",                                                                   \
	       "Length of the warm-up, which begins at 0; auto is warmup_ratio of the run."),      \
		ZR_OPT(struct tf_opts, warmup_ratio, ZR_T_F64, ZR_O_NUMERIC, "0", 0, 1, "",        \
		       "Share of the updates until the end of the schedule that are the "          \
		       "warm-up, where "                                                           \
		       "warmup_num_steps gives no number."),                                       \
		ZR_OPT_ENUM(struct tf_opts, warmup_rounding, ZR_O_NUMERIC, "up", warmup_roundings, \
			    "How the product of warmup_ratio and the updates becomes a whole "     \
			    "number: up "                                                          \
			    "as transformers, down as Axolotl."),                                  \
		ZR_OPT(struct tf_opts, warmup_least_steps, ZR_T_I64, ZR_O_NUMERIC, "1", 1, ZR_HI,  \
		       "updates", "Least length of a warm-up by warmup_ratio that is not 0."),     \
		ZR_OPT(struct tf_opts, warmup_most_steps, ZR_T_I64, ZR_O_NUMERIC, "0", 0, ZR_HI,   \
		       "updates", "Greatest length of a warm-up by warmup_ratio; 0 is no limit.")

#define TF_TOTAL                                                                                   \
	ZR_OPT(struct tf_opts, total_num_steps, ZR_T_I64, ZR_O_NUMERIC | ZR_O_AUTO, "auto", 1,     \
	       ZR_HI, "updates",                                                                   \
	       "Where the schedule ends, counted from the start of the run; auto is [train] "      \
	       "steps.")

#define TF_CYCLES(def, doc)                                                                        \
	ZR_OPT(struct tf_opts, num_cycles, ZR_T_F64, ZR_O_NUMERIC, def, 0, ZR_HI, "", doc)

#define TF_MIN_LR                                                                                  \
	ZR_OPT(struct tf_opts, min_lr, ZR_T_F64, ZR_O_NUMERIC | ZR_O_AUTO | ZR_O_STAYS_AUTO,       \
	       "auto", 0, ZR_HI, "",                                                               \
	       "Learning rate at the end of the decay; auto is min_lr_rate of each group's own "   \
	       "lr."),                                                                             \
		ZR_OPT(struct tf_opts, min_lr_rate, ZR_T_F64, ZR_O_NUMERIC, "0", 0, 1, "",         \
		       "Share of the optimizer's lr at the end of the decay; of this and "         \
		       "min_lr give "                                                              \
		       "one.")

/* What a factor follows from. */
struct tf_point {
	int64_t step, warmup, total;
	double base; /* the group's own lr */
};

/* ---- formulas ---- */

/* A divisor that transformers keeps from being 0. */
static inline double tf_at_least_1(int64_t n)
{
	return n < 1 ? 1 : (double)n;
}

static inline double tf_rise(const struct tf_point *at)
{
	return (double)at->step / tf_at_least_1(at->warmup);
}

/* How far the decay is that begins behind the warm-up; 1 at the end of the schedule. */
static inline double tf_progress(const struct tf_point *at)
{
	return (double)(at->step - at->warmup) / tf_at_least_1(at->total - at->warmup);
}

/* Cosine waves from 1: half of one ends at 0. */
static inline double tf_waves(double waves, double progress)
{
	return 0.5 * (1.0 + cos(PI * waves * 2.0 * progress));
}

/* What is between 0 and 1, between `low` and 1 instead; never below 0. */
static inline double tf_above(double low, double factor)
{
	return fmax(0, factor * (1 - low) + low);
}

static inline double tf_lowest(const struct tf_opts *o, const struct tf_point *at)
{
	if (isnan(o->min_lr))
		return o->min_lr_rate;

	return o->min_lr / at->base;
}

/* ---- the length of the warm-up ---- */

static inline int64_t tf_total(const struct tf_opts *o, int64_t steps)
{
	if (o->total_num_steps > 0)
		return o->total_num_steps;

	return steps;
}

static inline int64_t tf_warmup(const struct tf_opts *o, int64_t total)
{
	if (o->warmup_num_steps != ZR_AUTO_I64)
		return o->warmup_num_steps;

	const double share = o->warmup_ratio * (double)total;
	int64_t steps = (int64_t)(o->warmup_rounding == ROUND_UP ? ceil(share) : floor(share));
	if (steps > 0 && steps < o->warmup_least_steps)
		steps = o->warmup_least_steps;
	if (o->warmup_most_steps > 0 && steps > o->warmup_most_steps)
		steps = o->warmup_most_steps;

	return steps;
}

/* Both lengths stay `auto` where that of the run is not known yet. */
static inline int tf_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct tf_opts *o = opts;
	const int64_t total = tf_total(o, facts->steps);

	(void)h;

	if (total > 0)
		o->total_num_steps = total;
	if (total > 0 || o->warmup_ratio == 0)
		o->warmup_num_steps = tf_warmup(o, total);

	return ZR_OK;
}

static inline struct tf_point tf_point_of(const struct tf_opts *o, const struct zr_sched_point *at)
{
	const int64_t total = tf_total(o, at->total_steps);
	return (struct tf_point){
		.step = at->step, .warmup = tf_warmup(o, total), .total = total, .base = at->base
	};
}

static inline int tf_check_min_lr(const struct zr_host *h, const void *opts)
{
	const struct tf_opts *o = opts;
	if (!isnan(o->min_lr) && o->min_lr_rate > 0)
		return zr_fail(h, ZR_EINVAL, "min_lr = %g and min_lr_rate = %g: give one of them",
			       o->min_lr, o->min_lr_rate);

	return ZR_OK;
}

/* ---- the plugin ---- */

/* Uses `options` and `factor` of the file. A group whose own lr is 0 stays there. */
#define TRANSFORMERS_SCHEDULE(name, about, resolved_by, checked_by)                                \
	static int value_of(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)     \
	{                                                                                          \
		const struct tf_point point = tf_point_of(inst->o, at);                            \
		*lr = at->base > 0 ? at->base * factor(inst->o, &point) : 0;                       \
		return ZR_OK;                                                                      \
	}                                                                                          \
	static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = value_of };     \
	PLUGIN(scheduler, name, &vtbl, .version = "1", .summary = about,                           \
	       PLUGIN_OPTIONS(struct tf_opts, options), .resolve = resolved_by,                    \
	       .check = checked_by, .create = pure_create, .destroy = pure_destroy)

#endif
