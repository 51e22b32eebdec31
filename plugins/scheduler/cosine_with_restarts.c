/* SPDX-License-Identifier: Apache-2.0
 *
 * cosine_with_restarts.c - transformers' cosine_with_restarts: half a cosine wave down to 0, again
 * and again.
 */
#include "transformers.h"

static const struct zr_opt options[] = {
	TF_WARMUP,
	TF_TOTAL,
	TF_CYCLES("1", "Decays from the optimizer's lr to 0 behind the warm-up."),
};

static double factor(const struct tf_opts *o, const struct tf_point *at)
{
	const double progress = tf_progress(at);

	if (at->step < at->warmup)
		return tf_rise(at);
	if (progress >= 1)
		return 0;

	return fmax(0, tf_waves(0.5, fmod(o->num_cycles * progress, 1)));
}

TRANSFORMERS_SCHEDULE("cosine_with_restarts",
		      "Warm-up, then half a cosine to 0, several times (transformers' "
		      "cosine_with_restarts).",
		      tf_resolve, NULL);
