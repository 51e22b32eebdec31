/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2.c - model/gpt2: GPT-2 (Radford et al. 2019): learned positions, layer norms and biases
 * everywhere, q, k and v by one map, tanh GELU. Names and orientation of tensors are Hugging Face's
 * without the prefix `transformer.`; defaults of config.json are those of its GPT2Config.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

#include <stdlib.h>

static const char *const sizes[] = { "none", "124m", "355m", "774m", "1558m", NULL };

#define SIZE(l, h, c) \
	{ .layers = l, .heads = h, .width = c, .context = 1024, .vocabulary = 50257 }
static const struct decoder_opts presets[] = { { 0 }, SIZE(12, 12, 768), SIZE(24, 16, 1024),
					       SIZE(36, 20, 1280), SIZE(48, 25, 1600) };

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
	ZR_OPT(struct decoder_opts, dropout, ZR_T_F64, ZR_O_MAX_OPEN | ZR_O_NUMERIC, "0", 0, 1, "",
	       "Probability to drop, in training: embeddings, attention probabilities, both "
	       "residual branches."),
	OPT_INIT_STD("residual projections"),
};

static int settle(const struct zr_host *h, struct decoder_opts *o)
{
	(void)h;
	o->ffn_width = 4 * o->width;
	return ZR_OK;
}

static const struct tensor_name tensors[] = {
	TENSOR(NORM1_W, "ln_1.weight"),       TENSOR(NORM1_B, "ln_1.bias"),
	TENSOR(QKV_W, "attn.c_attn.weight"),  TENSOR(QKV_B, "attn.c_attn.bias"),
	TENSOR(O_W, "attn.c_proj.weight"),    TENSOR(O_B, "attn.c_proj.bias"),
	TENSOR(NORM2_W, "ln_2.weight"),       TENSOR(NORM2_B, "ln_2.bias"),
	TENSOR(UP_W, "mlp.c_fc.weight"),      TENSOR(UP_B, "mlp.c_fc.bias"),
	TENSOR(DOWN_W, "mlp.c_proj.weight"),  TENSOR(DOWN_B, "mlp.c_proj.bias"),
};

/* Of training, where the INI decides. */
#define DROPOUT(n) \
	{ .key = { .name = n, .option = "dropout", .def = "0.1", .flags = ZR_KEY_NAMED } }

static const struct family_key keys[] = {
	{ .key = { .name = "n_layer", .option = "layers", .def = "12" }, .write = 1 },
	{ .key = { .name = "n_head", .option = "heads", .def = "12" }, .write = 1 },
	{ .key = { .name = "n_embd", .option = "width", .def = "768" }, .write = 1 },
	{ .key = { .name = "n_positions", .option = "context", .def = "1024" }, .write = 1 },
	{ .key = { .name = "vocab_size", .option = "vocabulary", .def = "50257" }, .write = 1 },
	/* what there is one way of */
	KEY_MUST("architectures", "GPT2LMHeadModel GPT2Model"),
	KEY_ONLY("activation_function", "gelu_new gelu_pytorch_tanh"),
	KEY_ONLY("layer_norm_epsilon", "1e-5"),
	{ .key = { .name = "n_inner", .flags = ZR_KEY_ASK } },
	KEY_MUST("scale_attn_weights", "true"),
	KEY_MUST("scale_attn_by_inverse_layer_idx", "false"),
	KEY_MUST("reorder_and_upcast_attn", "false"),
	KEY_ONLY("tie_word_embeddings", "true"),
	/* of training, and of what is not the language model */
	KEY_MUST("n_ctx", NULL),
	KEY_MUST("initializer_range", NULL),
	DROPOUT("resid_pdrop"),
	DROPOUT("embd_pdrop"),
	DROPOUT("attn_pdrop"),
	KEY_MUST("summary_type", NULL),
	KEY_MUST("summary_use_proj", NULL),
	KEY_MUST("summary_activation", NULL),
	KEY_MUST("summary_proj_to_labels", NULL),
	KEY_MUST("summary_first_dropout", NULL),
};

static int accepts(const struct zr_host *h, const void *options, const char *key, const char *value)
{
	const struct decoder_opts *o = options;
	(void)key; /* n_inner is the only one */
	return strtoll(value, NULL, 10) == 4 * o->width ?
		       ZR_OK :
		       zr_fail(h, ZR_EINVAL,
			       "the feed-forward part is as wide as four times n_embd = %lld",
			       (long long)o->width);
}

static const char *const types[] = { "gpt2", NULL };

static const struct zr_pretrained_v1 pretrained = {
	.size = sizeof pretrained,
	.n_keys = sizeof keys / sizeof *keys,
	.key_stride = sizeof *keys,
	.keys = &keys->key,
	.types = types,
	.presets = "size",
	.prefix = "transformer.",
	/* masks, and the tied embedding again */
	.ignored = "h.*.attn.bias h.*.attn.masked_bias lm_head.weight",
	.accepts = accepts,
};

static void name(const struct decoder_opts *o, const char **type, const char **architecture)
{
	(void)o;
	*type = "gpt2";
	*architecture = "GPT2LMHeadModel";
}

static const struct family family = {
	.name = name,
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.presets = presets,
	.base = { .tied = 1, .norm_eps = 1e-5 },
	.settle = settle,
	.tokens = "wte.weight",
	.positions = "wpe.weight",
	.blocks = "h",
	.tensors = tensors,
	.n_tensors = sizeof tensors / sizeof *tensors,
	.norm = "ln_f.weight",
	.norm_bias = "ln_f.bias",
	.map = ZR_MAP_IN_OUT,
	.norm_kind = NORM_LAYER,
	.pretrained = &pretrained,
};

DECODER_PLUGIN("gpt2", "GPT-2: learned positions, pre-norm blocks, tied output projection");
