/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16_pairs.h - sums of products of bf16 by instructions that take two at a time: what they
 * compute, in C, and in which order a matrix product uses them. Tests hold kernels and processor to
 * it bit by bit; a processor that computes otherwise does not run these kernels (isa.c).
 *
 * vdpbf16ps (Intel, Software Developer's Manual, volume 2; AMD, Architecture Programmer's Manual,
 * volume 4): per lane the product of the odd elements is added to the sum first, then that of the
 * even ones, each by a fused multiply-add that rounds to the nearest with ties to even. Denormal
 * operands count as 0 of their sign, results too. The control register of the thread plays no part.
 *
 * tdpbf16ps on tiles of AMX (Intel, volume 2) takes 16 pairs: the products of their even elements
 * are one chain of such multiply-adds over ascending pairs that starts at 0, those of the odd ones
 * another; the two are added, and their sum is added to the element, without denormals either.
 *
 * A matrix product cuts K into blocks of zr_pairs_block() pairs, the last shorter, an odd K filled
 * up with 0. Within a block each element of the result is one chain over ascending pairs that
 * starts at 0. The blocks' sums are added in ascending order, in fp32 with denormals. With tiles K
 * is not cut but filled up to whole tiles with 0, and each element is one chain of tiles over all
 * of it that starts at 0, or at what is added to. Everything after the product is as in the other
 * variants. Which bits a NaN has is not said.
 */
#ifndef ZEROTH_KERNELS_CPU_BF16_PAIRS_H
#define ZEROTH_KERNELS_CPU_BF16_PAIRS_H

#include "scalar.h"

#define ZR_PAIRS_KC 192 /* pairs in a block of K at most */

#define ZR_TILE_PAIRS 16

/* Length of the blocks of so many pairs: even, so that none is short. */
static inline int64_t zr_pairs_block(int64_t pairs)
{
	const int64_t blocks = (pairs + ZR_PAIRS_KC - 1) / ZR_PAIRS_KC;
	return blocks ? ((pairs + blocks - 1) / blocks + 3) / 4 * 4 : ZR_PAIRS_KC;
}

/* Whether a product is one of bf16 operands. */
static inline int zr_pairs(const struct zr_op_matmul *op)
{
	return op->a.dtype == ZR_BF16 && op->b.dtype == ZR_BF16;
}

/* x, or a 0 of its sign if it is denormal */
static inline float zr_no_denormal(float x)
{
	return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* sum + a b, rounded once; 0 of its sign if it is below the least normal number after rounding to
 * 24 bits, whatever its exponent */
static inline float zr_flushed_fma(float a, float b, float sum)
{
	const float x = fmaf(a, b, sum);
	if (fabsf(x) <= 0x1p-126f && fabsf(fmaf(a * 0x1p32f, b, sum * 0x1p32f)) < 0x1p-94f)
		return copysignf(0, x);
	return x;
}

/* sum + a b of bf16 */
static inline float zr_plus_product(float sum, uint16_t a, uint16_t b)
{
	return zr_flushed_fma(zr_no_denormal(zr_from_bf16(a)), zr_no_denormal(zr_from_bf16(b)),
			      sum);
}

/* A lane of vdpbf16ps: sum + a[1] b[1], then + a[0] b[0]. */
static inline float zr_pair_sum(float sum, const uint16_t a[2], const uint16_t b[2])
{
	return zr_plus_product(zr_plus_product(zr_no_denormal(sum), a[1], b[1]), a[0], b[0]);
}

/* An element of tdpbf16ps: row a and column b have 16 pairs each. */
static inline float zr_tile_sum(float sum, uint16_t a[ZR_TILE_PAIRS][2],
				uint16_t b[ZR_TILE_PAIRS][2])
{
	float even = 0, odd = 0;
	for (int p = 0; p < ZR_TILE_PAIRS; p++) {
		even = zr_plus_product(even, a[p][0], b[p][0]);
		odd = zr_plus_product(odd, a[p][1], b[p][1]);
	}
	return zr_flushed_fma(1, zr_flushed_fma(1, even, odd), zr_no_denormal(sum));
}

/* sum[0..16) of 16 lanes, a and b 2 bf16 each, by the processor's vdpbf16ps */
void zr_pair_sums_avx512bf16(float *sum, const uint16_t *a, const uint16_t *b);

/* sum[16][16] of a tile: rows a[16] and columns b[.][16] of 16 pairs, by the processor's
 * tdpbf16ps */
void zr_tile_sums_amx(float *sum, const uint16_t *a, const uint16_t *b);

#endif
