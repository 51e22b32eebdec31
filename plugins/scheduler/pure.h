/* SPDX-License-Identifier: Apache-2.0
 *
 * pure.h - the instance of a scheduler without state: its options.
 */
#ifndef ZR_SCHEDULER_PURE_H
#define ZR_SCHEDULER_PURE_H

#include <zeroth/scheduler.h>

#include <math.h>
#include <stdlib.h>

struct zr_inst {
	const void *o; /* borrowed: the host's, outlives the instance */
};

/* A learning rate that may have stayed `auto`: `base`, the group's own. */
static inline double pure_rate(double option, double base)
{
	return isnan(option) ? base : option;
}

static inline int pure_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

static inline void pure_destroy(struct zr_inst *inst)
{
	free(inst);
}

#endif
