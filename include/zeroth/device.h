/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/device.h - DRAFT. Role "device": memory, copies and a growable table of typed operations.
 *
 * Every operation is enqueued on a stream and never synchronises; a device that computes at once
 * (the CPU) has finished it when the call returns. Planning refuses a model that needs an operation
 * whose pointer is NULL. Element order is row-major. `dtype` names the storage of activations and
 * parameters (ZR_F32, ZR_BF16 or ZR_F16); arithmetic and gradients of parameters are fp32.
 *
 * Determinism (invariant I1): for one device and variant, results depend on the arguments alone,
 * never on the number of threads. Sums run over fixed tiles whose shape depends on the shapes only.
 * Values are rounded to bf16 half away from zero, to fp16 to the nearest, ties to even, with
 * subnormals; past the range of fp16 they become infinite, by which a loss scale notices it.
 *
 * All pointers are borrowed for the call and, on a device with streams, until the stream has
 * executed it. Operations return ZR_OK, or a negative code after they passed a text that names the
 * operation to the host's fail(). Core adds rank, step, layer and unit. A device that notices a
 * failure only later reports it in the text of the call that fails then.
 */
#ifndef ZEROTH_DEVICE_H
#define ZEROTH_DEVICE_H

#include <zeroth/experts.h>
#include <zeroth/parameters.h>
#include <zeroth/array.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION
#undef ZR_USES_DEVICE
#define ZR_USES_DEVICE ZR_DRAFT_DEVICE

#ifdef __cplusplus
extern "C" {
#endif

struct zr_stream;   /* in-order queue of operations; NULL is the compute stream */
struct zr_graph;    /* operations that are enqueued at once: graph_begin of zr_device_v1 */
struct zr_opt_step; /* zeroth/optimizer.h */
struct zr_native;
struct zr_elementwise; /* zeroth/elementwise.h */
struct zr_matrices;    /* zeroth/matrices.h */

/* Functions of one element. In an operation that has an `activation`, 0 is the one named there. */
#define ZR_ACT_SILU      1 /* x / (1 + exp(-x)) */
#define ZR_ACT_GELU_TANH 2 /* GELU's tanh form (Hendrycks and Gimpel 2016), GPT-2's */
#define ZR_ACT_GELU_ERF  3 /* x Phi(x) (there), Phi the normal distribution: torch.nn.GELU() */

#define ZR_MM_TRANS_A    1u /* A is stored [K, M] */
#define ZR_MM_TRANS_B    2u /* B is stored [N, K] */
#define ZR_MM_ACCUMULATE 4u /* D += instead of D =; D is fp32, no bias, no GELU */
#define ZR_MM_GELU       8u /* D = gelu(product + bias); `pre` receives product + bias */
/* A row of D depends on its row of A, on B, N and K only, not on M: what is computed row by row has
 * the bits of what is computed at once. A device whose products come from a library may do without;
 * its results then agree within rounding. */
#define ZR_MM_EACH_ROW 16u
/* Both operands, in bf16, are rounded to numbers of 8 bits before they are multiplied: each row of
 * op(A) and each column of op(B), over all of K, times a power of two by which its largest
 * magnitude comes to lie at most at ZR_E4M3_MOST, and above half of that, but for magnitudes below
 * 2^-109; then each element to the nearest number of E4M3 (Micikevicius et al. 2022), ties to even.
 * So what an element becomes depends on its row or column alone. A row or column with an element
 * that is no finite number becomes NaN: a loss scale notices it. A is not ZR_MM_TRANS_A. Devices
 * that have matmul_work() can. */
#define ZR_MM_FP8 32u
/* With ZR_MM_FP8: op(A) is rounded to numbers of E5M2 instead, at most at ZR_E5M2_MOST, but for
 * magnitudes below 2^-95. */
#define ZR_MM_E5M2_A 64u
/* With ZR_MM_FP8: since the call before, which had the same a, lda, m, k and ZR_MM_E5M2_A, nobody
 * has written to `work`, nor to what a points to; both are of one stream. */
#define ZR_MM_SAME_A 128u

#define ZR_E4M3_MOST 448.0f   /* 1.75 * 2^8; normal from 2^-6 on, below it multiples of 2^-9 */
#define ZR_E5M2_MOST 57344.0f /* 1.75 * 2^15; normal from 2^-14 on, below it multiples of 2^-16 */

/* D[M,N] = op(A)[M,K] * op(B)[K,N] + bias[N]. GROWABLE. */
struct zr_op_matmul {
	uint32_t size, flags;
	struct zr_array a, b, d;
	int64_t m, n, k;
	int64_t lda, ldb, ldd; /* elements between rows as stored */
	const void *bias;      /* [N] of B's type, or NULL */
	void *pre;             /* with ZR_MM_GELU: [M, N] of D's type, ldd apart; may be NULL */
	int32_t activation;    /* with ZR_MM_GELU: ZR_ACT_GELU_TANH (also 0) or ZR_ACT_GELU_ERF */
	int32_t rsv;
	void *work; /* with ZR_MM_FP8: matmul_work() bytes */
};

/* D = op(A) op(B) + drop(gain U V) + bias, then GELU, as `product` says: a low-rank update of op(B)
 * (Hu et al. 2021). U is [M, r] of the type of A, V [r, N] of that of B, or with
 * ZR_LR_TRANS_V stored [N, r]; both without gaps. Element (i, j) of gain U V is dropped as element
 * first+i*N+j of rng. All is added in fp32 and rounded once; where a library multiplies, the update
 * may be rounded to D's type before. GROWABLE. */
#define ZR_LR_TRANS_V 1u
struct zr_op_matmul_low_rank {
	uint32_t size, flags;
	int64_t r;
	float gain, dropout;
	struct zr_rng rng;
	int64_t first; /* 0 or more */
	const void *u, *v;
	struct zr_op_matmul product;
};

/* out[r, :] = wte[tokens[r], :] + wpe[position of r, :], r = b*T+t; without wpe only the first
 * term. GROWABLE. */
struct zr_op_embedding {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t batch, length, width, vocabulary, positions; /* B, T, C, rows of wte, rows of wpe */
	const int32_t *tokens;                               /* [B*T], each < vocabulary */
	const void *wte, *wpe;   /* [vocabulary, C], [positions, C] or NULL */
	void *out;               /* [B*T, C] */
	const int32_t *position; /* [B*T], each < positions; NULL: t */
};

/* dwte[tokens[r]] += dout[r]; dwpe[position of r] += dout[r]; in index order. A NULL pointer
 * means that this gradient is not wanted. Without ZR_OP_ACCUMULATE_WTE / _WPE, rows to which
 * nothing is added become 0. GROWABLE. */
#define ZR_OP_ACCUMULATE_WTE 1u
#define ZR_OP_ACCUMULATE_WPE 2u
struct zr_op_embedding_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t batch, length, width, vocabulary, positions;
	const int32_t *tokens;
	const void *dout;
	float *dwte, *dwpe;
	const int32_t *position;   /* as in the forward */
	int64_t first_row, n_rows; /* embedding_bwd_rows: of dwte; else both 0 */
};

/* y = (x - mean) / sqrt(var + eps) * gamma + beta over rows of C (biased variance). Without beta
 * nothing is added. GROWABLE. */
struct zr_op_layernorm {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	float eps;
	int32_t rsv2;
	const void *x, *gamma, *beta; /* gamma, beta: [C]; beta may be NULL */
	void *y;
	float *mean, *rstd; /* [rows], kept for backward */
};

/* dx += gradient w.r.t. x, since dx already has the gradient of the residual stream.
 * dgamma, dbeta: = or += by ZR_OP_ACCUMULATE; NULL: not wanted. GROWABLE. */
struct zr_op_layernorm_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	const void *dy, *x, *gamma;
	const float *mean, *rstd;
	void *dx;
	float *dgamma, *dbeta;
	void *work; /* layernorm_bwd_work() bytes; with neither it may be NULL */
};

/* Causal attention: out = softmax(mask(q k^T * scale)) v, per batch entry and head. At no time is
 * more than a tile of the T x T matrix in memory. Row (b, t) of q starts at q + (b*T+t)*q_stride
 * elements, head h at + h*q_head; likewise k, v with kv_heads, each serving heads/kv_heads query
 * heads, and out, whose heads are head_dim apart. dropout p > 0 acts on the probabilities: element
 * ((b*heads+h)*T+i)*T+j of rng. Of several documents in a sequence each is attended to by its own
 * tokens only; what is computed for it is what would be computed if it stood alone, bit for bit on
 * the CPU without dropout. Of these keys, with window > 0, query i attends to j only if i - j <
 * window (Beltagy et al. 2020), and tiles in which no query attends to a key are not computed; a
 * window of `length` or more has the bits of 0. With softcap > 0 a score s = scale q.k becomes
 * softcap * tanh(s / softcap) before it is masked (Gemma 2, 2024).
 * With first > 0 queries before `first` are not computed: q, out and lse, and in a backward dout
 * and dq, have only rows [first, length) of each batch entry, row `first` at their start. They have
 * the bits of the whole, in dq but for the signs of zeros. What a backward gives to keys is of the
 * queries that are computed; a key that none of them attends to gets 0.
 * A head of a part of the heads is head first_head + h of all_heads, and row i one of drop_rows,
 * for dropout: element ((b*all_heads+first_head+h)*drop_rows+i)*drop_rows+j. all_heads 0: heads;
 * drop_rows 0: length.
 * A forward with `max_scores` raises element h to the largest scale q.k, before a soft cap, of a
 * query of head h that is computed and a key that it attends to, where that is more than what is
 * there; it changes no bit of the results. Scores that are NaN do not count. A backward leaves it
 * alone. GROWABLE. */
struct zr_op_attention {
	uint32_t size, flags;
	int32_t dtype, first;
	int64_t batch, length, heads, kv_heads, head_dim;
	int64_t q_stride, k_stride, v_stride, out_stride;
	float scale, dropout;
	struct zr_rng rng;
	const void *q, *k, *v;
	void *out;
	float *lse; /* [B, heads, T - first]: log of the sum of exponentials, kept for backward */
	/* [B*T] where in its sequence a token's document starts: at most t, ascending; NULL: 0 */
	const int32_t *starts;
	int64_t window; /* tokens that a query attends to, itself and those before it; 0: all */
	float softcap;  /* finite; 0: scores stay as they are */
	int32_t rsv2;
	int64_t q_head, k_head, v_head; /* elements between heads of q, k, v; 0: head_dim */
	float *max_scores;              /* [heads] 0 or more at first; NULL: not wanted */
	int32_t first_head, all_heads;
	int64_t drop_rows;
	/* a backward's: [B*T][2][kv_heads * head_dim] fp32 gradients of k and v are stored here
	 * instead of dk and dv, which may then be NULL; NULL: not so */
	float *key_sums;
};

/* Stores dq, dk and dv, without adding, laid out as q, k and v. GROWABLE, as its last member grows:
 * what a backward alone needs later goes into that, too. */
struct zr_op_attention_bwd {
	uint32_t size, flags;
	const void *dout; /* out_stride apart */
	void *dq, *dk, *dv;
	void *work;                 /* attention_bwd_work() bytes */
	struct zr_op_attention fwd; /* as in the forward; out and lse are read */
};

/* dx = dy * gelu'(pre). dx may be dy. act, if not NULL, receives gelu(pre): a forward that kept pre
 * need not keep that too. GROWABLE. */
struct zr_op_gelu_bwd {
	uint32_t size, flags;
	int32_t dtype;
	int32_t activation; /* ZR_ACT_GELU_TANH (also 0) or ZR_ACT_GELU_ERF */
	int64_t n;
	const void *dy, *pre;
	void *dx;
	void *act; /* [n] or NULL; overlaps nothing */
};

/* out = a + keep(gain * b), keep zeroing elements with probability `dropout` and scaling the rest
 * by 1/(1-dropout); element first+i of rng. a may be NULL (0). out may be a or b. The same
 * operation with a = NULL and b = dout is its own backward. GROWABLE. */
struct zr_op_residual {
	uint32_t size, flags;
	int32_t dtype;
	float dropout;
	int64_t n;
	struct zr_rng rng;
	const void *a, *b;
	void *out;
	float gain; /* 0: 1 */
	int32_t rsv;
	int64_t first; /* 0 or more */
};

/* db[N] = or += sum over rows of dy[M, N]. GROWABLE. */
struct zr_op_bias_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	const void *dy;
	float *db;
};

#define ZR_OP_ACCUMULATE_DV 2u

/* Softmax cross entropy fused with the output projection, in chunks of rows: logits = (x w^T +
 * u v^T) * logit_gain, without u v^T where r is 0, and then, with softcap > 0, softcap *
 * tanh(logits / softcap) (Gemma 2, 2024).
 * loss[r] = logsumexp(logits[r]) - logits[r][targets[r]]; *loss_sum = fp64 sum of them in row
 * order. With dx: dlogits = (softmax - onehot) * scale, times the slope of what was done to the
 * products; dx = dlogits w; dw = or += dlogits^T x; du = dlogits v; dv = or += dlogits^T u.
 * Where there is no target, loss and dlogits are 0; with weights both are multiplied by the row's.
 * Without dx, right[r] is the row's weight where the target is the likeliest token, which is the
 * first one with the largest logit; else 0, also where the loss is no number. GROWABLE. */
struct zr_op_head_loss {
	uint32_t size, flags;
	int32_t dtype;
	float scale;
	int64_t rows, width, vocabulary;
	const void *x, *w;      /* [rows, width], [vocabulary, width] */
	const int32_t *targets; /* [rows], each < vocabulary; negative: none */
	float *loss;            /* [rows] */
	double *loss_sum;
	void *dx;             /* [rows, width], or NULL: loss only */
	float *dw;            /* [vocabulary, width]; NULL: not wanted */
	void *work;           /* head_loss_work() bytes */
	const float *weights; /* [rows]; NULL: 1 */
	float *stats;         /* [rows][2], with dx: what head_loss_rows needs; NULL: nothing */
	int64_t first_row, n_rows; /* head_loss_rows: of w and dw; else both 0 */
	float *right;              /* [rows], without dx; NULL: not wanted */
	float logit_gain;          /* finite; 0: 1 */
	float softcap;             /* finite; 0: none */
	int64_t r;                 /* not of head_loss_rows; a device may refuse other than 0 */
	const void *u, *v;         /* [rows, r], [vocabulary, r], of the type of x */
	void *du;                  /* [rows, r], with dx */
	float *dv;                 /* [vocabulary, r], with dx; NULL: not wanted */
};

/* x = gain * x and then, with softcap > 0, softcap * tanh(x / softcap), in place: what head_loss
 * does to logits, for those that are sampled from. GROWABLE. */
struct zr_op_logit_cap {
	uint32_t size, flags;
	int64_t n;
	float gain, softcap; /* finite; 0: 1, none */
	float *x;            /* [n] */
};

/* y = x / sqrt(mean of x^2 + eps) * gamma over rows of C (Zhang and Sennrich 2019). With
 * ZR_RMSNORM_PLUS_ONE the factor is 1 + gamma, added in fp32, as Gemma stores it. y may be x.
 * Rows lie in groups of per_row, as the heads of a token in a matrix of tokens: a group's rows
 * without gaps, groups of x x_stride elements apart, those of y y_stride. GROWABLE. */
#define ZR_RMSNORM_PLUS_ONE 2u
#define ZR_RMSNORM_STORE    4u
struct zr_op_rmsnorm {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	float eps;
	int32_t rsv2;
	const void *x, *gamma; /* gamma: [C], or NULL: the factor is 1 */
	void *y;
	float *rstd;                /* [rows], the factor of the row, kept for backward */
	int64_t per_row;            /* 0: 1 */
	int64_t x_stride, y_stride; /* at least per_row * C; 0: that */
};

/* dx += gradient w.r.t. x, or = with ZR_RMSNORM_STORE; then dx may be dy. dgamma = or += by
 * ZR_OP_ACCUMULATE; NULL: not wanted. Rows lie in groups as in the forward. GROWABLE. */
struct zr_op_rmsnorm_bwd {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t rows, width;
	const void *dy, *x, *gamma;
	const float *rstd;
	void *dx;
	float *dgamma;
	void *work; /* rmsnorm_bwd_work() bytes; without dgamma it may be NULL */
	int64_t per_row;
	int64_t dy_stride, x_stride, dx_stride;
};

/* Rotary position embedding (Su et al. 2021), in halves: element i < D/2 of each head of row b*T+t
 * is paired with element i + D/2, and the pair is rotated by the angle a = position of the row *
 * frequency[i], one fp32 product:
 *   out[i] = g (x[i] cos a - x[i + D/2] sin a),  out[i + D/2] = g (x[i + D/2] cos a + x[i] sin a),
 * where cos a and sin a are what g multiplies, in fp32. ZR_ROTARY_BACK rotates by -a, which is the
 * backward. D is rotary_dim: a head's further elements are copied to out. Row r starts at r*stride
 * elements, head h at + h*head_stride. Elements between heads stay as they are. out may be x.
 * GROWABLE. */
#define ZR_ROTARY_BACK  1u
#define ZR_ROTARY_PAIRS 128
struct zr_op_rotary {
	uint32_t size, flags;
	int32_t dtype, rsv;
	int64_t batch, length, heads, head_dim;
	int64_t stride; /* of x and of out */
	const void *x;
	void *out;
	float frequency[ZR_ROTARY_PAIRS]; /* [D/2] radians per position, in [0, 4] */
	const int32_t *position;          /* [B*T]; NULL: t */
	int64_t rotary_dim;  /* D, even, at most head_dim and 2 * ZR_ROTARY_PAIRS; 0: head_dim */
	int64_t head_stride; /* of x and of out, at least head_dim; 0: head_dim */
	float gain;          /* g; 0: 1 */
	int32_t rsv2;
};

/* out = f(gate) * up, f = silu in SwiGLU, gelu in GeGLU (Shazeer 2020). gate and up may lie in rows
 * of `width` elements, `stride` apart, so that they can be the halves of each row of one matrix;
 * out has no gaps. Where nothing has gaps out may be gate or up. GROWABLE. */
struct zr_op_swiglu {
	uint32_t size, flags;
	int32_t dtype;
	int32_t activation; /* ZR_ACT_*; 0: ZR_ACT_SILU */
	int64_t n;          /* elements of out: a multiple of width */
	const void *gate, *up;
	void *out;
	int64_t width, stride; /* stride >= width; both 0: no gaps */
};

/* dgate = dy * up * f'(gate), dup = dy * f(gate). gate, up, dgate and dup lie in rows as those of
 * the forward, dy and act have no gaps. dgate and dup each may be gate or up, and dy where nothing
 * has gaps. act, if not NULL, receives the forward's out: a forward that kept gate and up need not.
 * GROWABLE. */
struct zr_op_swiglu_bwd {
	uint32_t size, flags;
	int32_t dtype;
	int32_t activation;
	int64_t n;
	const void *dy, *gate, *up;
	void *dgate, *dup;
	void *act; /* [n] or NULL; may be dy, else overlaps nothing */
	int64_t width, stride;
};

#define ZR_SCALE_COLUMNS 1u

/* Multiplies those elements of x that belong to a head by its factor. x has elements [first,
 * first + n) of a row-major matrix of rows of `width`; the line of an element is its row, or with
 * ZR_SCALE_COLUMNS its column; lines [begin + h apart, begin + h apart + lines) are head h's, h <
 * heads. GROWABLE. */
struct zr_op_scale_heads {
	uint32_t size, flags;
	int64_t n, first, width;
	int64_t begin, apart, lines, heads;
	const float *factor; /* [heads] */
	float *x;            /* [n] */
};

/* dst[r, h, :] = src[r, h, :] rounded to dst's type, for each row and head: rows are _stride
 * elements apart, heads _head, and a head has head_dim in a row. Types are ZR_F32, ZR_BF16,
 * ZR_F16. dst overlaps nothing of src. GROWABLE. */
struct zr_op_cast_heads {
	uint32_t size, flags;
	int64_t rows, heads, head_dim;
	int64_t src_stride, src_head, dst_stride, dst_head;
	struct zr_array src, dst;
};

/* The operations: all [step], those that end in _work [pure]. Each gets this table as its first
 * argument. GROWABLE; operations end before `native`. */
struct zr_ops {
	uint32_t size, rsv;
	struct zr_inst *dev;
	int (*matmul)(const struct zr_ops *, struct zr_stream *, const struct zr_op_matmul *);
	int (*embedding)(const struct zr_ops *, struct zr_stream *, const struct zr_op_embedding *);
	int (*embedding_bwd)(const struct zr_ops *, struct zr_stream *,
			     const struct zr_op_embedding_bwd *);
	int (*layernorm)(const struct zr_ops *, struct zr_stream *, const struct zr_op_layernorm *);
	int (*layernorm_bwd)(const struct zr_ops *, struct zr_stream *,
			     const struct zr_op_layernorm_bwd *);
	uint64_t (*layernorm_bwd_work)(const struct zr_ops *, const struct zr_op_layernorm_bwd *);
	int (*attention)(const struct zr_ops *, struct zr_stream *, const struct zr_op_attention *);
	int (*attention_bwd)(const struct zr_ops *, struct zr_stream *,
			     const struct zr_op_attention_bwd *);
	uint64_t (*attention_bwd_work)(const struct zr_ops *, const struct zr_op_attention_bwd *);
	int (*gelu_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_gelu_bwd *);
	int (*residual)(const struct zr_ops *, struct zr_stream *, const struct zr_op_residual *);
	int (*bias_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_bias_bwd *);
	int (*head_loss)(const struct zr_ops *, struct zr_stream *, const struct zr_op_head_loss *);
	uint64_t (*head_loss_work)(const struct zr_ops *, const struct zr_op_head_loss *);
	int (*fold)(const struct zr_ops *, struct zr_stream *, const struct zr_op_fold *);
	int (*adamw)(const struct zr_ops *, struct zr_stream *, const struct zr_op_adamw *);
	int (*sgd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_sgd *);
	int (*cast)(const struct zr_ops *, struct zr_stream *, const struct zr_op_cast *);
	int (*init)(const struct zr_ops *, struct zr_stream *, const struct zr_op_init *);
	int (*master_join)(const struct zr_ops *, struct zr_stream *, const struct zr_op_master *);
	int (*master_split)(const struct zr_ops *, struct zr_stream *, const struct zr_op_master *);
	int (*round_stochastic)(const struct zr_ops *, struct zr_stream *,
				const struct zr_op_round_stochastic *);
	int (*lion)(const struct zr_ops *, struct zr_stream *, const struct zr_op_lion *);
	int (*adagrad)(const struct zr_ops *, struct zr_stream *, const struct zr_op_adagrad *);
	int (*lamb_norms)(const struct zr_ops *, struct zr_stream *, const struct zr_op_lamb *);
	int (*lamb)(const struct zr_ops *, struct zr_stream *, const struct zr_op_lamb *);
	int (*muon_momentum)(const struct zr_ops *, struct zr_stream *, const struct zr_op_muon *);
	int (*muon_normalize)(const struct zr_ops *, struct zr_stream *, const struct zr_op_muon *);
	int (*muon_factor)(const struct zr_ops *, struct zr_stream *,
			   const struct zr_op_muon_factor *);
	int (*muon_update)(const struct zr_ops *, struct zr_stream *, const struct zr_op_muon *);
	int (*rmsnorm)(const struct zr_ops *, struct zr_stream *, const struct zr_op_rmsnorm *);
	int (*rmsnorm_bwd)(const struct zr_ops *, struct zr_stream *,
			   const struct zr_op_rmsnorm_bwd *);
	uint64_t (*rmsnorm_bwd_work)(const struct zr_ops *, const struct zr_op_rmsnorm_bwd *);
	int (*rotary)(const struct zr_ops *, struct zr_stream *, const struct zr_op_rotary *);
	int (*swiglu)(const struct zr_ops *, struct zr_stream *, const struct zr_op_swiglu *);
	int (*swiglu_bwd)(const struct zr_ops *, struct zr_stream *,
			  const struct zr_op_swiglu_bwd *);
	/* (optional) For a gradient in parts: nothing but rows [first_row, first_row + n_rows) of
	 * dwte, or of dw by the stats of a head_loss. dwte and dw point to the first of them. Bits
	 * are those of all rows at once. */
	int (*embedding_bwd_rows)(const struct zr_ops *, struct zr_stream *,
				  const struct zr_op_embedding_bwd *);
	int (*head_loss_rows)(const struct zr_ops *, struct zr_stream *,
			      const struct zr_op_head_loss *);
	/* (optional) adapters need it */
	int (*matmul_low_rank)(const struct zr_ops *, struct zr_stream *,
			       const struct zr_op_matmul_low_rank *);
	/* (optional) mixtures of experts need them */
	int (*route)(const struct zr_ops *, struct zr_stream *, const struct zr_op_route *);
	int (*route_bwd)(const struct zr_ops *, struct zr_stream *, const struct zr_op_route_bwd *);
	int (*expert_rows)(const struct zr_ops *, struct zr_stream *,
			   const struct zr_op_expert_rows *);
	int (*expert_combine)(const struct zr_ops *, struct zr_stream *,
			      const struct zr_op_expert_combine *);
	int (*expert_weigh)(const struct zr_ops *, struct zr_stream *,
			    const struct zr_op_expert_weigh *);
	int (*matmul_grouped)(const struct zr_ops *, struct zr_stream *,
			      const struct zr_op_matmul_grouped *);
	int (*matmul_grouped_dw)(const struct zr_ops *, struct zr_stream *,
				 const struct zr_op_matmul_grouped_dw *);
	/* (optional) sampling from models that scale or cap logits needs it */
	int (*logit_cap)(const struct zr_ops *, struct zr_stream *, const struct zr_op_logit_cap *);
	/* (optional) mixtures of experts with losses of their routers need it */
	int (*router_losses)(const struct zr_ops *, struct zr_stream *,
			     const struct zr_op_router_losses *);
	/* (optional) [train] qk_clip needs it */
	int (*scale_heads)(const struct zr_ops *, struct zr_stream *,
			   const struct zr_op_scale_heads *);
	/* (optional) [train] slices needs it */
	int (*cast_heads)(const struct zr_ops *, struct zr_stream *,
			  const struct zr_op_cast_heads *);
	/* (optional) products with ZR_MM_FP8 need it. Depends on flags, types, m, n and k alone. */
	uint64_t (*matmul_work)(const struct zr_ops *, const struct zr_op_matmul *);
	/* (optional, all) what core lends optimizers as members of struct zr_opt_step. `native` is
	 * for kernels of models and adapters, too: they go into its stream. Where core keeps
	 * operations back to enqueue them at once (zr_device_info.graphs) its api is UINT32_MAX,
	 * which nobody knows: a kernel would come before operations that were called earlier. */
	const struct zr_native *native;
	int (*elementwise)(const struct zr_opt_step *, const struct zr_elementwise *);
	const struct zr_matrices *matrices; /* static */
};

/* GROWABLE; filled by info(). */
struct zr_device_info {
	uint32_t size;
	uint32_t unified; /* 1: device memory is host memory, one tier */
	char name[64];    /* "cpu", "NVIDIA H200" */
	char variant[64]; /* all that results depend on bit for bit: "avx512+own" */
	/* Bytes of device memory that this rank may use, without scratch that lies there. */
	uint64_t memory;
	/* Bytes that create() took for itself; those in host memory are on its account there. */
	uint64_t scratch;
	/* 1: host code may use addresses of device memory. With unified this and host_ops are 1. */
	uint32_t host_access;
	uint32_t host_ops; /* 1: operations take addresses of host memory too, in any mixture */
	/* 1: of operations that are called alike in each step graphs are to be made; the device has
	 * graph_begin */
	uint32_t graphs;
	uint32_t rsv;
};

#define ZR_MARKS     64 /* slots of marks */
#define ZR_TIME_NONE UINT32_MAX

/* A copy of stretches of equal length. GROWABLE. */
struct zr_device_rows {
	uint32_t size;
	uint32_t slot; /* of a mark, as in copy_after */
	void *dst;
	const void *src;
	uint64_t bytes, rows;          /* of a stretch; how many */
	uint64_t dst_apart, src_apart; /* bytes from one to the next, at least `bytes` */
};

/* Interface "zr.device/1". GROWABLE. */
struct zr_device_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_device_info *); /* [main] */
	/* [main] valid until destroy */
	const struct zr_ops *(*ops)(struct zr_inst *);
	/* [main] Allocates zeroed bytes, aligned to at least 64; the caller frees with mem_free. */
	int (*mem_alloc)(struct zr_inst *, uint64_t bytes, uint32_t kind, void **out);
	void (*mem_free)(struct zr_inst *, void *p, uint64_t bytes, uint32_t kind); /* [main] */
	/* [step] Enqueues a copy between host and device memory, in either direction. */
	int (*copy)(struct zr_inst *, struct zr_stream *, void *dst, const void *src,
		    uint64_t bytes);
	/* [step] waits for the stream */
	int (*sync)(struct zr_inst *, struct zr_stream *);
	/* (optional, both) [step] A copy that runs beside the compute stream. It starts after all
	 * operations that have been enqueued so far, and it ends before copy_wait returns. Until
	 * then nobody writes src and nobody touches dst. Each *ticket is waited for exactly once,
	 * in any order; 0: the copy is complete. Where the device has mem_pin, host memory on
	 * either side must lie in one allocation of ZR_MEM_PINNED or in one pinned range; use
	 * `copy` for other memory. */
	int (*copy_start)(struct zr_inst *, void *dst, const void *src, uint64_t bytes,
			  uint64_t *ticket);
	int (*copy_wait)(struct zr_inst *, uint64_t ticket);
	/* (optional) [any] A stream's cudaStream_t, for plugins that work with such a device. */
	void *(*native_stream)(struct zr_inst *, struct zr_stream *);
	/* (optional, both) [main] mem_pin pins [p, p + bytes), host memory that somebody else
	 * allocated and keeps mapped. Until mem_unpin, copies use it as ZR_MEM_PINNED memory. p is
	 * the start of a page, bytes > 0, and no page of the range is pinned yet. mem_pin allocates
	 * nothing, but may touch all pages. ZR_ENOMEM: the system pins no more memory, and nothing
	 * has changed. mem_unpin takes the p of a mem_pin and is called before destroy; copies of
	 * this range that were not waited for end before it returns, or never start. */
	int (*mem_pin)(struct zr_inst *, void *p, uint64_t bytes);
	void (*mem_unpin)(struct zr_inst *, void *p);
	/* (optional) [main] The processors that are near the device, by their numbers for
	 * sched_setaffinity(2): returns how many processor[room] got. Threads of this rank then run
	 * on those of them that the process may use. 0: it does not matter, or is not known. */
	int32_t (*processors)(struct zr_inst *, int32_t *processor, int32_t room);
	/* (optional, both) [step] mark remembers as `slot`, which is below ZR_MARKS, what has been
	 * enqueued on the compute stream so far; what it remembered as this slot before is
	 * forgotten. copy_after is copy_start, but for when the copy starts: after what the mark of
	 * a slot remembers, and perhaps before what was enqueued later, none of which touches dst
	 * or writes src. Copies take marked slots alone. */
	int (*mark)(struct zr_inst *, uint32_t slot);
	int (*copy_after)(struct zr_inst *, void *dst, const void *src, uint64_t bytes,
			  uint32_t slot, uint64_t *ticket);
	/* (optional) [step] copy_after of several stretches of memory, by one call of the system
	 * where it has one. */
	int (*copy_rows)(struct zr_inst *, const struct zr_device_rows *, uint64_t *ticket);
	/* (optional, all four) By the device's own clock, for people who ask where time goes.
	 * time_open, [main] and once, makes marks 0 to n - 1. time_mark, [step], enqueues one: the
	 * stream passes it when all before it is over. A mark that is enqueued again forgets when
	 * it was passed. time_copies, [step]: of the copies beside the compute stream that start
	 * from now on, the first passes `begin` before it moves a byte and each passes `end` when
	 * it is over, so that the last one counts; ZR_TIME_NONE twice: none does. time_between,
	 * [step], waits for nothing: nanoseconds from one mark to another, negative if the other
	 * one was passed before it, or ZR_EAGAIN while one of them has not been passed. */
	int (*time_open)(struct zr_inst *, uint32_t n);
	int (*time_mark)(struct zr_inst *, struct zr_stream *, uint32_t mark);
	int (*time_copies)(struct zr_inst *, uint32_t begin, uint32_t end);
	int (*time_between)(struct zr_inst *, uint32_t from, uint32_t to, int64_t *ns);
	/* (optional, both) [step] Names for what is enqueued, for tools that watch the device:
	 * range_push begins a range, in those that have begun, and range_pop ends the last one. */
	void (*range_push)(struct zr_inst *, const char *name);
	void (*range_pop)(struct zr_inst *);
	/* (optional, all four) [step] What operations enqueue on the compute stream between
	 * graph_begin and graph_end is kept as *graph and not done; nothing else is called between
	 * both. graph_launch enqueues all of it, as often as it is called: with the values that
	 * the operations' structs had, and on the memory that they pointed to. *graph is NULL, or
	 * an earlier one of the same operations, which gets the values of these, or is freed in
	 * favour of another. A graph_end that fails has ended what was begun, and freed *graph,
	 * which is NULL then; an operation that fails in between is followed by graph_end, too,
	 * which may fail then. What has been launched is done as it was, also where its graph is
	 * changed or freed since. graph_free is called before destroy. */
	int (*graph_begin)(struct zr_inst *);
	int (*graph_end)(struct zr_inst *, struct zr_graph **graph);
	int (*graph_launch)(struct zr_inst *, struct zr_graph *graph);
	void (*graph_free)(struct zr_inst *, struct zr_graph *graph);
};

#ifdef __cplusplus
}
#endif
#endif
