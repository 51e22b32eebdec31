/* @ID@ - a scheduler of learning rates for zeroth. See zeroth-plugin(7) and zeroth/scheduler.h.
 *
 * As it is written here: the rate rises linearly over `warmup` updates, and is halved after every
 * `period` updates. */
#include <zeroth/scheduler.h>

#include <stdlib.h>

/* What a user may set in [scheduler]. */
struct opts {
	uint64_t warmup, period;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, warmup, ZR_T_COUNT, ZR_O_NUMERIC, "10", 0, 1e12, "updates",
	       "Updates over which the rate rises from 0."),
	ZR_OPT(struct opts, period, ZR_T_COUNT, ZR_O_NUMERIC, "1000", 1, 1e12, "updates",
	       "Updates between two halvings."),
};

struct zr_inst {
	const struct opts *o;
};

/* A function of `at` alone: steps are asked for in any order, and a run that resumes asks only for
 * the later ones. */
static int value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	const struct opts *o = inst->o;
	const uint64_t step = (uint64_t)at->step;

	*lr = at->base;
	if (step < o->warmup)
		*lr *= (double)(step + 1) / (double)o->warmup;
	for (uint64_t i = 0; i<step / o->period && * lr> 0; i++)
		*lr /= 2;
	return ZR_OK;
}

/* opts and h outlive the instance. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = value };
static const struct zr_iface ifaces[] = { { "zr.scheduler/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "scheduler",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Halves the rate every period, after a warmup.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
