/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16.c - parameters and activations in bf16; master, gradients and accumulation in fp32.
 */
#include "unscaled.h"
#include "plugins/descriptor.h"

struct bf16_opts {
	struct unscaled_opts unscaled; /* first: what unscaled.c reads */
	int32_t master;
};

static const char *const masters[] = {
	"fp32", "split", "none", "split24", "auto", NULL
}; /* ZR_MASTER_* */

static const struct zr_opt options[] = {
	UNSCALED_ON_NONFINITE,
	ZR_OPT_ENUM(
		struct bf16_opts, master, ZR_O_NUMERIC, "auto", masters,
		"fp32: a master copy of each parameter in fp32; split: the same bits as the bf16 "
		"copy and the 16 bits it lacks, 4 bytes a parameter instead of 6; auto: split, or "
		"fp32 where that is faster: if an optimizer does not take masters that are split, "
		"or works in host memory on parameters that are not there; none: only the "
		"bf16 copy, rounded stochastically after each update; split24: the bf16 copy and 8 "
		"bits more, 3 bytes: what an update changes by less than a 2^-17th of a parameter "
		"is lost, so not for the lowest learning rates."),
};

static int bf16_info(struct zr_inst *inst, struct zr_precision_info *info)
{
	const struct bf16_opts *o = unscaled_opts_of(inst);
	info->dtype = ZR_BF16;
	info->comm_dtype = ZR_F32;
	info->master = o->master;
	return ZR_OK;
}

static const struct zr_precision_v1 vtbl = {
	.size = sizeof vtbl,
	.info = bf16_info,
	.start = unscaled_start,
	.next = unscaled_next,
};

/* It needs ZR_MASTER_AUTO. */
PLUGIN_NEED(4, precision, "bf16", &vtbl, .version = "1",
	    .summary = "Parameters and activations in bf16, masters with the bits of fp32 unless "
		       "told otherwise.",
	    PLUGIN_OPTIONS(struct bf16_opts, options), .create = unscaled_create,
	    .destroy = unscaled_destroy);
