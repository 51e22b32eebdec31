/* SPDX-License-Identifier: Apache-2.0
 *
 * constant_with_warmup.c - transformers' constant_with_warmup: up to the optimizer's lr, then
 * constant.
 */
#include "transformers.h"

static const struct zr_opt options[] = { TF_WARMUP };

static double factor(const struct tf_opts *o, const struct tf_point *at)
{
	(void)o;
	if (at->step < at->warmup)
		return tf_rise(at);

	return 1;
}

TRANSFORMERS_SCHEDULE("constant_with_warmup",
		      "Warm-up, then constant (transformers' constant_with_warmup).", tf_resolve,
		      NULL);
