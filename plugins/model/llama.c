/* SPDX-License-Identifier: Apache-2.0
 *
 * llama.c - model/llama: Llama (Touvron et al. 2023) and its relatives: RMSNorm before each branch,
 * rotary positions, grouped keys and values, SwiGLU. Names and orientation of tensors are Hugging
 * Face's; defaults of config.json are those of its configuration classes.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none",	   "tinyllama-1.1b", "llama2-7b",   "llama2-13b",
				     "llama3-8b",  "llama3.1-8b",    "llama3.2-1b", "llama3.2-3b",
				     "qwen2-0.5b", "qwen2-1.5b",     "qwen2-7b",    NULL };

#define SHAPE(l, h, k, c, f, t, v) \
	.layers = l, .heads = h, .kv_heads = k, .width = c, .ffn_width = f, .context = t, \
	.vocabulary = v
#define STRETCHED(x) \
	.rope_scaling = ROPE_LLAMA3, .rope_factor = x, .rope_original_context = 8192
#define QWEN2 .qkv_bias = 1, .norm_eps = 1e-6, .rope_theta = 1e6

/* As published. */
static const struct decoder_opts presets[] = {
	{ 0 },
	{ SHAPE(22, 32, 4, 2048, 5632, 2048, 32000) },
	{ SHAPE(32, 32, 32, 4096, 11008, 4096, 32000) },
	{ SHAPE(40, 40, 40, 5120, 13824, 4096, 32000) },
	{ SHAPE(32, 32, 8, 4096, 14336, 8192, 128256), .rope_theta = 5e5 },
	{ SHAPE(32, 32, 8, 4096, 14336, 131072, 128256), .rope_theta = 5e5, STRETCHED(8) },
	{ SHAPE(16, 32, 8, 2048, 8192, 131072, 128256), .rope_theta = 5e5, STRETCHED(32),
	  .tied = 1 },
	{ SHAPE(28, 24, 8, 3072, 8192, 131072, 128256), .rope_theta = 5e5, STRETCHED(32),
	  .tied = 1 },
	{ SHAPE(24, 14, 2, 896, 4864, 131072, 151936), QWEN2, .tied = 1 },
	{ SHAPE(28, 12, 2, 1536, 8960, 131072, 151936), QWEN2, .tied = 1 },
	{ SHAPE(28, 28, 4, 3584, 18944, 131072, 152064), QWEN2 },
};

static const struct zr_opt opts[] = {
	OPT_PRESET(names),
	OPT_LAYERS,
	OPT_HEADS,
	OPT_KV_HEADS,
	OPT_HEAD_DIM,
	OPT_WIDTH,
	OPT_FFN_WIDTH,
	OPT_CONTEXT,
	OPT_VOCABULARY,
	OPT_TIED("no"),
	ZR_OPT_ENUM(
		struct decoder_opts, qkv_bias, ZR_O_AUTO | ZR_O_NUMERIC, "auto", decoder_yes_no,
		"Whether queries, keys and values have biases, as in Qwen2; auto: the preset's, "
		"else no."),
	OPT_NORM_EPS("1e-5"),
	OPT_ROPE_THETA("10000"),
	OPTS_ROPE_SCALING,
	OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSOR(Q_W, "self_attn.q_proj.weight"),
	TENSOR(K_W, "self_attn.k_proj.weight"),
	TENSOR(V_W, "self_attn.v_proj.weight"),
	TENSOR(O_W, "self_attn.o_proj.weight"),
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
	TENSOR(GATE_W, "mlp.gate_proj.weight"),
	TENSOR(UP_W, "mlp.up_proj.weight"),
	TENSOR(DOWN_W, "mlp.down_proj.weight"),
	TENSOR_IF(QKV_BIAS, Q_B, "self_attn.q_proj.bias"),
	TENSOR_IF(QKV_BIAS, K_B, "self_attn.k_proj.bias"),
	TENSOR_IF(QKV_BIAS, V_B, "self_attn.v_proj.bias"),
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	{ .key = { .name = "tie_word_embeddings", .option = "tied", .values = "true=yes false=no",
	    .def = "false" }, .write = 1 },
	{ .key = { .name = "model_type", .option = "qkv_bias",
	    .values = "llama=no mistral=no qwen2=yes" } },
	{ .key = { .name = "rms_norm_eps", .option = "norm_eps", .def = "1e-6" }, .write = 1 },
	KEYS_ROPE,
	/* what there is one way of */
	KEY_MUST("architectures", "LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_MUST("attention_bias", "false"),
	KEY_MUST("mlp_bias", "false"),
	KEY_MUST("attention_dropout", "0"),
	KEY_MUST("partial_rotary_factor", "1"),
	KEY_MUST("pretraining_tp", "1"),
	KEY_MUST("use_sliding_window", "false"),
	{ .key = { .name = "use_sliding_window", .values = "false", .types = "qwen2" },
	  .write = 1 },
	{ .key = { .name = "sliding_window", .values = "null", .types = "mistral" } },
	KEY_MUST("sliding_window", NULL), /* not in use */
	KEY_MUST("max_window_layers", NULL),
	KEY_MUST("layer_types", "full_attention"),
};

static const char *const types[] = { "llama", "mistral", "qwen2", NULL };

static const struct zr_pretrained_v1 pretrained = {
	.size = sizeof pretrained,
	.n_keys = sizeof keys / sizeof *keys,
	.key_stride = sizeof *keys,
	.keys = &keys->key,
	.types = types,
	.presets = "preset",
	.prefix = "",
	/* constants, and the tied embedding again */
	.ignored = "model.layers.*.self_attn.rotary_emb.inv_freq lm_head.weight",
};

static void name(const struct decoder_opts *o, const char **type, const char **architecture)
{
	*type = o->qkv_bias ? "qwen2" : "llama";
	*architecture = o->qkv_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM";
}

static const struct family family = {
	.name = name,
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.presets = presets,
	.tokens = "model.embed_tokens.weight",
	.blocks = "model.layers",
	.tensors = tensors,
	.n_tensors = sizeof tensors / sizeof *tensors,
	.norm = "model.norm.weight",
	.head = "lm_head.weight",
	.map = ZR_MAP_OUT_IN,
	.norm_kind = NORM_RMS,
	.pretrained = &pretrained,
};

DECODER_PLUGIN("llama",
	       "Llama and Qwen2: rotary positions, grouped keys and values, RMSNorm, SwiGLU");
