/* SPDX-License-Identifier: Apache-2.0
 *
 * llama.h - what the files of model/llama share.
 *
 *   llama.c    declaration of units, tensors and layers; instance
 *   options.c  options and presets
 *   files.c    model directories of Hugging Face
 *   rope.c     the frequencies of rotary positions
 *   layers.c   embedding, head, dispatch on the layer
 *   block.c    the transformer block
 *   ops.c      the device's operations, their common arguments filled in
 *
 * Names: B batch, T length, N = B*T rows, C width, H query heads, K key-value heads, D elements of
 * a head, F width of the feed-forward part, L blocks, V vocabulary. Layer 0 embeds, layers 1..L are
 * blocks, layer L+1 is the head.
 */
#ifndef ZR_LLAMA_H
#define ZR_LLAMA_H

#include <zeroth/model.h>

#include "plugins/model/carver.h"
#include "plugins/model/declare.h"

enum llama_scaling { ROPE_DEFAULT, ROPE_LINEAR, ROPE_DYNAMIC, ROPE_LLAMA3, ROPE_YARN };

struct llama_opts {
	int32_t preset; /* 0: none */
	int32_t tied, qkv_bias;
	int32_t rope_scaling; /* enum llama_scaling */
	int64_t layers, heads, kv_heads, head_dim, width, ffn_width, context, vocabulary;
	double norm_eps;
	double rope_theta, rope_factor, rope_low_freq, rope_high_freq, rope_beta_fast,
		rope_beta_slow, rope_attention;
	int64_t rope_original_context;
	double init_std;
};

/* Tensors of each kind of layer, in the order of its param[]. */
enum llama_block_tensor {
	LN1_W, Q_W, K_W, V_W, O_W, LN2_W, GATE_W, UP_W, DOWN_W,
	Q_B, K_B, V_B, /* with qkv_bias */
	BLOCK_TENSORS
};
enum llama_head_tensor { NORM_W, HEAD_W };
#define EMBED_W 0

#define LLAMA_META 16 /* keys of config.json */
#define LLAMA_WHOLE 8 /* whole numbers among them */

struct llama_meta {
	const char *pairs[2 * LLAMA_META + 1]; /* key, value, ..., NULL */
	int n;
	char whole[LLAMA_WHOLE][24], norm_eps[32], theta[32], scaling[256];
};

struct zr_inst {
	const struct zr_host *host;
	const struct llama_opts *o;
	struct decl decl;
	struct llama_meta meta;
	float frequency[ZR_ROTARY_PAIRS];
};

/* One call, unpacked. */
struct llama_pass {
	const struct zr_inst *g;
	const struct zr_layer_call *c;
	int64_t B, T, N, C, H, K, D, F;
};

static inline struct llama_pass llama_unpack(const struct zr_inst *g, const struct zr_layer_call *c)
{
	const struct llama_opts *o = g->o;
	return (struct llama_pass){ .g = g, .c = c, .B = c->batch, .T = c->length,
				    .N = c->batch * c->length, .C = o->width, .H = o->heads,
				    .K = o->kv_heads, .D = o->head_dim, .F = o->ffn_width };
}

static inline int llama_is16(const struct llama_pass *p)
{
	return p->c->dtype != ZR_F32;
}

/* `columns` activations for each of the N rows. */
static inline void *llama_take_rows(struct carver *v, const struct llama_pass *p, int64_t columns)
{
	return carver_take(v, (uint64_t)(p->N * columns) * (llama_is16(p) ? 2 : 4));
}

extern const struct zr_pretrained_v1 llama_pretrained; /* files.c */

/* ---- options.c ---- */

#define LLAMA_OPTS 22
extern const struct zr_opt llama_opt[LLAMA_OPTS];
extern const char *const llama_scalings[]; /* names, by enum llama_scaling */
int llama_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts);
int llama_check(const struct zr_host *h, const void *opts);

/* ---- rope.c ---- */

/* [head_dim/2] radians per position */
void llama_frequencies(const struct llama_opts *o, float *frequency);
/* What rotary scaling multiplies the scores with. */
double llama_rope_gain(const struct llama_opts *o);

/* ---- ops.c ---- */

/* A linear map: its weight [to, from] is tensor `weight` of the layer, its bias [to] tensor `bias`,
 * 0: none. */
struct llama_map {
	int weight, bias;
	int64_t from, to;
	int64_t stride; /* elements between rows of a forward's y; 0: to */
};

struct zr_op_matmul llama_matmul_op(const struct llama_pass *, uint32_t flags);
/* y = x W^T + b */
int llama_linear(const struct llama_pass *, struct llama_map, const void *x, void *y);
/* dx = dy W */
int llama_linear_dx(const struct llama_pass *, struct llama_map, const void *dy, void *dx);
/* sum = or += dy W, in fp32 */
int llama_linear_dx_add(const struct llama_pass *, struct llama_map, const void *dy, float *sum,
			int add);
/* dW = or += dy^T x, db = or += sums of dy's columns, where they are wanted */
int llama_linear_dw(const struct llama_pass *, struct llama_map, const void *x, const void *dy);

/* Norm of `rows` rows by tensor `gamma` of the layer. */
int llama_norm(const struct llama_pass *, const void *x, int gamma, void *y, float *rstd,
	       int64_t rows);
uint64_t llama_norm_bwd_work(const struct llama_pass *); /* bytes of its work */
/* grad += gradient w.r.t. x; dgamma = or +=, if it is wanted */
int llama_norm_bwd(const struct llama_pass *, const void *dy, const void *x, int gamma,
		   const float *rstd, void *work);

/* x turns in place, x is [N, heads * D], rows `stride` apart; flags of struct zr_op_rotary */
int llama_rotate(const struct llama_pass *, uint32_t flags, void *x, int64_t heads,
		 int64_t stride);
/* out = a + out */
int llama_add(const struct llama_pass *, const void *a, void *out);

/* ---- block.c ---- */

/* saved, work_fwd, work_bwd, cache */
void llama_block_bytes(const struct llama_pass *, struct zr_layer_bytes *out);
int llama_block_forward(const struct llama_pass *);
int llama_block_backward(const struct llama_pass *);

/* ---- layers.c: functions of zr.model/1 ---- */

int llama_bytes(struct zr_inst *, int32_t layer, int64_t batch, int64_t length, int32_t dtype,
		const struct zr_ops *ops, struct zr_layer_bytes *out);
int llama_forward(struct zr_inst *, const struct zr_layer_call *);
int llama_backward(struct zr_inst *, const struct zr_layer_call *);
int llama_logits(struct zr_inst *, const struct zr_layer_call *, int64_t row, float *logits);

#endif
