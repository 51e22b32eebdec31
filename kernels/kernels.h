/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h - the CPU kernels: pure functions on memory that their caller owns, no state, no
 * allocation, no thread of their own. The operations and their formulas are those of
 * <zeroth/device.h>; a kernel computes one range [lo, hi) of an operation, and its caller splits
 * the operation into ranges and runs them in parallel. The comment of each member says what its
 * range counts: rows, columns, elements, blocks or heads. The caller splits at places that depend
 * only on the shapes. A kernel's result for an index does not depend on the range that contains it,
 * except where a comment says "partial": there the ranges are part of the arithmetic (invariant
 * I1).
 *
 * One table per variant. kernels/cpu/<op>.c is the readable oracle: plain C, also compiled with
 * ZR_REAL=double for finite differences. kernels/cpu/<op>.simd.c is compiled once per vector
 * instruction set through simd.h. Kernel sources include this header (and simd.h) only.
 */
#ifndef ZEROTH_KERNELS_H
#define ZEROTH_KERNELS_H

#include <zeroth/device.h>

/* Rows of dwte that are wanted. */
static inline int64_t zr_wte_first(const struct zr_op_embedding_bwd *op)
{
	return ZR_HAS(op, struct zr_op_embedding_bwd, n_rows) && op->n_rows ? op->first_row : 0;
}
static inline int64_t zr_wte_rows(const struct zr_op_embedding_bwd *op)
{
	int some = ZR_HAS(op, struct zr_op_embedding_bwd, n_rows) && op->n_rows;
	return some ? op->n_rows : op->vocabulary;
}

/* U V in fp32, the product that a low-rank update scales and adds; its d is the caller's. */
static inline struct zr_op_matmul zr_low_rank_product(const struct zr_op_matmul_low_rank *l)
{
	const int trans = (l->flags & ZR_LR_TRANS_V) != 0;
	struct zr_op_matmul op = l->product;
	op.flags = trans ? ZR_MM_TRANS_B : 0;
	op.d_dtype = ZR_F32;
	op.k = op.lda = l->r;
	op.ldb = trans ? l->r : op.n;
	op.a = l->u;
	op.b = l->v;
	op.d = op.pre = NULL;
	op.bias = NULL;
	return op;
}

#define ZR_LN_TILE      64         /* rows per partial of layernorm_bwd and rmsnorm_bwd */
#define ZR_GEMM_SCRATCH (4u << 20) /* bytes of scratch that gemm_tile may use, per worker */

/* Rows that gemm_tile on tile registers takes at once, if there are so many: the more, the fewer
 * times B is read and packed. More than 256 if K is so short that packed rows fill less than half
 * of a second-level cache: then no sums but complete ones are stored. */
static inline int64_t zr_gemm_rows_at_once(int64_t k)
{
	const int64_t words = 192 * 1024, row = (k + 31) / 32 * 16;
	if (k > 768)
		return 256;
	return row * 1024 <= words ? 1024 : words / row / 32 * 32;
}

struct zr_cpu_kernels {
	const char *name; /* "scalar", "avx2", "avx512", "avx512bf16", "amx" */

	/* rows r = b*T+t of out */
	void (*embedding)(const struct zr_op_embedding *, int64_t lo, int64_t hi);
	/* columns c of dwte and dwpe: all tokens in index order for these columns */
	void (*embedding_bwd)(const struct zr_op_embedding_bwd *, int64_t lo, int64_t hi);

	/* rows */
	void (*layernorm)(const struct zr_op_layernorm *, int64_t lo, int64_t hi);
	/* rows of one tile, hi - lo <= ZR_LN_TILE: dx, and the partial sums of this tile,
	 * part[0..C) for dgamma and part[C..2C) for dbeta (stored), or NULL with neither */
	void (*layernorm_bwd)(const struct zr_op_layernorm_bwd *, int64_t lo, int64_t hi,
			      float *part);
	/* columns: those of dgamma and dbeta that are wanted, = or += the sum of n_part partials
	 * in index order */
	void (*layernorm_bwd_sum)(const struct zr_op_layernorm_bwd *, const float *part,
				  int64_t n_part, int64_t lo, int64_t hi);

	/* as those of layernorm, part is [C], or NULL without dgamma */
	void (*rmsnorm)(const struct zr_op_rmsnorm *, int64_t lo, int64_t hi);
	void (*rmsnorm_bwd)(const struct zr_op_rmsnorm_bwd *, int64_t lo, int64_t hi, float *part);
	void (*rmsnorm_bwd_sum)(const struct zr_op_rmsnorm_bwd *, const float *part, int64_t n_part,
				int64_t lo, int64_t hi);

	/* rows r = b*T+t, all heads of them */
	void (*rotary)(const struct zr_op_rotary *, int64_t lo, int64_t hi);

	/* heads i = b*heads + h; scratch: attention_scratch() bytes, 64-byte aligned, per worker */
	void (*attention)(const struct zr_op_attention *, int64_t lo, int64_t hi, void *scratch);
	/* parts i = (b*kv_heads + g)*parts + p, `parts` dividing heads / kv_heads: dq of the p-th
	 * of equally many query heads that share key-value head g, and partial sums of its dk and
	 * dv, attention_sums() floats each, from that of part lo on (stored). delta is [B, heads,
	 * T] floats that it computes itself for these heads */
	void (*attention_bwd)(const struct zr_op_attention_bwd *, int64_t parts, int64_t lo,
			      int64_t hi, void *scratch, float *delta, float *sums);
	/* key-value heads b*kv_heads + g: dk and dv, the sum of their parts in index order; sums:
	 * from lo's first part on, overwritten */
	void (*attention_bwd_sum)(const struct zr_op_attention_bwd *, int64_t parts, int64_t lo,
				  int64_t hi, float *sums);
	int64_t (*attention_sums)(const struct zr_op_attention *);
	uint64_t (*attention_scratch)(const struct zr_op_attention *, int backward);

	/* elements; any cut at a multiple of 64 */
	void (*gelu_bwd)(const struct zr_op_gelu_bwd *, int64_t lo, int64_t hi);
	void (*swiglu)(const struct zr_op_swiglu *, int64_t lo, int64_t hi);
	void (*swiglu_bwd)(const struct zr_op_swiglu_bwd *, int64_t lo, int64_t hi);
	void (*residual)(const struct zr_op_residual *, int64_t lo, int64_t hi);
	void (*cast)(const struct zr_op_cast *, int64_t lo, int64_t hi);
	void (*init)(const struct zr_op_init *, int64_t lo, int64_t hi);
	void (*adamw)(const struct zr_op_adamw *, int64_t lo, int64_t hi);
	void (*sgd)(const struct zr_op_sgd *, int64_t lo, int64_t hi);
	void (*lion)(const struct zr_op_lion *, int64_t lo, int64_t hi);
	void (*adagrad)(const struct zr_op_adagrad *, int64_t lo, int64_t hi);
	void (*lamb)(const struct zr_op_lamb *, int64_t lo, int64_t hi);
	void (*muon_update)(const struct zr_op_muon *, int64_t lo, int64_t hi);
	/* x *= factor */
	void (*muon_normalize)(const struct zr_op_muon *, float factor, int64_t lo, int64_t hi);
	void (*master_join)(const struct zr_op_master *, int64_t lo, int64_t hi);
	void (*master_split)(const struct zr_op_master *, int64_t lo, int64_t hi);
	void (*round_stochastic)(const struct zr_op_round_stochastic *, int64_t lo, int64_t hi);
	/* blocks of ZR_BLOCK elements; casts into types of whole blocks, and out of them */
	void (*encode)(const struct zr_op_cast *, int64_t lo, int64_t hi);
	void (*decode)(const struct zr_op_cast *, int64_t lo, int64_t hi);
	void (*fold)(const struct zr_op_fold *, int64_t lo, int64_t hi);
	/* elements of states of 8 bits, to fp32 and back; x is that of element lo, which starts a
	 * group. root: they are kept as square roots */
	void (*state8_get)(const void *codes, int root, float *x, int64_t lo, int64_t hi);
	void (*state8_put)(void *codes, int root, const float *x, int64_t lo, int64_t hi);
	/* words of elements; w is that of element lo, a multiple of 4 */
	void (*random_words)(const struct zr_rng *, uint32_t *w, int64_t lo, int64_t hi);
	void (*lamb_norms)(const struct zr_op_lamb *, int64_t lo, int64_t hi);
	void (*muon_momentum)(const struct zr_op_muon *, int64_t lo, int64_t hi);
	/* rows */
	void (*muon_factor)(const struct zr_op_muon_factor *, int64_t lo, int64_t hi);
	/* columns: all rows in index order */
	void (*bias_bwd)(const struct zr_op_bias_bwd *, int64_t lo, int64_t hi);

	/* tokens: p, lse, ids and weights; dlogits */
	void (*route)(const struct zr_op_route *, int64_t lo, int64_t hi);
	void (*route_bwd)(const struct zr_op_route_bwd *, int64_t lo, int64_t hi);
	/* rows of out; places by s */
	void (*expert_combine)(const struct zr_op_expert_combine *, int64_t lo, int64_t hi);
	void (*expert_weigh)(const struct zr_op_expert_weigh *, int64_t lo, int64_t hi);

	/* elements; any cut at a multiple of 64 */
	void (*logit_cap)(const struct zr_op_logit_cap *, int64_t lo, int64_t hi);
	/* grad[n] *= the slope at what logit_cap left in x */
	void (*logit_cap_bwd)(const struct zr_op_logit_cap *, float *grad);

	/* One row of logits [V], fp32: returns its loss. With `backward` the row becomes
	 * (softmax - onehot(target)) * scale in place, and stats, if not NULL, gets two numbers. */
	float (*softmax_loss)(float *logits, int64_t vocabulary, int32_t target, int backward,
			      float scale, float *stats);
	/* What stats say of such a row, block after block: the maximum and the sum of exponentials
	 * of n logits, with `add` together with those before; at the end the loss, from the
	 * target's logit, and the same stats as above. */
	void (*softmax_sums)(float *logits, int64_t n, int add, float *stats);
	float (*softmax_end)(float *stats, float target, float scale);
	/* n logits of such a row in place, from its stats: the same bits. target: counted from the
	 * first of them, perhaps none of them. */
	void (*softmax_part)(float *logits, int64_t n, int64_t target, float scale,
			     const float *stats);
	/* Whether the target's logit is the largest of a row without NaN, and the first such. */
	int (*softmax_right)(const float *logits, int64_t vocabulary, int32_t target);

	/* The finish of a matrix product's tile while it is in cache: rows x cols of an fp32 tile
	 * (ld apart) + bias, optionally GELU, stored to D (and pre) as d_dtype. bias, d, pre point
	 * at the tile's first element, typed by the operation. d may be the tile itself. */
	void (*gemm_finish)(const struct zr_op_matmul *, const float *tile, int64_t ld,
			    int64_t rows, int64_t cols, const void *bias, void *d, void *pre);
	/* Adds what a low-rank update adds to D[row0.., col0..] to rows x cols sums, ld apart.
	 * scratch: ZR_GEMM_SCRATCH bytes. */
	void (*gemm_low_rank)(const struct zr_op_matmul_low_rank *, int64_t row0, int64_t rows,
			      int64_t col0, int64_t cols, float *tile, int64_t ld, void *scratch);
	/* Own matrix product of one tile: D[row0.., col0..] of rows x cols over the full K,
	 * everything of the operation (types, transposes, accumulate, bias, GELU), and the low-rank
	 * update of it, unless that is NULL. scratch: ZR_GEMM_SCRATCH bytes. */
	void (*gemm_tile)(const struct zr_op_matmul *, const struct zr_op_matmul_low_rank *,
			  int64_t row0, int64_t rows, int64_t col0, int64_t cols, void *scratch);
};

/* Instruction sets in ascending order. Those after AVX-512 are for products and attention
 * of bf16 operands: the bits of all other operations are those of AVX-512. */
#define ZR_CPU_SCALAR     0
#define ZR_CPU_AVX2       1
#define ZR_CPU_AVX512     2
#define ZR_CPU_AVX512BF16 3
#define ZR_CPU_AMX        4
#define ZR_CPU_BEST       ZR_CPU_AMX

/* The best instruction set of this processor and operating system; the name of the first feature
 * that `isa` needs and that is missing here, or NULL; the kernels of an instruction set that misses
 * nothing. A processor that has the instructions of `isa` but sums otherwise than the twins of its
 * kernels in C lacks ZR_CPU_OTHER_SUMS. */
#define ZR_CPU_OTHER_SUMS "products of bf16 that are summed as documented"
int32_t zr_cpu_best(void);
/* Of those up to isa. slow_pairs: vdpbf16ps multiplies no more per cycle than FMA of fp32, so that
 * avx512bf16 gains nothing. */
int32_t zr_cpu_best_of(int32_t isa, int slow_pairs);
const char *zr_cpu_missing(int32_t isa);
const struct zr_cpu_kernels *zr_cpu_variant(int32_t isa);

extern const struct zr_cpu_kernels zr_cpu_scalar;
extern const struct zr_cpu_kernels zr_cpu_avx2;       /* x86-64 with AVX2, FMA and F16C */
extern const struct zr_cpu_kernels zr_cpu_avx512;     /* x86-64 with AVX-512 F, BW, DQ, VL */
extern const struct zr_cpu_kernels zr_cpu_avx512bf16; /* and AVX512_BF16 */
extern const struct zr_cpu_kernels zr_cpu_amx;        /* and AMX-TILE, AMX-BF16 */

#endif
