/* SPDX-License-Identifier: Apache-2.0
 *
 * brokenschedule.c - a scheduler that is right but for the one fault that $BROKEN names, for
 * tests/system/plugin_check.sh.
 */
#include <zeroth/scheduler.h>

#include <stdlib.h>
#include <string.h>

#define IF(name) if (!strcmp(inst->fault, #name))

struct zr_inst {
	const char *fault;
	int64_t calls;
};

static int value(struct zr_inst *inst, const struct zr_sched_point *at, double *lr)
{
	double step = (double)at->step;
	IF(COUNTS) step = (double)inst->calls++;
	IF(UNSET) if (at->step > at->total_steps) return ZR_OK;
	*lr = at->base / (1 + step);
	IF(NEGATIVE) *lr = at->base * (1 - step / (double)at->total_steps);
	IF(ENDLESS) *lr = at->base / (50 - step);
	return ZR_OK;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	(void)opts;
	*out = calloc(1, sizeof **out);
	if (!*out)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	(*out)->fault = getenv("BROKEN");
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
	.id = "broken",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "For tests.",
	.ifaces = ifaces,
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
