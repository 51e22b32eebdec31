/* SPDX-License-Identifier: Apache-2.0
 *
 * stage1.c - ZeRO 1: the optimizer's state is split over all ranks. Each updates its own blocks; publishing
 * gathers the new parameters.
 */
#include "policy.h"

static int stage1_groups(struct zr_inst *inst, int32_t unit, int64_t elements, struct zr_groups *out)
{
	(void)inst;
	(void)unit;
	(void)elements;
	*out = (struct zr_groups){ .param = ZR_GROUP_SELF, .grad = ZR_GROUP_SELF, .state = ZR_GROUP_WORLD };
	return ZR_OK;
}

static const struct zr_zero_v1 vtbl = { .size = sizeof vtbl, .groups = stage1_groups, .at = policy_at };
static const struct zr_iface ifaces[] = { { "zr.zero/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "zero",
	.id = "stage1",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "ZeRO stage 1: the optimizer's state is split over all ranks.",
	.ifaces = ifaces,
	.opts = policy_options,
	.n_opts = POLICY_WHOLE_OPTS,
	.opt_stride = sizeof *policy_options,
	.opts_size = sizeof(struct policy_opts),
	.resolve = policy_resolve,
	.check = policy_check,
	.create = policy_create,
	.destroy = policy_destroy,
};
ZR_PLUGIN(&desc);
