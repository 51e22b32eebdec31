/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_pack.h - packs operands of gemm.simd.c as fp32, widening types of 16 bits. Included by
 * gemm.simd.c only.
 */
#ifndef ZEROTH_KERNELS_CPU_GEMM_PACK_H
#define ZEROTH_KERNELS_CPU_GEMM_PACK_H

/* dst[0..n) = src[0..n), widened. */
ZR_INLINE void copy_row(float *restrict dst, const void *restrict src, int64_t n, int32_t dtype)
{
	int64_t j = 0;

	for (; j + 4 * ZR_W <= n; j += 4 * ZR_W) {
		vf x0 = vload(src, j, dtype), x1 = vload(src, j + ZR_W, dtype);
		vf x2 = vload(src, j + 2 * ZR_W, dtype), x3 = vload(src, j + 3 * ZR_W, dtype);
		vstore_f32(dst + j, x0);
		vstore_f32(dst + j + ZR_W, x1);
		vstore_f32(dst + j + 2 * ZR_W, x2);
		vstore_f32(dst + j + 3 * ZR_W, x3);
	}

	for (; j + ZR_W <= n; j += ZR_W)
		vstore_f32(dst + j, vload(src, j, dtype));
	if (j < n)
		vstore_f32_n(dst + j, vload_n(src, j, dtype, (int)(n - j)), (int)(n - j));
}

/* ---- packing A: panels of MR rows, A_PANEL floats apart --------------------------
 * a is the block's first element, rows of the matrix as stored ld apart. Stored by rows, a panel is
 * MR rows of KC floats: a copy. Stored by columns ([K, M]), it is kc columns of MR floats: a copy
 * as well. Rows past the last are 0. */

ZR_INLINE void pack_a_rows(const void *a, int64_t ld, int64_t rows, int64_t kc, float *dst,
			   int32_t dtype)
{
	for (int64_t i = 0; i < rows; i += MR, dst += A_PANEL) {
		int64_t r, n = min(MR, rows - i);
		for (r = 0; r < n; r++)
			copy_row(dst + r * KC, zr_at(a, (i + r) * ld, dtype), kc, dtype);
		for (; r < MR; r++)
			memset(dst + r * KC, 0, (size_t)kc * sizeof(float));
	}
}

#define COLUMNS 8 /* of A packed side by side: their lines are fetched at once */

/* Two panels at a time: a vector is MR rows of each. */
_Static_assert(ZR_W == 2 * MR, "a vector of a column of A");

ZR_INLINE void pack_a_columns(const void *a, int64_t ld, int64_t rows, int64_t kc, float *dst,
			      int32_t dtype)
{
	for (int64_t k = 0; k < kc; k += COLUMNS) {
		const int64_t n = min(COLUMNS, kc - k);
		float *to = dst + k * MR;
		for (int64_t i = 0; i < rows; i += ZR_W, to += 2 * A_PANEL) {
			const int lanes = vlanes(rows - i);
			for (int64_t c = 0; c < n; c++) {
				vf x = lanes == ZR_W ? vload(a, (k + c) * ld + i, dtype) :
						       vload_n(a, (k + c) * ld + i, dtype, lanes);
				vstore_halves(to + c * MR, to + A_PANEL + c * MR, x);
			}
		}
	}
}

static void pack_a(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t k0,
		   int64_t kc, float *dst)
{
	int trans = !!(op->flags & ZR_MM_TRANS_A);
	const void *a =
		zr_at(op->a.data, trans ? k0 * op->lda + row0 : row0 * op->lda + k0, op->a.dtype);
	if (trans)
		ZR_BY_DTYPE(op->a.dtype, pack_a_columns, a, op->lda, rows, kc, dst);
	else
		ZR_BY_DTYPE(op->a.dtype, pack_a_rows, a, op->lda, rows, kc, dst);
}

/* ---- packing B: kc rows of nv vectors, the last filled up ------------------------
 * b is the panel's first element, rows of the matrix as stored ld apart. */

/* Rows that lie a power of two apart share few sets of the caches, which do not keep what was
 * fetched long before. */
ZR_INLINE void ask_ahead(const void *b, int64_t ld, int64_t k, int32_t dtype)
{
	if (ZR_W == 8)
		for (int j = 0; j < NR; j += 16)
			__builtin_prefetch(zr_at(b, (k + 8) * ld + j, dtype), 0, 3);
}

/* A whole panel, the common case: nv is a constant. */
ZR_INLINE void pack_b_full(const void *b, int64_t ld, int64_t kc, const int nv, float *restrict dst,
			   int32_t dtype)
{
	int64_t k;
	int j;

	for (k = 0; k < kc; k++) {
		vf x[NV];
		ask_ahead(b, ld, k, dtype);
		UNROLL
		for (j = 0; j < nv; j++)
			x[j] = vload(b, k * ld + j * ZR_W, dtype);
		UNROLL
		for (j = 0; j < nv; j++)
			vstore_f32(dst + (k * nv + j) * ZR_W, x[j]);
	}
}

ZR_INLINE void pack_b_rows(const void *b, int64_t ld, int64_t kc, int64_t cols, int nv, float *dst,
			   int32_t dtype)
{
	int64_t k;
	int j;
	if (cols == NR) {
		pack_b_full(b, ld, kc, NV, dst, dtype);
		return;
	}
	for (k = 0; k < kc; k++, dst += nv * ZR_W) {
		for (j = 0; j + 1 < nv; j++)
			vstore_f32(dst + j * ZR_W, vload(b, k * ld + j * ZR_W, dtype));
		vstore_f32(dst + j * ZR_W,
			   vload_n(b, k * ld + j * ZR_W, dtype, (int)(cols - j * ZR_W)));
	}
}

/* transpose() of bf16: units of 32 bits are pairs of elements, widened once they are in place. */
static void transpose_bf16(const uint16_t *src, int64_t ld, int64_t kc, float *dst, int width)
{
	int64_t k = 0;
	int j;

	for (; k + 8 <= kc; k += 8) {
		vf r[4];
		load_columns(src + k, ld * (int64_t)sizeof *src, r);
		UNROLL
		for (j = 0; j < 4; j++) {
			const vi low = vishl(vbits(r[j]), 16),
				 high = vishl(vishr(vbits(r[j]), 16), 16);
			vstore_f32(dst + (k + 2 * j) * width, vfrom_bits(low));
			vstore_f32(dst + (k + 2 * j + 1) * width, vfrom_bits(high));
		}
	}

	for (; k < kc; k++)
		for (j = 0; j < ZR_W; j++)
			dst[k * width + j] = zr_from_bf16(src[j * ld + k]);
}

/* Whole vectors of fp32 and bf16 columns are transposed where they lie, others by way of `rows`.
 * What the last vector holds past its columns is multiplied and thrown away. */
ZR_INLINE void pack_b_columns(const void *b, int64_t ld, int64_t kc, int64_t cols, int nv,
			      float *dst, float *rows, int32_t dtype)
{
	int64_t j, i;

	for (j = 0; j < cols; j += ZR_W) {
		int64_t n = min(ZR_W, cols - j);
		if (dtype == ZR_F32 && n == ZR_W) {
			transpose((const float *)b + j * ld, ld, kc, dst + j, nv * ZR_W);
			continue;
		}
		if (dtype == ZR_BF16 && n == ZR_W) {
			transpose_bf16((const uint16_t *)b + j * ld, ld, kc, dst + j, nv * ZR_W);
			continue;
		}
		for (i = 0; i < ZR_W; i++)
			copy_row(rows + i * KC, zr_at(b, (j + min(i, n - 1)) * ld, dtype), kc,
				 dtype);
		transpose(rows, KC, kc, dst + j, nv * ZR_W);
	}
}

static void pack_b(const struct zr_op_matmul *op, int64_t k0, int64_t kc, int64_t col0,
		   int64_t cols, int nv, float *dst, float *rows)
{
	int trans = !!(op->flags & ZR_MM_TRANS_B);
	const void *b =
		zr_at(op->b.data, trans ? col0 * op->ldb + k0 : k0 * op->ldb + col0, op->b.dtype);
	if (trans)
		ZR_BY_DTYPE(op->b.dtype, pack_b_columns, b, op->ldb, kc, cols, nv, dst, rows);
	else
		ZR_BY_DTYPE(op->b.dtype, pack_b_rows, b, op->ldb, kc, cols, nv, dst);
}

#endif
