/* SPDX-License-Identifier: Apache-2.0
 *
 * polynomial.c - transformers' polynomial: up to the optimizer's lr, then a power of what is left
 * of the run, down to lr_end.
 */
#include "transformers.h"

static const struct zr_opt options[] = {
	TF_WARMUP,
	TF_TOTAL,
	ZR_OPT(struct tf_opts, lr_end, ZR_T_F64, ZR_O_NUMERIC, "1e-7", 0, ZR_HI, "",
	       "Learning rate at the end of the decay, below each group's own lr."),
	ZR_OPT(struct tf_opts, power, ZR_T_F64, ZR_O_NUMERIC, "1", 0, ZR_HI, "",
	       "Power of the share of the decay that is left; 1 is a straight line."),
};

static double factor(const struct tf_opts *o, const struct tf_point *at)
{
	const int64_t length = at->total - at->warmup;
	if (at->step < at->warmup)
		return tf_rise(at);
	if (at->step > at->total || length <= 0)
		return o->lr_end / at->base;

	const double left = 1 - (double)(at->step - at->warmup) / (double)length;
	return ((at->base - o->lr_end) * pow(left, o->power) + o->lr_end) / at->base;
}

static int resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	const struct tf_opts *o = opts;
	if (facts->lr <= o->lr_end)
		return zr_fail(h, ZR_EINVAL, "lr_end = %g is not below the optimizer's lr = %g",
			       o->lr_end, facts->lr);

	return tf_resolve(h, facts, opts);
}

TRANSFORMERS_SCHEDULE("polynomial",
		      "Warm-up, then a polynomial down to lr_end (transformers' polynomial).",
		      resolve, NULL);
