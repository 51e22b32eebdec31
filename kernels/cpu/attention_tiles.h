/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_tiles.h - attention of bf16 by tile registers (tiles.h): the order of operations of
 * attention_tiles.simd.c, and the same in C, to which tests hold it bit by bit. Formulas and names
 * are those of attention.c; u and c are those of attention_pairs.h, [x] is x rounded to bf16, to
 * the nearest with ties away from 0.
 *
 * Sums of products go on in blocks of 32 along the sum, each a tile's sum (zr_tile_sum), in
 * ascending order, from 0. Blocks, of elements of a head, of keys or of queries, begin at the
 * document's first token; what is masked or beyond the end counts as 0.
 *
 *   S = q.k in blocks of elements; under a soft cap S = cap tanh(S (scale / cap)).
 *
 *   forward   Scores are relative to n, at first ZR_PAIRS_LEAST. Per tile of ZR_TILES_KEYS keys: m
 *             is its maximum; if (m - n) c is above ZR_TILES_GROWTH, the sums and O are multiplied
 *             by 2^((n - m) c), and n becomes m. p = 2^((S - n) c) is added to sum j modulo 16 of
 *             16, j the key's place, in ascending order; [p] or, under dropout, [m_ij p] times v to
 *             O in blocks of keys. At the end sums l and l + 8 are added, then + 4, + 2, + 1.
 *             out = fma(O, 1 / sum, 0), lse = u n + ln sum.
 *   backward  P = 2^(min(0, fma(S, c, -lse / ln 2))). delta and dS are those of attention_pairs.h,
 *             dout.v in blocks of elements. Then dq = scale sum [dS] k in blocks of keys, dk =
 *             scale sum [dS] q and dv = sum [m_ij P] dout in blocks of queries, head by head of a
 *             part.
 *
 * Sums of blocks lose the sign of zeros to what is masked: that of a gradient of 0 is not said.
 *
 * 2^x is 2^n times a polynomial of r, n the largest integer up to x, r = x - n rounded down.
 */
#ifndef ZEROTH_KERNELS_CPU_ATTENTION_TILES_H
#define ZEROTH_KERNELS_CPU_ATTENTION_TILES_H

#include "attention_pairs.h"

#define ZR_TILES_KEYS  64
#define ZR_TILES_BLOCK 32

/* How far scores may outgrow what they are relative to, as a power of 2: bf16 is as exact there,
 * and what has been summed need not be multiplied each time a maximum grows. */
#define ZR_TILES_GROWTH 8

/* 2^r = 1 + sum of Fi r^i for 0 <= r <= 1, within 9e-5 of it; bf16 rounds by up to 2e-3 */
#define ZR_EXP2_F1 0.6951167583465576f
#define ZR_EXP2_F2 0.22764502465724945f
#define ZR_EXP2_F3 0.07706701755523682f

#endif
