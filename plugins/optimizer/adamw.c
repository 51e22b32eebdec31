/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.c - AdamW (Loshchilov and Hutter 2019), computed by the device that holds the memory: one
 * sweep per segment, see struct zr_op_adamw for the formula.
 */
#include "adam_family.h"
#include "plugins/descriptor.h"

static const struct zr_opt options[] = {
	ADAM_OPTIONS("Share of each parameter, times the learning rate, that a step takes away."),
};

static int adamw_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	return adam_step(inst, s, 0);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_ELEMENTWISE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE,
	.state_version = ADAM_STATE_VERSION,
	.state_stride = sizeof(struct zr_state),
	.states = adam_states,
	.step = adamw_step,
	.upgrade = adam_upgrade,
	.split_masters = 1,
};

PLUGIN(optimizer, "adamw", &vtbl, .version = "1",
       .summary = "AdamW on the device that holds the parameters.",
       PLUGIN_OPTIONS(struct adam_opts, options), .create = adam_create, .destroy = adam_destroy);
