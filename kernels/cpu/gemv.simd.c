/* SPDX-License-Identifier: Apache-2.0
 *
 * gemv.simd.c - the product of one row in the bits of gemm.simd.c. It reads each element of B once,
 * so B is multiplied where it lies instead of being packed, and fetched ahead.
 *
 * Where B is stored by rows of K, a vector is of some columns of a row, and as many columns as the
 * registers hold sums are summed over a block of K. Where B is stored by columns, four vectors at a
 * time are transposed, which are then of some columns as well. With ZR_PAIRS both operands are
 * bf16, multiplied in pairs; then kb counts pairs.
 */
#include "gemv.h"
#include "transpose_simd.h"

#define KB     384                   /* elements of the longest block of K */
#define DEPTH  4096                  /* elements of A that are read at once */
#define NV     (ZR_W == 16 ? 16 : 8) /* vectors of sums in registers */
#define AHEAD  8                     /* rows of B that are fetched ahead */
#define GROUPS 2 /* vectors of columns summed side by side: a chain alone waits for itself */

static int64_t min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

#ifdef ZR_PAIRS
#define STEP 2 /* elements of K that are multiplied at a time */

/* A row of A over a block of k elements, in pairs; an odd one has a 0 beside it. */
static void load_a(const struct zr_op_matmul *op, int64_t row, int64_t k0, int64_t k, float *a)
{
	const int trans = !!(op->flags & ZR_MM_TRANS_A);
	const int64_t down = trans ? op->lda : 1;
	const uint16_t *from =
		(const uint16_t *)op->a.data + (trans ? row : row * op->lda) + k0 * down;

	for (int64_t i = 0; i < k; i += 2) {
		const uint16_t pair[2] = { from[i * down], i + 1 < k ? from[(i + 1) * down] : 0 };
		memcpy(a + i / 2, pair, sizeof pair);
	}
}

/* n columns of B, stored by rows, at element k of so many. */
ZR_INLINE vf load_b(const void *b, int64_t ld, int64_t k, int64_t of, int64_t j, int n,
		    int32_t dtype)
{
	const uint16_t *low = (const uint16_t *)b + k * ld + j;
	(void)dtype;
	return vfrom_bits(interleave(low, k + 1 < of ? low + ld : NULL, n));
}

ZR_INLINE vf multiply_add(vf x, vf y, vf sum)
{
	return _mm512_dpbf16_ps(sum, (__m512bh)vbits(x), (__m512bh)vbits(y));
}
#else
#define STEP 1

/* A row of A over a block of k elements. */
static void load_a(const struct zr_op_matmul *op, int64_t row, int64_t k0, int64_t k, float *a)
{
	const int trans = !!(op->flags & ZR_MM_TRANS_A);
	for (int64_t i = 0; i < k; i++)
		a[i] = zr_get(op->a.data, trans ? (k0 + i) * op->lda + row : row * op->lda + k0 + i,
			      op->a.dtype);
}

ZR_INLINE vf load_b(const void *b, int64_t ld, int64_t k, int64_t of, int64_t j, int n,
		    int32_t dtype)
{
	(void)of;
	return vload_n(b, k * ld + j, dtype, n);
}

ZR_INLINE vf multiply_add(vf x, vf y, vf sum)
{
	return vfma(x, y, sum);
}
#endif

/* c[0..n) = or += s */
ZR_INLINE void put(float *c, vf s, int n, int add)
{
	if (add)
		s = vload_n(c, 0, ZR_F32, n) + s;
	vstore_n(c, 0, ZR_F32, s, n);
}

/* ---- B stored by rows ------------------------------------------------------------ */

/* nv vectors of columns over a block of K, of the last vector n lanes. nv is a constant. */
ZR_INLINE void strip(const float *a, const void *b, int64_t ld, int64_t kc, const int nv, int n,
		     float *c, int add, int32_t dtype)
{
	const int line = 64 / ((int)zr_size(dtype) * ZR_W); /* vectors in a cache line */
	vf s[NV];
	int j;

	UNROLL
	for (j = 0; j < nv; j++)
		s[j] = vset(0);
	for (int64_t k = 0; k < kc; k += STEP) {
		const vf x = vset(a[k / STEP]);
		for (int64_t r = k + AHEAD; r < k + AHEAD + STEP; r++)
			UNROLL
		for (j = 0; j < nv; j += line)
			__builtin_prefetch(zr_at(b, r * ld + j * ZR_W, dtype), 0, 3);
		UNROLL
		for (j = 0; j + 1 < nv; j++)
			s[j] = multiply_add(x, load_b(b, ld, k, kc, j * ZR_W, ZR_W, dtype), s[j]);
		s[j] = multiply_add(x, load_b(b, ld, k, kc, j * ZR_W, n, dtype), s[j]);
	}

	UNROLL
	for (j = 0; j + 1 < nv; j++)
		put(c + j * ZR_W, s[j], ZR_W, add);
	put(c + j * ZR_W, s[j], n, add);
}

ZR_INLINE void by_rows(const float *a, const void *b, int64_t ld, int64_t kc, int64_t cols,
		       float *c, int add, int32_t dtype)
{
	int64_t j = 0;
	for (; j + NV * ZR_W <= cols; j += NV * ZR_W)
		strip(a, zr_at(b, j, dtype), ld, kc, NV, ZR_W, c + j, add, dtype);
	for (; j + 4 * ZR_W <= cols; j += 4 * ZR_W)
		strip(a, zr_at(b, j, dtype), ld, kc, 4, ZR_W, c + j, add, dtype);
	for (; j < cols; j += ZR_W)
		strip(a, zr_at(b, j, dtype), ld, kc, 1, vlanes(cols - j), c + j, add, dtype);
}

/* ---- B stored by columns --------------------------------------------------------- */

/* The sums of ZR_W columns go on over four units of 32 bits: elements, or pairs of them. */
ZR_INLINE vf add_units(vf s, const float *a, const char *b, int64_t bytes, int32_t dtype)
{
	vf r[4];
	int j;
	load_columns(b, bytes, r);
	UNROLL
	for (j = 0; j < 4; j++)
		if (dtype == ZR_F32 || STEP == 2) {
			s = multiply_add(vset(a[j]), r[j], s);
		} else {
			vi low = vishl(vbits(r[j]), 16), high = vishl(vishr(vbits(r[j]), 16), 16);
			s = vfma(vset(a[2 * j]), vfrom_bits(low), s);
			s = vfma(vset(a[2 * j + 1]), vfrom_bits(high), s);
		}
	return s;
}

/* The same over the last k <= STEP elements. */
ZR_INLINE vf add_last(vf s, float a, const void *b, int64_t ld, int64_t k, int32_t dtype)
{
	float column[ZR_W] = { 0 };
	for (int i = 0; i < ZR_W; i++)
		if (STEP == 2)
			memcpy(column + i, zr_at(b, i * ld, dtype), (size_t)(k * zr_size(dtype)));
		else
			column[i] = zr_get(b, i * ld, dtype);
	return multiply_add(vset(a), vload_f32(column), s);
}

/* `groups` vectors of columns over a block of K. groups is a constant. */
ZR_INLINE void dots(const float *a, const void *b, int64_t ld, int64_t kc, const int groups, vf *s,
		    int32_t dtype)
{
	const int64_t size = zr_size(dtype), bytes = ld * size, step = 16 / size;
	int64_t k = 0;
	int g;

	UNROLL
	for (g = 0; g < groups; g++)
		s[g] = vset(0);
	for (; k + step <= kc; k += step) {
		/* a cache line of each row that follows, four rows at a time */
		for (int i = 0; i < groups * ZR_W / 4; i++) {
			int64_t r = k / step % 4 * (groups * ZR_W / 4) + i + groups * ZR_W;
			__builtin_prefetch(zr_at(b, r * ld + k / (4 * step) * (4 * step), dtype), 0,
					   2);
		}
		UNROLL
		for (g = 0; g < groups; g++)
			s[g] = add_units(s[g], a + k / STEP, zr_at(b, g * ZR_W * ld + k, dtype),
					 bytes, dtype);
	}

	for (; k < kc; k += STEP)
		for (g = 0; g < groups; g++)
			s[g] = add_last(s[g], a[k / STEP], zr_at(b, g * ZR_W * ld + k, dtype), ld,
					min(STEP, kc - k), dtype);
}

/* Fewer columns than a vector has: by way of rows of zeros beside them. */
ZR_INLINE void last_dots(const float *a, const void *b, int64_t ld, int64_t kc, int64_t n, vf *s,
			 int32_t dtype)
{
	float rows[ZR_W * KB];
	const int64_t size = zr_size(dtype);
	memset(rows, 0, sizeof rows);
	for (int64_t i = 0; i < n; i++)
		memcpy((char *)rows + i * KB * size, zr_at(b, i * ld, dtype), (size_t)(kc * size));
	dots(a, rows, KB, kc, 1, s, dtype);
}

/* Over k elements of K in blocks of kc: all of them for some columns before the next columns, so
 * that B is read as it lies. */
ZR_INLINE void by_columns(const float *a, const void *b, int64_t ld, int64_t k, int64_t kc,
			  int64_t cols, float *c, int add, int32_t dtype)
{
	vf s[GROUPS];
	int64_t n;

	for (int64_t j = 0; j < cols; j += n) {
		n = cols - j >= GROUPS * ZR_W ? GROUPS * ZR_W : vlanes(cols - j);
		for (int64_t e = 0; e < k || e == 0; e += kc) {
			const void *from = zr_at(b, j * ld + e, dtype);
			const int64_t left = min(kc, k - e);
			const int more = add || e > 0;
			if (n == GROUPS * ZR_W)
				dots(a + e / STEP, from, ld, left, GROUPS, s, dtype);
			else if (n == ZR_W)
				dots(a + e / STEP, from, ld, left, 1, s, dtype);
			else
				last_dots(a + e / STEP, from, ld, left, n, s, dtype);
			put(c + j, s[0], vlanes(n), more);
			for (int g = 1; g * ZR_W < n; g++)
				put(c + j + g * ZR_W, s[g], ZR_W, more);
		}
	}
}

/* ---- all of K -------------------------------------------------------------------- */

int ZR_SIMD(gemv)(const struct zr_op_matmul *op, int64_t row, int64_t col0, int64_t cols,
		  int64_t kb, float *c, int add)
{
	const int trans = !!(op->flags & ZR_MM_TRANS_B), bf16 = op->b.dtype == ZR_BF16;
	const int64_t kc = kb * STEP, most = trans ? DEPTH / kc * kc : kc;
	float a[DEPTH / STEP];
	int64_t k0 = 0;
	if (op->b.dtype == ZR_F16)
		return 0;

	do {
		const int64_t k = min(most, op->k - k0);
		const void *b = zr_at(op->b.data, trans ? col0 * op->ldb + k0 : k0 * op->ldb + col0,
				      op->b.dtype);
		load_a(op, row, k0, k, a);
		if (trans && bf16)
			by_columns(a, b, op->ldb, k, kc, cols, c, add, ZR_BF16);
		else if (trans)
			by_columns(a, b, op->ldb, k, kc, cols, c, add, ZR_F32);
		else if (bf16)
			by_rows(a, b, op->ldb, k, cols, c, add, ZR_BF16);
		else
			by_rows(a, b, op->ldb, k, cols, c, add, ZR_F32);
		add = 1;
		k0 += most;
	} while (k0 < op->k);
	return 1;
}
