/* SPDX-License-Identifier: Apache-2.0
 *
 * olmo2.c - model/olmo2: OLMo 2 (OLMo team 2025): RMSNorm after each branch and none before, and of
 * all heads of q and of k at once.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = {
	"none", "olmo2-1b", "olmo2-7b", "olmo2-13b", "olmo2-32b", NULL
};

#define OLMO2(l, h, k, c, f) SHAPE(l, h, k, c, f, 4096, 100352)
static const struct decoder_opts presets[] = {
	{ 0 },
	{ OLMO2(16, 16, 16, 2048, 8192) },
	{ OLMO2(32, 32, 32, 4096, 11008) },
	{ OLMO2(40, 40, 40, 5120, 13824) },
	{ OLMO2(64, 40, 8, 5120, 27648) },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),        OPT_TIED("no"),    OPT_NORM_EPS("1e-6"),
	OPT_ROPE_THETA("500000"), OPTS_ROPE_SCALING, OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSORS_QKVO,
	TENSORS_QK_NORM,
	TENSORS_GATED,
	TENSOR(AFTER1_W, "post_attention_layernorm.weight"),
	TENSOR(AFTER2_W, "post_feedforward_layernorm.weight"),
};

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEY_YES_NO("tie_word_embeddings", "tied", "false"),
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-5"),
	KEYS_ROPE("10000"),
	/* what there is one way of */
	KEY_MUST("architectures", "Olmo2ForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_ONLY("attention_bias", "false"),
	KEY_MUST("attention_dropout", "0"),
};

static const char *const types[] = { "olmo2", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

/* transformers 4 refuses what 5 computes. */
static const char *misfit(const struct decoder_opts *o)
{
	if (o->rope_scaling == ROPE_DEFAULT)
		return NULL;
	if (o->rope_scaling != ROPE_LINEAR && o->rope_scaling != ROPE_DYNAMIC)
		return "rope_scaling: Olmo2ForCausalLM has linear and dynamic alone in "
		       "transformers 4";

	return o->rope_factor > 1 ? NULL :
				    "rope_factor: Olmo2ForCausalLM wants one above 1: leave "
				    "rope_scaling out";
}

static const struct family family = {
	DECODER_TABLES,
	.type = "olmo2",
	.architecture = "Olmo2ForCausalLM",
	.misfit = misfit,
	.base = { .norm_eps = 1e-6, .rope_theta = 5e5 },
	NAMES_AROUND_BLOCKS,
	.bare_rule = 1,
	.qk_norm_whole = 1,
};

DECODER_PLUGIN("olmo2", "OLMo 2: norms after the branches, and of queries and keys");
