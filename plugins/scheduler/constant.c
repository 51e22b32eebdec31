/* SPDX-License-Identifier: Apache-2.0
 *
 * constant.c - the learning rate stays what the optimizer's options say.
 */
#include <zeroth/scheduler.h>

#include <stdlib.h>

struct zr_inst {
	const struct zr_host *h;
};

static int constant_value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	(void)inst;
	*lr = at->base;
	return ZR_OK;
}

static int constant_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	(void)opts;
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	*out = inst;
	return ZR_OK;
}

static void constant_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = constant_value };
static const struct zr_iface ifaces[] = { { "zr.scheduler/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "scheduler",
	.id = "constant",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "The optimizer's own learning rate, always.",
	.ifaces = ifaces,
	.create = constant_create,
	.destroy = constant_destroy,
};
ZR_PLUGIN(&desc);
