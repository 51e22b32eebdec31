/* SPDX-License-Identifier: Apache-2.0
 *
 * warmup_decay_lr.c - DeepSpeed's WarmupDecayLR: from warmup_min_lr to warmup_max_lr, then evenly
 * down to warmup_min_lr at total_num_steps.
 *
 *   lr = min + (max - min) * gamma(i), see warmup.h; from i = N on max(0, (T-i) / max(1, T-N))
 *   instead of gamma
 *
 * The first update (i = -1) and the second (i = 0) both run at min.
 */
#include "pure.h"
#include "warmup.h"
#include "plugins/descriptor.h"

struct decay_opts {
	int64_t total_num_steps;
	double warmup_min_lr, warmup_max_lr;
	int64_t warmup_num_steps;
	int32_t warmup_type;
};

static const struct zr_opt options[] = {
	WARMUP_TOTAL_NUM_STEPS(struct decay_opts),
	ZR_OPT(struct decay_opts, warmup_min_lr, ZR_T_F64, ZR_O_NUMERIC, "0", 0, ZR_HI, "",
	       "Learning rate of the first two updates, where the warm-up starts, and after the "
	       "decay."),
	WARMUP_MAX_LR(struct decay_opts),
	WARMUP_NUM_STEPS(struct decay_opts),
	WARMUP_TYPE(struct decay_opts),
};

static int decay_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct decay_opts *o = opts;

	(void)h;
	if (isnan(o->warmup_max_lr))
		o->warmup_max_lr = facts->lr;
	if (o->total_num_steps == ZR_AUTO_I64 && facts->steps > 0)
		o->total_num_steps = facts->steps;

	return ZR_OK;
}

static double gamma_of(const struct decay_opts *o, int64_t total, int64_t i)
{
	int64_t n = warmup_length(o->warmup_num_steps);

	if (i < 0)
		return 0;
	if (i < n)
		return warmup_gamma(o->warmup_type, n, i);

	return fmax(0, (double)(total - i) / fmax(1, (double)(total - n)));
}

static int decay_value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	const struct decay_opts *o = inst->o;
	double max = pure_rate(o->warmup_max_lr, at->base);
	double gamma = gamma_of(o, warmup_total(o->total_num_steps, at), at->step - 1);
	*lr = o->warmup_min_lr + (max - o->warmup_min_lr) * gamma;
	return ZR_OK;
}

static int decay_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct decay_opts *o = opts;
	warmup_warn(h, o->total_num_steps, o->warmup_num_steps);
	return pure_create(h, opts, out);
}

static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = decay_value };

PLUGIN(scheduler, "warmup_decay_lr", &vtbl, .version = "1",
       .summary = "Warm-up, then a straight line down (DeepSpeed's WarmupDecayLR).",
       PLUGIN_OPTIONS(struct decay_opts, options), .resolve = decay_resolve, .create = decay_create,
       .destroy = pure_destroy);
