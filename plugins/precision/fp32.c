/* SPDX-License-Identifier: Apache-2.0
 *
 * fp32.c - everything in fp32.
 */
#include "unscaled.h"

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
static const struct zr_iface ifaces[] = { { "zr.precision/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "precision",
	.id = "fp32",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Parameters, activations and gradients in fp32.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct unscaled_opts),
	.create = unscaled_create,
	.destroy = unscaled_destroy,
};
ZR_PLUGIN(&desc);
