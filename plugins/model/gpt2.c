/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2.c - model/gpt2: GPT-2 (Radford et al. 2019): learned positions, layer norms and biases
 * everywhere, q, k and v by one map, tanh GELU. Names and orientation of tensors are Hugging Face's
 * without the prefix `transformer.`; defaults of config.json are those of its GPT2Config.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const sizes[] = { "none", "124m", "355m", "774m", "1558m", NULL };

#define SIZE(l, h, c)                                                                              \
	{                                                                                          \
		.layers = l, .heads = h, .width = c, .context = 1024, .vocabulary = 50257          \
	}
static const struct decoder_opts presets[] = {
	{ 0 }, SIZE(12, 12, 768), SIZE(24, 16, 1024), SIZE(36, 20, 1280), SIZE(48, 25, 1600)
};

static const struct zr_opt opts[] = {
	{ "size", "none",
	  "Preset of layers, heads, width, context and vocabulary; keys given beside it override "
	  "it.",
	  "", sizes, 0, 0, ZR_T_ENUM, ZR_O_NUMERIC, offsetof(struct decoder_opts, preset),
	  sizeof(int32_t) },
	OPT_LAYERS,
	OPT_COUNT(heads, 1 << 20, "", "Attention heads; must divide width; auto: the preset's."),
	OPT_WIDTH,
	OPT_COUNT(context, 1 << 24, "tokens",
		  "Learned positions, the longest sequence; auto: the preset's."),
	OPT_VOCABULARY,
	OPT_COUNT(ffn_width, 1 << 22, "",
		  "Elements between the products of the feed-forward part; auto: 4 times width."),
	OPT_TIED("yes"),
	OPT_ACTIVATION("gelu_tanh"),
	OPT_NORM_EPS("1e-5"),
	OPT_DROPOUT,
	OPT_INIT_STD("residual projections"),
};

static int settle(const struct zr_host *h, struct decoder_opts *o)
{
	(void)h;
	if (!o->ffn_width)
		o->ffn_width = 4 * o->width;
	return ZR_OK;
}

static const struct tensor_name tensors[] = {
	TENSOR(NORM1_W, "ln_1.weight"),      TENSOR(NORM1_B, "ln_1.bias"),
	TENSOR(QKV_W, "attn.c_attn.weight"), TENSOR(QKV_B, "attn.c_attn.bias"),
	TENSOR(O_W, "attn.c_proj.weight"),   TENSOR(O_B, "attn.c_proj.bias"),
	TENSOR(NORM2_W, "ln_2.weight"),      TENSOR(NORM2_B, "ln_2.bias"),
	TENSOR(UP_W, "mlp.c_fc.weight"),     TENSOR(UP_B, "mlp.c_fc.bias"),
	TENSOR(DOWN_W, "mlp.c_proj.weight"), TENSOR(DOWN_B, "mlp.c_proj.bias"),
};

static const struct family_key keys[] = {
	KEY_DEF("n_layer", "layers", "12"),
	KEY_DEF("n_head", "heads", "12"),
	KEY_DEF("n_embd", "width", "768"),
	KEY_DEF("n_positions", "context", "1024"),
	KEY_DEF("vocab_size", "vocabulary", "50257"),
	KEY("n_inner", "ffn_width"),
	{ .key = { .name = "activation_function",
		   .option = "activation",
		   .def = "gelu_new",
		   .values = "gelu_new=gelu_tanh gelu_pytorch_tanh=gelu_tanh gelu=gelu" },
	  .write = 1 },
	KEY_DEF("layer_norm_epsilon", "norm_eps", "1e-5"),
	KEY_YES_NO("tie_word_embeddings", "tied", "true"),
	/* what there is one way of */
	KEY_MUST("architectures", "GPT2LMHeadModel GPT2Model"),
	KEY_MUST("scale_attn_weights", "true"),
	KEY_MUST("scale_attn_by_inverse_layer_idx", "false"),
	KEY_MUST("reorder_and_upcast_attn", "false"),
	/* of training, and of what is not the language model */
	KEY_MUST("n_ctx", NULL),
	KEY_MUST("initializer_range", NULL),
	KEY_DROPOUT("resid_pdrop", "0.1"),
	KEY_DROPOUT("embd_pdrop", "0.1"),
	KEY_DROPOUT("attn_pdrop", "0.1"),
	KEY_MUST("summary_type", NULL),
	KEY_MUST("summary_use_proj", NULL),
	KEY_MUST("summary_activation", NULL),
	KEY_MUST("summary_proj_to_labels", NULL),
	KEY_MUST("summary_first_dropout", NULL),
};

static const char *const types[] = { "gpt2", NULL };

/* masks */
DECODER_FILES("h.*.attn.bias h.*.attn.masked_bias lm_head.weight=wte.weight", .presets = "size",
	      .prefix = "transformer.");

#define GPT2(before)                                                                               \
	DECODER_TABLES, .type = "gpt2", .architecture = "GPT2LMHeadModel",                         \
			.base = { .tied = 1, .norm_eps = 1e-5, .activation = ACT_GELU_TANH },      \
			.settle = settle, .tokens = before "wte.weight",                           \
			.positions = before "wpe.weight", .blocks = before "h",                    \
			.norm = before "ln_f.weight", .norm_bias = before "ln_f.bias",             \
			.head = "lm_head.weight", .map = ZR_MAP_IN_OUT, .norm_kind = NORM_LAYER

/* Beside lm_head.weight transformers wants the others with their prefix. */
static const struct family untied = { GPT2("transformer.") };
static const struct family family = { GPT2(""), .untied = &untied };

DECODER_PLUGIN("gpt2", "GPT-2: learned positions, layer norms, biases everywhere");
