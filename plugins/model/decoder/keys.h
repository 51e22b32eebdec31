/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.h - keys of config.json that many families share, for their tables of struct family_key.
 *
 *   what becomes of a key    KEY, KEY_READ, KEY_LIST, KEY_DEF, KEY_OR_NULL, KEY_YES_NO
 *   keys with one value      KEY_MUST, KEY_ONLY
 *   shape                    KEYS_SHAPE
 *   attention, dropout       KEYS_ATTENTION_BIAS, KEY_DROPOUT
 *   experts                  KEYS_EXPERTS, KEYS_ROUTER
 *   rotary positions         KEYS_ROPE and its parts
 */
#ifndef ZR_DECODER_KEYS_H
#define ZR_DECODER_KEYS_H

#include "decoder.h"

/* Each key is an entry of a table. */
/* clang-format off */

/* ---- what becomes of a key ---- */

/* Members of struct family_key: `to` is an option, `missing` its value where the key is missing. */
#define KEY_TO(key_name, to)    .name = key_name, .option = to
#define KEY_LAST(key_name, to)  { .key = { KEY_TO(key_name, to), .flags = ZR_KEY_DEFAULT } }
#define TRUE_IS_YES             .values = "true=yes false=no"

/* The key has the value of an option: read and written, only read, a list of a word for each
 * layer. */
#define KEY(key_name, to)       { .key = { KEY_TO(key_name, to) }, .write = 1 }
#define KEY_READ(key_name, to)  { .key = { KEY_TO(key_name, to) } }
#define KEY_LIST(key_name, to)  { .key = { KEY_TO(key_name, to) }, .write = WRITE_LIST }
#define KEY_DEF(key_name, to, missing) \
	{ .key = { KEY_TO(key_name, to), .def = missing }, .write = 1 }
#define KEY_YES_NO(key_name, to, missing) \
	{ .key = { KEY_TO(key_name, to), TRUE_IS_YES, .def = missing }, .write = 1 }
/* A missing key and null have values of their own; 0 is written as null. */
#define KEY_OR_NULL(key_name, to, missing, of_null) \
	{ .key = { KEY_TO(key_name, to), .def = missing, .null = of_null }, .write = 1 }

/* The model computes no other values than these; NULL: all values are the same. KEY_ONLY writes the
 * first. */
#define KEY_MUST(key_name, allowed) { .key = { .name = key_name, .values = allowed } }
#define KEY_ONLY(key_name, allowed) { .key = { .name = key_name, .values = allowed }, .write = 1 }

/* ---- shape ---- */

#define KEYS_SHAPE \
	KEY("num_hidden_layers",       "layers"), \
	KEY("num_attention_heads",     "heads"), \
	KEY("num_key_value_heads",     "kv_heads"), \
	KEY("head_dim",                "head_dim"), \
	KEY("hidden_size",             "width"), \
	KEY("intermediate_size",       "ffn_width"), \
	KEY("max_position_embeddings", "context"), \
	KEY("vocab_size",              "vocabulary")

/* ---- attention, dropout ---- */

/* Of all four maps of attention. */
#define KEYS_ATTENTION_BIAS \
	KEY_YES_NO("attention_bias", "qkv_bias", "false"), \
	{ .key = { KEY_TO("attention_bias", "o_bias"), TRUE_IS_YES } }

/* The probability of dropout: the INI decides. It is written, since another tool trains with the
 * default of the family where the key is missing. */
#define KEY_DROPOUT(key_name, missing) \
	{ .key = { KEY_TO(key_name, "dropout"), .def = missing, .flags = ZR_KEY_NAMED }, \
	  .write = 1 }

/* ---- experts ---- */

/* Of a mixture of experts, whose count has two names in transformers. */
#define KEYS_EXPERTS(key_name, other_name, missing) \
	KEY(key_name, "experts"), \
	KEY_READ(other_name, "experts"), \
	{ .key = { KEY_TO(key_name, "experts"), .def = missing, .flags = ZR_KEY_DEFAULT } }

/* As transformers trains it: the loss of balance is added where output_router_logits says so. */
#define KEYS_ROUTER \
	KEY("num_experts_per_tok", "experts_per_token"), \
	{ .key = { KEY_TO("output_router_logits", "router_aux_loss_coef"), \
		   .values = "false=0 true=", .def = "false", .flags = ZR_KEY_DEFAULT } }, \
	KEY_LAST("router_aux_loss_coef", "router_aux_loss_coef")

/* ---- rotary positions ----
 *
 * Their rule is in one object or, since transformers 5, in another, whose wavelengths and part of a
 * head count before those beside it. `in`: the name of the object; `kinds`: the rules that the
 * class computes. accepts() refuses what the rule does not read. config.c writes rope_scaling,
 * which both versions read. */
#define ROPE_KINDS "default linear dynamic llama3 yarn longrope"

#define KEY_RULE(key_name, to)        { .key = { KEY_TO(key_name, to), .flags = ZR_KEY_ASK } }
#define KEY_ROPE_KIND(key_name, kinds) \
	{ .key = { KEY_TO(key_name, "rope_scaling"), .values = kinds } }

#define KEYS_RULE_IN(in, kinds) \
	KEY_ROPE_KIND(in ".rope_type", kinds), \
	KEY_ROPE_KIND(in ".type",      kinds), \
	KEY_READ(in ".rope_theta",                       "rope_theta"), \
	KEY_RULE(in ".factor",                           "rope_factor"), \
	KEY_RULE(in ".low_freq_factor",                  "rope_low_freq"), \
	KEY_RULE(in ".high_freq_factor",                 "rope_high_freq"), \
	KEY_RULE(in ".beta_fast",                        "rope_beta_fast"), \
	KEY_RULE(in ".beta_slow",                        "rope_beta_slow"), \
	KEY_RULE(in ".attention_factor",                 "rope_attention"), \
	KEY_RULE(in ".short_factor",                     "rope_short"), \
	KEY_RULE(in ".long_factor",                      "rope_long"), \
	KEY_RULE(in ".original_max_position_embeddings", "rope_original_context"), \
	KEY_MUST(in ".truncate",                         "true"), \
	KEY_MUST(in ".mscale",                           "null"), \
	KEY_MUST(in ".mscale_all_dim",                   "null")

/* A class that turns whole heads; one that turns a part of each head. */
#define KEYS_ROPE_IN(in) \
	KEYS_RULE_IN(in, ROPE_KINDS), \
	KEY_MUST(in ".partial_rotary_factor", "1")
#define KEYS_ROPE_PART_IN(in, kinds) \
	KEYS_RULE_IN(in, kinds), \
	KEY_READ(in ".partial_rotary_factor", "rope_fraction")

/* The class's own base where no key says it; this is the last of these keys. */
#define KEY_ROPE_THETA(missing) \
	{ .key = { KEY_TO("rope_theta", "rope_theta"), .def = missing, .flags = ZR_KEY_DEFAULT } }

#define KEYS_ROPE(theta) \
	KEY("rope_theta", "rope_theta"), \
	KEYS_ROPE_IN("rope_scaling"), \
	KEYS_ROPE_IN("rope_parameters"), \
	KEY_READ("original_max_position_embeddings", "rope_original_context"), \
	KEY_ROPE_THETA(theta)

/* clang-format on */

#endif
