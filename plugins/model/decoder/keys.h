/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.h - keys of config.json that many families share, for their tables of struct family_key.
 */
#ifndef ZR_DECODER_KEYS_H
#define ZR_DECODER_KEYS_H

#include "decoder.h"

/* Its value is that of an option; KEY_READ: it is not written. */
#define KEY(key_name, to) { .key = { .name = key_name, .option = to }, .write = 1 }
#define KEY_READ(key_name, to) { .key = { .name = key_name, .option = to } }
/* Only these values are computed, NULL: any is the same; KEY_ONLY writes the first. */
#define KEY_MUST(key_name, allowed) { .key = { .name = key_name, .values = allowed } }
#define KEY_ONLY(key_name, allowed) { .key = { .name = key_name, .values = allowed }, .write = 1 }

#define KEYS_SHAPE \
	KEY("num_hidden_layers", "layers"), KEY("num_attention_heads", "heads"), \
		KEY("num_key_value_heads", "kv_heads"), KEY("head_dim", "head_dim"), \
		KEY("hidden_size", "width"), KEY("intermediate_size", "ffn_width"), \
		KEY("max_position_embeddings", "context"), KEY("vocab_size", "vocabulary")

#define KEY_YES_NO(key_name, to, missing) \
	{ .key = { .name = key_name, .option = to, .values = "true=yes false=no", \
		   .def = missing }, \
	  .write = 1 }
#define KEY_DEF(key_name, to, missing) \
	{ .key = { .name = key_name, .option = to, .def = missing }, .write = 1 }
/* Of all four maps of attention. */
#define KEYS_ATTENTION_BIAS \
	KEY_YES_NO("attention_bias", "qkv_bias", "false"), \
	{ .key = { .name = "attention_bias", .option = "o_bias", .values = "true=yes false=no" } }
/* A missing one and null have values of their own; 0 is written as null. */
#define KEY_OR_NULL(key_name, to, missing, of_null) \
	{ .key = { .name = key_name, .option = to, .def = missing, .null = of_null }, .write = 1 }
/* accepts() decides. */
#define KEY_ASK(key_name) { .key = { .name = key_name, .flags = ZR_KEY_ASK } }
/* The probability of dropout: the INI decides. It is written, since another tool trains with the
 * default of the family where the key is missing. */
#define KEY_DROPOUT(key_name, missing) \
	{ .key = { .name = key_name, .option = "dropout", .def = missing, .flags = ZR_KEY_NAMED }, \
	  .write = 1 }

/* Of a mixture of experts. As transformers trains it: the loss of balance is added where
 * output_router_logits says so. */
#define KEYS_ROUTER \
	KEY("num_experts_per_tok", "experts_per_token"), \
		{ .key = { .name = "output_router_logits", .option = "router_aux_loss_coef", \
			   .values = "false=0 true=", .def = "false", \
			   .flags = ZR_KEY_DEFAULT } }, \
		{ .key = { .name = "router_aux_loss_coef", .option = "router_aux_loss_coef", \
			   .flags = ZR_KEY_DEFAULT } }

/* Rotary scaling is in one object or, since transformers 5, in another. */
#define KEYS_ROPE_IN(in) \
	{ .key = { .name = in ".rope_type", .option = "rope_scaling", \
		   .values = "default linear dynamic llama3 yarn" } }, \
		KEY_READ(in ".factor", "rope_factor"), \
		KEY_READ(in ".low_freq_factor", "rope_low_freq"), \
		KEY_READ(in ".high_freq_factor", "rope_high_freq"), \
		KEY_READ(in ".beta_fast", "rope_beta_fast"), \
		KEY_READ(in ".beta_slow", "rope_beta_slow"), \
		KEY_READ(in ".attention_factor", "rope_attention"), \
		KEY_READ(in ".original_max_position_embeddings", "rope_original_context"), \
		KEY_MUST(in ".truncate", "true"), KEY_MUST(in ".mscale", "null"), \
		KEY_MUST(in ".mscale_all_dim", "null"), \
		KEY_MUST(in ".partial_rotary_factor", "1")

/* config.c writes rope_scaling. */
#define KEYS_ROPE KEY("rope_theta", "rope_theta"), KEYS_ROPE_SCALING
#define KEYS_ROPE_SCALING \
	KEY_READ("rope_parameters.rope_theta", "rope_theta"), \
		{ .key = { .name = "rope_scaling.type", .option = "rope_scaling", \
			   .values = "default linear dynamic llama3 yarn" } }, \
		KEYS_ROPE_IN("rope_scaling"), KEYS_ROPE_IN("rope_parameters")

#endif
