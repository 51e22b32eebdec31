/* SPDX-License-Identifier: Apache-2.0
 *
 * warmup_lr.c - DeepSpeed's WarmupLR: from warmup_min_lr to warmup_max_lr, then constant.
 *
 *   lr = min + (max - min) * gamma(i),  gamma = ln(i+1) / ln(N) or i / N for i < N, else 1
 *
 * with N = max(2, warmup_num_steps) and i the number of the update before this one, so the first update
 * (i = -1) and the second (i = 0) both run at min.
 */
#include <zeroth/scheduler.h>

#include <math.h>
#include <stdlib.h>

enum { WARMUP_LOG, WARMUP_LINEAR };
static const char *const types[] = { "log", "linear", NULL };

struct warmup_opts {
	double warmup_min_lr, warmup_max_lr;
	int64_t warmup_num_steps;
	int32_t warmup_type;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct warmup_opts, warmup_min_lr, ZR_T_F64, ZR_O_NUMERIC, "0", 0, ZR_HI, "",
	       "Learning rate of the first two updates, where the warm-up starts."),
	ZR_OPT(struct warmup_opts, warmup_max_lr, ZR_T_F64, ZR_O_NUMERIC | ZR_O_AUTO, "auto", 0, ZR_HI, "",
	       "Learning rate after the warm-up, of every parameter group; auto is the optimizer's lr."),
	ZR_OPT(struct warmup_opts, warmup_num_steps, ZR_T_I64, ZR_O_NUMERIC, "1000", 1, ZR_HI, "updates",
	       "Length of the warm-up; 1 counts as 2."),
	ZR_OPT_ENUM(struct warmup_opts, warmup_type, ZR_O_NUMERIC, "log", types,
		    "Shape of the warm-up: log rises fast first, linear evenly."),
};

struct zr_inst {
	const struct warmup_opts *o;
};

/* Stays `auto` where the optimizer's lr is not known: then each group's own lr is meant. */
static int warmup_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct warmup_opts *o = opts;
	(void)h;
	if (isnan(o->warmup_max_lr) && facts->lr > 0)
		o->warmup_max_lr = facts->lr;
	return ZR_OK;
}

static double gamma_of(const struct warmup_opts *o, int64_t i)
{
	int64_t n = o->warmup_num_steps < 2 ? 2 : o->warmup_num_steps;
	if (i < 0)
		return 0;
	if (i >= n)
		return 1;
	if (o->warmup_type == WARMUP_LINEAR)
		return (double)i / (double)n;
	return 1.0 / log((double)n) * log((double)(i + 1));
}

static int warmup_value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	const struct warmup_opts *o = inst->o;
	double max = isnan(o->warmup_max_lr) ? at->base : o->warmup_max_lr;
	*lr = o->warmup_min_lr + (max - o->warmup_min_lr) * gamma_of(o, at->step - 1);
	return ZR_OK;
}

static int warmup_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

static void warmup_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = warmup_value };
static const struct zr_iface ifaces[] = { { "zr.scheduler/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "scheduler",
	.id = "warmup_lr",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Warm-up from a small learning rate, then constant (DeepSpeed's WarmupLR).",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct warmup_opts),
	.resolve = warmup_resolve,
	.create = warmup_create,
	.destroy = warmup_destroy,
};
ZR_PLUGIN(&desc);
