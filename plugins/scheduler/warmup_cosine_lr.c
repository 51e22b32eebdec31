/* SPDX-License-Identifier: Apache-2.0
 *
 * warmup_cosine_lr.c - DeepSpeed's WarmupCosineLR: each parameter group's own lr times a ratio that
 * warms up to 1 and then follows half a cosine down to cos_min_ratio at total_num_steps.
 *
 *   ratio = wmin + (1 - wmin) * gamma(i), see warmup.h; from i = N on cmin + (1 - cmin) * (1 +
 *   cos(pi p)) / 2 with
 *   p = min(1, (i-N+1) / max(1, T-N)); the first update (i = -1) runs at 0, whatever wmin is
 */
#include "pure.h"
#include "warmup.h"
#include "plugins/descriptor.h"

#define PI 3.14159265358979323846

struct cosine_opts {
	int64_t total_num_steps;
	double warmup_min_ratio;
	int64_t warmup_num_steps;
	double cos_min_ratio;
	int32_t warmup_type;
};

static const struct zr_opt options[] = {
	WARMUP_TOTAL_NUM_STEPS(struct cosine_opts),
	ZR_OPT(struct cosine_opts, warmup_min_ratio, ZR_T_F64, ZR_O_NUMERIC, "0", 0, ZR_HI, "",
	       "Share of the optimizer's lr at which the warm-up starts, with the second update; "
	       "the first runs at 0."),
	WARMUP_NUM_STEPS(struct cosine_opts),
	ZR_OPT(struct cosine_opts, cos_min_ratio, ZR_T_F64, ZR_O_NUMERIC, "1e-4", 0, ZR_HI, "",
	       "Share of the optimizer's lr that remains after the decay."),
	WARMUP_TYPE(struct cosine_opts),
};

static int cosine_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct cosine_opts *o = opts;
	(void)h;
	if (o->total_num_steps == ZR_AUTO_I64 && facts->steps > 0)
		o->total_num_steps = facts->steps;

	return ZR_OK;
}

static double ratio_of(const struct cosine_opts *o, int64_t total, int64_t i)
{
	int64_t n = warmup_length(o->warmup_num_steps);

	if (i < 0)
		return 0;
	if (i < n)
		return o->warmup_min_ratio +
		       warmup_gamma(o->warmup_type, n, i) * (1 - o->warmup_min_ratio);

	double progress = fmin(1, (double)(i - n + 1) / fmax(1, (double)(total - n)));
	return fmax(0, o->cos_min_ratio + (1 - o->cos_min_ratio) * ((1 + cos(PI * progress)) / 2));
}

static int cosine_value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	const struct cosine_opts *o = inst->o;
	*lr = at->base * ratio_of(o, warmup_total(o->total_num_steps, at), at->step - 1);
	return ZR_OK;
}

static int cosine_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct cosine_opts *o = opts;
	warmup_warn(h, o->total_num_steps, o->warmup_num_steps);
	return pure_create(h, opts, out);
}

static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = cosine_value };

PLUGIN(scheduler, "warmup_cosine_lr", &vtbl, .version = "1",
       .summary = "Warm-up, then half a cosine down (DeepSpeed's WarmupCosineLR).",
       PLUGIN_OPTIONS(struct cosine_opts, options), .resolve = cosine_resolve,
       .create = cosine_create, .destroy = pure_destroy);
