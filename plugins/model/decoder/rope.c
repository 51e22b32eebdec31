/* SPDX-License-Identifier: Apache-2.0
 *
 * rope.c - frequencies of rotary positions under the scaling rules of Hugging Face's
 * configurations, whose names and arithmetic these are: each step in fp32, so that a model meets
 * the very angles that it was trained with. Only the power is rounded once from fp64: there libm
 * may differ in bits that are far below.
 */
#include "decoder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Wavelengths beyond the original context over low_freq are stretched by factor, those below it
 * over high_freq are left, and in between the two are mixed. */
static float llama3(const struct decoder_opts *o, float f)
{
	float original = (float)o->rope_original_context, factor = (float)o->rope_factor;
	float low = (float)o->rope_low_freq, high = (float)o->rope_high_freq;
	float length = (float)(2 * M_PI) / f, smooth;
	if (length > original / low)
		return f / factor;
	if (length < original / high)
		return f;

	smooth = (original / length - low) / (high - low);
	return (1 - smooth) * f / factor + smooth * f;
}

/* Index of the pair that turns `rotations` times within the original context. */
static double yarn_pair(const struct decoder_opts *o, double rotations)
{
	return (double)rope_dim(o) *
	       log((double)o->rope_original_context / (rotations * 2 * M_PI)) /
	       (2 * log(o->rope_theta));
}

/* YaRN (Peng et al. 2023): pairs of many rotations are left, those of few are stretched, with a
 * ramp between. */
static float yarn(const struct decoder_opts *o, int64_t i, float f, float power)
{
	double first = fmax(floor(yarn_pair(o, o->rope_beta_fast)), 0);
	double last = fmin(ceil(yarn_pair(o, o->rope_beta_slow)), (double)rope_dim(o) - 1);
	float ramp, stretched = 1 / ((float)o->rope_factor * power);

	if (first == last)
		last += 0.001;
	ramp = ((float)i - (float)first) / (float)(last - first);
	if (ramp < 0)
		ramp = 0;
	else if (ramp > 1)
		ramp = 1;

	return stretched * ramp + f * (1 - ramp);
}

/* LongRoPE (Ding et al. 2024): each pair's wavelength is stretched by its own factor, of one list
 * up to the original context and of another beyond it. */
static int listed(const struct zr_host *h, const char *option, const char *list, int64_t n,
		  double *factor)
{
	const char *at = list ? list : "";
	int64_t i;

	for (i = 0; i < n; i++) {
		char *end;
		at += strspn(at, " \t,[]");
		factor[i] = strtod(at, &end);
		if (end == at || !(factor[i] > 0))
			break;

		at = end;
	}

	at += strspn(at, " \t,[]");
	if (i != n || *at)
		return zr_fail(h, ZR_EINVAL,
			       "%s = %.60s: rope_scaling = longrope needs %lld positive "
			       "numbers, one for each pair of elements that turn",
			       option, list ? list : "", (long long)n);

	return ZR_OK;
}

int64_t rope_dim(const struct decoder_opts *o)
{
	return (int64_t)((double)o->head_dim * o->rope_fraction);
}

static void frequencies(const struct decoder_opts *o, double theta, int32_t scaling,
			const double *factor, struct rope *r)
{
	int64_t i, dim = rope_dim(o);

	r->gain = 1;
	for (i = 0; i < dim / 2; i++) {
		float power = (float)pow(theta, (double)((float)(2 * i) / (float)dim)),
		      f = 1 / power;
		switch (scaling) {
		case ROPE_LINEAR:
			f /= (float)o->rope_factor;
			break;
		case ROPE_LLAMA3:
			f = llama3(o, f);
			break;
		case ROPE_YARN:
			f = yarn(o, i, f, power);
			break;
		case ROPE_LONG:
			f = 1 / ((float)factor[i] * power);
			break;

		/* ROPE_DYNAMIC changes only sequences longer than the context, which are refused */
		default:
			break;
		}
		r->frequency[i] = f;
	}
}

int rope_set_up(const struct zr_host *h, const struct decoder_opts *o, struct rope rope[ROPES])
{
	double theta = o->rope_theta, near_by[ZR_ROTARY_PAIRS] = { 0 },
	       far[ZR_ROTARY_PAIRS] = { 0 };
	int64_t n = rope_dim(o) / 2;
	int rc;

	if (o->rope_scaling == ROPE_LONG &&
	    ((rc = listed(h, "rope_short", o->rope_short, n, near_by)) ||
	     (rc = listed(h, "rope_long", o->rope_long, n, far))))
		return rc;

	frequencies(o, theta, o->rope_scaling, near_by, &rope[ROPE_GLOBAL]);
	frequencies(o, theta, o->rope_scaling, far, &rope[ROPE_FAR]);
	if (o->rope_scaling == ROPE_YARN || o->rope_scaling == ROPE_LONG)
		rope[ROPE_GLOBAL].gain = rope[ROPE_FAR].gain = (float)o->rope_attention;

	if (o->rope_local_theta > 0)
		frequencies(o, o->rope_local_theta, ROPE_DEFAULT, NULL, &rope[ROPE_LOCAL]);

	return ZR_OK;
}
