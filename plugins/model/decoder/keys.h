/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.h - keys of config.json that many families share, for their tables of struct family_key.
 */
#ifndef ZR_DECODER_KEYS_H
#define ZR_DECODER_KEYS_H

#include "decoder.h"

/* Its value is that of an option; KEY_READ: it is not written. */
#define KEY(key_name, to)                                                                          \
	{                                                                                          \
		.key = { .name = key_name, .option = to }, .write = 1                              \
	}
#define KEY_READ(key_name, to)                                                                     \
	{                                                                                          \
		.key = {.name = key_name, .option = to }                                           \
	}
/* A list of a word for each layer. */
#define KEY_LIST(key_name, to)                                                                     \
	{                                                                                          \
		.key = { .name = key_name, .option = to }, .write = WRITE_LIST                     \
	}
/* Only these values are computed, NULL: any is the same; KEY_ONLY writes the first. */
#define KEY_MUST(key_name, allowed)                                                                \
	{                                                                                          \
		.key = {.name = key_name, .values = allowed }                                      \
	}
#define KEY_ONLY(key_name, allowed)                                                                \
	{                                                                                          \
		.key = { .name = key_name, .values = allowed }, .write = 1                         \
	}

#define KEYS_SHAPE                                                                                 \
	KEY("num_hidden_layers", "layers"), KEY("num_attention_heads", "heads"),                   \
		KEY("num_key_value_heads", "kv_heads"), KEY("head_dim", "head_dim"),               \
		KEY("hidden_size", "width"), KEY("intermediate_size", "ffn_width"),                \
		KEY("max_position_embeddings", "context"), KEY("vocab_size", "vocabulary")

#define KEY_YES_NO(key_name, to, missing)                                                          \
	{                                                                                          \
		.key = { .name = key_name,                                                         \
			 .option = to,                                                             \
			 .values = "true=yes false=no",                                            \
			 .def = missing },                                                         \
		.write = 1                                                                         \
	}
#define KEY_DEF(key_name, to, missing)                                                             \
	{                                                                                          \
		.key = { .name = key_name, .option = to, .def = missing }, .write = 1              \
	}
/* Of all four maps of attention. */
#define KEYS_ATTENTION_BIAS                                                                        \
	KEY_YES_NO("attention_bias", "qkv_bias", "false"),                                         \
	{                                                                                          \
		.key = {.name = "attention_bias",                                                  \
			.option = "o_bias",                                                        \
			.values = "true=yes false=no" }                                            \
	}
/* A missing one and null have values of their own; 0 is written as null. */
#define KEY_OR_NULL(key_name, to, missing, of_null)                                                \
	{                                                                                          \
		.key = { .name = key_name, .option = to, .def = missing, .null = of_null },        \
		.write = 1                                                                         \
	}
/* The probability of dropout: the INI decides. It is written, since another tool trains with the
 * default of the family where the key is missing. */
#define KEY_DROPOUT(key_name, missing)                                                             \
	{                                                                                          \
		.key = { .name = key_name,                                                         \
			 .option = "dropout",                                                      \
			 .def = missing,                                                           \
			 .flags = ZR_KEY_NAMED },                                                  \
		.write = 1                                                                         \
	}

/* Of a mixture of experts, whose count has two names in transformers. */
#define KEYS_EXPERTS(key_name, other_name, missing)                                                \
	KEY(key_name, "experts"), KEY_READ(other_name, "experts"),                                 \
	{                                                                                          \
		.key = {.name = key_name,                                                          \
			.option = "experts",                                                       \
			.def = missing,                                                            \
			.flags = ZR_KEY_DEFAULT }                                                  \
	}
/* As transformers trains it: the loss of balance is added where output_router_logits says so. */
#define KEYS_ROUTER                                                                                \
	KEY("num_experts_per_tok", "experts_per_token"),                                           \
		{ .key = { .name = "output_router_logits",                                         \
			   .option = "router_aux_loss_coef",                                       \
			   .values = "false=0 true=",                                              \
			   .def = "false",                                                         \
			   .flags = ZR_KEY_DEFAULT } },                                            \
	{                                                                                          \
		.key = {.name = "router_aux_loss_coef",                                            \
			.option = "router_aux_loss_coef",                                          \
			.flags = ZR_KEY_DEFAULT }                                                  \
	}

/* Rotary positions. Their rule is in one object or, since transformers 5, in another, whose
 * wavelengths and part of a head count before those beside it; `kinds`: the rules that the class
 * computes. accepts() refuses what the rule does not read. */
#define ROPE_KINDS "default linear dynamic llama3 yarn longrope"
#define KEY_RULE(key_name, to)                                                                     \
	{                                                                                          \
		.key = {.name = key_name, .option = to, .flags = ZR_KEY_ASK }                      \
	}
#define KEYS_RULE_IN(in, kinds)                                                                    \
	{ .key = { .name = in ".rope_type", .option = "rope_scaling", .values = kinds } },         \
		{ .key = { .name = in ".type", .option = "rope_scaling", .values = kinds } },      \
		KEY_READ(in ".rope_theta", "rope_theta"), KEY_RULE(in ".factor", "rope_factor"),   \
		KEY_RULE(in ".low_freq_factor", "rope_low_freq"),                                  \
		KEY_RULE(in ".high_freq_factor", "rope_high_freq"),                                \
		KEY_RULE(in ".beta_fast", "rope_beta_fast"),                                       \
		KEY_RULE(in ".beta_slow", "rope_beta_slow"),                                       \
		KEY_RULE(in ".attention_factor", "rope_attention"),                                \
		KEY_RULE(in ".short_factor", "rope_short"),                                        \
		KEY_RULE(in ".long_factor", "rope_long"),                                          \
		KEY_RULE(in ".original_max_position_embeddings", "rope_original_context"),         \
		KEY_MUST(in ".truncate", "true"), KEY_MUST(in ".mscale", "null"),                  \
		KEY_MUST(in ".mscale_all_dim", "null")
#define KEYS_ROPE_IN(in) KEYS_RULE_IN(in, ROPE_KINDS), KEY_MUST(in ".partial_rotary_factor", "1")
/* of a class that turns a part of each head */
#define KEYS_ROPE_PART_IN(in, kinds)                                                               \
	KEYS_RULE_IN(in, kinds), KEY_READ(in ".partial_rotary_factor", "rope_fraction")
/* The class's own where no key says it; the last of these keys. */
#define KEY_ROPE_THETA(missing)                                                                    \
	{                                                                                          \
		.key = {.name = "rope_theta",                                                      \
			.option = "rope_theta",                                                    \
			.def = missing,                                                            \
			.flags = ZR_KEY_DEFAULT }                                                  \
	}

/* config.c writes rope_scaling, which both versions read. */
#define KEYS_ROPE(theta)                                                                           \
	KEY("rope_theta", "rope_theta"), KEYS_ROPE_IN("rope_scaling"),                             \
		KEYS_ROPE_IN("rope_parameters"),                                                   \
		KEY_READ("original_max_position_embeddings", "rope_original_context"),             \
		KEY_ROPE_THETA(theta)

#endif
