/* SPDX-License-Identifier: Apache-2.0
 *
 * constant.c - the learning rate stays what the optimizer's options say.
 */
#include "pure.h"
#include "plugins/descriptor.h"

static int constant_value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	(void)inst;
	*lr = at->base;
	return ZR_OK;
}

static const struct zr_scheduler_v1 vtbl = { .size = sizeof vtbl, .value = constant_value };

PLUGIN(scheduler, "constant", &vtbl, .version = "1",
       .summary = "The optimizer's own learning rate, always.", .create = pure_create,
       .destroy = pure_destroy);
