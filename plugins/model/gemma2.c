/* SPDX-License-Identifier: Apache-2.0
 *
 * gemma2.c - model/gemma2: Gemma 2 (Gemma team 2024): Gemma with norms before and after each
 * branch, soft caps of scores and logits, and a window in every other layer.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "gemma2-2b", "gemma2-9b", "gemma2-27b", NULL };
static const struct decoder_opts presets[] = {
	{ 0 },
	{ SHAPE(26, 8, 4, 2304, 9216, 8192, 256000) },
	{ SHAPE(42, 16, 8, 3584, 14336, 8192, 256000) },
	{ SHAPE(46, 32, 16, 4608, 36864, 8192, 256000), .head_dim = 128, .score_width = 144 },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),
	OPT_TIED("yes"),
	OPT_WINDOW("4096"),
	OPT_LAYER_TYPES,
	OPT_GLOBAL_EVERY("2"),
	OPT_SCORE_WIDTH("256"),
	OPT_SOFTCAP(score_softcap, "50", "attention's scores"),
	OPT_SOFTCAP(logit_softcap, "30", "the logits"),
	OPT_NORM_EPS("1e-6"),
	OPT_ROPE_THETA("10000"),
	OPTS_ROPE_SCALING,
	OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSORS_QKVO,
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
	KEY_OR_NULL("attn_logit_softcapping", "score_softcap", "50", "0"),
	KEY_OR_NULL("final_logit_softcapping", "logit_softcap", "30", "0"),
	KEYS_ROPE("10000"),
	KEY_LIST("layer_types", "layer_types"),
	/* what there is one way of */
	KEY_ONLY("hidden_activation", "gelu_pytorch_tanh"),
	KEY_MUST("hidden_act", "gelu_pytorch_tanh"),
	KEY_MUST("architectures", "Gemma2ForCausalLM"),
	KEY_ONLY("attention_bias", "false"),
	KEY_MUST("attention_dropout", "0"),
	KEY_MUST("cache_implementation", NULL),
};

static const char *const types[] = { "gemma2", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const struct family family = {
	DECODER_TABLES,
	.type = "gemma2",
	.architecture = "Gemma2ForCausalLM",
	.base = { .tied = 1,
		  .head_dim = 256,
		  .norm_eps = 1e-6,
		  .activation = ACT_GELU_TANH,
		  .window = 4096,
		  .global_every = 2,
		  .score_width = 256,
		  .score_softcap = 50,
		  .logit_softcap = 30 },
	.embed_by_width = 1,
	NAMES_AROUND_BLOCKS,
	.norm_plus_one = 1,
};

DECODER_PLUGIN("gemma2", "Gemma 2: norms around the branches, soft caps, alternating windows");
