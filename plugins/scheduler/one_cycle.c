/* SPDX-License-Identifier: Apache-2.0
 *
 * one_cycle.c - DeepSpeed's OneCycle (Smith 2018): up from cycle_min_lr to cycle_max_lr, down
 * again, then a decay. DeepSpeed also cycles the optimizer's first beta against the learning rate;
 * a scheduler here drives the learning rate alone, so cycle_momentum, cycle_min_mom, cycle_max_mom
 * and decay_mom_rate are not offered.
 *
 *   lr = min + (max - min) * s,  S = first + second, x = frac(k / S), r = first / S
 *   s = x / r for x <= r, else (x - 1) / (r - 1); with a stair count c of that half floor(s * c) /
 *   c
 *   after the cycle (k > S): min / (1 + decay_lr_rate * (k - S) / decay_step_size)
 *
 * k is the number of updates applied before this one.
 */
#include "pure.h"
#include "plugins/descriptor.h"

struct cycle_opts {
	double cycle_min_lr, cycle_max_lr;
	double decay_lr_rate;
	int64_t cycle_first_step_size, cycle_second_step_size;
	int64_t cycle_first_stair_count, cycle_second_stair_count;
	int64_t decay_step_size;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct cycle_opts, cycle_min_lr, ZR_T_F64,
	       ZR_O_NUMERIC | ZR_O_AUTO | ZR_O_STAYS_AUTO, "auto", 0, ZR_HI, "",
	       "Learning rate where the cycle starts and ends, of every parameter group; auto is a "
	       "tenth of cycle_max_lr."),
	ZR_OPT(struct cycle_opts, cycle_max_lr, ZR_T_F64,
	       ZR_O_NUMERIC | ZR_O_AUTO | ZR_O_STAYS_AUTO, "auto", 0, ZR_HI, "",
	       "Learning rate at the top of the cycle, of every parameter group; auto is each "
	       "group's own lr."),
	ZR_OPT(struct cycle_opts, decay_lr_rate, ZR_T_F64, ZR_O_NUMERIC, "0", 0, ZR_HI, "",
	       "Decay after the cycle, per decay_step_size: cycle_min_lr / (1 + rate * "
	       "intervals)."),
	ZR_OPT(struct cycle_opts, cycle_first_step_size, ZR_T_I64, ZR_O_NUMERIC, "2000", 1, ZR_HI,
	       "updates", "Length of the way up."),
	ZR_OPT(struct cycle_opts, cycle_second_step_size, ZR_T_I64, ZR_O_NUMERIC | ZR_O_AUTO,
	       "auto", 0, ZR_HI, "updates",
	       "Length of the way down; auto is cycle_first_step_size."),
	ZR_OPT(struct cycle_opts, cycle_first_stair_count, ZR_T_I64, ZR_O_NUMERIC, "0", 0, ZR_HI,
	       "", "Stairs that the way up is cut into; 0 is a straight line."),
	ZR_OPT(struct cycle_opts, cycle_second_stair_count, ZR_T_I64, ZR_O_NUMERIC | ZR_O_AUTO,
	       "auto", 0, ZR_HI, "", "Stairs of the way down; auto is cycle_first_stair_count."),
	ZR_OPT(struct cycle_opts, decay_step_size, ZR_T_I64, ZR_O_NUMERIC, "0", 0, ZR_HI, "updates",
	       "Interval of the decay after the cycle; 0 is no decay."),
};

static int cycle_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct cycle_opts *o = opts;

	(void)h;
	o->cycle_max_lr = pure_rate(o->cycle_max_lr, facts->lr);
	o->cycle_min_lr = pure_rate(o->cycle_min_lr, o->cycle_max_lr / 10);
	if (o->cycle_second_step_size == ZR_AUTO_I64)
		o->cycle_second_step_size = o->cycle_first_step_size;
	if (o->cycle_second_stair_count == ZR_AUTO_I64)
		o->cycle_second_stair_count = o->cycle_first_stair_count;

	return ZR_OK;
}

static int cycle_check(const struct zr_host *h, const void *opts)
{
	const struct cycle_opts *o = opts;
	if ((o->decay_lr_rate > 0) != (o->decay_step_size > 0))
		return zr_fail(
			h, ZR_EINVAL,
			"decay_lr_rate = %g and decay_step_size = %lld: a decay needs both above "
			"0, none needs both 0",
			o->decay_lr_rate, (long long)o->decay_step_size);

	return ZR_OK;
}

/* Stairs are cut from whole updates: s in floating point may fall just below a stair, and off the
 * top. */
static double stairs(double position, double length, int64_t count)
{
	return floor(position * (double)count / length) / (double)count;
}

static double share(const struct cycle_opts *o, int64_t k)
{
	double first = (double)o->cycle_first_step_size, second = (double)o->cycle_second_step_size,
	       total = first + second;
	double turns = (double)k / total, ratio = first / total, x = 1 + turns - floor(1 + turns);
	double at = fmod((double)k, total);

	if (x <= ratio) {
		if (o->cycle_first_stair_count)
			return stairs(at, first, o->cycle_first_stair_count);

		return x / ratio;
	}

	if (o->cycle_second_stair_count)
		return stairs(total - at, second, o->cycle_second_stair_count);

	return (x - 1) / (ratio - 1);
}

static int cycle_value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	const struct cycle_opts *o = inst->o;
	int64_t after = at->step - (o->cycle_first_step_size + o->cycle_second_step_size);
	double max = pure_rate(o->cycle_max_lr, at->base),
	       min = pure_rate(o->cycle_min_lr, max / 10);

	if (after <= 0)
		*lr = min + (max - min) * share(o, at->step);
	else if (o->decay_step_size == 0)
		*lr = min;
	else
		*lr = min / (1 + o->decay_lr_rate * ((double)after / (double)o->decay_step_size));

	return ZR_OK;
}

static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = cycle_value };

PLUGIN(scheduler, "one_cycle", &vtbl, .version = "1",
       .summary = "Up, down, then a decay (DeepSpeed's OneCycle, of the learning rate only: betas "
		  "stay).",
       PLUGIN_OPTIONS(struct cycle_opts, options), .resolve = cycle_resolve, .check = cycle_check,
       .create = pure_create, .destroy = pure_destroy);
