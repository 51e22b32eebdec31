/* SPDX-License-Identifier: Apache-2.0
 *
 * smollm3.c - model/smollm3: SmolLM3 (Bakouch et al. 2025): Llama's block, without positions in
 * every fourth layer.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "smollm3-3b", NULL };
static const struct decoder_opts presets[] = {
	{ 0 },
	{ SHAPE(36, 16, 4, 2048, 11008, 65536, 128256), .rope_theta = 5e6, .tied = 1 },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),
	OPT_TIED("yes"),
	OPT_QKV_BIAS,
	OPT_O_BIAS,
	OPT_MLP_BIAS,
	OPT_COUNT0(rope_skip_every, 10000, "",
		   "With n, each n-th layer does without positions; 0: none. auto: 4."),
	ZR_OPT(struct decoder_opts, rope_layers, ZR_T_STR, ZR_O_NUMERIC, "", 0, 0, "",
	       "For each layer 1, which knows positions, or 0; empty: rope_skip_every says it."),
	OPT_NORM_EPS("1e-6"),
	OPT_ROPE_THETA("2000000"),
	OPTS_ROPE_SCALING,
	OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSORS_QKVO,
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
	TENSORS_GATED,
	TENSORS_QKVO_BIASES,
	TENSORS_GATED_BIASES,
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEY_YES_NO("tie_word_embeddings", "tied", "true"),
	KEYS_ATTENTION_BIAS,
	KEY_YES_NO("mlp_bias", "mlp_bias", "false"),
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-6"),
	KEY_DEF("no_rope_layer_interval", "rope_skip_every", "4"),
	KEY_LIST("no_rope_layers", "rope_layers"), /* despite its name 1 is: with positions */
	KEYS_ROPE("2000000"),
	/* what there is one way of */
	KEY_MUST("architectures", "SmolLM3ForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_MUST("attention_dropout", "0"),
	KEY_ONLY("use_sliding_window", "false"),
	KEY_MUST("sliding_window", NULL), /* not in use */
	KEY_MUST("max_window_layers", NULL),
	KEY_MUST("layer_types", "full_attention"),
	KEY_MUST("pretraining_tp", NULL),
};

static const char *const types[] = { "smollm3", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const struct family family = {
	DECODER_TABLES,
	.type = "smollm3",
	.architecture = "SmolLM3ForCausalLM",
	.misfit = decoder_biases_differ,
	.base = { .tied = 1, .norm_eps = 1e-6, .rope_theta = 2e6, .rope_skip_every = 4 },
	NAMES_AROUND_BLOCKS,
};

DECODER_PLUGIN("smollm3", "SmolLM3: Llama's block, without positions in some layers");
