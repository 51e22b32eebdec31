/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt2.h - what the files of model/gpt2 share.
 *
 *   gpt2.c    options, presets, declaration
 *   files.c   model directories of Hugging Face
 *   layers.c  embedding, head, dispatch on the layer
 *   block.c   the transformer block
 *   ops.c     the device's operations, their common arguments filled in
 *
 * Names: B batch, T length, N = B*T rows, C width, H heads, L blocks, V vocabulary.
 * Layer 0 embeds, layers 1..L are blocks, layer L+1 is the head.
 */
#ifndef ZR_GPT2_H
#define ZR_GPT2_H

#include <zeroth/model.h>

#include "plugins/model/carver.h"
#include "plugins/model/declare.h"

struct gpt2_opts {
	int32_t size; /* preset, 0: none */
	int64_t layers, heads, width, context, vocabulary;
	double dropout;
	double init_std;
};

/* Tensors of each kind of layer, in the order of its param[]. */
enum gpt2_embed_tensor { WTE, WPE };
enum gpt2_block_tensor {
	LN1_W, LN1_B, QKV_W, QKV_B, PROJ_W, PROJ_B, LN2_W, LN2_B, FC_W, FC_B, FC2_W, FC2_B,
	BLOCK_TENSORS
};
enum gpt2_head_tensor { LNF_W, LNF_B, HEAD_W };

#define GPT2_META 11 /* keys of config.json */

struct gpt2_meta {
	const char *pairs[2 * GPT2_META + 1]; /* key, value, ..., NULL */
	char text[5][24];
};

struct zr_inst {
	const struct zr_host *host;
	const struct gpt2_opts *o;
	struct decl decl;
	struct gpt2_meta meta;
};

/* One call, unpacked. */
struct gpt2_pass {
	const struct zr_inst *g;
	const struct zr_layer_call *c;
	int64_t B, T, N, C, H;
	float dropout; /* 0 in evaluation */
};

static inline struct gpt2_pass gpt2_unpack(const struct zr_inst *g, const struct zr_layer_call *c)
{
	return (struct gpt2_pass){ .g = g, .c = c, .B = c->batch, .T = c->length,
				   .N = c->batch * c->length, .C = g->o->width, .H = g->o->heads,
				   .dropout = c->training ? (float)g->o->dropout : 0 };
}

extern const struct zr_pretrained_v1 gpt2_pretrained; /* files.c */

/* Bytes of an activation or parameter. */
static inline uint64_t gpt2_element(const struct gpt2_pass *p)
{
	return p->c->dtype == ZR_F32 ? 4 : 2;
}

/* `columns` elements for each of the N rows. */
static inline void *gpt2_take_rows(struct carver *v, const struct gpt2_pass *p, int64_t columns)
{
	return carver_take(v, (uint64_t)p->N * (uint64_t)columns * gpt2_element(p));
}

/* ---- ops.c ---- */

/* A linear map: its weight [from, to] is tensor `weight` of the layer, its bias [to] the next. */
struct gpt2_linear {
	int weight;
	int64_t from, to;
};

struct zr_op_matmul gpt2_matmul_op(const struct gpt2_pass *, uint32_t flags);
/* y = x W + b; with pre: y = gelu of it, and pre = it */
int gpt2_linear(const struct gpt2_pass *, struct gpt2_linear, const void *x, void *y, void *pre);
/* dx = dy W^T */
int gpt2_linear_dx(const struct gpt2_pass *, struct gpt2_linear, const void *dy, void *dx);
/* dW = or += x^T dy, db = or += sums of dy's columns, where they are wanted */
int gpt2_linear_dw(const struct gpt2_pass *, struct gpt2_linear, const void *x, const void *dy);

/* Layer norm of `rows` rows; tensor `gamma` of the layer and, after it, beta. */
int gpt2_norm(const struct gpt2_pass *, const void *x, int gamma, void *y, float *mean, float *rstd,
	      int64_t rows);
uint64_t gpt2_norm_bwd_work(const struct gpt2_pass *); /* bytes of its work */
/* grad += gradient w.r.t. x; dgamma, dbeta = or +=, where they are wanted */
int gpt2_norm_bwd(const struct gpt2_pass *, const void *dy, const void *x, int gamma,
		  const float *mean, const float *rstd, void *work);

/* The call's generator at dropout site n of the layer. */
struct zr_rng gpt2_site(const struct gpt2_pass *, int n);
/* out = a + drop(b), site n; a may be NULL, out may be a or b */
int gpt2_residual(const struct gpt2_pass *, int n, const void *a, const void *b, void *out);

/* ---- block.c ---- */

/* saved, work_fwd, work_bwd, cache */
void gpt2_block_bytes(const struct gpt2_pass *, struct zr_layer_bytes *out);
int gpt2_block_forward(const struct gpt2_pass *);
int gpt2_block_backward(const struct gpt2_pass *);

/* ---- layers.c: functions of zr.model/1 ---- */

int gpt2_bytes(struct zr_inst *, int32_t layer, int64_t batch, int64_t length, int32_t dtype,
	       const struct zr_ops *ops, struct zr_layer_bytes *out);
int gpt2_forward(struct zr_inst *, const struct zr_layer_call *);
int gpt2_backward(struct zr_inst *, const struct zr_layer_call *);
int gpt2_logits(struct zr_inst *, const struct zr_layer_call *, int64_t row, float *logits);

#endif
