/* SPDX-License-Identifier: Apache-2.0
 *
 * warmup_stable_decay.c - transformers' warmup_stable_decay (WSD): up from min_lr_rate, constant,
 * and down to min_lr_rate, each way with a shape of its own.
 */
#include "transformers.h"

static const char *const shapes[] = { "linear", "cosine", "1-sqrt", NULL };

static const struct zr_opt options[] = {
	TF_WARMUP,
	TF_TOTAL,
	ZR_OPT(struct tf_opts, num_decay_steps, ZR_T_I64, ZR_O_NUMERIC, "0", 0, ZR_HI, "updates",
	       "Length of the way down; the end of the schedule is its end."),
	ZR_OPT(struct tf_opts, num_stable_steps, ZR_T_I64,
	       ZR_O_NUMERIC | ZR_O_AUTO | ZR_O_STAYS_AUTO, "auto", 0, ZR_HI, "updates",
	       "Updates at the optimizer's lr; auto is what the two ways leave of the schedule. "
	       "With a number the way down begins behind them, wherever the run ends."),
	ZR_OPT_ENUM(struct tf_opts, warmup_type, ZR_O_NUMERIC, "linear", shapes,
		    "Shape of the way up."),
	ZR_OPT_ENUM(struct tf_opts, decay_type, ZR_O_NUMERIC, "cosine", shapes,
		    "Shape of the way down."),
	ZR_OPT(struct tf_opts, min_lr_rate, ZR_T_F64, ZR_O_NUMERIC, "0", 0, 1, "",
	       "Share of the optimizer's lr where the way up begins, and at the end of the way "
	       "down."),
	TF_CYCLES("0.5", "Cosine waves of the way down, if that is its shape."),
};

static double up(int32_t shape, double progress)
{
	switch (shape) {
	case RAMP_LINEAR:
		return progress;
	case RAMP_COSINE:
		return 0.5 * (1.0 - cos(PI * progress));
	default:
		return 1.0 - sqrt(1.0 - progress);
	}
}

static double down(const struct tf_opts *o, double progress)
{
	switch (o->decay_type) {
	case RAMP_LINEAR:
		return 1.0 - progress;
	case RAMP_COSINE:
		return tf_waves(o->num_cycles, progress);
	default:
		return 1.0 - sqrt(progress);
	}
}

static double factor(const struct tf_opts *o, const struct tf_point *at)
{
	int64_t stable = o->num_stable_steps;
	if (stable == ZR_AUTO_I64)
		stable = at->total - at->warmup - o->num_decay_steps;

	const int64_t top = at->warmup + stable; /* where the way down begins */
	if (at->step < at->warmup)
		return tf_above(o->min_lr_rate, up(o->warmup_type, tf_rise(at)));
	if (at->step < top)
		return 1;
	if (at->step >= top + o->num_decay_steps)
		return o->min_lr_rate;

	const double progress = (double)(at->step - top) / tf_at_least_1(o->num_decay_steps);
	return tf_above(o->min_lr_rate, down(o, progress));
}

TRANSFORMERS_SCHEDULE("warmup_stable_decay",
		      "Warm-up, constant, decay (WSD; transformers' warmup_stable_decay).",
		      tf_resolve, NULL);
