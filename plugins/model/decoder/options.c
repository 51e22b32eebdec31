/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - from what is given, a preset and a family's own values to all options, and the rules
 * between them.
 */
#include "decoder.h"

#include <math.h>
#include <string.h>

const char *const decoder_scalings[] = { "default", "linear",   "dynamic", "llama3",
					 "yarn",    "longrope", NULL };
const char *const decoder_yes_no[] = { "no", "yes", NULL };
const char *const decoder_activations[] = { "silu", "gelu_tanh", "gelu", NULL };

static int is_auto(const struct zr_opt *o, const void *at)
{
	switch (o->type) {
	case ZR_T_I64:
		return *(const int64_t *)at == ZR_AUTO_I64;
	case ZR_T_ENUM:
		return *(const int32_t *)at == ZR_AUTO_ENUM;
	case ZR_T_F64:
		return isnan(*(const double *)at);
	default:
		return 0;
	}
}

static int is_zero(const struct zr_opt *o, const void *at)
{
	static const char zero[8];
	return !memcmp(at, zero, o->width);
}

/* What the family's table has: as given; where auto, as the preset or else the family says. */
static void merge(const struct family *f, struct decoder_opts *o)
{
	const struct decoder_opts *preset = &f->presets[o->preset];
	struct decoder_opts all = f->base;
	uint32_t i;

	for (i = 0; i < f->n_opts; i++) {
		const struct zr_opt *e = &f->opts[i];
		const char *from = (const char *)o + e->offset;
		if (is_auto(e, from)) {
			from = (const char *)preset + e->offset;
			if (is_zero(e, from))
				continue;
		}

		memcpy((char *)&all + e->offset, from, e->width);
	}

	*o = all;
}

static int needed(const struct zr_host *h, const struct family *f, const char *key, int64_t value)
{
	if (!value)
		return zr_fail(h, ZR_EINVAL, "%s is not set: give it, or choose a %s", key,
			       f->opts[0].name);

	return ZR_OK;
}

static int offers(const struct family *f, const char *name)
{
	uint32_t i;
	for (i = 0; i < f->n_opts; i++)
		if (!strcmp(f->opts[i].name, name))
			return 1;

	return 0;
}

static void otherwise(double *value, double known)
{
	if (!(*value > 0))
		*value = known;
}

static int settle_shape(const struct zr_host *h, const struct family *f, struct decoder_opts *o)
{
	int rc = needed(h, f, "layers", o->layers);
	if (!rc && f->experts)
		rc = needed(h, f, "experts", o->experts);
	if (!rc && f->experts)
		rc = needed(h, f, "experts_per_token", o->experts_per_token);
	if (!rc)
		rc = needed(h, f, "heads", o->heads);
	if (!rc)
		rc = needed(h, f, "width", o->width);
	if (!rc)
		rc = needed(h, f, "context", o->context);
	if (!rc)
		rc = needed(h, f, "vocabulary", o->vocabulary);
	if (rc)
		return rc;
	if (!o->head_dim && o->width % o->heads)
		return zr_fail(h, ZR_EINVAL, "heads = %lld does not divide width = %lld%s",
			       (long long)o->heads, (long long)o->width,
			       offers(f, "head_dim") ? ": give head_dim, or other heads" : "");
	if (!o->head_dim)
		o->head_dim = o->width / o->heads;
	if (!o->kv_heads)
		o->kv_heads = o->heads;
	if (!o->ffn_width)
		o->ffn_width = (o->width * 8 / 3 + 63) / 64 * 64;
	if (!o->score_width)
		o->score_width = o->head_dim;

	return ZR_OK;
}

double rope_growth(const struct decoder_opts *o)
{
	return fmax(1, (double)o->context / (double)o->rope_original_context);
}

double rope_attention_of(const struct decoder_opts *o, double factor)
{
	if (o->rope_scaling != ROPE_LONG)
		return 0.1 * log(factor) + 1;
	if (factor <= 1)
		return 1;

	return sqrt(1 + log(factor) / log((double)o->rope_original_context));
}

static int settle_rope(const struct zr_host *h, struct decoder_opts *o)
{
	otherwise(&o->rope_theta, 1e4);
	if (!o->rope_original_context)
		o->rope_original_context = o->context;
	if (o->rope_scaling == ROPE_LONG)
		otherwise(&o->rope_factor, rope_growth(o));
	if (o->rope_scaling == ROPE_DEFAULT)
		otherwise(&o->rope_factor, 1);
	if (!(o->rope_factor > 0))
		return zr_fail(h, ZR_EINVAL, "rope_factor is not set: rope_scaling = %s needs it",
			       decoder_scalings[o->rope_scaling]);

	otherwise(&o->rope_low_freq, 1);
	otherwise(&o->rope_high_freq, 4);
	otherwise(&o->rope_beta_fast, 32);
	otherwise(&o->rope_beta_slow, 1);
	otherwise(&o->rope_attention, rope_attention_of(o, o->rope_factor));
	otherwise(&o->rope_fraction, 1);
	return ZR_OK;
}

int decoder_resolve(const struct zr_host *h, const struct zr_facts *facts, const struct family *f,
		    struct decoder_opts *o)
{
	int rc;

	merge(f, o);
	if (!o->vocabulary && ZR_HAS(facts, struct zr_facts, vocabulary))
		o->vocabulary = facts->vocabulary;
	otherwise(&o->norm_eps, 1e-5);
	if (f->embed_by_width)
		o->embed_gain = sqrt((double)o->width);
	if (f->settle)
		rc = f->settle(h, o);
	else
		rc = ZR_OK;
	if (!rc)
		rc = settle_shape(h, f, o);
	if (rc || f->positions)
		return rc;

	return settle_rope(h, o);
}

static int has_gate(const struct family *f)
{
	uint32_t i;
	for (i = 0; i < f->n_tensors; i++)
		if (f->tensors[i].tensor == GATE_W || f->tensors[i].tensor == GATE_UP_W)
			return 1;

	return 0;
}

int decoder_check(const struct zr_host *h, const struct family *f, const struct decoder_opts *o)
{
	uint8_t kind[DECODER_LAYERS];
	int rc;

	if (o->heads % o->kv_heads)
		return zr_fail(h, ZR_EINVAL, "kv_heads = %lld does not divide heads = %lld",
			       (long long)o->kv_heads, (long long)o->heads);
	if (o->experts_per_token > o->experts)
		return zr_fail(h, ZR_EINVAL, "experts_per_token = %lld is more than experts = %lld",
			       (long long)o->experts_per_token, (long long)o->experts);
	if (!has_gate(f) && !f->experts && o->activation == ACT_SILU)
		return zr_fail(h, ZR_EINVAL,
			       "activation = silu needs a gate, which this model has not: gelu or "
			       "gelu_tanh");
	if (f->positions)
		return ZR_OK;

	rc = decoder_kinds(h, o, kind);
	if (rc)
		return rc;
	if (o->head_dim % 2 || o->head_dim > 2 * ZR_ROTARY_PAIRS)
		return zr_fail(
			h, ZR_EINVAL,
			"head_dim = %lld: rotary positions need an even number of at most %d",
			(long long)o->head_dim, 2 * ZR_ROTARY_PAIRS);
	if (rope_dim(o) % 2 || !rope_dim(o))
		return zr_fail(h, ZR_EINVAL,
			       "rope_fraction = %g of head_dim = %lld is no even number",
			       o->rope_fraction, (long long)o->head_dim);
	if (o->rope_scaling == ROPE_LLAMA3 && o->rope_low_freq >= o->rope_high_freq)
		return zr_fail(h, ZR_EINVAL, "rope_low_freq = %g is not below rope_high_freq = %g",
			       o->rope_low_freq, o->rope_high_freq);

	return ZR_OK;
}

/* The keys that not every rule of rotary scaling reads, and the rules that do. */
#define READ_BY(rule) (1u << (rule))
static const struct {
	const char *key;
	uint32_t by;
} rule_keys[] = {
	{ "factor", READ_BY(ROPE_LINEAR) | READ_BY(ROPE_DYNAMIC) | READ_BY(ROPE_LLAMA3) |
			    READ_BY(ROPE_YARN) | READ_BY(ROPE_LONG) },
	{ "low_freq_factor", READ_BY(ROPE_LLAMA3) },
	{ "high_freq_factor", READ_BY(ROPE_LLAMA3) },
	{ "beta_fast", READ_BY(ROPE_YARN) },
	{ "beta_slow", READ_BY(ROPE_YARN) },
	{ "attention_factor", READ_BY(ROPE_YARN) | READ_BY(ROPE_LONG) },
	{ "short_factor", READ_BY(ROPE_LONG) },
	{ "long_factor", READ_BY(ROPE_LONG) },
	/* transformers 4 lets dynamic scaling have it, and does not use it there */
	{ "original_max_position_embeddings",
	  READ_BY(ROPE_DYNAMIC) | READ_BY(ROPE_LLAMA3) | READ_BY(ROPE_YARN) | READ_BY(ROPE_LONG) },
};

int decoder_accepts(const struct zr_host *h, const struct family *f, const void *opts,
		    const char *key, const char *value)
{
	struct decoder_opts o = *(const struct decoder_opts *)opts;
	const char *inner = strrchr(key, '.');
	size_t i;

	(void)value;
	merge(f, &o);
	inner = inner ? inner + 1 : key;
	for (i = 0; i < sizeof rule_keys / sizeof *rule_keys; i++)
		if (!strcmp(rule_keys[i].key, inner) &&
		    !(rule_keys[i].by & READ_BY(o.rope_scaling)))
			return zr_fail(h, ZR_EINVAL, "rope_type = %s does not read it: take it out",
				       decoder_scalings[o.rope_scaling]);

	return ZR_OK;
}
