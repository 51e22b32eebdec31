/* SPDX-License-Identifier: Apache-2.0
 *
 * mixtral.c - model/mixtral: Mixtral (Jiang et al. 2024): Llama's block, whose feed-forward part is
 * a mixture of experts.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "mixtral-8x7b", "mixtral-8x22b", NULL };
static const struct decoder_opts presets[] = {
	{ 0 },
	{ SHAPE(32, 32, 8, 4096, 14336, 32768, 32000), .experts = 8, .experts_per_token = 2 },
	{ SHAPE(56, 48, 8, 6144, 16384, 65536, 32768), .experts = 8, .experts_per_token = 2 },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),    OPTS_EXPERTS,
	OPT_TIED("no"),       OPT_WINDOW("0"),
	OPT_NORM_EPS("1e-5"), OPT_ROPE_THETA("1000000"),
	OPTS_ROPE_SCALING,    OPT_INIT_STD("o_proj and w2"),
};

static const struct tensor_name tensors[] = {
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSORS_QKVO,
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
	TENSOR(ROUTER_W, "block_sparse_moe.gate.weight"),
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEYS_EXPERTS("num_local_experts", "num_experts", "8"),
	KEYS_ROUTER,
	KEY_YES_NO("tie_word_embeddings", "tied", "false"),
	KEY_OR_NULL("sliding_window", "window", "0", "0"),
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-5"),
	KEYS_ROPE("1000000"),
	/* what there is one way of */
	KEY_MUST("architectures", "MixtralForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_MUST("attention_dropout", "0"),
	KEY_MUST("router_jitter_noise", "0"),
};

static const char *const types[] = { "mixtral", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const struct family family = {
	DECODER_TABLES,
	.type = "mixtral",
	.architecture = "MixtralForCausalLM",
	.base = { .norm_eps = 1e-5, .rope_theta = 1e6, .norm_topk_prob = 1 },
	NAMES_AROUND_BLOCKS,
	.experts = "block_sparse_moe.experts",
	.expert = { "w1.weight", "w3.weight", "w2.weight" },
};

DECODER_PLUGIN("mixtral", "Mixtral: Llama's block with a mixture of experts");
