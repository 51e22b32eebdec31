/* SPDX-License-Identifier: Apache-2.0
 *
 * phi3.c - model/phi3: Phi-3 and Phi-4 (Abdin et al. 2024): Llama's block with q, k and v from one
 * map, gate and up from another, and long context by a factor for each wavelength.
 */
#include "plugins/model/decoder/keys.h"
#include "plugins/model/decoder/names.h"
#include "plugins/model/decoder/options.h"
#include "plugins/model/decoder/plugin.h"

static const char *const names[] = { "none", "phi3-mini-4k", "phi4", NULL };
static const struct decoder_opts presets[] = {
	{ 0 },
	{ SHAPE(32, 32, 32, 3072, 8192, 4096, 32064), .window = 2047 },
	{ SHAPE(40, 40, 10, 5120, 17920, 16384, 100352), .rope_theta = 250000 },
};

static const struct zr_opt opts[] = {
	OPTS_SHAPE(names),
	OPT_TIED("no"),
	OPT_WINDOW("0"),
	OPT_NORM_EPS("1e-5"),
	OPT_ROPE_FRACTION("1"),
	OPT_ROPE_THETA("10000"),
	OPTS_ROPE_SCALING,
	OPT_DROPOUT,
	OPT_INIT_STD("o_proj and down_proj"),
};

static const struct tensor_name tensors[] = {
	TENSOR(O_W, "self_attn.o_proj.weight"),
	TENSOR(QKV_W, "self_attn.qkv_proj.weight"),
	TENSOR(GATE_UP_W, "mlp.gate_up_proj.weight"),
	TENSOR(DOWN_W, "mlp.down_proj.weight"),
	TENSOR(NORM1_W, "input_layernorm.weight"),
	TENSOR(NORM2_W, "post_attention_layernorm.weight"),
};

/* Files that are older than the name longrope call it su, or yarn. */
#define PHI3_KINDS "default longrope su=longrope yarn=longrope"

static const struct family_key keys[] = {
	KEYS_SHAPE,
	KEY_YES_NO("tie_word_embeddings", "tied", "false"),
	KEY_DEF("rms_norm_eps", "norm_eps", "1e-5"),
	KEY_OR_NULL("sliding_window", "window", NULL, "0"),
	KEY("partial_rotary_factor", "rope_fraction"),
	KEY("rope_theta", "rope_theta"),
	KEY_DEF("original_max_position_embeddings", "rope_original_context", "4096"),
	KEYS_ROPE_PART_IN("rope_scaling", PHI3_KINDS),
	KEYS_ROPE_PART_IN("rope_parameters", PHI3_KINDS),
	KEY_DROPOUT("resid_pdrop", "0"),
	KEY_DROPOUT("embd_pdrop", "0"),
	KEY_DROPOUT("attention_dropout", "0"),
	/* what there is one way of */
	KEY_MUST("architectures", "Phi3ForCausalLM"),
	KEY_ONLY("hidden_act", "silu"),
	KEY_MUST("attention_bias", "false"),
	KEY_MUST("mlp_bias", "false"),
	KEY_MUST("lm_head_bias", "false"),
	KEY_MUST("full_attn_mod", "1"),
	KEY_MUST("interpolate_factor", "1"),
};

static const char *const types[] = { "phi3", NULL };
DECODER_FILES(HEAD_IS_EMBEDDING, .presets = "preset", .prefix = "");

static const char *misfit(const struct decoder_opts *o)
{
	if (o->rope_scaling == ROPE_DEFAULT || o->rope_scaling == ROPE_LONG)
		return NULL;

	return "rope_scaling: Phi3ForCausalLM has longrope alone";
}

static const struct family family = {
	DECODER_TABLES,   .type = "phi3",      .architecture = "Phi3ForCausalLM",
	.misfit = misfit, NAMES_AROUND_BLOCKS, .bare_rule = 1,
};

DECODER_PLUGIN("phi3", "Phi-3 and Phi-4: joint maps, long rotary positions");
