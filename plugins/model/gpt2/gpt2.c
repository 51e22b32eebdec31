/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2.c - model/gpt2: GPT-2 (Radford et al. 2019). Options, presets, and the declaration of its
 * units, tensors and layers; layers.c computes them. Names and orientation of tensors are Hugging
 * Face's GPT-2 without the prefix `transformer.`: weights of linear maps are stored [in, out].
 */
#include "gpt2.h"

#include <math.h>
#include <string.h>

/* ---- options ---- */

static const char *const sizes[] = { "none", "124m", "355m", "774m", "1558m", NULL };

/* layers, heads, width; context 1024 and vocabulary 50257 are common. Indexed by gpt2_opts.size. */
static const int64_t presets[][3] = {
	{ 0 }, { 12, 12, 768 }, { 24, 16, 1024 }, { 36, 20, 1280 }, { 48, 25, 1600 }
};

/* The upper limits keep every product of two of them, in bytes, far below 2^63. */
static const struct zr_opt gpt2_opt[] = {
	ZR_OPT_ENUM(
		struct gpt2_opts, size, ZR_O_NUMERIC, "none", sizes,
		"Preset of layers, heads, width, context and vocabulary; keys given beside it "
		"override it."),
	ZR_OPT(struct gpt2_opts, layers, ZR_T_I64, ZR_O_AUTO | ZR_O_NUMERIC, "auto", 1, 10000, "",
	       "Transformer blocks; auto: the preset's."),
	ZR_OPT(struct gpt2_opts, heads, ZR_T_I64, ZR_O_AUTO | ZR_O_NUMERIC, "auto", 1, 1 << 20, "",
	       "Attention heads; must divide width; auto: the preset's."),
	ZR_OPT(struct gpt2_opts, width, ZR_T_I64, ZR_O_AUTO | ZR_O_NUMERIC, "auto", 1, 1 << 20, "",
	       "Elements of a token's activation; auto: the preset's."),
	ZR_OPT(struct gpt2_opts, context, ZR_T_I64, ZR_O_AUTO | ZR_O_NUMERIC, "auto", 1, 1 << 24,
	       "tokens", "Learned positions, the longest sequence; auto: the preset's."),
	ZR_OPT(struct gpt2_opts, vocabulary, ZR_T_I64, ZR_O_AUTO | ZR_O_NUMERIC, "auto", 2,
	       INT32_MAX, "tokens", "Different tokens; auto: the preset's, else the data's."),
	ZR_OPT(struct gpt2_opts, dropout, ZR_T_F64, ZR_O_MAX_OPEN | ZR_O_NUMERIC, "0", 0, 1, "",
	       "Probability to drop, in training: embeddings, attention probabilities, both "
	       "residual branches."),
	ZR_OPT(struct gpt2_opts, init_std, ZR_T_F64, ZR_O_NUMERIC, "0.02", 0, 100, "",
	       "Standard deviation of initial weights; residual projections get it divided by "
	       "sqrt(2 layers)."),
};

/* Fills *value from the preset or, without one, from what is otherwise known (0: nothing). */
static int fill(const struct zr_host *h, const char *key, int64_t *value, int64_t preset,
		int64_t known)
{
	if (*value != ZR_AUTO_I64)
		return ZR_OK;
	*value = preset ? preset : known;
	if (*value)
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL, "%s is not set: give it, or choose a preset by size", key);
}

static int gpt2_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct gpt2_opts *o = opts;
	const int64_t *p = presets[o->size];
	int64_t data_vocabulary = ZR_HAS(facts, struct zr_facts, vocabulary) ? facts->vocabulary :
									       0;
	int rc = fill(h, "layers", &o->layers, p[0], 0);
	if (!rc)
		rc = fill(h, "heads", &o->heads, p[1], 0);
	if (!rc)
		rc = fill(h, "width", &o->width, p[2], 0);
	if (!rc)
		rc = fill(h, "context", &o->context, o->size ? 1024 : 0, 0);
	if (!rc)
		rc = fill(h, "vocabulary", &o->vocabulary, o->size ? 50257 : 0, data_vocabulary);
	return rc;
}

static int gpt2_check(const struct zr_host *h, const void *opts)
{
	const struct gpt2_opts *o = opts;
	if (o->width % o->heads)
		return zr_fail(h, ZR_EINVAL, "heads = %lld does not divide width = %lld",
			       (long long)o->heads, (long long)o->width);
	return ZR_OK;
}

/* ---- declaration ---- */

static const struct {
	const char *name;
	int rows, cols; /* dims in widths; cols 0: a vector */
} block_tensor[BLOCK_TENSORS] = {
	[LN1_W] = { "ln_1.weight", 1, 0 },         [LN1_B] = { "ln_1.bias", 1, 0 },
	[QKV_W] = { "attn.c_attn.weight", 1, 3 },  [QKV_B] = { "attn.c_attn.bias", 3, 0 },
	[PROJ_W] = { "attn.c_proj.weight", 1, 1 }, [PROJ_B] = { "attn.c_proj.bias", 1, 0 },
	[LN2_W] = { "ln_2.weight", 1, 0 },         [LN2_B] = { "ln_2.bias", 1, 0 },
	[FC_W] = { "mlp.c_fc.weight", 1, 4 },      [FC_B] = { "mlp.c_fc.bias", 4, 0 },
	[FC2_W] = { "mlp.c_proj.weight", 4, 1 },   [FC2_B] = { "mlp.c_proj.bias", 1, 0 },
};

static void declare_block(const struct gpt2_opts *o, int64_t i, struct zr_tensor *t,
			  char (*names)[DECL_NAME])
{
	double residual_std = o->init_std / sqrt(2.0 * (double)o->layers);
	int64_t C = o->width;
	int k;
	for (k = 0; k < BLOCK_TENSORS; k++) {
		snprintf(names[k], sizeof *names, "h.%lld.%s", (long long)i, block_tensor[k].name);
		if (block_tensor[k].cols)
			t[k] = decl_map(names[k], ZR_MAP_IN_OUT, block_tensor[k].rows * C,
					block_tensor[k].cols * C,
					k == PROJ_W || k == FC2_W ? residual_std : o->init_std);
		else
			t[k] = decl_vector(names[k], block_tensor[k].rows * C,
					   k == LN1_W || k == LN2_W);
	}
}

/* wte, wpe, h.0 .. h.L-1, ln_f; names: those of tensors, then the blocks' */
static void declare_units(const struct gpt2_opts *o, struct decl *d)
{
	int64_t i, L = o->layers;
	struct zr_tensor *t = d->tensors;
	char(*block_names)[DECL_NAME] = d->names + L * BLOCK_TENSORS;
	t[0] = decl_matrix("wte.weight", o->vocabulary, o->width, o->init_std);
	t[1] = decl_matrix("wpe.weight", o->context, o->width, o->init_std);
	d->units[0] = (struct zr_unit){ .name = "wte", .tensors = t++, .n_tensors = 1 };
	d->units[1] = (struct zr_unit){ .name = "wpe", .tensors = t++, .n_tensors = 1 };
	for (i = 0; i < L; i++, t += BLOCK_TENSORS) {
		declare_block(o, i, t, d->names + i * BLOCK_TENSORS);
		snprintf(block_names[i], sizeof *block_names, "h.%lld", (long long)i);
		d->units[2 + i] = (struct zr_unit){ .name = block_names[i], .tensors = t,
						    .n_tensors = BLOCK_TENSORS };
	}
	t[LNF_W] = decl_vector("ln_f.weight", o->width, 1);
	t[LNF_B] = decl_vector("ln_f.bias", o->width, 0);
	d->units[2 + L] = (struct zr_unit){ .name = "ln_f", .tensors = t, .n_tensors = 2 };
}

/* embed of {wte, wpe}, the blocks, head of {ln_f, wte} */
static void declare_layers(const struct gpt2_opts *o, struct decl *d)
{
	int64_t i, L = o->layers;
	int32_t *u = d->layer_units;
	u[0] = 0;
	u[1] = 1;
	d->layers[0] = (struct zr_layer){ "embed", u, 2, ZR_LAYER_INPUT };
	for (i = 0; i < L; i++) {
		u[2 + i] = (int32_t)(2 + i);
		d->layers[1 + i] = (struct zr_layer){ d->units[2 + i].name, &u[2 + i], 1, 0 };
	}
	u[2 + L] = (int32_t)(2 + L);
	u[3 + L] = 0;
	d->layers[1 + L] = (struct zr_layer){ "head", &u[2 + L], 2, ZR_LAYER_LOSS };
}

/* What config.json of Hugging Face's GPT-2 says. */
static void declare_meta(const struct gpt2_opts *o, struct gpt2_meta *m)
{
	const int64_t numbers[5] = { o->layers, o->heads, o->width, o->context, o->vocabulary };
	const char *meta[] = {
		"model_type",
		"gpt2",
		"n_layer",
		m->text[0],
		"n_head",
		m->text[1],
		"n_embd",
		m->text[2],
		"n_positions",
		m->text[3],
		"n_ctx",
		m->text[3],
		"vocab_size",
		m->text[4],
		"activation_function",
		"gelu_new",
		"layer_norm_epsilon",
		"1e-5",
		"tie_word_embeddings",
		"true",
		"architectures",
		"GPT2LMHeadModel",
		NULL,
	};
	int i;
	_Static_assert(sizeof meta == sizeof m->pairs, "GPT2_META counts the keys");
	for (i = 0; i < 5; i++)
		snprintf(m->text[i], sizeof m->text[i], "%lld", (long long)numbers[i]);
	memcpy(m->pairs, meta, sizeof meta);
}

/* Six operations per token and parameter of a matrix product (multiply and add, forward and twice
 * in backward), the tied output projection included, lookups not. Attention: q k^T and p v take 2 T
 * C each per token and block, half of that because it is causal, three times that with the
 * backward: 6 T C. */
static double flops_per_token(const struct gpt2_opts *o)
{
	double C = (double)o->width, L = (double)o->layers;
	return 6 * (12 * C * C * L + C * (double)o->vocabulary) + 6 * (double)o->context * C * L;
}

static int gpt2_declare(struct zr_inst *g, struct zr_model_decl *out)
{
	const struct gpt2_opts *o = g->o;
	*out = decl_answer(&g->decl, o->layers + 3, o->layers + 2, g->meta.pairs);
	out->vocabulary = o->vocabulary;
	out->context = o->context;
	out->flops_per_token = flops_per_token(o);
	return ZR_OK;
}

/* ---- instance ---- */

static void gpt2_destroy(struct zr_inst *g)
{
	decl_free(g->host, &g->decl);
	g->host->release(g->host, g);
}

static int gpt2_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct gpt2_opts *o = opts;
	struct zr_inst *g = h->alloc(h, sizeof *g, "model");
	int64_t L = o->layers;
	if (!g)
		return zr_fail(h, ZR_ENOMEM, "no memory for the model's description");
	g->host = h;
	g->o = o;
	if (decl_alloc(h, &g->decl, L + 3, L * BLOCK_TENSORS + 4, L + 2, L + 4,
		       L * (BLOCK_TENSORS + 1))) {
		gpt2_destroy(g);
		return zr_fail(h, ZR_ENOMEM, "no memory for the model's description");
	}
	declare_units(o, &g->decl);
	declare_layers(o, &g->decl);
	declare_meta(o, &g->meta);
	*out = g;
	return ZR_OK;
}

static const struct zr_model_v1 gpt2_model = {
	.size = sizeof gpt2_model,
	.declare = gpt2_declare,
	.bytes = gpt2_bytes,
	.forward = gpt2_forward,
	.backward = gpt2_backward,
	.logits = gpt2_logits,
};

static const struct zr_iface gpt2_ifaces[] = { { "zr.model/1", &gpt2_model },
					       { "zr.pretrained/1", &gpt2_pretrained },
					       { NULL, NULL } };

static const struct zr_desc gpt2_desc = {
	.size = sizeof gpt2_desc,
	.role = "model",
	.id = "gpt2",
	.version = "1.0",
	.license = "Apache-2.0",
	.summary = "GPT-2: learned positions, pre-norm blocks, tied output projection",
	.ifaces = gpt2_ifaces,
	.opts = gpt2_opt,
	.n_opts = sizeof gpt2_opt / sizeof *gpt2_opt,
	.opt_stride = sizeof *gpt2_opt,
	.opts_size = sizeof(struct gpt2_opts),
	.resolve = gpt2_resolve,
	.check = gpt2_check,
	.create = gpt2_create,
	.destroy = gpt2_destroy,
};

ZR_PLUGIN(&gpt2_desc);
