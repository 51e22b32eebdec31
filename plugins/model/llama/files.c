/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c - how a directory of Hugging Face's Llama, Mistral or Qwen2 becomes this model. Defaults
 * are those of their configuration classes.
 */
#include "llama.h"

/* Rotary scaling is in one object or, since transformers 5, in another. */
#define ROPE(in) \
	{ .name = in ".rope_type", \
	  .option = "rope_scaling", \
	  .values = "default linear dynamic llama3 yarn" }, \
		{ .name = in ".factor", .option = "rope_factor" }, \
		{ .name = in ".low_freq_factor", .option = "rope_low_freq" }, \
		{ .name = in ".high_freq_factor", .option = "rope_high_freq" }, \
		{ .name = in ".beta_fast", .option = "rope_beta_fast" }, \
		{ .name = in ".beta_slow", .option = "rope_beta_slow" }, \
		{ .name = in ".attention_factor", .option = "rope_attention" }, \
		{ .name = in ".original_max_position_embeddings", \
		  .option = "rope_original_context" }, \
		{ .name = in ".truncate", .values = "true" }, \
		{ .name = in ".mscale", .values = "null" }, \
		{ .name = in ".mscale_all_dim", .values = "null" }, \
	{ \
		.name = in ".partial_rotary_factor", .values = "1" \
	}

static const struct zr_config_key keys[] = {
	{ .name = "num_hidden_layers", .option = "layers" },
	{ .name = "num_attention_heads", .option = "heads" },
	{ .name = "num_key_value_heads", .option = "kv_heads" },
	{ .name = "head_dim", .option = "head_dim" },
	{ .name = "hidden_size", .option = "width" },
	{ .name = "intermediate_size", .option = "ffn_width" },
	{ .name = "max_position_embeddings", .option = "context" },
	{ .name = "vocab_size", .option = "vocabulary" },
	{ .name = "tie_word_embeddings", .option = "tied", .values = "true=yes false=no",
	  .def = "false" },
	{ .name = "model_type", .option = "qkv_bias", .values = "llama=no mistral=no qwen2=yes" },
	{ .name = "rms_norm_eps", .option = "norm_eps", .def = "1e-6" },
	{ .name = "rope_theta", .option = "rope_theta" },
	{ .name = "rope_parameters.rope_theta", .option = "rope_theta" },
	{ .name = "rope_scaling.type", .option = "rope_scaling",
	  .values = "default linear dynamic llama3 yarn" },
	ROPE("rope_scaling"),
	ROPE("rope_parameters"),
	/* what there is one way of */
	{ .name = "architectures",
	  .values = "LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM" },
	{ .name = "hidden_act", .values = "silu" },
	{ .name = "attention_bias", .values = "false" },
	{ .name = "mlp_bias", .values = "false" },
	{ .name = "attention_dropout", .values = "0" },
	{ .name = "partial_rotary_factor", .values = "1" },
	{ .name = "pretraining_tp", .values = "1" },
	{ .name = "use_sliding_window", .values = "false" },
	{ .name = "sliding_window", .values = "null", .types = "mistral" },
	{ .name = "sliding_window" }, /* not in use */
	{ .name = "max_window_layers" },
	{ .name = "layer_types", .values = "full_attention" },
};

static const char *const types[] = { "llama", "mistral", "qwen2", NULL };

const struct zr_pretrained_v1 llama_pretrained = {
	.size = sizeof llama_pretrained,
	.n_keys = sizeof keys / sizeof *keys,
	.key_stride = sizeof *keys,
	.keys = keys,
	.types = types,
	.presets = "preset",
	.prefix = "",
	/* constants, and the tied embedding again */
	.ignored = "model.layers.*.self_attn.rotary_emb.inv_freq lm_head.weight",
};
