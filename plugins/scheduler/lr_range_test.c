/* SPDX-License-Identifier: Apache-2.0
 *
 * lr_range_test.c - DeepSpeed's LRRangeTest (Smith 2018): the learning rate grows without end, so
 * that a run shows which rates still train.
 *
 *   lr = min * (1 + rate * interval),  interval = k / step_size, rounded down with staircase
 *
 * k is the number of updates applied before this one.
 */
#include "pure.h"
#include "plugins/descriptor.h"

struct range_opts {
	double lr_range_test_min_lr;
	int64_t lr_range_test_step_size;
	double lr_range_test_step_rate;
	uint8_t lr_range_test_staircase;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct range_opts, lr_range_test_min_lr, ZR_T_F64,
	       ZR_O_NUMERIC | ZR_O_AUTO | ZR_O_STAYS_AUTO, "auto", 0, ZR_HI, "",
	       "Learning rate of the first update, of every parameter group; auto is each group's "
	       "own lr."),
	ZR_OPT(struct range_opts, lr_range_test_step_size, ZR_T_I64, ZR_O_NUMERIC, "2000", 1, ZR_HI,
	       "updates", "Length of an interval of the test."),
	ZR_OPT(struct range_opts, lr_range_test_step_rate, ZR_T_F64, ZR_O_NUMERIC, "1", 0, ZR_HI,
	       "", "Growth per interval, as a multiple of lr_range_test_min_lr."),
	ZR_OPT(struct range_opts, lr_range_test_staircase, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, 0, "",
	       "Grow at the end of each interval only."),
};

static int range_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct range_opts *o = opts;
	(void)h;
	o->lr_range_test_min_lr = pure_rate(o->lr_range_test_min_lr, facts->lr);
	return ZR_OK;
}

static int range_value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	const struct range_opts *o = inst->o;
	double interval = (double)at->step / (double)o->lr_range_test_step_size;

	if (o->lr_range_test_staircase)
		interval = floor(interval);
	*lr = pure_rate(o->lr_range_test_min_lr, at->base) *
	      (1 + o->lr_range_test_step_rate * interval);
	return ZR_OK;
}

static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = range_value };

PLUGIN(scheduler, "lr_range_test", &vtbl, .version = "1",
       .summary = "A learning rate that grows, to find which ones train (DeepSpeed's LRRangeTest).",
       PLUGIN_OPTIONS(struct range_opts, options), .resolve = range_resolve, .create = pure_create,
       .destroy = pure_destroy);
