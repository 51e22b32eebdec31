/* SPDX-License-Identifier: Apache-2.0
 *
 * qwen3.c - model/qwen3: Qwen3 (Yang et al. 2025): Llama's block with an RMSNorm of each head of q
 * and k.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none",     "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b",
				     "qwen3-8b", "qwen3-14b",  "qwen3-32b",  NULL };

#define QWEN3(l, h, c, f) SHAPE(l, h, 8, c, f, 40960, 151936)
static const struct decoder_opts presets[] = {
	{ 0 },
	{ QWEN3(28, 16, 1024, 3072), .tied = 1 },
	{ QWEN3(28, 16, 2048, 6144), .tied = 1 },
	{ QWEN3(36, 32, 2560, 9728), .tied = 1 },
	{ QWEN3(36, 32, 4096, 12288) },
	{ QWEN3(40, 40, 5120, 17408) },
	{ QWEN3(64, 64, 5120, 25600) },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),    OPT_TIED("no"),
	OPT_QKV_BIAS,         OPT_O_BIAS,
	OPT_NORM_EPS("1e-6"), OPT_ROPE_THETA("1000000"),
	OPTS_ROPE_SCALING,    OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSOR(NORM1_W, "input_layernorm.weight"),          TENSORS_QKVO,  TENSORS_QK_NORM,
	TENSOR(NORM2_W, "post_attention_layernorm.weight"), TENSORS_GATED, TENSORS_QKVO_BIASES,
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEY_YES_NO("tie_word_embeddings", "tied", "false"),
	KEYS_ATTENTION_BIAS,
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-6"),
	KEYS_ROPE("10000"),
	/* what there is one way of */
	KEY_MUST("architectures", "Qwen3ForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_MUST("attention_dropout", "0"),
	KEY_ONLY("use_sliding_window", "false"),
	KEY_MUST("sliding_window", NULL), /* not in use */
	KEY_MUST("max_window_layers", NULL),
	KEY_MUST("layer_types", "full_attention"),
};

static const char *const types[] = { "qwen3", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const struct family family = {
	DECODER_TABLES,
	.type = "qwen3",
	.architecture = "Qwen3ForCausalLM",
	.misfit = decoder_biases_differ,
	.base = { .head_dim = 128, .norm_eps = 1e-6, .rope_theta = 1e6 },
	NAMES_AROUND_BLOCKS,
};

DECODER_PLUGIN("qwen3", "Qwen3: Llama's block with norms of queries and keys");
