/* SPDX-License-Identifier: Apache-2.0
 *
 * offload.c - moves activations to the tier of [offload.activation]: the output of a layer and what
 * it saved leave device memory while the next layer runs forward, and return while the layer above
 * runs backward. Device memory then holds the activations of about two layers at a time, and
 * nothing is computed twice.
 */
#include <zeroth/activation.h>
#include <zeroth/model.h>

#include <stdlib.h>

#include "plugins/descriptor.h"

struct offload_opts {
	int64_t keep;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct offload_opts, keep, ZR_T_I64, 0, "2", 1, 1e6, "layers",
	       "Layers before the loss whose activations stay: they are needed soonest; with 2 as "
	       "little is on the device at a time as with 1."),
};

struct zr_inst {
	const struct zr_host *h;
	const struct offload_opts *o;
};

static int offload_choose(struct zr_inst *inst, const struct zr_act_layer *layers, uint32_t n,
			  uint32_t stride, struct zr_act_choice *choice)
{
	int64_t i, leave = (int64_t)n - 1 - inst->o->keep;

	(void)layers;
	(void)stride;
	if (leave < 2)
		return zr_fail(
			inst->h, ZR_EINVAL,
			"keep = %lld: of the model's %u layers before the loss none but the first "
			"would leave; lower keep, or use [activation] plugin = keep without "
			"[offload.activation]",
			(long long)inst->o->keep, n - 1);

	for (i = 0; i < leave; i++)
		choice[i] =
			(struct zr_act_choice){ .out = ZR_ACT_OFFLOAD, .saved = ZR_ACT_OFFLOAD };

	return ZR_OK;
}

static int offload_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

static void offload_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_activation_v1 vtbl = { .size = sizeof vtbl, .choose = offload_choose };

PLUGIN(activation, "offload", &vtbl, .version = "1",
       .summary = "Moves activations between forward and backward to the tier of "
		  "[offload.activation], by default host memory.",
       PLUGIN_OPTIONS(struct offload_opts, options), .create = offload_create,
       .destroy = offload_destroy);
