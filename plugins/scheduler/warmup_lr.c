/* SPDX-License-Identifier: Apache-2.0
 *
 * warmup_lr.c - DeepSpeed's WarmupLR: from warmup_min_lr to warmup_max_lr, then constant.
 *
 *   lr = min + (max - min) * gamma(i), 1 instead of gamma from i = N on; see warmup.h
 *
 * The first update (i = -1) and the second (i = 0) both run at min.
 */
#include "pure.h"
#include "warmup.h"
#include "plugins/descriptor.h"

struct warmup_opts {
	double warmup_min_lr, warmup_max_lr;
	int64_t warmup_num_steps;
	int32_t warmup_type;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct warmup_opts, warmup_min_lr, ZR_T_F64, ZR_O_NUMERIC, "0", 0, ZR_HI, "",
	       "Learning rate of the first two updates, where the warm-up starts."),
	WARMUP_MAX_LR(struct warmup_opts),
	WARMUP_NUM_STEPS(struct warmup_opts),
	WARMUP_TYPE(struct warmup_opts),
};

/* Stays `auto` where the optimizer's lr is not known: then each group's own lr is meant. */
static int warmup_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct warmup_opts *o = opts;
	(void)h;
	if (isnan(o->warmup_max_lr))
		o->warmup_max_lr = facts->lr;

	return ZR_OK;
}

static double gamma_of(const struct warmup_opts *o, int64_t i)
{
	int64_t n = warmup_length(o->warmup_num_steps);

	if (i < 0)
		return 0;
	if (i < n)
		return warmup_gamma(o->warmup_type, n, i);

	return 1;
}

static int warmup_value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	const struct warmup_opts *o = inst->o;
	double max = pure_rate(o->warmup_max_lr, at->base);
	*lr = o->warmup_min_lr + (max - o->warmup_min_lr) * gamma_of(o, at->step - 1);
	return ZR_OK;
}

static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = warmup_value };

PLUGIN(scheduler, "warmup_lr", &vtbl, .version = "1",
       .summary = "Warm-up from a small learning rate, then constant (DeepSpeed's WarmupLR).",
       PLUGIN_OPTIONS(struct warmup_opts, options), .resolve = warmup_resolve,
       .create = pure_create, .destroy = pure_destroy);
