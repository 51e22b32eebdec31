/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - options of model/llama, presets, and the rules between them.
 */
#include "llama.h"

#include <math.h>

static const char *const names[] = { "none",	   "tinyllama-1.1b", "llama2-7b",   "llama2-13b",
				     "llama3-8b",  "llama3.1-8b",    "llama3.2-1b", "llama3.2-3b",
				     "qwen2-0.5b", "qwen2-1.5b",     "qwen2-7b",    NULL };
static const char *const yes_no[] = { "no", "yes", NULL };
const char *const llama_scalings[] = { "default", "linear", "dynamic", "llama3", "yarn", NULL };

/* As published; indexed by llama_opts.preset. Scaling is llama3's from 8192 positions, where there
 * is a factor. */
static const struct preset {
	int64_t layers, heads, kv_heads, width, ffn_width, context, vocabulary;
	int32_t tied, qkv_bias;
	double norm_eps, rope_theta, rope_factor;
} presets[] = {
	{ 0 },
	{ 22, 32, 4, 2048, 5632, 2048, 32000, 0, 0, 1e-5, 1e4, 0 },
	{ 32, 32, 32, 4096, 11008, 4096, 32000, 0, 0, 1e-5, 1e4, 0 },
	{ 40, 40, 40, 5120, 13824, 4096, 32000, 0, 0, 1e-5, 1e4, 0 },
	{ 32, 32, 8, 4096, 14336, 8192, 128256, 0, 0, 1e-5, 5e5, 0 },
	{ 32, 32, 8, 4096, 14336, 131072, 128256, 0, 0, 1e-5, 5e5, 8 },
	{ 16, 32, 8, 2048, 8192, 131072, 128256, 1, 0, 1e-5, 5e5, 32 },
	{ 28, 24, 8, 3072, 8192, 131072, 128256, 1, 0, 1e-5, 5e5, 32 },
	{ 24, 14, 2, 896, 4864, 131072, 151936, 1, 1, 1e-6, 1e6, 0 },
	{ 28, 12, 2, 1536, 8960, 131072, 151936, 1, 1, 1e-6, 1e6, 0 },
	{ 28, 28, 4, 3584, 18944, 131072, 152064, 0, 1, 1e-6, 1e6, 0 },
};

#define COUNT(name, most, unit, doc) \
	ZR_OPT(struct llama_opts, name, ZR_T_I64, ZR_O_AUTO | ZR_O_NUMERIC, "auto", 1, most, unit, \
	       doc)
#define POSITIVE(name, most, doc) \
	ZR_OPT(struct llama_opts, name, ZR_T_F64, ZR_O_AUTO | ZR_O_NUMERIC | ZR_O_MIN_OPEN, \
	       "auto", 0, most, "", doc)

/* The upper limits keep every product of two of them, in bytes, far below 2^63. */
const struct zr_opt llama_opt[LLAMA_OPTS] = {
	ZR_OPT_ENUM(struct llama_opts, preset, ZR_O_NUMERIC, "none", names,
		    "A published model, whose values those options take that are auto."),
	COUNT(layers, 10000, "", "Transformer blocks; auto: the preset's."),
	COUNT(heads, 1 << 20, "", "Attention heads of queries; auto: the preset's."),
	COUNT(kv_heads, 1 << 20, "",
	      "Heads of keys and values, each shared by heads / kv_heads of the queries; auto: the "
	      "preset's, else heads."),
	COUNT(head_dim, 2 * ZR_ROTARY_PAIRS, "",
	      "Elements of a head, an even number; auto: width / heads."),
	COUNT(width, 1 << 20, "", "Elements of a token's activation; auto: the preset's."),
	COUNT(ffn_width, 1 << 22, "",
	      "Elements between the products of the feed-forward part; auto: the preset's, else "
	      "8/3 of width, up to a multiple of 64."),
	COUNT(context, 1 << 24, "tokens", "The longest sequence; auto: the preset's."),
	ZR_OPT(struct llama_opts, vocabulary, ZR_T_I64, ZR_O_AUTO | ZR_O_NUMERIC, "auto", 2,
	       INT32_MAX, "tokens", "Different tokens; auto: the preset's, else the data's."),
	ZR_OPT_ENUM(struct llama_opts, tied, ZR_O_AUTO | ZR_O_NUMERIC, "auto", yes_no,
		    "Whether the output projection is the embedding; auto: the preset's, else no."),
	ZR_OPT_ENUM(
		struct llama_opts, qkv_bias, ZR_O_AUTO | ZR_O_NUMERIC, "auto", yes_no,
		"Whether queries, keys and values have biases, as in Qwen2; auto: the preset's, "
		"else no."),
	POSITIVE(norm_eps, 1,
		 "What the norms add to the mean square; auto: the preset's, else 1e-5."),
	ZR_OPT(struct llama_opts, rope_theta, ZR_T_F64, ZR_O_AUTO | ZR_O_NUMERIC | ZR_O_MIN_OPEN,
	       "auto", 1, 1e12, "",
	       "Base of the wavelengths of rotary positions; auto: the preset's, else 10000."),
	ZR_OPT_ENUM(
		struct llama_opts, rope_scaling, ZR_O_AUTO | ZR_O_NUMERIC, "auto", llama_scalings,
		"How these wavelengths are stretched; dynamic: only beyond context. auto: the "
		"preset's, else default."),
	ZR_OPT(struct llama_opts, rope_factor, ZR_T_F64, ZR_O_AUTO | ZR_O_NUMERIC, "auto", 1, 1e6,
	       "", "How far; auto: the preset's."),
	POSITIVE(
		rope_low_freq, 1e6,
		"llama3: wavelengths beyond rope_original_context over this are stretched; auto: "
		"1."),
	POSITIVE(rope_high_freq, 1e6,
		 "llama3: those below rope_original_context over this are left; auto: 4."),
	POSITIVE(rope_beta_fast, 1e6,
		 "yarn: pairs that turn oftener within rope_original_context are left; auto: 32."),
	POSITIVE(rope_beta_slow, 1e6, "yarn: pairs that turn less often are stretched; auto: 1."),
	POSITIVE(rope_attention, 1e6,
		 "yarn: factor of queries and keys; auto: 0.1 ln(rope_factor) + 1."),
	COUNT(rope_original_context, 1 << 24, "tokens",
	      "The context before wavelengths were stretched; auto: the preset's, else context."),
	ZR_OPT(struct llama_opts, init_std, ZR_T_F64, ZR_O_NUMERIC, "0.02", 0, 100, "",
	       "Standard deviation of initial weights; o_proj and down_proj get it divided by "
	       "sqrt(2 layers)."),
};

/* Fills *value from the preset or, without one, from what is otherwise known (0: nothing). */
static int fill(const struct zr_host *h, const char *key, int64_t *value, int64_t preset,
		int64_t known)
{
	if (*value != ZR_AUTO_I64)
		return ZR_OK;
	*value = preset ? preset : known;
	if (*value)
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL, "%s is not set: give it, or choose a preset", key);
}

static void fill_enum(int32_t *value, int32_t preset)
{
	if (*value == ZR_AUTO_ENUM)
		*value = preset;
}

static void fill_real(double *value, double preset, double known)
{
	if (isnan(*value))
		*value = preset > 0 ? preset : known;
}

static int resolve_shape(const struct zr_host *h, struct llama_opts *o, const struct preset *p,
			 int64_t data_vocabulary)
{
	int rc = fill(h, "layers", &o->layers, p->layers, 0);
	if (!rc)
		rc = fill(h, "heads", &o->heads, p->heads, 0);
	if (!rc)
		rc = fill(h, "width", &o->width, p->width, 0);
	if (!rc)
		rc = fill(h, "context", &o->context, p->context, 0);
	if (!rc)
		rc = fill(h, "vocabulary", &o->vocabulary, p->vocabulary, data_vocabulary);
	if (rc)
		return rc;
	if (o->head_dim == ZR_AUTO_I64 && o->width % o->heads)
		return zr_fail(
			h, ZR_EINVAL,
			"heads = %lld does not divide width = %lld: give head_dim, or other heads",
			(long long)o->heads, (long long)o->width);
	fill(h, "kv_heads", &o->kv_heads, p->kv_heads, o->heads);
	fill(h, "ffn_width", &o->ffn_width, p->ffn_width, (o->width * 8 / 3 + 63) / 64 * 64);
	return fill(h, "head_dim", &o->head_dim, 0, o->width / o->heads);
}

static int resolve_rope(const struct zr_host *h, struct llama_opts *o, const struct preset *p)
{
	fill_real(&o->rope_theta, p->rope_theta, 1e4);
	fill_enum(&o->rope_scaling, p->rope_factor > 0 ? ROPE_LLAMA3 : ROPE_DEFAULT);
	fill_real(&o->rope_factor, p->rope_factor, o->rope_scaling == ROPE_DEFAULT ? 1 : 0);
	if (!(o->rope_factor > 0))
		return zr_fail(h, ZR_EINVAL, "rope_factor is not set: rope_scaling = %s needs it",
			       llama_scalings[o->rope_scaling]);
	fill_real(&o->rope_low_freq, 0, 1);
	fill_real(&o->rope_high_freq, 0, 4);
	fill_real(&o->rope_beta_fast, 0, 32);
	fill_real(&o->rope_beta_slow, 0, 1);
	fill_real(&o->rope_attention, 0, 0.1 * log(o->rope_factor) + 1);
	return fill(h, "rope_original_context", &o->rope_original_context,
		    p->rope_factor > 0 ? 8192 : 0, o->context);
}

int llama_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct llama_opts *o = opts;
	const struct preset *p = &presets[o->preset];
	int rc = resolve_shape(h, o, p,
			       ZR_HAS(facts, struct zr_facts, vocabulary) ? facts->vocabulary : 0);
	if (rc)
		return rc;
	fill_enum(&o->tied, p->tied);
	fill_enum(&o->qkv_bias, p->qkv_bias);
	fill_real(&o->norm_eps, p->norm_eps, 1e-5);
	return resolve_rope(h, o, p);
}

int llama_check(const struct zr_host *h, const void *opts)
{
	const struct llama_opts *o = opts;
	if (o->heads % o->kv_heads)
		return zr_fail(h, ZR_EINVAL, "kv_heads = %lld does not divide heads = %lld",
			       (long long)o->kv_heads, (long long)o->heads);
	if (o->head_dim % 2 || o->head_dim > 2 * ZR_ROTARY_PAIRS)
		return zr_fail(
			h, ZR_EINVAL,
			"head_dim = %lld: rotary positions need an even number of at most %d",
			(long long)o->head_dim, 2 * ZR_ROTARY_PAIRS);
	if (o->rope_scaling == ROPE_LLAMA3 && o->rope_low_freq >= o->rope_high_freq)
		return zr_fail(h, ZR_EINVAL, "rope_low_freq = %g is not below rope_high_freq = %g",
			       o->rope_low_freq, o->rope_high_freq);
	return ZR_OK;
}
