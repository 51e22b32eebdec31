/* SPDX-License-Identifier: Apache-2.0
 *
 * constant.c - the learning rate stays what the optimizer's options say.
 */
#include "pure.h"

static int constant_value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	(void)inst;
	*lr = at->base;
	return ZR_OK;
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
	.create = pure_create,
	.destroy = pure_destroy,
};
ZR_PLUGIN(&desc);
