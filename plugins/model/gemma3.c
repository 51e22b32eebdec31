/* SPDX-License-Identifier: Apache-2.0
 *
 * gemma3.c - model/gemma3: the text model of Gemma 3 (Gemma team 2025): Gemma 2 with norms of q and
 * k in place of soft caps, and a window, with rotary positions of its own, in five of six layers.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "gemma3-270m", "gemma3-1b", NULL };
static const struct decoder_opts presets[] = {
	{ 0 },
	{ SHAPE(18, 4, 1, 640, 2048, 32768, 262144) },
	{ SHAPE(26, 4, 1, 1152, 6912, 32768, 262144) },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),
	OPT_TIED("yes"),
	OPT_WINDOW("512"),
	OPT_LAYER_TYPES,
	OPT_GLOBAL_EVERY("6"),
	OPT_SCORE_WIDTH("256"),
	OPT_SOFTCAP(score_softcap, "0", "attention's scores"),
	OPT_SOFTCAP(logit_softcap, "0", "the logits"),
	OPT_NORM_EPS("1e-6"),
	OPT_ROPE_THETA("1000000"),
	OPT_REAL(rope_local_theta, "10000", "rope_theta of the layers with a window."),
	OPTS_ROPE_SCALING,
	OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSORS_QKVO,
	TENSORS_QK_NORM,
	TENSORS_GATED,
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSOR(AFTER1_W, "post_attention_layernorm.weight"),
	TENSOR(NORM2_W, "pre_feedforward_layernorm.weight"),
	TENSOR(AFTER2_W, "post_feedforward_layernorm.weight"),
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEY_YES_NO("tie_word_embeddings", "tied", "true"),
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-6"),
	KEY_DEF("sliding_window", "window", "4096"),
	KEY_DEF("query_pre_attn_scalar", "score_width", "256"),
	KEY_MUST("attn_logit_softcapping", "null"), /* transformers does not compute it */
	KEY_OR_NULL("final_logit_softcapping", "logit_softcap", NULL, "0"),
	KEY_DEF("sliding_window_pattern", "global_every", "6"),
	KEY_MUST("_sliding_window_pattern", NULL), /* transformers writes it and does not read it */
	KEY("rope_theta", "rope_theta"),
	KEY("rope_local_base_freq", "rope_local_theta"),
	KEYS_ROPE_IN("rope_scaling"),
	KEYS_ROPE_IN("rope_parameters.full_attention"),
	KEY_MUST("original_max_position_embeddings", NULL), /* 5 reads the one inside */
	KEY_READ("rope_parameters.sliding_attention.rope_theta", "rope_local_theta"),
	KEY_MUST("rope_parameters.sliding_attention.rope_type", "default"),
	KEY_MUST("rope_parameters.sliding_attention.type", "default"),
	KEY_MUST("rope_parameters.sliding_attention.partial_rotary_factor", "1"),
	KEY_LIST("layer_types", "layer_types"),
	/* what there is one way of */
	KEY_ONLY("hidden_activation", "gelu_pytorch_tanh"),
	KEY_MUST("hidden_act", "gelu_pytorch_tanh"),
	KEY_MUST("architectures", "Gemma3ForCausalLM"),
	KEY_ONLY("attention_bias", "false"),
	KEY_MUST("attention_dropout", "0"),
	KEY_MUST("cache_implementation", NULL),
	KEY_MUST("use_bidirectional_attention", "false"),
};

static const char *const types[] = { "gemma3_text", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const char *misfit(const struct decoder_opts *o)
{
	return o->score_softcap > 0 ?
		       "score_softcap: Gemma3ForCausalLM has norms of q and k in its place" :
		       NULL;
}

static const struct family family = {
	DECODER_TABLES,
	.type = "gemma3_text",
	.architecture = "Gemma3ForCausalLM",
	.misfit = misfit,
	.base = { .tied = 1,
		  .head_dim = 256,
		  .norm_eps = 1e-6,
		  .activation = ACT_GELU_TANH,
		  .window = 512,
		  .global_every = 6,
		  .score_width = 256,
		  .rope_theta = 1e6,
		  .rope_local_theta = 1e4 },
	.embed_by_width = 1,
	NAMES_AROUND_BLOCKS,
	.norm_plus_one = 1,
};

DECODER_PLUGIN("gemma3", "Gemma 3 (text): norms of queries and keys, windows in most layers");
