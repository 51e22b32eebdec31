/* SPDX-License-Identifier: Apache-2.0
 *
 * llama.c - model/llama: Llama (Touvron et al. 2023) and its relatives: RMSNorm before each branch,
 * rotary positions, grouped keys and values, SwiGLU. Names and orientation of tensors are Hugging
 * Face's; defaults of config.json are those of its configuration classes.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none",       "tinyllama-1.1b", "llama2-7b",   "llama2-13b",
				     "llama3-8b",  "llama3.1-8b",    "llama3.2-1b", "llama3.2-3b",
				     "qwen2-0.5b", "qwen2-1.5b",     "qwen2-7b",    NULL };

#define STRETCHED(x) .rope_scaling = ROPE_LLAMA3, .rope_factor = x, .rope_original_context = 8192
#define QWEN2        .qkv_bias = 1, .norm_eps = 1e-6, .rope_theta = 1e6

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
	OPTS_SHAPE(names),
	OPT_TIED("no"),
	OPT_YES_NO(qkv_bias, "Whether queries, keys and values have biases, as in Qwen2; auto: the "
			     "preset's, else no."),
	OPT_O_BIAS,
	OPT_MLP_BIAS,
	OPT_WINDOW("0"),
	OPT_NORM_EPS("1e-5"),
	OPT_ROPE_THETA("10000"),
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
	KEY_YES_NO("tie_word_embeddings", "tied", "false"),
	{ .key = { .name = "model_type",
		   .option = "qkv_bias",
		   .values = "qwen2=yes",
		   .types = "qwen2" } },
	{ .key = { .name = "attention_bias",
		   .option = "qkv_bias",
		   .values = "true=yes false=no",
		   .types = "llama" } },
	{ .key = { .name = "attention_bias",
		   .option = "o_bias",
		   .values = "true=yes false=no",
		   .types = "llama" },
	  .write = 1 },
	{ .key = { .name = "attention_bias", .values = "false", .types = "mistral qwen2" } },
	{ .key = { .name = "mlp_bias",
		   .option = "mlp_bias",
		   .values = "true=yes false=no",
		   .types = "llama" },
	  .write = 1 },
	{ .key = { .name = "mlp_bias", .values = "false", .types = "mistral qwen2" } },
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-6"),
	KEYS_ROPE("10000"),
	{ .key = { .name = "sliding_window",
		   .option = "window",
		   .def = "4096",
		   .types = "mistral" },
	  .write = 1 },
	{ .key = { .name = "sliding_window", .types = "llama qwen2" } }, /* not in use */
	/* what there is one way of */
	KEY_MUST("architectures", "LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_MUST("attention_dropout", "0"),
	KEY_MUST("partial_rotary_factor", "1"),
	KEY_MUST("pretraining_tp", "1"),
	KEY_MUST("rope_interleaved", "false"),
	KEY_MUST("is_llama_config", NULL),
	KEY_MUST("max_sequence_length", NULL),
	KEY_MUST("use_sliding_window", "false"),
	{ .key = { .name = "use_sliding_window", .values = "false", .types = "qwen2" },
	  .write = 1 },
	KEY_MUST("max_window_layers", NULL),
	KEY_MUST("layer_types", "full_attention"),
};

static const char *const types[] = { "llama", "mistral", "qwen2", NULL };

/* constants */
DECODER_FILES("model.layers.*.self_attn.rotary_emb.inv_freq " HEAD_IS_EMBEDDING,
	      .presets = "preset", .prefix = "");

static void name(const struct decoder_opts *o, const char **type, const char **architecture)
{
	if (o->window) {
		*type = "mistral";
		*architecture = "MistralForCausalLM";
	} else if (o->qkv_bias && !o->o_bias) {
		*type = "qwen2";
		*architecture = "Qwen2ForCausalLM";
	} else {
		*type = "llama";
		*architecture = "LlamaForCausalLM";
	}
}

static const char *misfit(const struct decoder_opts *o)
{
	if (o->window && o->qkv_bias)
		return "qkv_bias: MistralForCausalLM, which has a window, has no biases";
	if (o->window && o->o_bias)
		return "o_bias: MistralForCausalLM, which has a window, has no biases";
	if (o->window && o->mlp_bias)
		return "mlp_bias: MistralForCausalLM, which has a window, has no biases";
	if (o->qkv_bias && !o->o_bias && o->mlp_bias)
		return "mlp_bias: Qwen2ForCausalLM, whose attention has no bias of its output, has "
		       "none of the feed-forward part";
	if (o->o_bias && !o->qkv_bias)
		return "o_bias: LlamaForCausalLM has it beside the biases of q, k and v only: give "
		       "qkv_bias, too";

	return NULL;
}

static const struct family family = {
	DECODER_TABLES,
	.name = name,
	.misfit = misfit,
	NAMES_AROUND_BLOCKS,
};

DECODER_PLUGIN("llama", "Llama, Mistral and Qwen2: rotary positions, grouped keys and values, "
			"RMSNorm, SwiGLU");
