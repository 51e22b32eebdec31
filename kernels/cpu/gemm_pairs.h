/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_pairs.h - packs bf16 operands of gemm.simd.c for vdpbf16ps: an element of 32 bits is a pair,
 * the values at k = 2p and 2p + 1. Where k is stored contiguously a pair lies in memory as it is
 * packed, so packing copies or transposes units of 32 bits; elsewhere two rows are interleaved. An
 * odd K is filled up with a 0 in both operands. Included by gemm.simd.c only.
 */
#ifndef ZEROTH_KERNELS_CPU_GEMM_PAIRS_H
#define ZEROTH_KERNELS_CPU_GEMM_PAIRS_H

/* dst[0 .. (k + 1) / 2) = the pairs of src[0..k) */
ZR_INLINE void copy_pairs(float *restrict dst, const uint16_t *restrict src, int64_t k)
{
	int64_t i = 0;

	for (; i + 4 * ZR_W <= k; i += 4 * ZR_W, dst += 2 * ZR_W) {
		vi x0 = _mm512_loadu_si512(src + i), x1 = _mm512_loadu_si512(src + i + 2 * ZR_W);
		_mm512_storeu_si512(dst, x0);
		_mm512_storeu_si512(dst + ZR_W, x1);
	}
	for (; i < k; i += 2 * ZR_W, dst += ZR_W) {
		const int n = (int)min(2 * ZR_W, k - i);
		vi x = _mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), src + i);
		_mm512_mask_storeu_epi32(dst, vmask((n + 1) / 2), x);
	}
}

/* dst[0..n) = the pairs of n columns */
ZR_INLINE void interleave_row(float *dst, const uint16_t *low, const uint16_t *high, int64_t n)
{
	int64_t j = 0;
	for (; j + ZR_W <= n; j += ZR_W)
		_mm512_storeu_si512(dst + j, interleave(low + j, high ? high + j : NULL, ZR_W));
	if (j < n)
		_mm512_mask_storeu_epi32(dst + j, vmask((int)(n - j)),
					 interleave(low + j, high ? high + j : NULL, (int)(n - j)));
}

/* A whole panel of B, the common case: pairs of k even. */
ZR_INLINE void interleave_panel(float *restrict dst, const uint16_t *restrict b, int64_t ld,
				int64_t kc)
{
	for (int64_t p = 0; p < kc; p++, b += 2 * ld, dst += NR) {
		vi x[NV];
		UNROLL
		for (int j = 0; j < NV; j++)
			x[j] = interleave(b + j * ZR_W, b + ld + j * ZR_W, ZR_W);
		UNROLL
		for (int j = 0; j < NV; j++)
			_mm512_storeu_si512(dst + j * ZR_W, x[j]);
	}
}

/* A whose k is not contiguous, in panels: MR pairs for each p. */
static void pack_a_columns(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t k0,
			   int64_t kc, int64_t k, float *dst)
{
	const uint16_t *a = (const uint16_t *)op->a.data + 2 * k0 * op->lda + row0;
	float column[MC + ZR_W];

	for (int64_t i = rows; i % MR; i++)
		column[i] = 0;
	for (int64_t p = 0; p < kc; p++, a += 2 * op->lda, dst += MR) {
		float *to = dst;
		interleave_row(column, a, 2 * p + 1 < k ? a + op->lda : NULL, rows);
		for (int64_t i = 0; i < rows; i += MR, to += A_PANEL)
			memcpy(to, column + i, MR * sizeof *to);
	}
}

/* Panels of MR rows, A_PANEL pairs apart: MR rows of KC pairs if k is contiguous. Rows past the
 * last are 0. k0 and kc count pairs. */
static void pack_a(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t k0,
		   int64_t kc, float *dst)
{
	const int64_t k = min(2 * kc, op->k - 2 * k0);
	const uint16_t *a = (const uint16_t *)op->a.data + row0 * op->lda + 2 * k0;
	if (op->flags & ZR_MM_TRANS_A) {
		pack_a_columns(op, row0, rows, k0, kc, k, dst);
		return;
	}
	for (int64_t i = 0; i < rows; i += MR, dst += A_PANEL)
		for (int64_t r = 0; r < MR; r++) {
			const int64_t have = i + r < rows ? kc : 0;
			if (have)
				copy_pairs(dst + r * KC, a + (i + r) * op->lda, k);
			memset(dst + r * KC + have, 0, (size_t)(kc - have) * sizeof *dst);
		}
}

/* A panel of B whose k is contiguous: transposed where it lies if it can be read in whole vectors,
 * else by way of `rows`. What the last vector holds past its columns is multiplied and thrown
 * away. */
static void pack_b_columns(const uint16_t *b, int64_t ld, int64_t k, int64_t cols, int nv,
			   float *dst, float *rows)
{
	const int whole = k % 8 == 0 && ld % 2 == 0 && (uintptr_t)b % sizeof(float) == 0;

	for (int64_t j = 0; j < cols; j += ZR_W) {
		const int64_t n = min(ZR_W, cols - j);
		if (whole && n == ZR_W) {
			const void *at = b + j * ld;
			transpose(at, ld / 2, k / 2, dst + j, nv * ZR_W);
			continue;
		}
		for (int64_t i = 0; i < ZR_W; i++)
			copy_pairs(rows + i * KC, b + (j + min(i, n - 1)) * ld, k);
		transpose(rows, KC, (k + 1) / 2, dst + j, nv * ZR_W);
	}
}

/* kc rows of nv vectors of pairs, the last vector filled up. k0 and kc count pairs. */
static void pack_b(const struct zr_op_matmul *op, int64_t k0, int64_t kc, int64_t col0,
		   int64_t cols, int nv, float *dst, float *rows)
{
	const int64_t k = min(2 * kc, op->k - 2 * k0);
	if (op->flags & ZR_MM_TRANS_B) {
		pack_b_columns((const uint16_t *)op->b.data + col0 * op->ldb + 2 * k0, op->ldb, k,
			       cols, nv, dst, rows);
		return;
	}
	const uint16_t *b = (const uint16_t *)op->b.data + 2 * k0 * op->ldb + col0;
	if (cols == NR && k == 2 * kc) {
		interleave_panel(dst, b, op->ldb, kc);
		return;
	}
	for (int64_t p = 0; p < kc; p++, b += 2 * op->ldb, dst += nv * ZR_W)
		interleave_row(dst, b, 2 * p + 1 < k ? b + op->ldb : NULL, cols);
}

#endif
