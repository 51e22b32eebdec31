/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - entries of a family's table of options, of which each takes those that it offers.
 *
 *   kinds of options    OPT_COUNT, OPT_COUNT0, OPT_POSITIVE, OPT_REAL, OPT_YES_NO, OPT_SOFTCAP,
 *                       OPT_LIST, OPT_COEF
 *   shape               OPTS_SHAPE: preset, layers, heads, widths, context, vocabulary
 *   maps and norms      biases, activation, norm_eps, init_std, dropout, tied
 *   attention           window, global_every, layer_types, score_width, soft caps
 *   rotary positions    rope_theta, rope_fraction, OPTS_ROPE_SCALING
 *   experts             OPTS_EXPERTS, norm_topk_prob
 *
 * `otherwise`: the value that an option has in a family where neither the INI nor a preset has one.
 */
#ifndef ZR_DECODER_OPTIONS_H
#define ZR_DECODER_OPTIONS_H

#include "decoder.h"

/* Each option is an entry of a table. */
/* clang-format off */

/* ---- kinds of options ----
 *
 * The upper limits keep every product of two of them, in bytes, far below 2^63. */

#define OPT_OF(name, type, flags, text, least, most, unit, doc) \
	ZR_OPT(struct decoder_opts, name, type, ZR_O_NUMERIC | (flags), text, least, most, unit, \
	       doc)

/* Whole numbers from 1 on, from 0 on. */
#define OPT_COUNT(name, most, unit, doc) \
	OPT_OF(name, ZR_T_I64, ZR_O_AUTO, "auto", 1, most, unit, doc)
#define OPT_COUNT0(name, most, unit, doc) \
	OPT_OF(name, ZR_T_I64, ZR_O_AUTO, "auto", 0, most, unit, doc)
/* Numbers above 0. */
#define OPT_POSITIVE(name, most, doc) \
	OPT_OF(name, ZR_T_F64, ZR_O_AUTO | ZR_O_MIN_OPEN, "auto", 0, most, "", doc)
#define OPT_REAL(name, otherwise, doc) \
	OPT_POSITIVE(name, 1e9, doc " auto: the preset's, else " otherwise ".")
#define OPT_YES_NO(name, doc) \
	ZR_OPT_ENUM(struct decoder_opts, name, ZR_O_AUTO | ZR_O_NUMERIC, "auto", decoder_yes_no, \
		    doc)
#define OPT_SOFTCAP(name, otherwise, of) \
	OPT_OF(name, ZR_T_F64, ZR_O_AUTO, "auto", 0, 1e6, "", \
	       "c of c tanh(s / c) over " of "; 0: none. auto: the preset's, else " otherwise ".")
/* A list in a text, which is empty where it is not given. */
#define OPT_LIST(name, doc) \
	OPT_OF(name, ZR_T_STR, 0, "", 0, 0, "", doc)
/* A weight of a loss. */
#define OPT_COEF(name, doc) \
	OPT_OF(name, ZR_T_F64, 0, "0", 0, 1e6, "", doc)

/* ---- shape ---- */

/* Of a preset. */
#define SHAPE(l, h, k, c, f, t, v) \
	.layers = l, .heads = h, .kv_heads = k, .width = c, .ffn_width = f, .context = t, \
	.vocabulary = v

#define OPT_PRESET(names) \
	ZR_OPT_ENUM(struct decoder_opts, preset, ZR_O_NUMERIC, "none", names, \
		    "A published model, whose values those options take that are auto.")
#define OPT_LAYERS \
	OPT_COUNT(layers, DECODER_LAYERS, "", \
		  "Transformer blocks; auto: the preset's.")
#define OPT_HEADS \
	OPT_COUNT(heads, 1 << 20, "", \
		  "Attention heads of queries; auto: the preset's.")
#define OPT_KV_HEADS \
	OPT_COUNT(kv_heads, 1 << 20, "", \
		  "Heads of keys and values, each shared by heads / kv_heads of the queries; " \
		  "auto: the preset's, else heads.")
#define OPT_HEAD_DIM \
	OPT_COUNT(head_dim, 2 * ZR_ROTARY_PAIRS, "", \
		  "Elements of a head, an even number; auto: the preset's, else width / heads.")
#define OPT_WIDTH \
	OPT_COUNT(width, 1 << 20, "", \
		  "Elements of a token's activation; auto: the preset's.")
#define OPT_FFN_WIDTH \
	OPT_COUNT(ffn_width, 1 << 22, "", \
		  "Elements between the products of the feed-forward part; auto: the preset's, " \
		  "else 8/3 of width, up to a multiple of 64.")
#define OPT_CONTEXT \
	OPT_COUNT(context, 1 << 24, "tokens", \
		  "The longest sequence; auto: the preset's.")
#define OPT_VOCABULARY \
	OPT_OF(vocabulary, ZR_T_I64, ZR_O_AUTO, "auto", 2, INT32_MAX, "tokens", \
	       "Different tokens; auto: the preset's, else the data's.")

#define OPTS_SHAPE(names) \
	OPT_PRESET(names), \
	OPT_LAYERS, \
	OPT_HEADS, \
	OPT_KV_HEADS, \
	OPT_HEAD_DIM, \
	OPT_WIDTH, \
	OPT_FFN_WIDTH, \
	OPT_CONTEXT, \
	OPT_VOCABULARY

/* ---- maps and norms ---- */

#define OPT_TIED(otherwise) \
	OPT_YES_NO(tied, \
		   "Whether the output projection is the embedding; auto: the preset's, else " \
		   otherwise ".")
#define OPT_QKV_BIAS \
	OPT_YES_NO(qkv_bias, \
		   "Whether queries, keys and values have biases; auto: the preset's, else no.")
#define OPT_O_BIAS \
	OPT_YES_NO(o_bias, \
		   "Whether attention's output has a bias; auto: the preset's, else no.")
#define OPT_MLP_BIAS \
	OPT_YES_NO(mlp_bias, \
		   "Whether the maps of the feed-forward part have biases; auto: the preset's, " \
		   "else no.")
#define OPT_ACTIVATION(otherwise) \
	ZR_OPT_ENUM(struct decoder_opts, activation, ZR_O_AUTO | ZR_O_NUMERIC, "auto", \
		    decoder_activations, \
		    "The feed-forward part's function: silu, or GELU by way of tanh or in its " \
		    "exact form; auto: the preset's, else " otherwise ".")
#define OPT_NORM_EPS(otherwise) \
	OPT_POSITIVE(norm_eps, 1, \
		     "What the norms add to the mean square; auto: the preset's, else " \
		     otherwise ".")
#define OPT_INIT_STD(projections) \
	OPT_OF(init_std, ZR_T_F64, 0, "0.02", 0, 100, "", \
	       "Standard deviation of initial weights; " projections \
	       " get it divided by sqrt(2 layers).")
#define OPT_DROPOUT \
	OPT_OF(dropout, ZR_T_F64, ZR_O_MAX_OPEN, "0", 0, 1, "", \
	       "Probability to drop, in training: embeddings, attention probabilities, both " \
	       "residual branches.")

/* ---- attention ---- */

#define OPT_WINDOW(otherwise) \
	OPT_COUNT0(window, 1 << 24, "tokens", \
		   "How many tokens a token sees in a layer of local attention, its own " \
		   "included; 0: all. auto: the preset's, else " otherwise ".")
#define OPT_GLOBAL_EVERY(otherwise) \
	OPT_COUNT0(global_every, 10000, "", \
		   "With n, each n-th layer sees all tokens; 0: none does where there is a " \
		   "window. auto: the preset's, else " otherwise ".")
#define OPT_LAYER_TYPES \
	OPT_LIST(layer_types, \
		 "For each layer sliding_attention, which has the window, or full_attention; " \
		 "empty: global_every says it.")
#define OPT_SCORE_WIDTH(otherwise) \
	OPT_COUNT(score_width, 1 << 24, "", \
		  "Attention's scores are divided by its root; auto: the preset's, else " \
		  otherwise ".")

/* ---- rotary positions ---- */

#define OPT_ROPE_THETA(otherwise) \
	OPT_OF(rope_theta, ZR_T_F64, ZR_O_AUTO | ZR_O_MIN_OPEN, "auto", 1, 1e12, "", \
	       "Base of the wavelengths of rotary positions; auto: the preset's, else " \
	       otherwise ".")
#define OPT_ROPE_FRACTION(otherwise) \
	OPT_POSITIVE(rope_fraction, 1, \
		     "The part of a head's elements that rotary positions turn; auto: the " \
		     "preset's, else " otherwise ".")

/* How wavelengths are stretched, and what each rule reads. */
#define OPTS_ROPE_SCALING \
	ZR_OPT_ENUM(struct decoder_opts, rope_scaling, ZR_O_AUTO | ZR_O_NUMERIC, "auto", \
		    decoder_scalings, \
		    "How these wavelengths are stretched; dynamic: only beyond context. auto: " \
		    "the preset's, else default."), \
	OPT_OF(rope_factor, ZR_T_F64, ZR_O_AUTO, "auto", 1, 1e6, "", \
	       "How far; auto: the preset's, with longrope context / rope_original_context."), \
	OPT_POSITIVE(rope_low_freq, 1e6, \
		     "llama3: wavelengths beyond rope_original_context over this are stretched; " \
		     "auto: 1."), \
	OPT_POSITIVE(rope_high_freq, 1e6, \
		     "llama3: those below rope_original_context over this are left; auto: 4."), \
	OPT_POSITIVE(rope_beta_fast, 1e6, \
		     "yarn: pairs that turn oftener within rope_original_context are left; " \
		     "auto: 32."), \
	OPT_POSITIVE(rope_beta_slow, 1e6, \
		     "yarn: pairs that turn less often are stretched; auto: 1."), \
	OPT_POSITIVE(rope_attention, 1e6, \
		     "yarn, longrope: factor of what is turned of queries and keys; auto: 0.1 " \
		     "ln(rope_factor) + 1, with longrope sqrt(1 + ln(rope_factor) / " \
		     "ln(rope_original_context))."), \
	OPT_LIST(rope_short, \
		 "longrope: the factor of each wavelength in sequences up to " \
		 "rope_original_context, numbers."), \
	OPT_LIST(rope_long, \
		 "longrope: the same in longer ones."), \
	OPT_COUNT(rope_original_context, 1 << 24, "tokens", \
		  "The context before wavelengths were stretched; auto: the preset's, else " \
		  "context.")

/* ---- experts ---- */

#define OPTS_EXPERTS \
	OPT_COUNT(experts, ZR_EXPERTS, "", \
		  "Experts of each block; auto: the preset's."), \
	OPT_COUNT(experts_per_token, ZR_EXPERTS, "", \
		  "How many of them, the likeliest ones, a token goes to; auto: the preset's."), \
	OPT_COEF(router_aux_loss_coef, \
		 "Weight of the load balancing loss: experts times the sum over experts of the " \
		 "tokens' share that goes there times the mean probability, each over all blocks " \
		 "of a micro-batch. It is added to what is learned, and shown as aux_loss. Where " \
		 "the INI does not give it, that of config.json counts if output_router_logits " \
		 "is true."), \
	OPT_COEF(router_z_loss_coef, \
		 "Likewise of the mean square of the log of the sum of exponentials of a token's " \
		 "router logits; aux_loss is the sum of both.")
#define OPT_NORM_TOPK_PROB(otherwise) \
	OPT_YES_NO(norm_topk_prob, \
		   "Whether the weights of a token's experts are divided by their sum; auto: the " \
		   "preset's, else " otherwise ".")

/* clang-format on */

#endif
