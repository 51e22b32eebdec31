/* SPDX-License-Identifier: Apache-2.0
 *
 * cosine_with_min_lr.c - transformers' cosine_with_min_lr: as cosine, but down to a rate above 0.
 * Axolotl's cosine_constant_lr_ratio ends the decay earlier, and keeps that rate.
 */
#include "transformers.h"

static const struct zr_opt options[] = {
	TF_WARMUP,
	TF_TOTAL,
	TF_CYCLES("0.5", "Cosine waves from the end of the warm-up to the end of the decay."),
	TF_MIN_LR,
	ZR_OPT(struct tf_opts, constant_lr_ratio, ZR_T_F64, ZR_O_NUMERIC, "0", 0, 1, "",
	       "Share of total_num_steps, rounded down, after which the rate stays as it is; 0: "
	       "the decay ends with the schedule."),
};

static double factor(const struct tf_opts *o, const struct tf_point *at)
{
	struct tf_point to = *at;
	if (at->step < at->warmup)
		return tf_rise(at);

	if (o->constant_lr_ratio > 0) {
		to.total = (int64_t)((double)at->total * o->constant_lr_ratio);
		to.step = at->step;
		if (to.step > to.total)
			to.step = to.total;
	}

	return tf_above(tf_lowest(o, at), tf_waves(o->num_cycles, tf_progress(&to)));
}

TRANSFORMERS_SCHEDULE("cosine_with_min_lr",
		      "Warm-up, then half a cosine down to a minimum (transformers' "
		      "cosine_with_min_lr).",
		      tf_resolve, tf_check_min_lr);
