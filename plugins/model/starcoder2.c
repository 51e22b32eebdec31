/* SPDX-License-Identifier: Apache-2.0
 *
 * starcoder2.c - model/starcoder2: StarCoder2 (Lozhkov et al. 2024): layer norms and biases as in
 * GPT-2, grouped keys and values, rotary positions, and a window.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "starcoder2-3b", "starcoder2-7b", "starcoder2-15b",
				     NULL };

#define STARCODER2(l, h, k, c, theta)                                                              \
	SHAPE(l, h, k, c, 4 * c, 16384, 49152), .window = 4096, .rope_theta = theta
static const struct decoder_opts presets[] = {
	{ 0 },
	{ STARCODER2(30, 24, 2, 3072, 999999.4420358813), .tied = 1 },
	{ STARCODER2(32, 36, 4, 4608, 1e6) },
	{ STARCODER2(40, 48, 4, 6144, 1e5) },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),
	OPT_TIED("no"),
	OPT_YES_NO(qkv_bias, "Whether all maps have biases; auto: the preset's, else yes."),
	OPT_ACTIVATION("gelu_tanh"),
	OPT_WINDOW("0"),
	OPT_NORM_EPS("1e-5"),
	OPT_ROPE_THETA("10000"),
	OPTS_ROPE_SCALING,
	OPT_DROPOUT,
	OPT_INIT_STD("o_proj and c_proj"),
};

static int settle(const struct zr_host *h, struct decoder_opts *o)
{
	(void)h;
	o->o_bias = o->mlp_bias = o->qkv_bias;
	return ZR_OK;
}

static const struct tensor_name tensors[] = {
	TENSOR(Q_W, "self_attn.q_proj.weight"),
	TENSOR_IF(QKV_BIAS, Q_B, "self_attn.q_proj.bias"),
	TENSOR(K_W, "self_attn.k_proj.weight"),
	TENSOR_IF(QKV_BIAS, K_B, "self_attn.k_proj.bias"),
	TENSOR(V_W, "self_attn.v_proj.weight"),
	TENSOR_IF(QKV_BIAS, V_B, "self_attn.v_proj.bias"),
	TENSOR(O_W, "self_attn.o_proj.weight"),
	TENSOR_IF(O_BIAS, O_B, "self_attn.o_proj.bias"),
	TENSOR(UP_W, "mlp.c_fc.weight"),
	TENSOR_IF(MLP_BIAS, UP_B, "mlp.c_fc.bias"),
	TENSOR(DOWN_W, "mlp.c_proj.weight"),
	TENSOR_IF(MLP_BIAS, DOWN_B, "mlp.c_proj.bias"),
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSOR(NORM1_B, "input_layernorm.bias"),
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
	TENSOR(NORM2_B, "post_attention_layernorm.bias"),
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEY_YES_NO("tie_word_embeddings", "tied", "true"),
	KEY_YES_NO("use_bias", "qkv_bias", "true"),
	{ .key = { .name = "hidden_act",
		   .option = "activation",
		   .def = "gelu_pytorch_tanh",
		   .values = "gelu_pytorch_tanh=gelu_tanh gelu_new=gelu_tanh gelu=gelu" },
	  .write = 1 },
	KEY_OR_NULL("sliding_window", "window", NULL, "0"),
	KEY_DEF("norm_epsilon", "norm_eps", "1e-5"),
	KEYS_ROPE("10000"),
	KEY_DROPOUT("attention_dropout", "0"),
	KEY_DROPOUT("residual_dropout", "0"),
	KEY_DROPOUT("embedding_dropout", "0"),
	KEY_MUST("architectures", "Starcoder2ForCausalLM"),
	KEY_MUST("attention_softmax_in_fp32", NULL), /* as it is here */
	KEY_MUST("scale_attention_softmax_in_fp32", NULL),
	KEY_MUST("scale_attn_weights", "true"),
	KEY_MUST("mlp_type", "default"),
	KEY_MUST("norm_type", "layer_norm"),
	KEY_MUST("rms_norm_eps", NULL), /* of a norm that it does not have */
};

static const char *const types[] = { "starcoder2", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const struct family family = {
	DECODER_TABLES,
	.type = "starcoder2",
	.architecture = "Starcoder2ForCausalLM",
	.base = { .qkv_bias = 1, .activation = ACT_GELU_TANH },
	.settle = settle,
	NAMES_AROUND_BLOCKS,
	.norm_bias = "model.norm.bias",
	.norm_kind = NORM_LAYER,
};

DECODER_PLUGIN("starcoder2", "StarCoder2: layer norms, biases, grouped keys and values, a window");
