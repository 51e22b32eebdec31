/* SPDX-License-Identifier: Apache-2.0
 *
 * stage2.c - ZeRO 2: gradients, too, are split over all ranks. A list of units is reduced to their homes, after
 * which nobody holds their gradients whole.
 */
#include "policy.h"

static int stage2_groups(struct zr_inst *inst, int32_t unit, int64_t elements, struct zr_groups *out)
{
	(void)inst;
	(void)unit;
	(void)elements;
	*out = (struct zr_groups){ .param = ZR_GROUP_SELF, .grad = ZR_GROUP_WORLD, .state = ZR_GROUP_WORLD };
	return ZR_OK;
}

static const struct zr_zero_v1 vtbl = { .size = sizeof vtbl, .groups = stage2_groups, .at = policy_at };
static const struct zr_iface ifaces[] = { { "zr.zero/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "zero",
	.id = "stage2",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "ZeRO stage 2: gradients and optimizer's state are split over all ranks.",
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
