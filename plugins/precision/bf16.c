/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16.c - parameters and activations in bf16; master, gradients and accumulation in fp32.
 */
#include "unscaled.h"
#include "plugins/descriptor.h"

struct bf16_opts {
	struct unscaled_opts unscaled; /* first: what unscaled.c reads */
	int32_t master, products;
};

static const char *const masters[] = {
	"fp32", "split", "none", "split24", "auto", NULL
}; /* ZR_MASTER_* */

static const char *const products[] = { "bf16", "fp8", "fp8_e5m2_gradients",
					NULL }; /* ZR_PRODUCTS_* */

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
	ZR_OPT_ENUM(
		struct bf16_opts, products, ZR_O_NUMERIC, "bf16", products,
		"How products with the weights of linear maps are computed, forward and w.r.t. "
		"their inputs; fp8: both operands are rounded to numbers of 8 bits, E4M3, of which "
		"each token, and each output or input of a weight, has a scale of its own, a power "
		"of two, made of what it scales; fp8_e5m2_gradients: gradients are rounded to "
		"E5M2 instead, which reaches further and has one bit less. Gradients of weights, "
		"embeddings, the head, norms, attention, routers and experts of a mixture stay in "
		"bf16, masters in fp32. Faster where the device multiplies in 8 bits; elsewhere, "
		"as on a CPU, the same numbers are multiplied in bf16, slower than without."),
};

static int bf16_info(struct zr_inst *inst, struct zr_precision_info *info)
{
	const struct bf16_opts *o = unscaled_opts_of(inst);
	info->dtype = ZR_BF16;
	info->comm_dtype = ZR_F32;
	info->master = o->master;
	info->products = o->products;
	return ZR_OK;
}

static const struct zr_precision_v1 vtbl = {
	.size = sizeof vtbl,
	.info = bf16_info,
	.start = unscaled_start,
	.next = unscaled_next,
};

/* It needs ZR_MASTER_AUTO and products. */
PLUGIN_NEED(5, precision, "bf16", &vtbl, .version = "1",
	    .summary = "Parameters and activations in bf16, masters with the bits of fp32 unless "
		       "told otherwise.",
	    PLUGIN_OPTIONS(struct bf16_opts, options), .create = unscaled_create,
	    .destroy = unscaled_destroy);
