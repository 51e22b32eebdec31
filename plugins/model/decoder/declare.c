/* SPDX-License-Identifier: Apache-2.0
 *
 * declare.c - the units, tensors and layers of a model, with the family's names.
 */
#include "decoder.h"

#include <math.h>
#include <string.h>

enum extent { NONE, WIDTH, QUERIES, KEYS, ALL_HEADS, FFN, GATE_AND_UP, Q_NORM, K_NORM, EXPERTS };

/* What a tensor maps; `in` NONE: a vector. */
static const struct {
	enum extent out, in;
} shape[BLOCK_TENSORS] = {
	[NORM1_W] = { WIDTH, NONE },    [NORM1_B] = { WIDTH, NONE },
	[QKV_W] = { ALL_HEADS, WIDTH }, [QKV_B] = { ALL_HEADS, NONE },
	[Q_W] = { QUERIES, WIDTH },     [Q_B] = { QUERIES, NONE },
	[K_W] = { KEYS, WIDTH },        [K_B] = { KEYS, NONE },
	[V_W] = { KEYS, WIDTH },        [V_B] = { KEYS, NONE },
	[Q_NORM_W] = { Q_NORM, NONE },  [K_NORM_W] = { K_NORM, NONE },
	[O_W] = { WIDTH, QUERIES },     [O_B] = { WIDTH, NONE },
	[AFTER1_W] = { WIDTH, NONE },   [NORM2_W] = { WIDTH, NONE },
	[NORM2_B] = { WIDTH, NONE },    [GATE_W] = { FFN, WIDTH },
	[GATE_B] = { FFN, NONE },       [UP_W] = { FFN, WIDTH },
	[UP_B] = { FFN, NONE },         [GATE_UP_W] = { GATE_AND_UP, WIDTH },
	[DOWN_W] = { WIDTH, FFN },      [DOWN_B] = { WIDTH, NONE },
	[AFTER2_W] = { WIDTH, NONE },   [ROUTER_W] = { EXPERTS, WIDTH },
};

static int64_t extent(const struct zr_inst *g, enum extent e)
{
	const struct decoder_opts *o = g->o;
	const int64_t D = o->head_dim, q = o->heads * D, kv = o->kv_heads * D;

	switch (e) {
	case WIDTH:
		return o->width;
	case QUERIES:
		return q;
	case KEYS:
		return kv;
	case ALL_HEADS:
		return q + 2 * kv;
	case FFN:
		return o->ffn_width;
	case GATE_AND_UP:
		return 2 * o->ffn_width;
	case Q_NORM:
		return g->f->qk_norm_whole ? q : D;
	case K_NORM:
		return g->f->qk_norm_whole ? kv : D;
	case EXPERTS:
		return o->experts;
	case NONE:
		break;
	}

	return 1;
}

static int is_there(const struct decoder_opts *o, const struct tensor_name *t)
{
	const int is[] = { 1, o->qkv_bias, o->o_bias, o->mlp_bias };
	return is[t->needs];
}

/* The weight of a norm starts as the factor 1. */
static double norm_start(const struct zr_inst *g)
{
	return !g->f->norm_plus_one;
}

static int is_norm(enum block_tensor k)
{
	return k == NORM1_W || k == NORM2_W || k == AFTER1_W || k == AFTER2_W || k == Q_NORM_W ||
	       k == K_NORM_W;
}

void decoder_places(struct zr_inst *g)
{
	uint32_t i;

	for (i = 0; i < BLOCK_TENSORS; i++)
		g->at[i] = -1;
	for (i = 0; i < g->f->n_tensors; i++)
		if (is_there(g->o, &g->f->tensors[i]))
			g->at[g->f->tensors[i].tensor] = g->n_block++;
}

/* Whether b lies right behind a, an out_in map of `out` outputs. */
static int follows(const struct zr_inst *g, enum block_tensor a, int64_t out, enum block_tensor b)
{
	if (g->at[a] < 0 || g->at[b] != g->at[a] + 1)
		return 0;

	return g->f->map == ZR_MAP_OUT_IN && out * g->o->width % ZR_BLOCK == 0;
}

/* One product for several weights: where nothing else needs what each of them gives by itself.
 * Products in 8 bits round a row of gradients by its largest one, which is another one for each. */
static void find_joint(struct zr_inst *g)
{
	const struct decoder_opts *o = g->o;
	const int64_t q = o->heads * o->head_dim, kv = o->kv_heads * o->head_dim;

	g->joint_qkv = !g->fp8 && g->at[Q_B] < 0 && g->at[Q_NORM_W] < 0 &&
		       follows(g, Q_W, q, K_W) && follows(g, K_W, kv, V_W);
	g->joint_gates = !g->fp8 && g->at[GATE_B] < 0 && g->at[UP_B] < 0 &&
			 follows(g, GATE_W, o->ffn_width, UP_W);
}

static struct zr_tensor block_tensor(const struct zr_inst *g, enum block_tensor k, const char *name)
{
	const struct decoder_opts *o = g->o;
	int64_t out = extent(g, shape[k].out), in = extent(g, shape[k].in);
	int out_in = g->f->map == ZR_MAP_OUT_IN;
	double std;

	if (k == O_W || k == DOWN_W)
		std = o->init_std / sqrt(2.0 * (double)o->layers);
	else
		std = o->init_std;
	if (shape[k].in == NONE)
		return decl_vector(name, out, is_norm(k) ? norm_start(g) : 0);
	if (k == ROUTER_W) /* fp32 logits: not a product that an adapter knows */
		return decl_matrix(name, out, in, std);

	return decl_map(name, g->f->map, out_in ? out : in, out_in ? in : out, std);
}

/* Where queries and keys are among the outputs of the maps that make them. */
static void describe_heads(struct zr_inst *g)
{
	const struct decoder_opts *o = g->o;
	const int64_t D = o->head_dim;
	const struct zr_heads all = { .size = sizeof all,
				      .flags = g->at[Q_NORM_W] >= 0 ? ZR_HEADS_NORMED : 0,
				      .heads = (int32_t)o->heads,
				      .kv_heads = (int32_t)o->kv_heads,
				      .head_dim = D,
				      .query = -1,
				      .key = -1,
				      .query_apart = D,
				      .key_apart = D };
	int i;

	for (i = 0; i < HEADS; i++)
		g->heads[i] = all;
	g->heads[HEADS_QUERIES].query = 0;
	g->heads[HEADS_KEYS].key = 0;
	g->heads[HEADS_JOINT].query = 0;
	g->heads[HEADS_JOINT].key = o->heads * D;
	if (!g->f->qkv_by_head)
		return;

	g->heads[HEADS_JOINT].key = D;
	g->heads[HEADS_JOINT].query_apart = 3 * D;
	g->heads[HEADS_JOINT].key_apart = 3 * D;
}

static const struct zr_heads *heads_of(const struct zr_inst *g, enum block_tensor k)
{
	switch (k) {
	case QKV_W:
	case QKV_B:
		return &g->heads[HEADS_JOINT];
	case Q_W:
	case Q_B:
		return &g->heads[HEADS_QUERIES];
	case K_W:
	case K_B:
		return &g->heads[HEADS_KEYS];
	default:
		return NULL;
	}
}

/* The part of a block whose backward gives the tensor's gradient: enum block_tensor has those up to
 * keys and values first. */
static int32_t part_of(enum block_tensor k)
{
	return k < O_W ? ZR_PART_BEFORE : ZR_PART_AFTER;
}

/* Tensors and names of block i. */
static void declare_block(const struct zr_inst *g, int64_t i, struct zr_tensor *t,
			  char (*names)[DECL_NAME])
{
	uint32_t k;

	for (k = 0; k < g->f->n_tensors; k++) {
		const struct tensor_name *n = &g->f->tensors[k];
		if (!is_there(g->o, n))
			continue;

		snprintf(*names, sizeof *names, "%s.%lld.%s", g->f->blocks, (long long)i, n->name);
		*t = block_tensor(g, n->tensor, *names++);
		t->part = part_of(n->tensor);
		t->heads = heads_of(g, n->tensor);
		t->attention = (int32_t)i + 1;
		t++;
	}
}

/* The experts of block i, each a unit of its own; products with them are matmul_grouped's. names:
 * the unit's, then those of its tensors */
static void declare_experts(const struct zr_inst *g, int64_t i, struct zr_unit *units,
			    struct zr_tensor *t, char (*names)[DECL_NAME])
{
	const struct decoder_opts *o = g->o;
	double down_std = o->init_std / sqrt(2.0 * (double)o->layers);
	int64_t e, C = o->width, F = o->ffn_width;
	int k;

	for (e = 0; e < o->experts; e++, units++) {
		char *unit = *names++;
		snprintf(unit, DECL_NAME, "%s.%lld.%s.%lld", g->f->blocks, (long long)i,
			 g->f->experts, (long long)e);
		*units =
			(struct zr_unit){ .name = unit, .tensors = t, .n_tensors = EXPERT_TENSORS };
		for (k = 0; k < EXPERT_TENSORS; k++, t++, names++) {
			int down = k == EXPERT_DOWN_W;
			snprintf(*names, DECL_NAME, "%s.%lld.%s.%lld.%s", g->f->blocks,
				 (long long)i, g->f->experts, (long long)e, g->f->expert[k]);
			*t = decl_map(*names, ZR_MAP_OUT_IN, down ? C : F, down ? F : C,
				      down ? down_std : o->init_std);
			t->experts_per_token = (int32_t)o->experts_per_token;
			t->part = ZR_PART_AFTER;
		}
	}
}

/* A unit of n tensors, the first of which is the unit's name and ".weight". */
static struct zr_unit unit_of(const struct zr_tensor *t, uint32_t n, char *name)
{
	snprintf(name, DECL_NAME, "%.*s", (int)strlen(t->name) - (int)strlen(".weight"), t->name);
	return (struct zr_unit){ .name = name, .tensors = t, .n_tensors = n };
}

/* The embeddings, the blocks, the last norm, the output projection unless it is the embedding.
 * Returns how many. names: first those of the units */
static int64_t declare_units(const struct zr_inst *g, struct decl *d)
{
	const struct decoder_opts *o = g->o;
	const struct family *f = g->f;
	int64_t i, u = 0, n = g->n_block;
	struct zr_tensor *t = d->tensors;
	char(*name)[DECL_NAME] = d->names, (*block_names)[DECL_NAME] = name + o->layers + 4;

	*t = decl_matrix(f->tokens, o->vocabulary, o->width, o->init_std);
	t->flags = ZR_TENSOR_EMBEDDING;
	d->units[u++] = unit_of(t++, 1, *name++);
	if (f->positions) {
		*t = decl_matrix(f->positions, o->context, o->width, o->init_std);
		d->units[u++] = unit_of(t++, 1, *name++);
	}

	for (i = 0; i < o->layers; i++) {
		declare_block(g, i, t, block_names);
		snprintf(*name, DECL_NAME, "%s.%lld", f->blocks, (long long)i);
		d->units[u++] =
			(struct zr_unit){ .name = *name++, .tensors = t, .n_tensors = (uint32_t)n };
		declare_experts(g, i, &d->units[u], t + n, block_names + n);
		u += o->experts;
		t += n + o->experts * EXPERT_TENSORS;
		block_names += n + o->experts * (EXPERT_TENSORS + 1);
	}

	t[0] = decl_vector(f->norm, o->width, norm_start(g));
	if (f->norm_bias)
		t[1] = decl_vector(f->norm_bias, o->width, 0);
	d->units[u++] = unit_of(t, f->norm_bias ? 2 : 1, *name++);
	t += f->norm_bias ? 2 : 1;
	if (o->tied)
		return u;

	*t = decl_matrix(f->head, o->vocabulary, o->width, o->init_std);
	t->flags = ZR_TENSOR_HEAD;
	d->units[u] = unit_of(t, 1, *name);
	return u + 1;
}

/* embed of the embeddings, the blocks with their experts, head of the last norm and the
 * projection */
static void declare_layers(const struct zr_inst *g, struct decl *d)
{
	int64_t i, L = g->o->layers, first = g->f->positions ? 2 : 1, each = 1 + g->o->experts;
	int64_t last = first + L * each;
	int32_t *u = d->layer_units;

	for (i = 0; i < last + 2; i++)
		u[i] = (int32_t)i;
	if (g->o->tied)
		u[last + 1] = 0;
	d->layers[0] = (struct zr_layer){ .name = "embed",
					  .units = u,
					  .n_units = (uint32_t)first,
					  .flags = ZR_LAYER_INPUT,
					  .cut = ZR_CUT_ROWS };
	for (i = 0; i < L; i++)
		d->layers[1 + i] = (struct zr_layer){ .name = d->units[first + i * each].name,
						      .units = &u[first + i * each],
						      .n_units = (uint32_t)each,
						      .cut = ZR_CUT_KEYS,
						      .first_expert = 1,
						      .n_experts = (int32_t)g->o->experts };
	d->layers[1 + L] = (struct zr_layer){ .name = "head",
					      .units = &u[last],
					      .n_units = 2,
					      .flags = ZR_LAYER_LOSS,
					      .cut = ZR_CUT_ROWS };
}

int decoder_declare_all(struct zr_inst *g)
{
	int64_t L = g->o->layers, n = g->n_block, units = L * (1 + g->o->experts) + 4;
	int64_t of_experts = L * g->o->experts * EXPERT_TENSORS;
	if (decl_alloc(g->host, &g->decl, units, L * n + of_experts + 5, L + 2, units,
		       L * n + of_experts + units))
		return ZR_ENOMEM;

	describe_heads(g);
	g->n_units = declare_units(g, &g->decl);
	declare_layers(g, &g->decl);
	return ZR_OK;
}

/* Six operations per token and parameter of a matrix product (multiply and add, forward and twice
 * in backward), the output projection included, lookups not. Attention: q k^T and p v take 2 T H D
 * each per token and block, had each seen T tokens; three times that with the backward. */
static double tokens_seen(const struct zr_inst *g, int64_t block)
{
	double T = (double)g->o->context, W = (double)g->o->window;
	if (is_local(g, block) && W < T)
		return W - W * W / (2 * T);

	return T / 2;
}

static double flops_per_token(const struct zr_inst *g)
{
	const struct decoder_opts *o = g->o;
	double block = 0, seen = 0, queries = (double)(o->heads * o->head_dim);
	int64_t i;
	int k;

	for (k = 0; k < BLOCK_TENSORS; k++)
		if (g->at[k] >= 0 && shape[k].in != NONE)
			block += (double)extent(g, shape[k].out) * (double)extent(g, shape[k].in);
	block += 3.0 * (double)(o->experts_per_token * o->width) * (double)o->ffn_width;
	for (i = 0; i < o->layers; i++)
		seen += tokens_seen(g, i);

	return 6 * (block * (double)o->layers + (double)o->width * (double)o->vocabulary) +
	       12 * seen * queries;
}

int decoder_declare(struct zr_inst *g, struct zr_model_decl *out)
{
	const struct zr_model_decl asked = *out;

	g->slices = 1;
	if (asked.slices > 1)
		g->slices = asked.slices;

	g->head_shares = 0;
	if (g->slices > 1 && asked.by_heads && g->o->kv_heads % asked.sequence_ranks == 0)
		g->head_shares = asked.sequence_ranks;

	g->expert_ranks = 0;
	if (g->o->experts && asked.expert_ranks && g->o->experts % asked.expert_ranks == 0)
		g->expert_ranks = asked.expert_ranks;

	g->fp8 = asked.products ? ZR_MM_FP8 : 0;
	g->fp8_gradients = g->fp8;
	if (asked.products == ZR_PRODUCTS_FP8_E5M2_GRADIENTS)
		g->fp8_gradients |= ZR_MM_E5M2_A;
	find_joint(g);

	*out = decl_answer(&g->decl, g->n_units, g->o->layers + 2, g->meta.pairs);
	out->products = asked.products;
	out->has_products = 1;
	out->sequence_ranks = asked.sequence_ranks;
	out->slices = asked.slices;
	out->by_heads = g->head_shares > 0;
	out->expert_ranks = (int32_t)g->expert_ranks;
	out->vocabulary = g->o->vocabulary;
	out->context = g->o->context;
	out->flops_per_token = flops_per_token(g);
	out->aux_loss = (uint32_t)moe_has_losses(g->o);
	return ZR_OK;
}
