/* SPDX-License-Identifier: Apache-2.0
 *
 * hpz.c - ZeRO++'s hierarchical partition: parameters are split over the ranks of a node only, so gathering never
 * leaves it, at the price of one copy per node; gradients and optimizer's state are split over all ranks.
 */
#include "policy.h"

static int hpz_groups(struct zr_inst *inst, int32_t unit, int64_t elements, struct zr_groups *out)
{
	(void)unit;
	*out = (struct zr_groups){ .param = ZR_GROUP_NODE, .grad = ZR_GROUP_WORLD, .state = ZR_GROUP_WORLD };
	if (policy_whole(inst, elements))
		out->param = ZR_GROUP_SELF;
	return ZR_OK;
}

static const struct zr_zero_v1 vtbl = { .size = sizeof vtbl, .groups = hpz_groups, .at = split_at };
static const struct zr_iface ifaces[] = { { "zr.zero/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "zero",
	.id = "hpz",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "ZeRO stage 3 with parameters split inside each node (ZeRO++ hpZ).",
	.ifaces = ifaces,
	.opts = policy_options,
	.n_opts = POLICY_SPLIT_OPTS,
	.opt_stride = sizeof *policy_options,
	.opts_size = sizeof(struct policy_opts),
	.resolve = policy_resolve,
	.check = policy_check,
	.create = policy_create,
	.destroy = policy_destroy,
};
ZR_PLUGIN(&desc);
