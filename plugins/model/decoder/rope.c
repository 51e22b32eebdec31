/* SPDX-License-Identifier: Apache-2.0
 *
 * rope.c - frequencies of rotary positions under the scaling rules of Hugging Face's
 * configurations, whose names and arithmetic these are: each step in fp32, so that a model meets
 * the very angles that it was trained with. Only the power is rounded once from fp64: there libm
 * may differ in bits that are far below.
 */
#include "decoder.h"

#include <math.h>

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
	return (double)o->head_dim *
	       log((double)o->rope_original_context / (rotations * 2 * M_PI)) /
	       (2 * log(o->rope_theta));
}

/* YaRN (Peng et al. 2023): pairs of many rotations are left, those of few are stretched, with a
 * ramp between. */
static float yarn(const struct decoder_opts *o, int64_t i, float f, float power)
{
	double first = fmax(floor(yarn_pair(o, o->rope_beta_fast)), 0);
	double last = fmin(ceil(yarn_pair(o, o->rope_beta_slow)), (double)o->head_dim - 1);
	float ramp, stretched = 1 / ((float)o->rope_factor * power);
	if (first == last)
		last += 0.001;
	ramp = ((float)i - (float)first) / (float)(last - first);
	ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
	return stretched * ramp + f * (1 - ramp);
}

void rope_frequencies(const struct decoder_opts *o, float *frequency)
{
	int64_t i;
	for (i = 0; i < o->head_dim / 2; i++) {
		float power = (float)pow(o->rope_theta,
					 (double)((float)(2 * i) / (float)o->head_dim)),
		      f = 1 / power;
		switch (o->rope_scaling) {
		case ROPE_LINEAR:
			f /= (float)o->rope_factor;
			break;
		case ROPE_LLAMA3:
			f = llama3(o, f);
			break;
		case ROPE_YARN:
			f = yarn(o, i, f, power);
			break;
		/* ROPE_DYNAMIC changes only sequences longer than the context, which are refused */
		default:
			break;
		}
		frequency[i] = f;
	}
}

/* YaRN scales queries and keys alike. */
double rope_gain(const struct decoder_opts *o)
{
	return o->rope_scaling == ROPE_YARN ? o->rope_attention * o->rope_attention : 1;
}
