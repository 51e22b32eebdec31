/* SPDX-License-Identifier: Apache-2.0
 *
 * family.c - see parts.h: which models there are, and what llama.cpp calls their tensors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/gguf/parts.h"

static const struct zr_gguf_family families[] = {
	{ "LlamaForCausalLM", "llama", ZR_GGUF_LLAMA, 1, 0 },
	{ "MistralForCausalLM", "llama", ZR_GGUF_MISTRAL, 1, 0 },
	{ "Qwen2ForCausalLM", "qwen2", ZR_GGUF_QWEN2, 0, 0 },
	{ "Qwen3ForCausalLM", "qwen3", ZR_GGUF_QWEN3, 0, 0 },
	{ "Gemma2ForCausalLM", "gemma2", ZR_GGUF_GEMMA2, 0, 1 },
	{ "Gemma3ForCausalLM", "gemma3", ZR_GGUF_GEMMA3, 0, 1 },
	{ "Phi3ForCausalLM", "phi3", ZR_GGUF_PHI3, 0, 0 },
};

int zr_gguf_family(const json_t *meta, const struct zr_gguf_family **out, struct zr_error *err)
{
	const char *architecture = zr_gguf_word(meta, "architectures");

	for (size_t i = 0; architecture && i < sizeof families / sizeof *families; i++)
		if (!strcmp(families[i].architecture, architecture)) {
			*out = &families[i];
			return 0;
		}

	return zr_err(err, ZR_EINVAL,
		      "--gguf: it writes Llama, Mistral, Qwen2, Qwen3, Gemma 2, Gemma 3 and Phi-3, "
		      "and this is %s: export without --gguf, and let llama.cpp convert that",
		      architecture ? architecture : "a model without a class of transformers");
}

/* ---- the description ---- */

const char *zr_gguf_word(const json_t *meta, const char *key)
{
	return json_string_value(json_object_get(meta, key));
}

int64_t zr_gguf_whole(const json_t *meta, const char *key)
{
	const char *text = zr_gguf_word(meta, key);
	if (text)
		return strtoll(text, NULL, 10);
	return 0;
}

double zr_gguf_real(const json_t *meta, const char *key)
{
	const char *text = zr_gguf_word(meta, key);
	if (text)
		return strtod(text, NULL);
	return 0;
}

/* ---- keys ---- */

static const char *own(const struct zr_gguf_describe *d, const char *key, char text[96])
{
	snprintf(text, 96, "%s.%s", d->family->name, key);
	return text;
}

void zr_gguf_own_u32(const struct zr_gguf_describe *d, const char *key, int64_t value)
{
	char text[96];
	zr_gguf_u32(d->keys, own(d, key, text), (uint32_t)value);
}

void zr_gguf_own_f32(const struct zr_gguf_describe *d, const char *key, double value)
{
	char text[96];
	zr_gguf_f32(d->keys, own(d, key, text), (float)value);
}

void zr_gguf_own_text(const struct zr_gguf_describe *d, const char *key, const char *value)
{
	char text[96];
	zr_gguf_text(d->keys, own(d, key, text), value);
}

/* ---- names of tensors ---- */

struct name {
	const char *theirs, *ours;
	int after; /* 1: where norms stand behind branches; 2: where none do; 0: everywhere */
};

static const struct name around[] = {
	{ "model.embed_tokens", "token_embd", 0 },
	{ "model.norm", "output_norm", 0 },
	{ "lm_head", "output", 0 },
};

static const struct name in_block[] = {
	{ "input_layernorm", "attn_norm", 0 },
	{ "self_attn.q_proj", "attn_q", 0 },
	{ "self_attn.k_proj", "attn_k", 0 },
	{ "self_attn.v_proj", "attn_v", 0 },
	{ "self_attn.qkv_proj", "attn_qkv", 0 },
	{ "self_attn.o_proj", "attn_output", 0 },
	{ "self_attn.q_norm", "attn_q_norm", 0 },
	{ "self_attn.k_norm", "attn_k_norm", 0 },
	{ "post_attention_layernorm", "post_attention_norm", 1 },
	{ "post_attention_layernorm", "ffn_norm", 2 },
	{ "pre_feedforward_layernorm", "ffn_norm", 1 },
	{ "post_feedforward_layernorm", "post_ffw_norm", 1 },
	{ "mlp.gate_proj", "ffn_gate", 0 },
	{ "mlp.up_proj", "ffn_up", 0 },
	{ "mlp.gate_up_proj", "ffn_up", 0 },
	{ "mlp.down_proj", "ffn_down", 0 },
};

/* The name of those whose first n bytes are the text; NULL: none of them. */
static const char *ours_of(const struct name *list, size_t count, int after, const char *text,
			   size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(list[i].theirs) == n && !memcmp(list[i].theirs, text, n) &&
		    (!list[i].after || list[i].after == after))
			return list[i].ours;

	return NULL;
}

int zr_gguf_name(const struct zr_gguf_family *f, const char *name, char out[128],
		 struct zr_error *err)
{
	static const char blocks[] = "model.layers.";
	const char *dot = strrchr(name, '.'), *ours = NULL;
	const int after = f->shifted ? 1 : 2;
	const size_t head = dot ? (size_t)(dot - name) : 0;

	if (dot && !strncmp(name, blocks, strlen(blocks))) {
		char *rest;
		const long block = strtol(name + strlen(blocks), &rest, 10);
		const size_t at = (size_t)(rest - name) + 1;
		if (*rest == '.' && at < head)
			ours = ours_of(in_block, sizeof in_block / sizeof *in_block, after,
				       name + at, head - at);
		if (ours)
			snprintf(out, 128, "blk.%ld.%s%s", block, ours, dot);
	} else if (dot) {
		ours = ours_of(around, sizeof around / sizeof *around, after, name, head);
		if (ours)
			snprintf(out, 128, "%s%s", ours, dot);
	}

	if (ours)
		return 0;
	return zr_err(err, ZR_EINVAL, "--gguf: llama.cpp's %s has no name for tensor %s", f->name,
		      name);
}
