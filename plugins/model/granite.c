/* SPDX-License-Identifier: Apache-2.0
 *
 * granite.c - model/granite: Granite 3 (IBM 2024): Llama's block with a factor each for the
 * embedding, the scores, the branches and the logits.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "granite3.1-2b", "granite3.1-8b", NULL };

#define GRANITE3                                                                                   \
	.tied = 1, .norm_eps = 1e-5, .rope_theta = 5e6, .embed_gain = 12, .residual_gain = 0.22
static const struct decoder_opts presets[] = {
	{ 0 },
	{ SHAPE(40, 32, 8, 2048, 8192, 131072, 49155), GRANITE3, .score_gain = 0.015625,
	  .logit_divisor = 8 },
	{ SHAPE(40, 32, 8, 4096, 12800, 131072, 49155), GRANITE3, .score_gain = 0.0078125,
	  .logit_divisor = 16 },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),
	OPT_TIED("no"),
	OPT_QKV_BIAS,
	OPT_O_BIAS,
	OPT_MLP_BIAS,
	OPT_REAL(embed_gain, "1", "The embedding is multiplied by it."),
	OPT_REAL(residual_gain, "1", "What a branch adds is multiplied by it."),
	OPT_REAL(score_gain, "1", "Attention's scores are multiplied by it."),
	OPT_REAL(logit_divisor, "1", "The logits are divided by it."),
	OPT_NORM_EPS("1e-6"),
	OPT_ROPE_THETA("10000"),
	OPTS_ROPE_SCALING,
	OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSORS_QKVO,
	TENSORS_QKVO_BIASES,
	TENSORS_GATED,
	TENSORS_GATED_BIASES,
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEY_YES_NO("tie_word_embeddings", "tied", "false"),
	KEYS_ATTENTION_BIAS,
	KEY_YES_NO("mlp_bias", "mlp_bias", "false"),
	KEY_DEF("embedding_multiplier", "embed_gain", "1"),
	KEY_DEF("residual_multiplier", "residual_gain", "1"),
	KEY_DEF("attention_multiplier", "score_gain", "1"),
	KEY_DEF("logits_scaling", "logit_divisor", "1"),
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-6"),
	KEYS_ROPE("10000"),
	/* what there is one way of */
	KEY_MUST("architectures", "GraniteForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_MUST("attention_dropout", "0"),
};

static const char *const types[] = { "granite", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const struct family family = {
	DECODER_TABLES,
	.type = "granite",
	.architecture = "GraniteForCausalLM",
	.misfit = decoder_biases_differ,
	.base = { .norm_eps = 1e-6,
		  .embed_gain = 1,
		  .residual_gain = 1,
		  .score_gain = 1,
		  .logit_divisor = 1 },
	NAMES_AROUND_BLOCKS,
};

DECODER_PLUGIN("granite", "Granite 3: Llama's block with a factor at every sum");
