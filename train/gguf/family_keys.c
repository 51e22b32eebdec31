/* SPDX-License-Identifier: Apache-2.0
 *
 * family_keys.c - see parts.h: what a model computes, as the keys that llama.cpp reads.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "train/gguf/parts.h"

int zr_gguf_shape_of(const json_t *meta, struct zr_gguf_shape *s, struct zr_error *err)
{
	const char *rope = zr_gguf_word(meta, "rope_scaling");

	*s = (struct zr_gguf_shape){ .layers = zr_gguf_whole(meta, "num_hidden_layers"),
				     .heads = zr_gguf_whole(meta, "num_attention_heads"),
				     .kv_heads = zr_gguf_whole(meta, "num_key_value_heads"),
				     .head_dim = zr_gguf_whole(meta, "head_dim"),
				     .width = zr_gguf_whole(meta, "hidden_size"),
				     .ffn = zr_gguf_whole(meta, "intermediate_size"),
				     .context = zr_gguf_whole(meta, "max_position_embeddings"),
				     .vocabulary = zr_gguf_whole(meta, "vocab_size"),
				     .norm_eps = zr_gguf_real(meta, "rms_norm_eps"),
				     .theta = zr_gguf_real(meta, "rope_theta"),
				     .rule = "default" };
	if (!rope)
		return 0;

	int rc = zr_json_object(rope, strlen(rope), "rope_scaling", &s->rope, err);
	if (rc)
		return rc;

	s->rule = json_string_value(json_object_get(s->rope, "rope_type"));
	if (!s->rule)
		s->rule = json_string_value(json_object_get(s->rope, "type"));
	if (!s->rule)
		s->rule = "nameless";
	return 0;
}

void zr_gguf_shape_free(struct zr_gguf_shape *s)
{
	json_decref(s->rope);
}

/* ---- what llama.cpp would compute in another way ---- */

static int refuse(const struct zr_gguf_describe *d, const char *why, struct zr_error *err)
{
	return zr_err(err, ZR_EINVAL,
		      "--gguf: llama.cpp's %s takes it that %s, which is not so here: export "
		      "without --gguf",
		      d->family->name, why);
}

static int has(const struct zr_layout *l, const char *name)
{
	for (int32_t i = 0; i < l->n_tensors; i++)
		if (!strcmp(l->tensor[i].decl->name, name))
			return 1;

	return 0;
}

/* Windows in all layers but each `every`-th. */
static int check_windows(const struct zr_gguf_describe *d, int64_t every, struct zr_error *err)
{
	const char *text = zr_gguf_word(d->meta, "layer_types");
	json_error_t at;
	json_t *list = text ? zr_json_load(text, strlen(text), 0, &at) : NULL, *kind;
	int same = list && zr_gguf_whole(d->meta, "sliding_window") > 0 &&
		   (int64_t)json_array_size(list) == d->shape->layers;
	size_t i;

	json_array_foreach(list, i, kind)
	{
		const char *want = ((int64_t)i + 1) % every ? "sliding_attention" :
							      "full_attention";
		const char *word = json_string_value(kind);
		same &= word && !strcmp(word, want);
	}

	json_decref(list);
	if (same)
		return 0;

	char why[96];
	snprintf(why, sizeof why,
		 "all layers have a window but each %lldth ([model] window, "
		 "global_every)",
		 (long long)every);
	return refuse(d, why, err);
}

/* The scores' divisor, of which the file says nothing: llama.cpp tells the largest model of a
 * family by its layers. */
static int check_scores(const struct zr_gguf_describe *d, int64_t largest, struct zr_error *err)
{
	const struct zr_gguf_shape *s = d->shape;
	const int64_t width = s->layers == largest ? s->width / s->heads : s->head_dim;
	char why[128];

	if (zr_gguf_real(d->meta, "query_pre_attn_scalar") == (double)width)
		return 0;

	snprintf(why, sizeof why, "[model] score_width is %lld where there are %lld layers",
		 (long long)width, (long long)s->layers);
	return refuse(d, why, err);
}

static int check_gemma2(const struct zr_gguf_describe *d, struct zr_error *err)
{
	int rc = check_windows(d, 2, err);
	if (!rc)
		rc = check_scores(d, 46, err);
	if (rc)
		return rc;

	if (d->shape->theta != 10000 || d->shape->rope)
		return refuse(d, "[model] rope_theta is 10000, and rope_scaling default", err);
	if (zr_gguf_real(d->meta, "attn_logit_softcapping") <= 0 ||
	    zr_gguf_real(d->meta, "final_logit_softcapping") <= 0)
		return refuse(d,
			      "scores and logits have soft caps: [model] score_softcap, "
			      "logit_softcap",
			      err);
	if (has(d->layout, "lm_head.weight"))
		return refuse(d, "the head is the embedding: [model] tied = yes", err);
	return 0;
}

static int check_gemma3(const struct zr_gguf_describe *d, struct zr_error *err)
{
	int rc = check_windows(d, 6, err);
	if (rc)
		return rc;
	return check_scores(d, 62, err);
}

/* Heads that divide the width between them. */
static int check_heads(const struct zr_gguf_describe *d, struct zr_error *err)
{
	if (d->shape->head_dim * d->shape->heads == d->shape->width)
		return 0;
	return refuse(d, "[model] head_dim is width / heads", err);
}

static int check_qwen3(const struct zr_gguf_describe *d, struct zr_error *err)
{
	if (!has(d->layout, "model.layers.0.self_attn.o_proj.bias"))
		return 0;
	return refuse(d, "the output of attention has no bias: [model] o_bias = no", err);
}

static int check(const struct zr_gguf_describe *d, struct zr_error *err)
{
	const struct zr_gguf_shape *s = d->shape;
	const double numbers[] = { (double)s->layers,   (double)s->heads,     (double)s->kv_heads,
				   (double)s->head_dim, (double)s->width,     (double)s->ffn,
				   (double)s->context,  (double)s->vocabulary };

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (numbers[i] < 1 || numbers[i] > INT32_MAX)
			return zr_err(err, ZR_EINVAL,
				      "--gguf: the model does not say its shape, or it has more "
				      "than 32 bits");

	switch (d->family->id) {
	case ZR_GGUF_QWEN2:
	case ZR_GGUF_PHI3:
		return check_heads(d, err);
	case ZR_GGUF_QWEN3:
		return check_qwen3(d, err);
	case ZR_GGUF_GEMMA2:
		return check_gemma2(d, err);
	case ZR_GGUF_GEMMA3:
		return check_gemma3(d, err);
	case ZR_GGUF_LLAMA:
	case ZR_GGUF_MISTRAL:
		break;
	}

	return 0;
}

/* llama.cpp has no windows in these two, as its converter writes them. */
static void say_window(const struct zr_gguf_describe *d)
{
	const int64_t window = zr_gguf_whole(d->meta, "sliding_window");

	if ((d->family->id == ZR_GGUF_MISTRAL || d->family->id == ZR_GGUF_PHI3) && window > 0 &&
	    window < d->shape->context)
		zr_logf(ZR_LOG_WARN, "export",
			"the model attends to %lld tokens; llama.cpp has no window for %s and "
			"attends to all: texts that are longer come out differently",
			(long long)window, d->family->architecture);
}

/* ---- all of them ---- */

static void put_shape(const struct zr_gguf_describe *d)
{
	const struct zr_gguf_shape *s = d->shape;

	zr_gguf_own_u32(d, "block_count", s->layers);
	zr_gguf_own_u32(d, "context_length", s->context);
	zr_gguf_own_u32(d, "embedding_length", s->width);
	zr_gguf_own_u32(d, "feed_forward_length", s->ffn);
	zr_gguf_own_u32(d, "attention.head_count", s->heads);
	zr_gguf_own_u32(d, "attention.head_count_kv", s->kv_heads);
	zr_gguf_own_f32(d, "attention.layer_norm_rms_epsilon", s->norm_eps);
	if (d->family->id != ZR_GGUF_PHI3 && d->family->id != ZR_GGUF_QWEN2) {
		zr_gguf_own_u32(d, "attention.key_length", s->head_dim);
		zr_gguf_own_u32(d, "attention.value_length", s->head_dim);
	}

	if (d->family->turned)
		zr_gguf_own_u32(d, "vocab_size", s->vocabulary);
}

static void put_window(const struct zr_gguf_describe *d)
{
	switch (d->family->id) {
	case ZR_GGUF_GEMMA2:
	case ZR_GGUF_GEMMA3:
	case ZR_GGUF_PHI3:
		zr_gguf_own_u32(d, "attention.sliding_window",
				zr_gguf_whole(d->meta, "sliding_window"));
		break;
	case ZR_GGUF_LLAMA:
	case ZR_GGUF_MISTRAL:
	case ZR_GGUF_QWEN2:
	case ZR_GGUF_QWEN3:
		break;
	}
}

static void put_soft_cap(const struct zr_gguf_describe *d, const char *theirs, const char *ours)
{
	const double cap = zr_gguf_real(d->meta, theirs);
	if (cap > 0)
		zr_gguf_own_f32(d, ours, cap);
}

int zr_gguf_family_keys(const struct zr_gguf_describe *d, struct zr_error *err)
{
	int rc = check(d, err);
	if (rc)
		return rc;

	say_window(d);
	put_shape(d);
	put_window(d);
	put_soft_cap(d, "attn_logit_softcapping", "attn_logit_softcapping");
	put_soft_cap(d, "final_logit_softcapping", "final_logit_softcapping");
	return zr_gguf_rope_keys(d, err);
}
