/* SPDX-License-Identifier: Apache-2.0
 *
 * adam.c - Adam (Kingma and Ba 2015) with weight decay as an L2 penalty, as torch.optim.Adam,
 * computed by the device that holds the memory: one sweep per segment, see struct zr_op_adamw for
 * the formula.
 */
#include "adam_family.h"
#include "plugins/descriptor.h"

static const struct zr_opt options[] = {
	ADAM_OPTIONS("Share of each parameter that is added to its gradient (L2)."),
};

static int adam_l2_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	return adam_step(inst, s, 1);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE,
	.state_version = ADAM_STATE_VERSION,
	.state_stride = sizeof(struct zr_state),
	.states = adam_states,
	.step = adam_l2_step,
	.upgrade = adam_upgrade,
	.split_masters = 1,
};

PLUGIN(optimizer, "adam", &vtbl, .version = "1",
       .summary = "Adam with L2 weight decay on the device that holds the parameters.",
       PLUGIN_OPTIONS(struct adam_opts, options), .create = adam_create, .destroy = adam_destroy);
