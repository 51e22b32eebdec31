/* SPDX-License-Identifier: Apache-2.0
 *
 * keep.c - the simplest activation policy: all that a layer saves in its forward stays in device
 * memory until its backward has used it.
 */
#include <zeroth/activation.h>

#include <stdlib.h>

#include "plugins/descriptor.h"

struct zr_inst {
	const struct zr_host *h;
};

static int keep_choose(struct zr_inst *inst, const struct zr_act_layer *layers, uint32_t n,
		       uint32_t stride, struct zr_act_choice *choice)
{
	uint32_t i;

	(void)inst;
	(void)layers;
	(void)stride;
	for (i = 0; i < n; i++)
		choice[i] = (struct zr_act_choice){ .out = ZR_ACT_KEEP, .saved = ZR_ACT_KEEP };

	return ZR_OK;
}

static int keep_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);

	(void)opts;
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	*out = inst;
	return ZR_OK;
}

static void keep_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_activation_v1 vtbl = { .size = sizeof vtbl, .choose = keep_choose };

PLUGIN(activation, "keep", &vtbl, .version = "1",
       .summary = "Keeps every activation in device memory: fastest, needs the most.",
       .create = keep_create, .destroy = keep_destroy);
