/* SPDX-License-Identifier: Apache-2.0
 *
 * family_rope.c - see parts.h: rotary positions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/gguf/parts.h"

static int is(const struct zr_gguf_describe *d, const char *rule)
{
	return !strcmp(d->shape->rule, rule);
}

static double part(const struct zr_gguf_describe *d, const char *key)
{
	return json_number_value(json_object_get(d->shape->rope, key));
}

/* Elements of a head that turn. */
static int64_t turning(const struct zr_gguf_describe *d)
{
	const struct zr_gguf_shape *s = d->shape;
	if (d->family->id != ZR_GGUF_PHI3)
		return s->head_dim;

	const char *fraction = zr_gguf_word(d->meta, "partial_rotary_factor");
	return (int64_t)((fraction ? strtod(fraction, NULL) : 1) * (double)s->width) / s->heads;
}

static int refuse_rule(const struct zr_gguf_describe *d, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL,
		      "--gguf: [model] rope_scaling = %s has no words in llama.cpp's %s: export "
		      "without --gguf",
		      d->shape->rule, d->family->name);
}

static void put_rule(const struct zr_gguf_describe *d)
{
	zr_gguf_own_text(d, "rope.scaling.type", d->shape->rule);
	zr_gguf_own_f32(d, "rope.scaling.factor", part(d, "factor"));
}

/* llama.cpp reads neither the gain nor where wavelengths turn in these families: it has the usual
 * ones. */
static int put_yarn(const struct zr_gguf_describe *d, struct zr_error *err)
{
	const double factor = part(d, "factor"), gain = part(d, "attention_factor");
	const double fast = part(d, "beta_fast"), slow = part(d, "beta_slow");

	if (fast != 32 || slow != 1 || fabs(gain - (0.1 * log(factor) + 1)) > 1e-6)
		return zr_err(err, ZR_EINVAL,
			      "--gguf: llama.cpp's %s has yarn with [model] rope_beta_fast = 32, "
			      "rope_beta_slow = 1 and rope_attention = auto alone",
			      d->family->name);

	put_rule(d);
	zr_gguf_own_u32(d, "rope.scaling.original_context_length",
			(int64_t)part(d, "original_max_position_embeddings"));
	return 0;
}

/* Phi-3's gain of long contexts, by the lengths of both. */
static void put_long_gain(const struct zr_gguf_describe *d, int64_t original)
{
	const double growth = (double)d->shape->context / (double)original;
	double gain = 1;

	if (growth > 1)
		gain = sqrt(1 + log(growth) / log((double)original));
	zr_gguf_own_f32(d, "rope.scaling.attn_factor", gain);
}

static int put_phi3(const struct zr_gguf_describe *d, struct zr_error *err)
{
	const int64_t original = zr_gguf_whole(d->meta, "original_max_position_embeddings");

	if (!is(d, "default") && !is(d, "longrope"))
		return refuse_rule(d, err);
	if (json_object_get(d->shape->rope, "attention_factor"))
		return zr_err(err, ZR_EINVAL,
			      "--gguf: llama.cpp's phi3 has the gain that follows from both "
			      "contexts: [model] rope_attention = auto");

	zr_gguf_own_u32(d, "rope.scaling.original_context_length", original);
	zr_gguf_own_u32(d, "rope.dimension_count", turning(d));
	zr_gguf_own_f32(d, "rope.freq_base", d->shape->theta);
	if (is(d, "longrope"))
		put_long_gain(d, original);
	return 0;
}

static int put_scaling(const struct zr_gguf_describe *d, struct zr_error *err)
{
	if (is(d, "default") || (is(d, "llama3") && d->family->turned))
		return 0;
	if (is(d, "yarn") && d->family->id != ZR_GGUF_GEMMA3)
		return put_yarn(d, err);
	if (!is(d, "linear"))
		return refuse_rule(d, err);

	put_rule(d);
	return 0;
}

int zr_gguf_rope_keys(const struct zr_gguf_describe *d, struct zr_error *err)
{
	if (d->family->id == ZR_GGUF_PHI3)
		return put_phi3(d, err);
	if (d->family->id == ZR_GGUF_GEMMA2) /* it has one way */
		return 0;

	int rc = put_scaling(d, err);
	zr_gguf_own_f32(d, "rope.freq_base", d->shape->theta);
	if (d->family->turned)
		zr_gguf_own_u32(d, "rope.dimension_count", turning(d));
	if (d->family->id == ZR_GGUF_GEMMA3)
		zr_gguf_own_f32(d, "rope.freq_base_swa",
				zr_gguf_real(d->meta, "rope_local_base_freq"));
	return rc;
}

/* ---- factors ---- */

/* By how much Llama 3.1 stretches wavelength i: not at all where the original context has many of
 * them, by all of the factor where it has few. In fp32, as llama.cpp's converter computes it. */
static float llama3_factor(const struct zr_gguf_describe *d, int64_t i, int64_t dim)
{
	const float low = (float)part(d, "low_freq_factor"),
		    high = (float)part(d, "high_freq_factor"), factor = (float)part(d, "factor"),
		    original = (float)part(d, "original_max_position_embeddings");
	const float power = (float)pow(d->shape->theta, (double)((float)(2 * i) / (float)dim));
	const float frequency = 1 / power, wavelength = (float)(2 * M_PI) / frequency;

	if (wavelength < original / high)
		return 1;
	if (wavelength > original / low)
		return factor;

	const float smooth = (original / wavelength - low) / (high - low);
	return 1 / ((1 - smooth) / factor + smooth);
}

static int llama3_factors(const struct zr_gguf_describe *d, struct zr_gguf_factors *out,
			  struct zr_error *err)
{
	const int64_t dim = turning(d);

	*out = (struct zr_gguf_factors){ "rope_freqs.weight",
					 calloc((size_t)dim / 2 + 1, sizeof *out->value), dim / 2 };
	if (!out->value)
		return zr_no_memory(err);

	for (int64_t i = 0; i < out->n; i++)
		out->value[i] = llama3_factor(d, i, dim);
	return 0;
}

static int listed_factors(const struct zr_gguf_describe *d, const char *key, const char *name,
			  struct zr_gguf_factors *out, struct zr_error *err)
{
	const json_t *list = json_object_get(d->shape->rope, key);
	const size_t n = json_array_size(list);

	if ((int64_t)n * 2 != turning(d))
		return zr_err(err, ZR_EINVAL,
			      "--gguf: %s has %zu factors, and %lld elements of a head turn", key,
			      n, (long long)turning(d));

	*out = (struct zr_gguf_factors){ name, calloc(n + 1, sizeof *out->value), (int64_t)n };
	if (!out->value)
		return zr_no_memory(err);

	for (size_t i = 0; i < n; i++)
		out->value[i] = (float)json_number_value(json_array_get(list, i));
	return 0;
}

int zr_gguf_rope_factors(const struct zr_gguf_describe *d, struct zr_gguf_factors out[2], int *n,
			 struct zr_error *err)
{
	*n = 0;
	if (is(d, "llama3")) {
		*n = 1;
		return llama3_factors(d, out, err);
	}

	if (!is(d, "longrope"))
		return 0;

	int rc = listed_factors(d, "long_factor", "rope_factors_long.weight", out, err);
	if (rc)
		return rc;

	*n = 1;
	rc = listed_factors(d, "short_factor", "rope_factors_short.weight", out + 1, err);
	if (!rc)
		*n = 2;
	return rc;
}
