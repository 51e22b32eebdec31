/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/parameters.h - DRAFT. Of the operations of <zeroth/device.h>, whose rules hold here too,
 * those on parameters, their gradients and optimizer states: initial values, casts, sums, updates.
 */
#ifndef ZEROTH_PARAMETERS_H
#define ZEROTH_PARAMETERS_H

#include <zeroth/array.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION
#undef ZR_USES_DEVICE
#define ZR_USES_DEVICE ZR_DRAFT_DEVICE

#ifdef __cplusplus
extern "C" {
#endif

/* Key of the counter-based generator, Philox4x32-10 (Salmon et al., SC'11). Element e of the
 * stream is word (e % 4) of the Philox block with counter {e/4 low 32, e/4 high 32, slot, site} and
 * key {seed low 32 + 0xbb67ae85 * step high 32, step low 32 + 0x9e3779b9 * seed high 32}.
 * FROZEN. */
struct zr_rng {
	uint64_t seed;
	uint64_t step;
	uint32_t slot; /* which micro-batch of the global batch */
	uint32_t site; /* which place in the model: layer * 8 + n */
};

/* Scalars of an update, in the memory kind of the buffers they go with. FROZEN. */
struct zr_scalars {
	int64_t step; /* 1-based count of applied updates, this one included */
	/* gradient = stored gradient * grad_mult: mean, unscale and clip in one factor */
	float grad_mult;
	float lr; /* learning rate of the group, schedule applied */
};

/* Gradients of parameters: += instead of =. The first contribution of a micro-batch stores. */
#define ZR_OP_ACCUMULATE 1u

/* Accumulates a gradient: acc = (or +=) g rounded to `comm_dtype`. If sumsq is not NULL, it also
 * measures acc after that: per block of ZR_BLOCK elements the fp64 sum of squares and the count of
 * non-finite elements, [ceil(n/ZR_BLOCK)] each. g may be acc: then it only measures.
 *
 * number > 0: that many contributions in one call, one after the other. group > 1: they are
 * leaves of balanced binary trees with `group` leaves each. A node is the sum of its children, the
 * earlier one first, rounded to comm_dtype; acc takes the roots, one after the other. `group` is a
 * power of two, and number a multiple of it, or a part of it by a power of two: then the call is
 * the turn-th of group / number calls that make a root together. Before the last turn acc is left
 * alone and nothing is measured; sums that wait for their sibling are in `waiting`, whose contents
 * the caller keeps from one turn to the next. GROWABLE. */
struct zr_op_fold {
	uint32_t size, flags;
	int32_t comm_dtype, rsv;
	int64_t n;
	const float *g;
	float *acc;
	double *sumsq;
	uint32_t *nonfinite;
	int32_t number;
	/* type of contributions; 0: fp32. ZR_MXINT8, with comm_dtype ZR_F32: g points to blocks. */
	int32_t from;
	int64_t apart; /* bytes from where one begins, the first at g, to where the next does */
	/* [number] where each begins, in host memory, read before the call returns; NULL: as
	 * `apart` says. Only a device that computes on host memory gets it. */
	const void *const *each;
	int32_t group, turn;
	float *waiting;        /* [log2(group / number)][n] */
	int64_t waiting_apart; /* elements from one of these sums to the next */
	/* type of acc; 0: fp32. 16 bits: roots are stored, without ZR_OP_ACCUMULATE and sumsq */
	int32_t to, rsv2;
	/* elements from where a root is stored to where the next one is, without ZR_OP_ACCUMULATE
	 * and sumsq; 0: acc takes them all */
	int64_t to_apart;
};

/* AdamW (Loshchilov and Hutter 2019; Kingma and Ba 2015) in one pass over memory:
 *   g = grad * grad_mult;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g g;
 *   p -= lr*wd*p;  p -= lr/(1-b1^t) * m / (sqrt(v/(1-b2^t)) + eps).
 * l2 != 0: Adam's L2 form, g += wd*p instead of p -= lr*wd*p. bias_correction == 0: both 1-b^t are
 * 1. lowp, if not NULL, receives p rounded to lowp_dtype. Where m and v are bf16, p moves by their
 * fp32 values, which are rounded only when they are stored.
 *
 * As ZR_U8 m and v are blocks of ZR_MOMENT8_BYTES: a code of 8 bits per element, then an fp16 scale
 * per group of ZR_MOMENT8_GROUP elements, the largest magnitude of the group. The code of m is
 * round(127 * 2x/(1+|x|)) of x = m/scale, signed; v is kept as its root, whose code is
 * round(255 * root/scale), but at least 1. A group in which something is not finite reads as NaN,
 * one of zeros has a scale and codes of 0. Their element 0 is that of a block; cuts are multiples
 * of a group.
 *
 * A master may be split: where rem is not NULL, master is, and the operands lowp (bf16), rem and
 * rem_bits are those of struct zr_op_master, joined before the update and split after it.
 * GROWABLE. */
#define ZR_MOMENT8_GROUP 32
#define ZR_MOMENT8_BYTES (ZR_BLOCK + ZR_BLOCK / ZR_MOMENT8_GROUP * 2)
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
	int32_t moment_dtype; /* ZR_F32 (also 0), ZR_BF16 or ZR_U8 */
	int32_t rem_bits;
	void *rem;
};

/* SGD with momentum, as torch.optim.SGD:
 *   g = grad*grad_mult + wd*p;  buf = first update ? g : mu*buf + (1-damp)*g;
 *   d = nesterov ? g + mu*buf : buf;  p -= lr*d.
 * buf is NULL without momentum. GROWABLE. */
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

/* dst = src converted, n elements; equal types copy. A type of whole blocks comes from ZR_F32 and
 * becomes ZR_F32, ZR_BF16 or ZR_F16; n is a multiple of ZR_BLOCK. ZR_MXINT8 comes from any of the
 * three, and n is any number. GROWABLE. */
struct zr_op_cast {
	uint32_t size, flags;
	struct zr_array src, dst;
	int64_t n;
};

/* dst[i] = mean + std * N(0,1) from element e = first+i of rng (std = 0: constant). Box-Muller
 * makes the normal from the words a = 2e and b = 2e+1 of the stream, sqrt(-2 ln((a + 1/2) / 2^32))
 * cos(2 pi b / 2^32), in fp64, which is rounded once. With ZR_INIT_OP_UNIFORM U(-1,1), (a + 1/2) /
 * 2^31 - 1, is in the place of N(0,1). GROWABLE. */
#define ZR_INIT_OP_UNIFORM 1u
struct zr_op_init {
	uint32_t size, flags;
	int64_t n, first;
	double mean, std;
	struct zr_rng rng;
	float *dst;
};

/* Keeps a master parameter of 32 bits as its bf16 rounding and its lower 16 bits:
 *   split: lowp = (bits + 0x8000) >> 16, rem = bits & 0xffff;
 *   join: bits = (lowp - (rem >> 15)) << 16 | rem.
 * join restores every finite and infinite value bit for bit. A NaN stays a NaN: lowp is made quiet,
 * and its payload may change.
 *
 * rem_bits = 8: split rounds the master to 24 bits first, half away from zero, bits = (bits + 0x80)
 * & ~0xff, and rem has bits 8 to 15: 15 of the 23 bits of the fraction are left, and join restores
 * what was rounded. These are the sizes of FlashOptim (arXiv 2602.23349), whose correction has 255
 * values instead of 256 and is relative to the exponent of lowp: there a tie between two bf16
 * numbers may come back as the other one. GROWABLE. */
struct zr_op_master {
	uint32_t size, flags;
	int64_t n;
	float *master;    /* join writes it, split reads it */
	uint16_t *lowp;   /* bf16; join reads it, split writes it */
	void *rem;        /* uint16_t, or uint8_t */
	int32_t rem_bits; /* 16 (also 0) or 8 */
	int32_t rsv;
};

/* Stochastic rounding: dst[i] = src[i] as bf16, rounded away from zero with a probability that
 * equals the fraction that is cut off, so that the mean error is 0. It adds the upper half of word
 * first+i of rng to the bits and cuts. A NaN is made quiet. GROWABLE. */
struct zr_op_round_stochastic {
	uint32_t size, flags;
	int64_t n, first;
	struct zr_rng rng;
	const float *src;
	uint16_t *dst;
};

/* Lion (Chen et al. 2023):
 *   g = grad*grad_mult;  p = (1-lr*wd) p - lr * sign(b1 m + (1-b1) g);  m = b2 m + (1-b2) g.
 * sign(0) = 0. As ZR_U8 m is that of struct zr_op_adamw, and so is a split master. GROWABLE. */
struct zr_op_lion {
	uint32_t size, flags;
	int32_t lowp_dtype;
	int32_t moment_dtype; /* ZR_F32 (also 0) or ZR_U8 */
	int64_t n;
	double beta1, beta2, weight_decay;
	const struct zr_scalars *scalars;
	const float *grad;
	float *master;
	void *m; /* of moment_dtype */
	void *lowp;
	void *rem;
	int32_t rem_bits, rsv;
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

/* LAMB (You et al. 2020), with m and v of AdamW:
 *   r = m/(1-b1^t) / (sqrt(v/(1-b2^t)) + eps) + wd*p;  p -= lr * trust * r.
 * trust = |p| / |r| over the whole parameter, limited to [min_coeff, max_coeff]; 1 if either norm
 * is 0. lamb_norms writes only block_norms: per block of ZR_BLOCK elements the fp64 sums of the
 * squares of p and of the r that this update will use. lamb reads the totals over the parameter in
 * norms. GROWABLE. */
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

/* The parts of Muon (Jordan 2024; the form of torch.optim.Muon) that are not matrix products.
 *   muon_momentum: g = grad*grad_mult; buf = mu*buf + (1-mu)*g;
 *     x = nesterov ? (1-mu)*g + mu*buf : buf.
 *   muon_normalize: x /= max(|x|, eps).
 *   muon_update: p = (1-lr*wd)*p - lr*ratio*x.
 * muon_momentum also writes the sum of squares of x per block of ZR_BLOCK elements; muon_normalize
 * adds these in order for |x|. GROWABLE. */
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

/* gram = a I + b gram + c square, all [n, n]: the factor of one Newton-Schulz iteration, where
 * square = gram gram, or gram = square square. GROWABLE. */
struct zr_op_muon_factor {
	uint32_t size, flags;
	int64_t n;
	float a, b, c, rsv;
	float *gram;
	const float *square;
};

#ifdef __cplusplus
}
#endif
#endif
