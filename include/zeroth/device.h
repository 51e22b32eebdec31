/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/device.h - DRAFT. Role "device": memory, copies and a growable table of typed operations.
 *
 * Every operation is enqueued on a stream and never synchronises; a device that computes at once
 * (the CPU) has finished it when the call returns. A NULL operation is unsupported and refused while
 * planning. Element order is row-major. `dtype` names the storage of activations and parameters
 * (ZR_F32, ZR_BF16 or ZR_F16); arithmetic is fp32, gradients of parameters are fp32 always.
 *
 * Determinism (invariant I1): for one device and variant, results depend on the arguments alone,
 * never on the number of threads. Sums run over fixed tiles whose shape depends on the shapes only.
 * bf16 is rounded half away from zero; fp16 to the nearest, ties to even, with subnormals, and to infinity
 * past its range, which a loss scale looks for.
 *
 * All pointers are borrowed for the call and, on a device with streams, until the stream passed it.
 * Operations return ZR_OK or a negative code whose text went through the host of the device: it names the operation. Core
 * adds rank, step, layer and unit. A device that finds out later says so in the text of the call that fails.
 */
#ifndef ZEROTH_DEVICE_H
#define ZEROTH_DEVICE_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

struct zr_stream; /* in-order queue of operations; NULL is the compute stream */

/* Key of the counter-based generator, Philox4x32-10 (Salmon et al., SC'11). Element e of the
 * stream is word (e % 4) of the Philox block with counter {e/4 low 32, e/4 high 32, slot, site} and
 * key {seed low 32, seed high 32} ^ {step low 32, step high 32}. FROZEN. */
struct zr_rng {
	uint64_t seed;
	uint64_t step;
	uint32_t slot; /* which micro-batch of the global batch */
	uint32_t site; /* which place in the model: layer * 8 + n */
};

/* Scalars of an update, in the memory kind of the buffers they go with. FROZEN. */
struct zr_scalars {
	int64_t step;    /* 1-based count of applied updates, this one included */
	float grad_mult; /* gradient = stored gradient * grad_mult: mean, unscale and clip in one factor */
	float lr;        /* learning rate of the group, schedule applied */
};

#define ZR_MM_TRANS_A 1u    /* A is stored [K, M] */
#define ZR_MM_TRANS_B 2u    /* B is stored [N, K] */
#define ZR_MM_ACCUMULATE 4u /* D += instead of D =; D is fp32, no bias, no GELU */
#define ZR_MM_GELU 8u       /* D = gelu(product + bias); `pre` receives product + bias */

/* D[M,N] = op(A)[M,K] * op(B)[K,N] + bias[N]. GROWABLE. */
struct zr_op_matmul {
	uint32_t size, flags;
	int32_t a_dtype, b_dtype, d_dtype;
	int32_t rsv;
	int64_t m, n, k;
	int64_t lda, ldb, ldd; /* elements between rows as stored */
	const void *a, *b;
	void *d;
	const void *bias;      /* [N] of b_dtype, or NULL */
	void *pre;             /* with ZR_MM_GELU: [M, N] of d_dtype, ldd apart; may be NULL */
};

#define ZR_OP_ACCUMULATE 1u /* gradients of parameters: += instead of = (the first contribution stores) */

/* out[b*T+t, :] = wte[tokens[b*T+t], :] + wpe[t, :]; without wpe the first alone. GROWABLE. */
struct zr_op_embedding {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t batch, length, width, vocabulary, positions; /* B, T, C, rows of wte, rows of wpe */
	const int32_t *tokens; /* [B*T], each < vocabulary */
	const void *wte, *wpe; /* [vocabulary, C], [positions, C] or NULL */
	void *out;             /* [B*T, C] */
};

/* dwte[tokens[r]] += dout[r]; dwpe[t] += sum over b of dout[b*T+t]; in index order. Either may be NULL: not wanted. GROWABLE.
 * Without ZR_OP_ACCUMULATE_WTE / _WPE rows that nothing adds to become 0. */
#define ZR_OP_ACCUMULATE_WTE 1u
#define ZR_OP_ACCUMULATE_WPE 2u
struct zr_op_embedding_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t batch, length, width, vocabulary, positions;
	const int32_t *tokens;
	const void *dout;
	float *dwte, *dwpe;
};

/* y = (x - mean) / sqrt(var + eps) * gamma + beta over rows of C (biased variance). GROWABLE. */
struct zr_op_layernorm {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	float eps;
	int32_t rsv2;
	const void *x, *gamma, *beta;
	void *y;
	float *mean, *rstd; /* [rows], kept for backward */
};

/* dx += gradient w.r.t. x (the residual stream's own gradient is already there).
 * dgamma, dbeta: = or += by ZR_OP_ACCUMULATE. GROWABLE. */
struct zr_op_layernorm_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	const void *dy, *x, *gamma;
	const float *mean, *rstd;
	void *dx;
	float *dgamma, *dbeta;
	void *work; /* layernorm_bwd_work() bytes */
};

/* Causal attention: out = softmax(mask(q k^T * scale)) v, per batch entry and head; never more of
 * the T x T matrix than a tile. Row (b, t) of q starts at q + (b*T+t)*q_stride elements, head h at
 * + h*head_dim; likewise k, v with kv_heads, each serving heads/kv_heads query heads. dropout p > 0
 * acts on the probabilities: element ((b*heads+h)*T+i)*T+j of rng. GROWABLE. */
struct zr_op_attention {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t batch, length, heads, kv_heads, head_dim;
	int64_t q_stride, k_stride, v_stride, out_stride;
	float scale, dropout;
	struct zr_rng rng;
	const void *q, *k, *v;
	void *out;
	float *lse; /* [B, heads, T]: log of the sum of exponentials, kept for backward */
};

/* dq, dk, dv are stored (not added), strides as the forward's. GROWABLE. */
struct zr_op_attention_bwd {
	uint32_t size, flags;
	struct zr_op_attention fwd; /* as in the forward; out and lse are read */
	const void *dout;           /* out_stride apart */
	void *dq, *dk, *dv;         /* q_stride, k_stride, v_stride apart */
	void *work;                 /* attention_bwd_work() bytes */
};

/* dx = dy * gelu'(pre); tanh form of GELU (Hendrycks and Gimpel 2016, GPT-2's). dx may be dy.
 * act, if not NULL, receives gelu(pre): a forward that kept pre need not keep its result too. GROWABLE. */
struct zr_op_gelu_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t n;
	const void *dy, *pre;
	void *dx;
	void *act; /* [n] or NULL; overlaps nothing */
};

/* out = a + keep(b), keep zeroing elements with probability `dropout` and scaling the rest by
 * 1/(1-dropout); element i of rng. a may be NULL (0). out may be a or b. The same operation with
 * a = NULL and b = dout is its own backward. GROWABLE. */
struct zr_op_residual {
	uint32_t size, flags;
	int32_t dtype;
	float dropout;
	int64_t n;
	struct zr_rng rng;
	const void *a, *b;
	void *out;
};

/* db[N] = or += sum over rows of dy[M, N]. GROWABLE. */
struct zr_op_bias_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	const void *dy;
	float *db;
};

/* Softmax cross entropy fused with the output projection, in chunks of rows: logits = x w^T.
 * loss[r] = logsumexp(logits[r]) - logits[r][targets[r]]; *loss_sum = fp64 sum of them in row order.
 * With dx: dlogits = (softmax - onehot) * scale; dx = dlogits w; dw = or += dlogits^T x. GROWABLE. */
struct zr_op_head_loss {
	uint32_t size, flags;
	int32_t dtype;
	float scale;
	int64_t rows, width, vocabulary;
	const void *x, *w;      /* [rows, width], [vocabulary, width] */
	const int32_t *targets; /* [rows], each < vocabulary */
	float *loss;            /* [rows] */
	double *loss_sum;
	void *dx;               /* [rows, width], or NULL: loss only */
	float *dw;              /* [vocabulary, width]; NULL: not wanted */
	void *work;             /* head_loss_work() bytes */
};

/* acc = (or +=) g rounded to `comm_dtype`. If sumsq: per block of ZR_BLOCK elements of acc after the
 * fold the fp64 sum of squares and the count of non-finite elements, [ceil(n/ZR_BLOCK)] each.
 * g may be acc (measure only). GROWABLE. */
struct zr_op_fold {
	uint32_t size, flags;
	int32_t comm_dtype, rsv;
	int64_t n;
	const float *g;
	float *acc;
	double *sumsq;
	uint32_t *nonfinite;
};

/* AdamW (Loshchilov and Hutter 2019; Kingma and Ba 2015), one sweep. g = grad * grad_mult;
 * m = b1 m + (1-b1) g; v = b2 v + (1-b2) g g; p -= lr*wd*p; p -= lr/(1-b1^t) * m / (sqrt(v/(1-b2^t)) + eps).
 * l2 != 0: Adam's L2 form instead, g += wd*p. bias_correction == 0: both factors are 1.
 * lowp, if not NULL, receives p rounded to lowp_dtype. m and v in bf16: p moves by their fp32 values, which
 * are rounded when stored. GROWABLE. */
struct zr_op_adamw {
	uint32_t size, flags;
	int32_t lowp_dtype;
	uint8_t l2, bias_correction, rsv[2];
	int64_t n;
	double beta1, beta2, eps, weight_decay;
	const struct zr_scalars *scalars;
	const float *grad;
	float *master;
	void *m, *v; /* of moment_dtype */
	void *lowp;
	int32_t moment_dtype; /* ZR_F32 (also 0) or ZR_BF16 */
	int32_t rsv2;
};

/* SGD with momentum, as torch.optim.SGD: g = grad*grad_mult + wd*p; buf = first update ? g : mu*buf + (1-damp)*g;
 * d = nesterov ? g + mu*buf : buf; p -= lr*d. buf is NULL without momentum. GROWABLE. */
struct zr_op_sgd {
	uint32_t size, flags;
	int32_t lowp_dtype;
	uint8_t nesterov, rsv[3];
	int64_t n;
	double momentum, dampening, weight_decay;
	const struct zr_scalars *scalars;
	const float *grad;
	float *master, *buf;
	void *lowp;
};

/* dst = src converted, n elements; equal types copy. GROWABLE. */
struct zr_op_cast {
	uint32_t size, flags;
	int32_t dst_dtype, src_dtype;
	int64_t n;
	const void *src;
	void *dst;
};

/* dst[i] = mean + std * N(0,1), element e = first+i of rng (std = 0: constant). The normal is Box-Muller on
 * words a = 2e and b = 2e+1 of the stream: sqrt(-2 ln((a + 1/2) / 2^32)) cos(2 pi b / 2^32), in fp64,
 * rounded once. GROWABLE. */
struct zr_op_init {
	uint32_t size, flags;
	int64_t n, first;
	double mean, std;
	struct zr_rng rng;
	float *dst;
};

/* A master of 32 bits kept as its bf16 rounding and the 16 bits below: split is lowp = (bits + 0x8000) >> 16,
 * rem = bits & 0xffff; join is bits = (lowp - (rem >> 15)) << 16 | rem. Every finite and infinite pattern comes back.
 * A NaN stays one: lowp is made quiet, its payload may change. GROWABLE. */
struct zr_op_master {
	uint32_t size, flags;
	int64_t n;
	float *master;  /* join writes it, split reads it */
	uint16_t *lowp; /* bf16; the other way round */
	uint16_t *rem;
};

/* dst[i] = bf16 of src[i], away from zero with the probability of the part that is lost, so that the mean of the
 * error is 0: bits + (the upper half of word first+i of rng), cut. NaN is made quiet. GROWABLE. */
struct zr_op_round_stochastic {
	uint32_t size, flags;
	int64_t n, first;
	struct zr_rng rng;
	const float *src;
	uint16_t *dst;
};

/* Lion (Chen et al. 2023): g = grad*grad_mult; p = (1-lr*wd) p - lr * sign(b1 m + (1-b1) g); m = b2 m + (1-b2) g.
 * sign(0) = 0. GROWABLE. */
struct zr_op_lion {
	uint32_t size, flags;
	int32_t lowp_dtype, rsv;
	int64_t n;
	double beta1, beta2, weight_decay;
	const struct zr_scalars *scalars;
	const float *grad;
	float *master, *m;
	void *lowp;
};

/* Adagrad (Duchi et al. 2011), as torch.optim.Adagrad: g = grad*grad_mult + wd*p; sum += g*g;
 * p -= lr/(1 + (t-1)*lr_decay) * g / (sqrt(sum) + eps). GROWABLE. */
struct zr_op_adagrad {
	uint32_t size, flags;
	int32_t lowp_dtype, rsv;
	int64_t n;
	double lr_decay, eps, weight_decay;
	const struct zr_scalars *scalars;
	const float *grad;
	float *master, *sum;
	void *lowp;
};

/* LAMB (You et al. 2020): m and v as AdamW's, r = m/(1-b1^t) / (sqrt(v/(1-b2^t)) + eps) + wd*p; p -= lr * trust * r.
 * trust = |p| / |r| over the whole parameter, cut to [min_coeff, max_coeff]; 1 if either norm is 0.
 * lamb_norms leaves all as it is but for block_norms: per block of ZR_BLOCK elements the fp64 sums of the squares of p
 * and of the r that this update is going to have. lamb reads them as norms, summed over the parameter. GROWABLE. */
struct zr_op_lamb {
	uint32_t size, flags;
	int32_t lowp_dtype;
	uint8_t bias_correction, rsv[3];
	int64_t n;
	double beta1, beta2, eps, weight_decay, min_coeff, max_coeff;
	const struct zr_scalars *scalars;
	const float *grad;
	float *master, *m, *v;
	void *lowp;
	double *block_norms; /* [ceil(n/ZR_BLOCK)][2] */
	const double *norms; /* [2] */
};

/* Muon (Jordan 2024; the form of torch.optim.Muon) but for its matrix products. muon_momentum: g = grad*grad_mult;
 * buf = mu*buf + (1-mu)*g; x = nesterov ? (1-mu)*g + mu*buf : buf, and the sum of squares of x per block of ZR_BLOCK
 * elements. muon_normalize: x /= max(|x|, eps), by those sums added in order. muon_update: p = (1-lr*wd)*p - lr*ratio*x.
 * GROWABLE. */
struct zr_op_muon {
	uint32_t size, flags;
	int32_t lowp_dtype;
	uint8_t nesterov, rsv[3];
	int64_t n;
	double momentum, weight_decay, eps, ratio;
	const struct zr_scalars *scalars;
	const float *grad;
	float *master, *buf, *x;
	double *sumsq; /* [ceil(n/ZR_BLOCK)] */
	void *lowp;
};

/* gram = a I + b gram + c square, all [n, n]: the factor of one Newton-Schulz iteration, square = gram gram. GROWABLE. */
struct zr_op_muon_factor {
	uint32_t size, flags;
	int64_t n;
	float a, b, c, rsv;
	float *gram;
	const float *square;
};

/* y = x / sqrt(mean of x^2 + eps) * gamma over rows of C (Zhang and Sennrich 2019). GROWABLE. */
struct zr_op_rmsnorm {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	float eps;
	int32_t rsv2;
	const void *x, *gamma;
	void *y;
	float *rstd; /* [rows], the factor of the row, kept for backward */
};

/* dx += gradient w.r.t. x; dgamma = or += by ZR_OP_ACCUMULATE. GROWABLE. */
struct zr_op_rmsnorm_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	const void *dy, *x, *gamma;
	const float *rstd;
	void *dx;
	float *dgamma;
	void *work; /* rmsnorm_bwd_work() bytes */
};

/* Rotary positions (Su et al. 2021), in halves: element i < D/2 of each head of row b*T+t is paired with element i + D/2
 * and turned by a = t * frequency[i], one fp32 product:
 *   out[i] = x[i] cos a - x[i + D/2] sin a,  out[i + D/2] = x[i + D/2] cos a + x[i] sin a.
 * ZR_ROTARY_BACK turns by -a, which is the backward. Row r starts at r*stride elements, head h at + h*head_dim; what lies
 * between the heads of two rows is left alone. out may be x. GROWABLE. */
#define ZR_ROTARY_BACK 1u
#define ZR_ROTARY_PAIRS 128
struct zr_op_rotary {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t batch, length, heads, head_dim; /* head_dim is even and at most 2 * ZR_ROTARY_PAIRS */
	int64_t stride;                         /* of x and of out */
	const void *x;
	void *out;
	float frequency[ZR_ROTARY_PAIRS];       /* [head_dim/2] radians per position, in [0, 4] */
};

/* out = silu(gate) * up, silu(x) = x / (1 + exp(-x)) (Shazeer 2020). out may be gate or up. GROWABLE. */
struct zr_op_swiglu {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t n;
	const void *gate, *up;
	void *out;
};

/* dgate = dy * up * silu'(gate), dup = dy * silu(gate); each may be dy, gate or up.
 * act, if not NULL, receives the forward's out: what kept gate and up need not keep it too. GROWABLE. */
struct zr_op_swiglu_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t n;
	const void *dy, *gate, *up;
	void *dgate, *dup;
	void *act; /* [n] or NULL; overlaps nothing */
};

/* GROWABLE. The first argument of each is this table. [step] all. */
struct zr_ops {
	uint32_t size, rsv;
	struct zr_inst *dev;
	int (*matmul)(const struct zr_ops *, struct zr_stream *, const struct zr_op_matmul *);
	int (*embedding)(const struct zr_ops *, struct zr_stream *, const struct zr_op_embedding *);
	int (*embedding_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_embedding_bwd *);
	int (*layernorm)(const struct zr_ops *, struct zr_stream *, const struct zr_op_layernorm *);
	int (*layernorm_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_layernorm_bwd *);
	uint64_t (*layernorm_bwd_work)(const struct zr_ops *, const struct zr_op_layernorm_bwd *); /* [pure] */
	int (*attention)(const struct zr_ops *, struct zr_stream *, const struct zr_op_attention *);
	int (*attention_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_attention_bwd *);
	uint64_t (*attention_bwd_work)(const struct zr_ops *, const struct zr_op_attention_bwd *); /* [pure] */
	int (*gelu_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_gelu_bwd *);
	int (*residual)(const struct zr_ops *, struct zr_stream *, const struct zr_op_residual *);
	int (*bias_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_bias_bwd *);
	int (*head_loss)(const struct zr_ops *, struct zr_stream *, const struct zr_op_head_loss *);
	uint64_t (*head_loss_work)(const struct zr_ops *, const struct zr_op_head_loss *); /* [pure] */
	int (*fold)(const struct zr_ops *, struct zr_stream *, const struct zr_op_fold *);
	int (*adamw)(const struct zr_ops *, struct zr_stream *, const struct zr_op_adamw *);
	int (*sgd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_sgd *);
	int (*cast)(const struct zr_ops *, struct zr_stream *, const struct zr_op_cast *);
	int (*init)(const struct zr_ops *, struct zr_stream *, const struct zr_op_init *);
	int (*master_join)(const struct zr_ops *, struct zr_stream *, const struct zr_op_master *);
	int (*master_split)(const struct zr_ops *, struct zr_stream *, const struct zr_op_master *);
	int (*round_stochastic)(const struct zr_ops *, struct zr_stream *, const struct zr_op_round_stochastic *);
	int (*lion)(const struct zr_ops *, struct zr_stream *, const struct zr_op_lion *);
	int (*adagrad)(const struct zr_ops *, struct zr_stream *, const struct zr_op_adagrad *);
	int (*lamb_norms)(const struct zr_ops *, struct zr_stream *, const struct zr_op_lamb *);
	int (*lamb)(const struct zr_ops *, struct zr_stream *, const struct zr_op_lamb *);
	int (*muon_momentum)(const struct zr_ops *, struct zr_stream *, const struct zr_op_muon *);
	int (*muon_normalize)(const struct zr_ops *, struct zr_stream *, const struct zr_op_muon *);
	int (*muon_factor)(const struct zr_ops *, struct zr_stream *, const struct zr_op_muon_factor *);
	int (*muon_update)(const struct zr_ops *, struct zr_stream *, const struct zr_op_muon *);
	int (*rmsnorm)(const struct zr_ops *, struct zr_stream *, const struct zr_op_rmsnorm *);
	int (*rmsnorm_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_rmsnorm_bwd *);
	uint64_t (*rmsnorm_bwd_work)(const struct zr_ops *, const struct zr_op_rmsnorm_bwd *); /* [pure] */
	int (*rotary)(const struct zr_ops *, struct zr_stream *, const struct zr_op_rotary *);
	int (*swiglu)(const struct zr_ops *, struct zr_stream *, const struct zr_op_swiglu *);
	int (*swiglu_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_swiglu_bwd *);
};

/* GROWABLE; filled by info(). */
struct zr_device_info {
	uint32_t size;
	uint32_t unified;     /* 1: device memory is host memory, one tier */
	char name[64];        /* "cpu", "NVIDIA H200" */
	char variant[64];     /* what the bits depend on: "avx512+own" */
	uint64_t memory;      /* bytes of device memory this rank may use, beside scratch where that lies there */
	uint64_t scratch;     /* bytes the device holds for itself, allocated at create; in host memory on its account */
	/* unified implies both */
	uint32_t host_access; /* 1: host code may read and write device memory through its addresses */
	uint32_t host_ops;    /* 1: operations take addresses of host memory too, mixed as they like */
};

/* Interface "zr.device/1". GROWABLE. */
struct zr_device_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_device_info *);            /* [main] */
	const struct zr_ops *(*ops)(struct zr_inst *);                     /* [main] valid until destroy */
	/* [main] `bytes` zeroed, 64-byte aligned at least; freed by the caller through mem_free. */
	int (*mem_alloc)(struct zr_inst *, uint64_t bytes, uint32_t kind, void **out);
	void (*mem_free)(struct zr_inst *, void *p, uint64_t bytes, uint32_t kind); /* [main] */
	/* [step] enqueue a copy between host and device memory, in either direction. */
	int (*copy)(struct zr_inst *, struct zr_stream *, void *dst, const void *src, uint64_t bytes);
	int (*sync)(struct zr_inst *, struct zr_stream *);                 /* [step] wait for the stream */
	/* (optional, both) [step] A copy beside the compute stream, as `copy` otherwise: it happens after what has been enqueued
	 * so far and before copy_wait returns, at any time in between; both sides are left alone until then, but for reading
	 * src. *ticket: waited for exactly once, in any order; 0 if everything has happened. Where there is mem_pin, host memory
	 * of either side lies in one allocation of ZR_MEM_PINNED or in one range that is pinned; other memory is for `copy`. */
	int (*copy_start)(struct zr_inst *, void *dst, const void *src, uint64_t bytes, uint64_t *ticket);
	int (*copy_wait)(struct zr_inst *, uint64_t ticket);
	/* (optional) [any] The platform's handle of a stream, for plugins that work with this device: a cudaStream_t. */
	void *(*native_stream)(struct zr_inst *, struct zr_stream *);
	/* (optional, both) [main] From now to mem_unpin [p, p + bytes) takes part in copies as ZR_MEM_PINNED memory does: memory of
	 * the host that somebody else allocated, and keeps mapped until then. p starts a page, bytes > 0, no page of it is
	 * pinned. Nothing is allocated, but all pages may be touched. ZR_ENOMEM: the system pins no more; all is as it was.
	 * mem_unpin, of the p of a mem_pin, comes before destroy; copies that were not waited for end first or never begin. */
	int (*mem_pin)(struct zr_inst *, void *p, uint64_t bytes);
	void (*mem_unpin)(struct zr_inst *, void *p);
	/* (optional) [step] As copy_start, of memory that nothing enqueued so far uses: it may begin at once. */
	int (*copy_now)(struct zr_inst *, void *dst, const void *src, uint64_t bytes, uint64_t *ticket);
};

#ifdef __cplusplus
}
#endif
#endif
