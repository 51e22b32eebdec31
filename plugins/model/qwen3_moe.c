/* SPDX-License-Identifier: Apache-2.0
 *
 * qwen3_moe.c - model/qwen3_moe: Qwen3's mixtures of experts (Yang et al. 2025): an RMSNorm of each
 * head of q and k, and many small experts.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "qwen3-30b-a3b", "qwen3-235b-a22b", NULL };

#define QWEN3_MOE(l, h, c, f)                                                                      \
	SHAPE(l, h, 4, c, f, 40960, 151936), .experts = 128, .experts_per_token = 8,               \
					     .norm_topk_prob = 1, .rope_theta = 1e6
static const struct decoder_opts presets[] = {
	{ 0 },
	{ QWEN3_MOE(48, 32, 2048, 768) },
	{ QWEN3_MOE(94, 64, 4096, 1536) },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),
	OPTS_EXPERTS,
	OPT_NORM_TOPK_PROB("no"),
	OPT_TIED("no"),
	OPT_QKV_BIAS,
	OPT_O_BIAS,
	OPT_NORM_EPS("1e-6"),
	OPT_ROPE_THETA("10000"),
	OPTS_ROPE_SCALING,
	OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSORS_QKVO,
	TENSORS_QK_NORM,
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
	TENSOR(ROUTER_W, "mlp.gate.weight"),
	TENSORS_QKVO_BIASES,
};

static const struct family_key keys[] = {
	KEY("num_hidden_layers", "layers"),
	KEY("num_attention_heads", "heads"),
	KEY("num_key_value_heads", "kv_heads"),
	KEY("head_dim", "head_dim"),
	KEY("hidden_size", "width"),
	KEY_DEF("moe_intermediate_size", "ffn_width", "768"),
	KEY("max_position_embeddings", "context"),
	KEY("vocab_size", "vocabulary"),
	KEYS_EXPERTS("num_experts", "num_local_experts", "128"),
	KEYS_ROUTER,
	KEY_YES_NO("norm_topk_prob", "norm_topk_prob", "false"),
	KEY_YES_NO("tie_word_embeddings", "tied", "false"),
	KEYS_ATTENTION_BIAS,
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-6"),
	KEYS_ROPE("10000"),
	/* what there is one way of */
	KEY_MUST("architectures", "Qwen3MoeForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_ONLY("decoder_sparse_step", "1"),
	KEY_MUST("mlp_only_layers", "null"),
	KEY_MUST("intermediate_size", NULL), /* of layers without experts: there are none */
	KEY_MUST("attention_dropout", "0"),
	KEY_ONLY("use_sliding_window", "false"),
	KEY_MUST("sliding_window", NULL), /* not in use */
	KEY_MUST("max_window_layers", NULL),
	/* of Qwen3-Coder's files; its class does not read them */
	KEY_MUST("qkv_bias", "false"),
	KEY_MUST("use_qk_norm", "true"),
	KEY_MUST("shared_expert_intermediate_size", "0"),
};

static const char *const types[] = { "qwen3_moe", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const struct family family = {
	DECODER_TABLES,
	.type = "qwen3_moe",
	.architecture = "Qwen3MoeForCausalLM",
	.misfit = decoder_biases_differ,
	.base = { .head_dim = 128, .norm_eps = 1e-6 },
	NAMES_AROUND_BLOCKS,
	.experts = "mlp.experts",
	.expert = { "gate_proj.weight", "up_proj.weight", "down_proj.weight" },
};

DECODER_PLUGIN("qwen3_moe", "Qwen3-MoE: Qwen3's block with a mixture of experts");
