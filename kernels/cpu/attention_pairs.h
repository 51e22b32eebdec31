/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_pairs.h - attention of bf16 by sums of pairs (bf16_pairs.h): the order of operations of
 * attention_pairs.simd.c, and the same in C, to which tests hold it bit by bit. Formulas and names
 * are those of attention.c.
 *
 * [x] is x rounded to bf16, to the nearest with ties to even, denormal numbers to 0. Pairs, of
 * elements of a head, of keys or queries, and tiles of ZR_PAIRS_TILE keys begin at the document's
 * first token; what is masked or beyond the end counts as 0. Sums of pairs begin at 0 and go in
 * index order. u is the scale, 1 under a soft cap, and c is u / ln 2.
 *
 *   S = q.k in pairs; under a soft cap S = cap tanh(S (scale / cap)).
 *
 *   forward   Per tile of keys: n is the maximum m so far and of the tile, at least
 *             ZR_PAIRS_LEAST; sum and O are multiplied by 2^((m - n) c), p = 2^((S - n) c). [p]
 *             times 1 is added to sum, [p] or, under dropout, [m_ij p] times v to O, both in pairs
 *             of keys. out = fma(O, 1 / sum, 0), lse = u m + ln sum.
 *   backward  P = 2^(min(0, u S - lse) / ln 2). delta = dout.out in 16 sums by index modulo 16,
 *             added as l and l + 8, then + 4, + 2, + 1. dS = P (m_ij dout.v - delta), under a soft
 *             cap times 1 - (S / cap)^2. Then in pairs dq = scale sum [dS] k over keys, dk = scale
 *             sum [dS] q and dv = sum [m_ij P] dout over queries, head by head of a part.
 *
 * Sums of pairs lose the sign of zeros to what is masked: that of a gradient of 0 is not said.
 *
 * 2^x is 2^n times a polynomial of x - n, n the nearest integer: what comes of it has 8 bits.
 */
#ifndef ZEROTH_KERNELS_CPU_ATTENTION_PAIRS_H
#define ZEROTH_KERNELS_CPU_ATTENTION_PAIRS_H

#include "scalar.h"

#define ZR_PAIRS_TILE 64

/* Scores are taken relative to no less, where a query has not seen a key yet. */
#define ZR_PAIRS_LEAST (-1e30f)

/* 2^r = 1 + sum of Ei r^i for |r| <= 1/2, within 3e-6 of it: least squares with weights that level
 * the relative error. */
#define ZR_EXP2_1 0.6931241750717163f
#define ZR_EXP2_2 0.24024099111557007f
#define ZR_EXP2_3 0.055906426161527634f
#define ZR_EXP2_4 0.009582852944731712f

/* Whether attention is computed in pairs: the order of maxima needs a positive scale. */
static inline int zr_attention_in_pairs(const struct zr_op_attention *o)
{
	return o->dtype == ZR_BF16 && o->scale > 0;
}

#endif
