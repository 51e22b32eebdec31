/* SPDX-License-Identifier: Apache-2.0
 *
 * llama.c - model/llama: Llama (Touvron et al. 2023) and its relatives: RMSNorm before each branch,
 * rotary positions, grouped keys and values, SwiGLU. The declaration of its units, tensors and
 * layers; layers.c computes them. Names and orientation of tensors are Hugging Face's: weights of
 * linear maps are stored [out, in].
 */
#include "llama.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum extent { NONE, WIDTH, QUERIES, KEYS, FFN };

static const struct {
	const char *name;
	enum extent rows, cols; /* cols NONE: a vector */
} block_tensor[BLOCK_TENSORS] = {
	[LN1_W] = { "input_layernorm.weight", WIDTH, NONE },
	[Q_W] = { "self_attn.q_proj.weight", QUERIES, WIDTH },
	[K_W] = { "self_attn.k_proj.weight", KEYS, WIDTH },
	[V_W] = { "self_attn.v_proj.weight", KEYS, WIDTH },
	[O_W] = { "self_attn.o_proj.weight", WIDTH, QUERIES },
	[LN2_W] = { "post_attention_layernorm.weight", WIDTH, NONE },
	[GATE_W] = { "mlp.gate_proj.weight", FFN, WIDTH },
	[UP_W] = { "mlp.up_proj.weight", FFN, WIDTH },
	[DOWN_W] = { "mlp.down_proj.weight", WIDTH, FFN },
	[Q_B] = { "self_attn.q_proj.bias", QUERIES, NONE },
	[K_B] = { "self_attn.k_proj.bias", KEYS, NONE },
	[V_B] = { "self_attn.v_proj.bias", KEYS, NONE },
};

static int block_tensors(const struct llama_opts *o)
{
	return o->qkv_bias ? BLOCK_TENSORS : Q_B;
}

static int64_t extent(const struct llama_opts *o, enum extent e)
{
	const int64_t is[] = { 1, o->width, o->heads * o->head_dim, o->kv_heads * o->head_dim,
			       o->ffn_width };
	return is[e];
}

static void declare_block(const struct llama_opts *o, int64_t i, struct zr_tensor *t,
			  char (*names)[DECL_NAME])
{
	double residual_std = o->init_std / sqrt(2.0 * (double)o->layers);
	int k;
	for (k = 0; k < block_tensors(o); k++) {
		int64_t rows = extent(o, block_tensor[k].rows);
		snprintf(names[k], sizeof *names, "model.layers.%lld.%s", (long long)i,
			 block_tensor[k].name);
		if (block_tensor[k].cols)
			t[k] = decl_map(names[k], ZR_MAP_OUT_IN, rows,
					extent(o, block_tensor[k].cols),
					k == O_W || k == DOWN_W ? residual_std : o->init_std);
		else
			t[k] = decl_vector(names[k], rows, k == LN1_W || k == LN2_W);
	}
}

/* Embedding, blocks, norm, lm_head unless it is tied; names: those of tensors, then the blocks' */
static void declare_units(const struct llama_opts *o, struct decl *d)
{
	int64_t i, L = o->layers;
	int n = block_tensors(o);
	struct zr_tensor *t = d->tensors;
	char(*block_names)[DECL_NAME] = d->names + L * n;
	*t = decl_matrix("model.embed_tokens.weight", o->vocabulary, o->width, o->init_std);
	d->units[0] =
		(struct zr_unit){ .name = "model.embed_tokens", .tensors = t++, .n_tensors = 1 };
	for (i = 0; i < L; i++, t += n) {
		declare_block(o, i, t, d->names + i * n);
		snprintf(block_names[i], sizeof *block_names, "model.layers.%lld", (long long)i);
		d->units[1 + i] = (struct zr_unit){ .name = block_names[i], .tensors = t,
						    .n_tensors = (uint32_t)n };
	}
	*t = decl_vector("model.norm.weight", o->width, 1);
	d->units[1 + L] = (struct zr_unit){ .name = "model.norm", .tensors = t++, .n_tensors = 1 };
	if (o->tied)
		return;
	*t = decl_matrix("lm_head.weight", o->vocabulary, o->width, o->init_std);
	d->units[2 + L] = (struct zr_unit){ .name = "lm_head", .tensors = t, .n_tensors = 1 };
}

/* embed, the blocks, head of {norm, lm_head or the embedding} */
static void declare_layers(const struct llama_opts *o, struct decl *d)
{
	int64_t i, L = o->layers;
	int32_t *u = d->layer_units;
	for (i = 0; i <= L + 1; i++)
		u[i] = (int32_t)i;
	u[L + 2] = o->tied ? 0 : (int32_t)(L + 2);
	d->layers[0] = (struct zr_layer){ "embed", u, 1, ZR_LAYER_INPUT };
	for (i = 1; i <= L; i++)
		d->layers[i] = (struct zr_layer){ d->units[i].name, &u[i], 1, 0 };
	d->layers[1 + L] = (struct zr_layer){ "head", &u[1 + L], 2, ZR_LAYER_LOSS };
}

/* ---- what config.json says ---- */

/* A short text that reads back as x, a real number to whoever tells them from whole ones. */
static void real_text(char *out, size_t n, double x)
{
	snprintf(out, n, "%.15g", x);
	if (strtod(out, NULL) != x)
		snprintf(out, n, "%.17g", x);
	if (!strpbrk(out, ".e"))
		snprintf(out + strlen(out), n - strlen(out), ".0");
}

/* "rope_scaling" as the text of a JSON object */
static void declare_scaling(const struct llama_opts *o, char *out, size_t n)
{
	char factor[32], first[32], second[32], gain[32];
	int llama3 = o->rope_scaling == ROPE_LLAMA3, yarn = o->rope_scaling == ROPE_YARN;
	size_t at;
	real_text(factor, sizeof factor, o->rope_factor);
	real_text(first, sizeof first, llama3 ? o->rope_low_freq : o->rope_beta_fast);
	real_text(second, sizeof second, llama3 ? o->rope_high_freq : o->rope_beta_slow);
	real_text(gain, sizeof gain, o->rope_attention);
	at = (size_t)snprintf(out, n, "{\"rope_type\": \"%s\", \"factor\": %s",
			      llama_scalings[o->rope_scaling], factor);
	if (llama3 || yarn)
		at += (size_t)snprintf(out + at, n - at,
				       ", \"original_max_position_embeddings\": %lld",
				       (long long)o->rope_original_context);
	if (llama3)
		at += (size_t)snprintf(out + at, n - at,
				       ", \"low_freq_factor\": %s, \"high_freq_factor\": %s", first,
				       second);
	if (yarn)
		at += (size_t)snprintf(
			out + at, n - at,
			", \"beta_fast\": %s, \"beta_slow\": %s, \"attention_factor\": %s", first,
			second, gain);
	snprintf(out + at, n - at, "}");
}

static void put(struct llama_meta *m, const char *key, const char *value)
{
	m->pairs[m->n++] = key;
	m->pairs[m->n++] = value;
}

static void declare_meta(const struct llama_opts *o, struct llama_meta *m)
{
	const struct {
		const char *key;
		int64_t value;
	} whole[] = { { "num_hidden_layers", o->layers },
		      { "num_attention_heads", o->heads },
		      { "num_key_value_heads", o->kv_heads },
		      { "head_dim", o->head_dim },
		      { "hidden_size", o->width },
		      { "intermediate_size", o->ffn_width },
		      { "max_position_embeddings", o->context },
		      { "vocab_size", o->vocabulary } };
	int i;
	put(m, "architectures", o->qkv_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM");
	put(m, "model_type", o->qkv_bias ? "qwen2" : "llama");
	for (i = 0; i < LLAMA_WHOLE; i++) {
		snprintf(m->whole[i], sizeof m->whole[i], "%lld", (long long)whole[i].value);
		put(m, whole[i].key, m->whole[i]);
	}
	real_text(m->norm_eps, sizeof m->norm_eps, o->norm_eps);
	put(m, "rms_norm_eps", m->norm_eps);
	real_text(m->theta, sizeof m->theta, o->rope_theta);
	put(m, "rope_theta", m->theta);
	if (o->rope_scaling != ROPE_DEFAULT) {
		declare_scaling(o, m->scaling, sizeof m->scaling);
		put(m, "rope_scaling", m->scaling);
	}
	put(m, "tie_word_embeddings", o->tied ? "true" : "false");
	put(m, "hidden_act", "silu");
	if (o->qkv_bias)
		put(m, "use_sliding_window", "false");
}

/* ---- declaration ---- */

/* Six operations per token and parameter of a matrix product (multiply and add, forward and twice
 * in backward), the output projection included, lookups not. Attention: q k^T and p v take 2 T H D
 * each per token and block, half of that because it is causal, three times that with the backward:
 * 6 T H D. */
static double flops_per_token(const struct llama_opts *o)
{
	double C = (double)o->width, L = (double)o->layers, D = (double)o->head_dim;
	double queries = (double)o->heads * D, keys = (double)o->kv_heads * D;
	double block = 2 * C * queries + 2 * C * keys + 3 * C * (double)o->ffn_width;
	return 6 * (block * L + C * (double)o->vocabulary) + 6 * (double)o->context * queries * L;
}

static int llama_declare(struct zr_inst *g, struct zr_model_decl *out)
{
	const struct llama_opts *o = g->o;
	*out = decl_answer(&g->decl, o->layers + (o->tied ? 2 : 3), o->layers + 2, g->meta.pairs);
	out->vocabulary = o->vocabulary;
	out->context = o->context;
	out->flops_per_token = flops_per_token(o);
	return ZR_OK;
}

/* ---- instance ---- */

static void llama_destroy(struct zr_inst *g)
{
	decl_free(g->host, &g->decl);
	g->host->release(g->host, g);
}

static int llama_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct llama_opts *o = opts;
	struct zr_inst *g = h->alloc(h, sizeof *g, "model");
	int64_t L = o->layers, n = block_tensors(o);
	if (!g)
		return zr_fail(h, ZR_ENOMEM, "no memory for the model's description");
	g->host = h;
	g->o = o;
	if (decl_alloc(h, &g->decl, L + 3, L * n + 3, L + 2, L + 3, L * (n + 1))) {
		llama_destroy(g);
		return zr_fail(h, ZR_ENOMEM, "no memory for the model's description");
	}
	llama_frequencies(o, g->frequency);
	declare_units(o, &g->decl);
	declare_layers(o, &g->decl);
	declare_meta(o, &g->meta);
	*out = g;
	return ZR_OK;
}

static const struct zr_model_v1 llama_model = {
	.size = sizeof llama_model,
	.declare = llama_declare,
	.bytes = llama_bytes,
	.forward = llama_forward,
	.backward = llama_backward,
	.logits = llama_logits,
};

static const struct zr_iface llama_ifaces[] = { { "zr.model/1", &llama_model },
						{ "zr.pretrained/1", &llama_pretrained },
						{ NULL, NULL } };

static const struct zr_desc llama_desc = {
	.size = sizeof llama_desc,
	.role = "model",
	.id = "llama",
	.version = "1.0",
	.license = "Apache-2.0",
	.summary = "Llama and Qwen2: rotary positions, grouped keys and values, RMSNorm, SwiGLU",
	.ifaces = llama_ifaces,
	.opts = llama_opt,
	.n_opts = LLAMA_OPTS,
	.opt_stride = sizeof *llama_opt,
	.opts_size = sizeof(struct llama_opts),
	.resolve = llama_resolve,
	.check = llama_check,
	.create = llama_create,
	.destroy = llama_destroy,
};

ZR_PLUGIN(&llama_desc);
