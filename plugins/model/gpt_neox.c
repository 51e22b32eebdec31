/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt_neox.c - model/gpt_neox: GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023):
 * layer norms and biases, both branches read the block's input, rotary positions in a part of each
 * head, whose q, k and v lie side by side, and GELU in its exact form.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none",       "pythia-70m",   "pythia-160m", "pythia-410m",
				     "pythia-1b",  "pythia-1.4b",  "pythia-2.8b", "pythia-6.9b",
				     "pythia-12b", "gpt-neox-20b", NULL };

#define NEOX(l, h, c, v) SHAPE(l, h, h, c, 4 * c, 2048, v)
static const struct decoder_opts presets[] = {
	{ 0 },
	{ NEOX(6, 8, 512, 50304) },
	{ NEOX(12, 12, 768, 50304) },
	{ NEOX(24, 16, 1024, 50304) },
	{ NEOX(16, 8, 2048, 50304) },
	{ NEOX(24, 16, 2048, 50304) },
	{ NEOX(32, 32, 2560, 50304) },
	{ NEOX(32, 32, 4096, 50432) },
	{ NEOX(36, 40, 5120, 50688) },
	{ NEOX(44, 64, 6144, 50432) },
};

static const struct zr_opt opts[] = {
	OPT_PRESET(names),
	OPT_LAYERS,
	OPT_HEADS,
	OPT_WIDTH,
	OPT_COUNT(ffn_width, 1 << 22, "",
		  "Elements between the products of the feed-forward part; auto: the preset's, "
		  "else 4 times width."),
	OPT_CONTEXT,
	OPT_VOCABULARY,
	OPT_TIED("no"),
	OPT_YES_NO(qkv_bias, "Whether the maps of attention have biases; auto: the preset's, else "
			     "yes."),
	OPT_YES_NO(parallel, "Whether the feed-forward part reads the block's input beside "
			     "attention, not what attention gives; auto: the preset's, else yes."),
	OPT_ACTIVATION("gelu"),
	OPT_NORM_EPS("1e-5"),
	OPT_ROPE_FRACTION("0.25"),
	OPT_ROPE_THETA("10000"),
	OPTS_ROPE_SCALING,
	OPT_DROPOUT,
	OPT_INIT_STD("residual projections"),
};

static int settle(const struct zr_host *h, struct decoder_opts *o)
{
	(void)h;
	o->o_bias = o->qkv_bias;
	if (!o->ffn_width)
		o->ffn_width = 4 * o->width;

	return ZR_OK;
}

static const struct tensor_name tensors[] = {
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSOR(NORM1_B, "input_layernorm.bias"),
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
	TENSOR(NORM2_B, "post_attention_layernorm.bias"),
	TENSOR(QKV_W, "attention.query_key_value.weight"),
	TENSOR_IF(QKV_BIAS, QKV_B, "attention.query_key_value.bias"),
	TENSOR(O_W, "attention.dense.weight"),
	TENSOR_IF(O_BIAS, O_B, "attention.dense.bias"),
	TENSOR(UP_W, "mlp.dense_h_to_4h.weight"),
	TENSOR(UP_B, "mlp.dense_h_to_4h.bias"),
	TENSOR(DOWN_W, "mlp.dense_4h_to_h.weight"),
	TENSOR(DOWN_B, "mlp.dense_4h_to_h.bias"),
};

static const struct family_key keys[] = {
	KEY("num_hidden_layers", "layers"),
	KEY("num_attention_heads", "heads"),
	KEY("hidden_size", "width"),
	KEY("intermediate_size", "ffn_width"),
	KEY("max_position_embeddings", "context"),
	KEY("vocab_size", "vocabulary"),
	KEY_YES_NO("tie_word_embeddings", "tied", "false"),
	KEY_YES_NO("attention_bias", "qkv_bias", "true"),
	KEY_YES_NO("use_parallel_residual", "parallel", "true"),
	{ .key = { .name = "hidden_act",
		   .option = "activation",
		   .def = "gelu",
		   .values = "gelu=gelu gelu_new=gelu_tanh gelu_pytorch_tanh=gelu_tanh" },
	  .write = 1 },
	KEY_DEF("layer_norm_eps", "norm_eps", "1e-5"),
	KEY("rotary_pct", "rope_fraction"),
	KEY("rotary_emb_base", "rope_theta"),
	/* transformers 4 writes these too, and no version reads them */
	KEY_MUST("partial_rotary_factor", NULL),
	KEY_MUST("rope_theta", NULL),
	KEYS_ROPE_PART_IN("rope_scaling", ROPE_KINDS),
	KEYS_ROPE_PART_IN("rope_parameters", ROPE_KINDS),
	KEY_READ("original_max_position_embeddings", "rope_original_context"),
	KEY_DROPOUT("hidden_dropout", "0"),
	KEY_DROPOUT("attention_dropout", "0"),
	KEY_MUST("architectures", "GPTNeoXForCausalLM"),
	KEY_MUST("classifier_dropout", NULL),
	/* of the program that trained the first ones */
	KEY_MUST("attention_probs_dropout_prob", NULL),
	KEY_MUST("hidden_dropout_prob", NULL),
};

static const char *const types[] = { "gpt_neox", NULL };
DECODER_FILES("gpt_neox.layers.*.attention.bias gpt_neox.layers.*.attention.masked_bias "
	      "gpt_neox.layers.*.attention.rotary_emb.inv_freq "
	      "embed_out.weight=gpt_neox.embed_in.weight",
	      .presets = "preset", .prefix = "");

static const struct family family = {
	DECODER_TABLES,
	.type = "gpt_neox",
	.architecture = "GPTNeoXForCausalLM",
	.base = { .qkv_bias = 1, .parallel = 1, .activation = ACT_GELU, .rope_fraction = 0.25 },
	.settle = settle,
	.tokens = "gpt_neox.embed_in.weight",
	.blocks = "gpt_neox.layers",
	.norm = "gpt_neox.final_layer_norm.weight",
	.norm_bias = "gpt_neox.final_layer_norm.bias",
	.head = "embed_out.weight",
	.map = ZR_MAP_OUT_IN,
	.norm_kind = NORM_LAYER,
	.qkv_by_head = 1,
};

DECODER_PLUGIN("gpt_neox", "GPT-NeoX and Pythia: parallel branches, partial rotary positions");
