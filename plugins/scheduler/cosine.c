/* SPDX-License-Identifier: Apache-2.0
 *
 * cosine.c - transformers' cosine: up to the optimizer's lr, then half a cosine wave down to 0, or
 * as many waves as num_cycles says. Axolotl's lr_quadratic_warmup squares the warm-up.
 */
#include "transformers.h"

static const struct zr_opt options[] = {
	TF_WARMUP,
	TF_TOTAL,
	TF_CYCLES("0.5", "Cosine waves from the end of the warm-up to the end of the schedule."),
	ZR_OPT(struct tf_opts, quadratic_warmup, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, 0, "",
	       "Square the factor of the warm-up, so that it rises slowly first."),
};

static double factor(const struct tf_opts *o, const struct tf_point *at)
{
	const double rise = tf_rise(at);
	if (at->step < at->warmup)
		return o->quadratic_warmup ? rise * rise : rise;
	return fmax(0, tf_waves(o->num_cycles, tf_progress(at)));
}

TRANSFORMERS_SCHEDULE("cosine", "Warm-up, then half a cosine down to 0 (transformers' cosine).",
		      tf_resolve, NULL);
