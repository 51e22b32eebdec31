/* SPDX-License-Identifier: Apache-2.0
 *
 * cosine_warmup_with_min_lr.c - transformers' cosine_warmup_with_min_lr: a warm-up whose first
 * update already learns, and a cosine one update ahead of that of cosine_with_min_lr.
 */
#include "transformers.h"

static const struct zr_opt options[] = {
	TF_WARMUP,
	TF_TOTAL,
	TF_CYCLES("0.5", "Cosine waves from the end of the warm-up to the end of the schedule."),
	TF_MIN_LR,
	ZR_OPT(struct tf_opts, warmup_lr_rate, ZR_T_F64, ZR_O_NUMERIC | ZR_O_AUTO | ZR_O_STAYS_AUTO,
	       "auto", 0, ZR_HI, "",
	       "Share of the optimizer's lr in the first update; auto is 1 / warmup_num_steps."),
};

static double rise(const struct tf_opts *o, const struct tf_point *at)
{
	const double first = o->warmup_lr_rate;
	if (isnan(first))
		return ((double)at->step + 1) / tf_at_least_1(at->warmup);
	return first + (1 - first) * (double)at->step / tf_at_least_1(at->warmup - 1);
}

static double factor(const struct tf_opts *o, const struct tf_point *at)
{
	struct tf_point next = *at;
	if (at->step < at->warmup)
		return rise(o, at);

	next.step++;
	return tf_above(tf_lowest(o, at), tf_waves(o->num_cycles, tf_progress(&next)));
}

TRANSFORMERS_SCHEDULE("cosine_warmup_with_min_lr",
		      "Warm-up from above 0, then half a cosine down to a minimum (transformers' "
		      "cosine_warmup_with_min_lr).",
		      tf_resolve, tf_check_min_lr);
