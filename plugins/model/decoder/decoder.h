/* SPDX-License-Identifier: Apache-2.0
 *
 * decoder.h - a decoder-only transformer, described: a family of models (plugins/model/FAMILY.c) is
 * a struct family, a table of options and one of config.json's keys. The files of this folder
 * compute all of them.
 *
 *   options.c    options, presets, what follows from them
 *   kinds.c      which blocks are local, and which know positions
 *   rope.c       the frequencies of rotary positions
 *   declare.c    units, tensors and layers
 *   config.c     what config.json says of the model
 *   layers.c     embedding, head, dispatch on the layer
 *   block.c      a block's memory, its forward and backward
 *   branch.c     the gradients at both ends of a branch of a block
 *   attention.c  the attention branch of a block
 *   ffn.c        its feed-forward branch
 *   moe.c        the same as a mixture of experts
 *   ops.c        the device's operations, their common arguments filled in
 *
 * Names: B batch, T length, N = B*T rows, C width, H query heads, K key-value heads, D elements of
 * a head, F width of the feed-forward part or of an
 * expert's, L blocks, V vocabulary. Layer 0 embeds, layers 1..L are
 * blocks, layer L+1 is the head.
 */
#ifndef ZR_DECODER_H
#define ZR_DECODER_H

#include <zeroth/model.h>
#include <zeroth/precision.h>

#include "plugins/model/carver.h"
#include "plugins/model/declare.h"

enum rope_scaling { ROPE_DEFAULT, ROPE_LINEAR, ROPE_DYNAMIC, ROPE_LLAMA3, ROPE_YARN, ROPE_LONG };
enum activation { ACT_SILU, ACT_GELU_TANH, ACT_GELU }; /* ZR_ACT_* less 1 */

/* The options of all families; each has a table of those that it offers. A value of 0 is "not
 * given", which settle() replaces or which turns something off. */
struct decoder_opts {
	int32_t preset; /* 0: none */
	int32_t tied;   /* the output projection is the embedding */
	int32_t qkv_bias, o_bias, mlp_bias;
	int32_t activation;   /* enum activation */
	int32_t parallel;     /* both branches read the block's input */
	int32_t rope_scaling; /* enum rope_scaling */
	int64_t layers, heads, kv_heads, head_dim, width, ffn_width, context, vocabulary;
	double norm_eps, dropout, init_std;
	/* Layers of local attention: a token sees `window` tokens, its own included. */
	int64_t window, global_every;          /* each layer whose number, from 1, is a multiple of
				       * global_every sees all tokens; 0: none */
	int64_t rope_skip_every;               /* and has no positions; 0: none */
	const char *layer_types, *rope_layers; /* these of each layer in words; "": as above */
	double rope_fraction;                  /* of a head's elements turn */
	double rope_theta, rope_local_theta;   /* of layers of local attention; 0: as the others */
	double rope_factor, rope_low_freq, rope_high_freq, rope_beta_fast, rope_beta_slow,
		rope_attention;
	int64_t rope_original_context;
	const char *rope_short, *rope_long;              /* ROPE_LONG: factor per pair; numbers */
	double score_gain;                               /* of q k^T; 0: 1 / sqrt(score_width) */
	int64_t score_width;                             /* otherwise head_dim */
	double score_softcap, logit_softcap;             /* 0: none */
	double embed_gain, residual_gain, logit_divisor; /* 0: 1 */
	/* A mixture of experts, as config.json names its properties; experts 0: none. */
	int64_t experts, experts_per_token;
	int32_t norm_topk_prob; /* the weights of a token's experts add up to 1 */
	double router_aux_loss_coef, router_z_loss_coef;
};

/* Tensors of a block, of all families. */
enum block_tensor {
	NORM1_W,
	NORM1_B, /* [C] before attention */
	QKV_W,
	QKV_B, /* q, k and v by one map */
	Q_W,
	Q_B,
	K_W,
	K_B,
	V_W,
	V_B,
	Q_NORM_W,
	K_NORM_W, /* of q and k, see struct family */
	O_W,
	O_B,
	AFTER1_W, /* [C] norm of the attention branch */
	NORM2_W,
	NORM2_B, /* [C] before the feed-forward part */
	GATE_W,
	GATE_B,
	UP_W,
	UP_B,      /* up alone: no gate */
	GATE_UP_W, /* gate and up by one map */
	DOWN_W,
	DOWN_B,
	AFTER2_W, /* [C] norm of the feed-forward branch */
	ROUTER_W, /* [experts, C] */
	BLOCK_TENSORS
};
/* Tensors of an expert, each expert a unit: its param[] follow those of the block. */
enum expert_tensor { EXPERT_GATE_W, EXPERT_UP_W, EXPERT_DOWN_W, EXPERT_TENSORS };
/* Tensors of the other layers, in the order of their param[]. */
enum embed_tensor { TOKENS_W, POSITIONS_W };
enum norm_kind { NORM_RMS, NORM_LAYER }; /* NORM_LAYER has a bias, which follows its weight */

enum tensor_if { ALWAYS, QKV_BIAS, O_BIAS, MLP_BIAS }; /* which option a tensor depends on */

struct tensor_name {
	enum block_tensor tensor;
	const char *name;
	enum tensor_if needs;
};
#define TENSOR(which, text)                                                                        \
	{                                                                                          \
		.tensor = which, .name = text                                                      \
	}
#define TENSOR_IF(option, which, text)                                                             \
	{                                                                                          \
		.tensor = which, .name = text, .needs = option                                     \
	}

/* A key of config.json; `write`: also where a model is exported; WRITE_LIST: a word for each layer,
 * one such key in a table. */
#define WRITE_LIST 2
struct family_key {
	struct zr_config_key key;
	int write;
};

/* Static. */
struct family {
	const struct zr_opt *opts;
	uint32_t n_opts;
	const struct decoder_opts *presets; /* by decoder_opts.preset; 0: nothing is given */
	struct decoder_opts base;           /* what a preset does not give */
	/* (optional) fills what follows from other options */
	int (*settle)(const struct zr_host *, struct decoder_opts *);
	const char *type, *architecture; /* config.json's model_type and architectures */
	/* (optional) replaces them by what the options say */
	void (*name)(const struct decoder_opts *, const char **type, const char **architecture);
	/* (optional) why no class of transformers computes a model of these options, the name of
	 * one of them first; NULL: the class of `architecture` does */
	const char *(*misfit)(const struct decoder_opts *);

	const struct family *untied;    /* (optional) it, with other names, where it is not tied */
	const char *tokens, *positions; /* the embedding's tensors; positions NULL: rotary ones */
	const char *blocks;             /* before ".NUMBER.NAME" of a block's tensor */
	const struct tensor_name *tensors;
	uint32_t n_tensors;
	/* With experts: what stands between a block's name and ".NUMBER.NAME", and the NAMEs. */
	const char *experts, *expert[EXPERT_TENSORS];
	const char *norm, *norm_bias, *head; /* the last norm's, the output projection's */

	int32_t map; /* ZR_MAP_*: how linear maps are stored */
	enum norm_kind norm_kind;
	int embed_by_width; /* the embedding is multiplied by sqrt(C) */
	int norm_plus_one;  /* RMSNorm's factor is 1 + its weight */
	int qk_norm_whole;  /* norms of q and k go over all heads, [H D]; else over each, [D] */
	int bare_rule;   /* rope_scaling is {"type": ...} and what that needs, in transformers 4 */
	int qkv_by_head; /* the joint map gives q, k, v of head 0, then of head 1, ...; K = H */

	const struct zr_pretrained_v1 *pretrained; /* its keys are struct family_key */
};

#define DECODER_META 32 /* keys of config.json that are written */

struct decoder_meta {
	const char *pairs[2 * DECODER_META + 1]; /* key, value, ..., NULL */
	int n;
	char text[DECODER_META][24];
	char scaling[8192]; /* of two lists of a number for each of ZR_ROTARY_PAIRS */
	char original[24];
	char *list; /* the host's memory */
};

/* Rotary positions of a layer. */
struct rope {
	float frequency[ZR_ROTARY_PAIRS]; /* [dim/2] radians per position */
	float gain;                       /* of what is turned */
};
/* ROPE_FAR: of sequences beyond rope_original_context, with ROPE_LONG */
enum rope_of { ROPE_GLOBAL, ROPE_LOCAL, ROPE_FAR, ROPES };

/* What makes queries and keys: one map, or one of each. */
enum heads_of { HEADS_JOINT, HEADS_QUERIES, HEADS_KEYS, HEADS };

#define DECODER_LAYERS 10000 /* at most */
enum block_kind {
	BLOCK_LOCAL = 1, /* its attention sees a window only */
	BLOCK_TURNED = 2 /* its attention knows positions, in a model with rotary ones */
};

struct zr_inst {
	const struct zr_host *host;
	const struct family *f;
	const struct decoder_opts *o;
	struct decl decl;
	struct decoder_meta meta;
	int at[BLOCK_TENSORS]; /* place of the tensor in a block's param[]; -1: it has none */
	int n_block;           /* tensors of a block */
	struct zr_heads heads[HEADS];
	int64_t n_units;
	int64_t slices;       /* of a sequence, as declare() was told; 1: it is whole */
	int64_t head_shares;  /* ranks that divide the heads of attention; 0: nobody does */
	int64_t expert_ranks; /* ranks that divide the experts of a block; 0: they are not placed */
	int64_t rope_dim;     /* elements of a head that turn */
	/* Whether the weights of q, k and v, or of gate and up, lie one behind the other, and
	 * nothing keeps them from being one operand, where the units' tensors touch. */
	int joint_qkv, joint_gates;
	/* ZR_MM_* of products with weights: of the forward, of gradients w.r.t. inputs */
	uint32_t fp8, fp8_gradients;
	struct rope rope[ROPES];      /* ROPE_LOCAL: with rope_local_theta */
	uint8_t kind[DECODER_LAYERS]; /* of each block, enum block_kind */
};

/* One call, unpacked. */
struct pass {
	const struct zr_inst *g;
	const struct family *f;
	const struct decoder_opts *o;
	const struct zr_layer_call *c;
	int64_t B, T, N, C, H, K, D, F;
	float dropout;  /* 0 in evaluation */
	int sliced;     /* whether a block's rows are a slice of their sequence */
	int by_heads;   /* and attention is divided by heads: H and K are of those that are here */
	uint32_t parts; /* of the block, ZR_PART_* to compute */
	/* Whether one product makes q, k and v, or gate and up, from weights of their own. */
	int joint_qkv, joint_gates;
	int lean; /* a block is computed again: gate and up are made in the backward */
	/* Rows of the sequence that come before these, of which attention reads keys and values;
	 * all rows of it, as far as the call knows. */
	int64_t first, sequence;
};

#define ALL_PARTS (ZR_PART_BEFORE | ZR_PART_ATTEND | ZR_PART_AFTER)

static inline struct pass unpack(const struct zr_inst *g, const struct zr_layer_call *c)
{
	const struct decoder_opts *o = g->o;
	struct pass p = { .g = g,
			  .f = g->f,
			  .o = o,
			  .c = c,
			  .B = c->batch,
			  .T = c->length,
			  .N = c->batch * c->length,
			  .C = o->width,
			  .H = o->heads,
			  .K = o->kv_heads,
			  .D = o->head_dim,
			  .F = o->ffn_width,
			  .dropout = c->training ? (float)o->dropout : 0,
			  .parts = ALL_PARTS,
			  .joint_qkv = g->joint_qkv && c->flags & ZR_CALL_TOUCHING,
			  .joint_gates = g->joint_gates && c->flags & ZR_CALL_TOUCHING,
			  .lean = (c->flags & ZR_CALL_LEAN) != 0,
			  .first = c->past,
			  .sequence = c->past + c->length };

	if (c->parts) {
		p.sliced = 1;
		p.by_heads = g->head_shares > 0;
		p.parts = c->parts;
		p.first = c->slot_first;
		p.sequence = c->slot_rows;
	}
	if (p.by_heads && !(p.parts & (ZR_PART_BEFORE | ZR_PART_AFTER))) {
		p.H /= g->head_shares;
		p.K /= g->head_shares;
	}

	return p;
}

static inline int is16(const struct pass *p)
{
	return p->c->dtype != ZR_F32;
}

/* Bytes of n activations. */
static inline uint64_t activations(const struct pass *p, int64_t n)
{
	return zr_bytes_of(p->c->dtype, n);
}

/* `columns` activations for each of the N rows. */
static inline void *take_rows(struct carver *v, const struct pass *p, int64_t columns)
{
	return carver_take(v, activations(p, p->N * columns));
}

/* n activations behind p, which may be NULL where only sizes are asked for. */
static inline void *skip(const struct pass *p, const void *from, int64_t n)
{
	return (void *)((uintptr_t)from + activations(p, n));
}

/* The block's place among the blocks. */
static inline int64_t block_of(const struct pass *p)
{
	return p->c->layer - 1;
}

static inline int is_local(const struct zr_inst *g, int64_t block)
{
	return g->kind[block] & BLOCK_LOCAL;
}

static inline int is_turned(const struct zr_inst *g, int64_t block)
{
	return g->kind[block] & BLOCK_TURNED;
}

static inline int has(const struct pass *p, enum block_tensor t)
{
	return p->g->at[t] >= 0;
}

/* ---- options.c ---- */

int decoder_resolve(const struct zr_host *, const struct zr_facts *, const struct family *,
		    struct decoder_opts *);
int decoder_check(const struct zr_host *, const struct family *, const struct decoder_opts *);
/* How many times longer the context became, and the factor of queries and keys that rotary scaling
 * has at such a factor where none is given. */
double rope_growth(const struct decoder_opts *);
double rope_attention_of(const struct decoder_opts *, double factor);
/* zr_pretrained_v1.accepts() for a key of rotary scaling: whether the rule reads it that the
 * options name. */
int decoder_accepts(const struct zr_host *, const struct family *, const void *opts,
		    const char *key, const char *value);
extern const char *const decoder_scalings[]; /* names, by enum rope_scaling */
extern const char *const decoder_yes_no[];
extern const char *const decoder_activations[]; /* by enum activation */

/* ---- rope.c ---- */

int64_t rope_dim(const struct decoder_opts *);
/* All that the model's layers use; ZR_EINVAL where rope_short or rope_long is no list of
 * rope_dim/2 numbers. */
int rope_set_up(const struct zr_host *, const struct decoder_opts *, struct rope rope[ROPES]);
/* ---- kinds.c ---- */

/* Of "[1, 2]" or "1 2" the next element, without quotes; returns its length, 0: no more. */
size_t next_element(const char **list, const char **element);

/* kind[layers]; ZR_EINVAL where layer_types or rope_layers is no list of one word per layer. */
int decoder_kinds(const struct zr_host *, const struct decoder_opts *, uint8_t *kind);
/* What the option layer_types or rope_layers would be, as a JSON list; at most KIND_WORD bytes for
 * each layer. */
#define KIND_WORD 24
void decoder_kind_list(const struct zr_inst *, const char *option, char *out, size_t n);

/* ---- declare.c ---- */

/* The place of every tensor of a block, and their count. */
void decoder_places(struct zr_inst *);
int decoder_declare_all(struct zr_inst *); /* ZR_ENOMEM: decl_free is still due */
int decoder_declare(struct zr_inst *, struct zr_model_decl *out); /* zr.model/1 */

/* ---- config.c ---- */

int decoder_config(const struct zr_inst *, struct decoder_meta *); /* ZR_ENOMEM */
/* A misfit of families whose attention has biases of all four maps or of none. */
const char *decoder_biases_differ(const struct decoder_opts *);

/* ---- ops.c ---- */

/* A linear map of the block. */
struct map {
	/* places in param[]; bias -1: none. Of several tensors that touch: the first one */
	int weight, bias;
	int64_t from, to;
	int64_t stride; /* elements between rows of a forward's y; 0: to */
};

struct map map_of(const struct pass *, enum block_tensor weight, enum block_tensor bias,
		  int64_t from, int64_t to);
/* Bytes of work of the block's products in 8 bits, which are the first ones of a call's work; 0
 * where they are in 16. */
uint64_t products_work(const struct pass *);
/* y = W x + b; with `pre`: y = gelu of it, and pre = it */
int linear(const struct pass *, struct map, const void *x, void *y, void *pre);
/* The same of the x that the call before read, too. */
int linear_again(const struct pass *, struct map, const void *x, void *y);
/* dx = W^T dy */
int linear_dx(const struct pass *, struct map, const void *dy, void *dx);
/* dW = or += of dy and x, db = or += sums of dy's columns, where they are wanted */
int linear_dw(const struct pass *, struct map, const void *x, const void *dy);

/* What enters n maps that read the same x, and gradients w.r.t. what leaves them. */
struct inputs {
	int n;
	struct map map[3];
	const void *dy[3];
};
/* The maps' dW and db; dx, rounded once, by way of `sum`, fp32 [N, C], where there are several. */
int inputs_backward(const struct pass *, const struct inputs *, const void *x, float *sum,
		    void *dx);

/* A norm over rows of C: its weight in param[]; stats: [norm_stats][p->N], kept for the
 * backward. */
int norm(const struct pass *, int weight, const void *x, void *y, float *stats, int64_t rows);
int norm_stats(const struct pass *);
uint64_t norm_bwd_work(const struct pass *); /* bytes of its work, also of heads_norm_bwd */
/* grad += gradient w.r.t. x; those of the weights = or +=, where they are wanted */
int norm_bwd(const struct pass *, int weight, const void *dy, const void *x, const float *stats,
	     void *work);
/* dy becomes the gradient w.r.t. x */
int norm_bwd_in_place(const struct pass *, int weight, void *dy, const void *x, const float *stats,
		      void *work);

/* RMSNorm of q or k, [N, heads * D], rows of y `stride` apart; stats: [N, heads] or [N] */
int heads_norm(const struct pass *, int weight, int64_t heads, const void *x, void *y,
	       int64_t stride, float *stats);
int64_t heads_norm_stats(const struct pass *, int64_t heads); /* of a token */
int heads_norm_bwd(const struct pass *, int weight, int64_t heads, void *dy, const void *x,
		   const float *stats, void *work);

/* x turns in place, x is [N, heads * D], rows `stride` and heads `head` apart; flags of struct
 * zr_op_rotary */
int rotate(const struct pass *, uint32_t flags, void *x, int64_t heads, int64_t stride,
	   int64_t head);

/* The call's generator at dropout site n of the layer: 0 the embedding, or attention's
 * probabilities; 1 the attention branch; 2 the feed-forward branch. */
struct zr_rng site(const struct pass *, int n);
/* out = a + drop(residual_gain * b), site n; a may be NULL, out may be a or b */
int residual(const struct pass *, int n, const void *a, const void *b, void *out);
/* out = a + gain * b, without dropout */
int add(const struct pass *, const void *a, float gain, const void *b, void *out);

/* ---- block.c ---- */

/* What a mixture of experts keeps: the routing of zr_op_route, of each round where experts are
 * placed; and of all places gate and up, which are computed again where experts are placed. */
struct routing {
	float *p, *lse, *weights;               /* [N, E], [N], [N, k] */
	int32_t *ids, *offsets, *order, *where; /* [N, k], [rounds, E + 1], [N k], [N k] */
	void *gate, *up;                        /* [N k, F] */
};

/* Its scratch, by place; where experts are placed gate, up, act, dgate and dup are by the rows that
 * came in a round, and x, y, dy and dx elsewhere. */
struct moe_work {
	void *x, *y, *act; /* [N k, C], [N k, C], [N k, F] */
	void *gate, *up;   /* of rows that came */
	/* backward only: */
	void *dy, *dgate, *dup;    /* [N k, C], [N k, F], [N k, F] */
	float *dx;                 /* [N k, C] */
	float *dweights, *dlogits; /* [N, k], [N, E] */
};

/* A block's activations that live from its forward to its backward. */
struct block_saved {
	struct routing routing;
	float *stats1, *stats2;             /* of the norms before the branches */
	float *after_stats1, *after_stats2; /* of those after them */
	float *q_stats, *k_stats;
	float *lse;              /* [B, H, T] */
	void *qkv;               /* [N, (H + 2K) D] where one product makes the three; else NULL */
	void *q_raw, *k_raw;     /* q and k before their norms, where they have some */
	void *q, *k, *v;         /* [N, H D], [N, K D], [N, K D]; columns of qkv where that is */
	void *first_k, *first_v; /* of the first row that attention reads */
	int64_t q_stride, kv_stride; /* elements between rows of q, and of k and v */
	int64_t q_head, kv_head;     /* elements between heads */
	void *att, *x2;              /* [N, H D], [N, C] */
	void *o, *down;              /* [N, C] the branches before the norms after them */
	void *gate, *up; /* [N, F] each, or rows of both side by side; no gate: only up */
};

/* Scratch of a call. Some share memory, see block.c. */
struct block_work {
	struct moe_work moe;
	void *ln;    /* [N, C] output of a norm */
	void *act;   /* [N, F] input of the map down */
	void *q, *k; /* [N, H D], [N, K D] after their norms */
	/* backward only: */
	void *dact;         /* [N, F] */
	void *gate, *up;    /* where they are not kept; in the forward, too */
	void *dgate, *dup;  /* as gate, up */
	void *dqkv;         /* [N, (H + 2K) D] */
	void *dq, *dk, *dv; /* as q, k, v */
	void *held_dq;      /* [N, H D] where queries_come_apart(), else dq */
	void *datt;         /* [N, H D] */
	void *dln;          /* [N, C] gradient w.r.t. ln */
	float *sum;         /* [N, C] the same in fp32 */
	void *dbranch;      /* [N, C] gradient of a branch, where grad itself is not it */
	void *dout;         /* [N, C] the gradient w.r.t. the block's output, for both branches */
	void *ops;          /* scratch of operations, one at a time */
};

void block_bytes(const struct pass *, struct zr_layer_bytes *out);
int block_can_be_lean(const struct zr_inst *); /* whether ZR_CALL_LEAN can be */
int block_forward(const struct pass *);
int block_backward(const struct pass *);

/* ---- branch.c ---- */

/* Whether a branch's gradient is not that of the block's output. */
int branches_differ(const struct pass *);
/* Where that gradient is, or will be. */
const void *branch_gradient_at(const struct pass *, const struct block_work *);
/* *dy: the gradient w.r.t. what branch n (1, 2) gives before its norm, dropout and gain; x and
 * stats are those of the norm. */
int branch_gradient(const struct pass *, int n, enum block_tensor after, const void *x,
		    const float *stats, const struct block_work *, const void **dy);
/* grad += the gradient w.r.t. x by way of the norm `before` or, without one, dln itself */
int input_gradient(const struct pass *, enum block_tensor before, const void *x, const float *stats,
		   const struct block_work *);

/* ---- attention.c ---- */

/* Elements of q, k and v of a token, where they are one row. */
static inline int64_t qkv_width(const struct pass *p)
{
	return (p->H + 2 * p->K) * p->D;
}

/* Whether queries, keys and values of a token are one row even where keys and values have a place
 * of their own. */
static inline int in_one_row(const struct pass *p)
{
	return has(p, QKV_W) || p->by_heads;
}

/* The same of their gradients: those of several maps are apart for several products. */
static inline int gradients_in_one_row(const struct pass *p)
{
	if (has(p, QKV_W) || p->joint_qkv)
		return 1;

	return p->by_heads && !(p->parts & ZR_PART_BEFORE);
}

/* Whether attention's backward leaves the gradient w.r.t. queries elsewhere: in rows of queries
 * alone, as it finds those. */
static inline int queries_come_apart(const struct pass *p)
{
	return p->sliced && !in_one_row(p);
}

/* Elements between the rows of gradients w.r.t. queries, and w.r.t. keys and values. */
static inline int64_t dq_stride(const struct pass *p)
{
	return gradients_in_one_row(p) ? qkv_width(p) : p->H * p->D;
}

static inline int64_t dkv_stride(const struct pass *p)
{
	return gradients_in_one_row(p) ? qkv_width(p) : p->K * p->D;
}

/* Whether rows of gate and up lie side by side. */
static inline int gates_in_one_row(const struct pass *p)
{
	return has(p, GATE_UP_W) || p->joint_gates;
}

uint64_t cache_bytes(const struct pass *, int64_t tokens);
uint64_t attention_bwd_work(const struct pass *, const struct block_saved *);
int attention_forward(const struct pass *, const struct block_saved *, const struct block_work *);
/* The branch's backward by its parts, the last one first. */
int output_backward(const struct pass *, const struct block_saved *, const struct block_work *);
int attend_backward(const struct pass *, const struct block_saved *, const struct block_work *);
int sums_backward(const struct pass *, const struct block_saved *, const struct block_work *);
int before_backward(const struct pass *, const struct block_saved *, const struct block_work *);

/* ---- moe.c ---- */

/* Whether the routers have losses of their own. Then, in training, something lies behind the rows
 * of activations and gradients that layers pass on, else NULL and 0. */
int moe_has_losses(const struct decoder_opts *);
uint64_t moe_bytes_behind(const struct pass *);
int moe_clear_sums(const struct pass *); /* the embedding's */
int moe_losses(const struct pass *);     /* the head's */

void moe_carve_saved(const struct pass *, struct carver *, struct routing *);
void moe_carve_forward(const struct pass *, struct carver *, struct moe_work *);
void moe_carve_backward(const struct pass *, struct carver *, struct moe_work *);
int moe_forward(const struct pass *, const struct block_saved *, const struct block_work *);
int moe_backward(const struct pass *, const struct block_saved *, const struct block_work *);

/* ---- homes.c ---- */

/* Whether ranks divide the experts of blocks. */
static inline int has_homes(const struct pass *p)
{
	return p->g->expert_ranks > 0;
}

/* The part of the feed-forward branch that the call asks for; of the backward's END not the rest of
 * the block. */
int homes_forward(const struct pass *, const struct block_saved *, const struct block_work *);
int homes_backward(const struct pass *, const struct block_saved *, const struct block_work *);

/* ---- ffn.c ---- */

int ffn_forward(const struct pass *, const struct block_saved *, const struct block_work *);
int ffn_backward(const struct pass *, const struct block_saved *, const struct block_work *);

#endif
