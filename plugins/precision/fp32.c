/* SPDX-License-Identifier: Apache-2.0
 *
 * fp32.c - everything in fp32.
 */
#include "unscaled.h"
#include "plugins/descriptor.h"

static const struct zr_opt options[] = { UNSCALED_ON_NONFINITE };

static int fp32_info(struct zr_inst *inst, struct zr_precision_info *info)
{
	(void)inst;
	info->dtype = ZR_F32;
	info->comm_dtype = ZR_F32;
	return ZR_OK;
}

static const struct zr_precision_v1 vtbl = {
	.size = sizeof vtbl,
	.info = fp32_info,
	.start = unscaled_start,
	.next = unscaled_next,
};

PLUGIN(precision, "fp32", &vtbl, .version = "1",
       .summary = "Parameters, activations and gradients in fp32.",
       PLUGIN_OPTIONS(struct unscaled_opts, options), .create = unscaled_create,
       .destroy = unscaled_destroy);
