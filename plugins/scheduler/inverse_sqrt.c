/* SPDX-License-Identifier: Apache-2.0
 *
 * inverse_sqrt.c - transformers' inverse_sqrt: up to the optimizer's lr, then the root of
 * timescale / updates.
 */
#include "transformers.h"

static const struct zr_opt options[] = {
	TF_WARMUP,
	ZR_OPT(struct tf_opts, timescale, ZR_T_I64, ZR_O_NUMERIC | ZR_O_AUTO | ZR_O_STAYS_AUTO,
	       "auto", 1, ZR_HI, "updates",
	       "Updates after which half of the squared rate is left; auto is the length of the "
	       "warm-up, and 10000 without one."),
};

static double factor(const struct tf_opts *o, const struct tf_point *at)
{
	int64_t scale = o->timescale;
	if (scale == ZR_AUTO_I64)
		scale = at->warmup > 0 ? at->warmup : 10000;

	if (at->step < at->warmup)
		return tf_rise(at);

	return 1 / sqrt((double)(at->step + scale - at->warmup) / (double)scale);
}

TRANSFORMERS_SCHEDULE("inverse_sqrt",
		      "Warm-up, then 1 / sqrt(updates) (transformers' inverse_sqrt).", tf_resolve,
		      NULL);
