/* SPDX-License-Identifier: Apache-2.0
 *
 * olmoe.c - model/olmoe: OLMoE (Muennighoff et al. 2024): an RMSNorm of all heads of q and of k at
 * once, and a mixture of experts whose weights are not divided by their sum.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "olmoe-1b-7b", NULL };
static const struct decoder_opts presets[] = {
	{ 0 },
	{ SHAPE(16, 16, 16, 2048, 1024, 4096, 50304), .experts = 64, .experts_per_token = 8 },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),        OPTS_EXPERTS,
	OPT_NORM_TOPK_PROB("no"), OPT_TIED("no"),
	OPT_NORM_EPS("1e-5"),     OPT_ROPE_THETA("10000"),
	OPTS_ROPE_SCALING,        OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSORS_QKVO,
	TENSORS_QK_NORM,
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
	TENSOR(ROUTER_W, "mlp.gate.weight"),
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEYS_EXPERTS("num_experts", "num_local_experts", "64"),
	KEYS_ROUTER,
	KEY_YES_NO("norm_topk_prob", "norm_topk_prob", "false"),
	KEY_YES_NO("tie_word_embeddings", "tied", "false"),
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-5"),
	KEYS_ROPE("10000"),
	/* what there is one way of */
	KEY_MUST("architectures", "OlmoeForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_ONLY("attention_bias", "false"),
	KEY_MUST("attention_dropout", "0"),
	KEY_MUST("clip_qkv", "null"),
};

static const char *const types[] = { "olmoe", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const char *misfit(const struct decoder_opts *o)
{
	if (o->head_dim * o->heads == o->width)
		return NULL;

	return "head_dim: OlmoeForCausalLM has width / heads, and no other";
}

static const struct family family = {
	DECODER_TABLES,
	.type = "olmoe",
	.architecture = "OlmoeForCausalLM",
	.misfit = misfit,
	.base = { .norm_eps = 1e-5 },
	NAMES_AROUND_BLOCKS,
	.experts = "mlp.experts",
	.expert = { "gate_proj.weight", "up_proj.weight", "down_proj.weight" },
	.qk_norm_whole = 1,
};

DECODER_PLUGIN("olmoe", "OLMoE: norms of queries and keys, and a mixture of experts");
