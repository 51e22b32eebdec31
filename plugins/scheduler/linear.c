/* SPDX-License-Identifier: Apache-2.0
 *
 * linear.c - transformers' linear: up to the optimizer's lr, then a straight line down to 0.
 */
#include "transformers.h"

static const struct zr_opt options[] = { TF_WARMUP, TF_TOTAL };

static double factor(const struct tf_opts *o, const struct tf_point *at)
{
	(void)o;
	if (at->step < at->warmup)
		return tf_rise(at);
	return fmax(0, (double)(at->total - at->step) / tf_at_least_1(at->total - at->warmup));
}

TRANSFORMERS_SCHEDULE("linear", "Warm-up, then a straight line down to 0 (transformers' linear).",
		      tf_resolve, NULL);
