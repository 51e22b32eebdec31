/* SPDX-License-Identifier: Apache-2.0
 *
 * gemma.c - model/gemma: Gemma (Gemma team 2024): Llama's block with GeGLU, RMSNorm's factor as
 * 1 + weight, and an embedding that is multiplied by sqrt(width).
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "gemma-2b", "gemma-7b", NULL };
static const struct decoder_opts presets[] = {
	{ 0 },
	{ SHAPE(18, 8, 1, 2048, 16384, 8192, 256000) },
	{ SHAPE(28, 16, 16, 3072, 24576, 8192, 256000) },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),
	OPT_TIED("yes"),
	OPT_ACTIVATION("gelu_tanh"),
	OPT_NORM_EPS("1e-6"),
	OPT_ROPE_THETA("10000"),
	OPTS_ROPE_SCALING,
	OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSORS_QKVO,
	TENSORS_GATED,
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEY_YES_NO("tie_word_embeddings", "tied", "true"),
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-6"),
	KEYS_ROPE("10000"),
	/* The first published files say gelu and were trained with its tanh form, which is what
	 * transformers 5 reads there; 4.57 computes gelu itself. */
	{ .key = { .name = "hidden_act",
		   .option = "activation",
		   .def = "gelu_pytorch_tanh",
		   .values = "gelu_pytorch_tanh=gelu_tanh gelu=gelu_tanh gelu_new=gelu_tanh" },
	  .write = 1 },
	/* what there is one way of */
	KEY_MUST("hidden_activation", "gelu_pytorch_tanh"),
	KEY_MUST("architectures", "GemmaForCausalLM"),
	KEY_ONLY("attention_bias", "false"),
	KEY_MUST("attention_dropout", "0"),
};

static const char *const types[] = { "gemma", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const char *misfit(const struct decoder_opts *o)
{
	return o->activation == ACT_GELU_TANH ?
		       NULL :
		       "activation: Gemma's config.json means gelu_tanh by all its names of it";
}

static const struct family family = {
	DECODER_TABLES,
	.type = "gemma",
	.architecture = "GemmaForCausalLM",
	.misfit = misfit,
	.base = { .tied = 1, .head_dim = 256, .norm_eps = 1e-6, .activation = ACT_GELU_TANH },
	.embed_by_width = 1,
	NAMES_AROUND_BLOCKS,
	.norm_plus_one = 1,
};

DECODER_PLUGIN("gemma", "Gemma: GeGLU, a scaled embedding, RMSNorm by 1 + weight");
