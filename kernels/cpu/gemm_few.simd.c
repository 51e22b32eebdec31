/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_few.simd.c - the product of few rows in the bits of gemm_tiles.simd.c, by vectors: tiles of
 * A would be nearly empty, and what takes the time is reading B, which happens once, where it lies.
 *
 * The order is that of tdpbf16ps in bf16_pairs.h. A lane is a column of B. Over 32 elements of K
 * the products of even elements are one chain of fused multiply-adds from 0 and those of odd ones
 * another; both are added, and then their sum to the element. K is filled up with 0 in A and B.
 * While this goes on, the thread's control register says that denormals count as 0 and become 0,
 * which is decided after rounding, as with tiles.
 *
 * Where B is stored by rows of K, a vector of 32 columns is taken apart into its even and its odd
 * columns; 32 rows are used for all columns before the next 32 are, which are asked for meanwhile.
 * Where it is stored by columns, words of two elements are transposed, and all of K is summed for
 * some columns while the next columns are asked for.
 */
#include "gemm_few.h"

#include "bf16_pairs.h"
#include "transpose_simd.h"

#define KB    ZR_FEW_K
#define STEP  (2 * ZR_TILE_PAIRS) /* elements of K that a tile instruction takes */
#define ROWS  4   /* rows whose sums are in registers at once; those that follow find B cached: */
#define STRIP 128 /* so many columns of a step, where B is stored by rows, */
#define GROUP 32  /* and so many columns of KB elements where it is stored by columns */
_Static_assert(KB % STEP == 0, "blocks of whole steps");

static int64_t min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Words of two bf16 as floats. */
ZR_INLINE vf low_half(vi words)
{
	return vfrom_bits(vishl(words, 16));
}
ZR_INLINE vf high_half(vi words)
{
	return vfrom_bits(_mm512_and_si512(words, viset(0xffff0000)));
}

ZR_INLINE __mmask32 first_of_32(int64_t n)
{
	return (__mmask32)((1ull << min(n, 32)) - 1);
}

/* Some rows of A against some columns of B. */
struct piece {
	const float *a;    /* rows KB apart; of each step the even elements, then the odd ones */
	const uint16_t *b; /* as stored, ld apart */
	int64_t ld, k, cols;
	float *c;
	int64_t ldc;
	int add;
};

/* ---- B stored by rows ------------------------------------------------------------ */

/* c + even + odd of 32 columns, whose even and odd ones are apart. */
ZR_INLINE void add_pair_of_vectors(float *c, int add, vf even_columns, vf odd_columns)
{
	const vi first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0),
		 second = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9,
					   24, 8);
	const vf low = _mm512_permutex2var_ps(even_columns, first, odd_columns),
		 high = _mm512_permutex2var_ps(even_columns, second, odd_columns);
	vstore_f32(c, (add ? vload_f32(c) : vset(0)) + low);
	vstore_f32(c + ZR_W, (add ? vload_f32(c + ZR_W) : vset(0)) + high);
}

/* A step of K for nv times 32 columns. rows and nv are constants, nv <= 4 / rows or 1. */
ZR_INLINE void step_by_rows(const int rows, const int nv, const float *a, const uint16_t *b,
			    int64_t ld, float *c, int64_t ldc, int add)
{
	vf even[ROWS][8], odd[ROWS][8];
	int r, v;

	UNROLL
	for (r = 0; r < rows; r++)
		UNROLL
	for (v = 0; v < 2 * nv; v++)
		even[r][v] = odd[r][v] = vset(0);
	for (int p = 0; p < ZR_TILE_PAIRS; p++, b += 2 * ld)
		UNROLL
	for (v = 0; v < nv; v++) {
		const vi x = _mm512_loadu_si512(b + 32 * v),
			 y = _mm512_loadu_si512(b + ld + 32 * v);
		__builtin_prefetch(b + STEP * ld + 32 * v, 0, 2);
		__builtin_prefetch(b + (STEP + 1) * ld + 32 * v, 0, 2);
		UNROLL
		for (r = 0; r < rows; r++) {
			const vf e = vset(a[r * KB + p]), o = vset(a[r * KB + ZR_TILE_PAIRS + p]);
			even[r][2 * v] = vfma(e, low_half(x), even[r][2 * v]);
			even[r][2 * v + 1] = vfma(e, high_half(x), even[r][2 * v + 1]);
			odd[r][2 * v] = vfma(o, low_half(y), odd[r][2 * v]);
			odd[r][2 * v + 1] = vfma(o, high_half(y), odd[r][2 * v + 1]);
		}
	}

	UNROLL
	for (r = 0; r < rows; r++)
		UNROLL
	for (v = 0; v < nv; v++)
		add_pair_of_vectors(c + r * ldc + 32 * v, add, even[r][2 * v] + odd[r][2 * v],
				    even[r][2 * v + 1] + odd[r][2 * v + 1]);
}

/* The same where B ends: by way of a copy that is filled up with 0. */
ZR_INLINE void last_by_rows(const int rows, const struct piece *t, int64_t j)
{
	const int64_t n = min(32, t->cols - j);
	const int low = (int)min(n, ZR_W), high = (int)(n - low);
	uint16_t b[STEP][32];
	float c[ROWS][32];

	for (int64_t e = 0; e < STEP; e++) {
		vi elements = viset(0);
		if (e < t->k)
			elements = _mm512_maskz_loadu_epi16(first_of_32(n), t->b + e * t->ld + j);
		_mm512_storeu_si512(b[e], elements);
	}
	for (int r = 0; r < rows; r++) {
		const float *from = t->c + r * t->ldc + j;
		vstore_f32(c[r], vload_f32_n(from, t->add ? low : 0));
		vstore_f32(c[r] + ZR_W, vload_f32_n(from + ZR_W, t->add ? high : 0));
	}
	step_by_rows(rows, 1, t->a, b[0], 32, c[0], 32, t->add);
	for (int r = 0; r < rows; r++) {
		float *to = t->c + r * t->ldc + j;
		vstore_f32_n(to, vload_f32(c[r]), low);
		vstore_f32_n(to + ZR_W, vload_f32(c[r] + ZR_W), high);
	}
}

/* At most STEP elements of K and STRIP columns. */
ZR_INLINE void by_rows(const int rows, const struct piece *t)
{
	const int nv = rows < 3 ? 4 / rows : 1;
	int64_t j = 0;
	if (t->k == STEP) {
		for (; j + 32 * nv <= t->cols; j += 32 * nv)
			step_by_rows(rows, nv, t->a, t->b + j, t->ld, t->c + j, t->ldc, t->add);
		for (; j + 32 <= t->cols; j += 32)
			step_by_rows(rows, 1, t->a, t->b + j, t->ld, t->c + j, t->ldc, t->add);
	}

	for (; j < t->cols; j += 32)
		last_by_rows(rows, t, j);
}

/* ---- B stored by columns --------------------------------------------------------- */

/* A step of K for `groups` times ZR_W columns, `next` elements before those that are asked for.
 * rows and groups are constants. */
ZR_INLINE void step_by_columns(const int rows, const int groups, const float *a, const uint16_t *b,
			       int64_t ld, int64_t next, vf sum[ROWS][2])
{
	vf even[ROWS][2], odd[ROWS][2], words[4];
	int r, g, i;

	UNROLL
	for (r = 0; r < rows; r++)
		UNROLL
	for (g = 0; g < groups; g++)
		even[r][g] = odd[r][g] = vset(0);
	UNROLL
	for (int p = 0; p < ZR_TILE_PAIRS; p += 4)
		UNROLL
	for (g = 0; g < groups; g++) {
		load_columns(b + g * ZR_W * ld + 2 * p, 2 * ld, words);
		UNROLL
		for (i = 0; i < 4; i++)
			__builtin_prefetch(b + (g * ZR_W + p + i) * ld + next, 0, 2);
		UNROLL
		for (i = 0; i < 4; i++)
			UNROLL
		for (r = 0; r < rows; r++) {
			const float *x = a + r * KB + p + i;
			const vi w = vbits(words[i]);
			even[r][g] = vfma(vset(x[0]), low_half(w), even[r][g]);
			odd[r][g] = vfma(vset(x[ZR_TILE_PAIRS]), high_half(w), odd[r][g]);
		}
	}

	UNROLL
	for (r = 0; r < rows; r++)
		UNROLL
	for (g = 0; g < groups; g++)
		sum[r][g] = sum[r][g] + (even[r][g] + odd[r][g]);
}

/* A copy of a step of n <= ZR_W columns, of which B has k elements, filled up with 0. */
static void copy_step(uint16_t to[ZR_W][STEP], const uint16_t *b, int64_t ld, int64_t n, int64_t k)
{
	for (int64_t i = 0; i < ZR_W; i++) {
		vi elements = viset(0);
		if (i < n)
			elements = _mm512_maskz_loadu_epi16(first_of_32(k), b + i * ld);
		_mm512_storeu_si512(to[i], elements);
	}
}

/* All of the piece's K for n columns from column j on: `groups` vectors of them, or fewer than one.
 * rows and groups are constants. */
ZR_INLINE void sums_by_columns(const int rows, const int groups, const struct piece *t, int64_t j,
			       const int n)
{
	const uint16_t *b = t->b + j * t->ld;
	uint16_t copy[ZR_W][STEP];
	vf sum[ROWS][2];
	int64_t e = 0;
	int r, g;

	UNROLL
	for (r = 0; r < rows; r++)
		UNROLL
	for (g = 0; g < groups; g++)
		sum[r][g] = vload_n(t->c + r * t->ldc + j, g * ZR_W, ZR_F32, t->add ? n : 0);
	for (; n == ZR_W && e + STEP <= t->k; e += STEP)
		step_by_columns(rows, groups, t->a + e, b + e, t->ld, GROUP * t->ld, sum);
	for (; e < t->k; e += STEP)
		for (g = 0; g < groups; g++) {
			vf one[ROWS][2];
			copy_step(copy, b + g * ZR_W * t->ld + e, t->ld, n, t->k - e);
			for (r = 0; r < rows; r++)
				one[r][0] = sum[r][g];
			step_by_columns(rows, 1, t->a + e, copy[0], STEP, 0, one);
			for (r = 0; r < rows; r++)
				sum[r][g] = one[r][0];
		}
	UNROLL
	for (r = 0; r < rows; r++)
		UNROLL
	for (g = 0; g < groups; g++)
		vstore_n(t->c + r * t->ldc + j, g * ZR_W, ZR_F32, sum[r][g], n);
}

/* At most GROUP columns. */
ZR_INLINE void by_columns(const int rows, const struct piece *t)
{
	const int groups = rows < 3 ? 2 : 1;
	int64_t j = 0;

	for (; j + groups * ZR_W <= t->cols; j += groups * ZR_W)
		sums_by_columns(rows, groups, t, j, ZR_W);
	for (; j + ZR_W <= t->cols; j += ZR_W)
		sums_by_columns(rows, 1, t, j, ZR_W);
	if (j < t->cols)
		sums_by_columns(rows, 1, t, j, vlanes(t->cols - j));
}

/* ---- all of it ------------------------------------------------------------------- */

typedef void piece_fn(const struct piece *);
#define PIECE(rows)                                                                                \
	static void by_rows_##rows(const struct piece *t)                                          \
	{                                                                                          \
		by_rows(rows, t);                                                                  \
	}                                                                                          \
	static void by_columns_##rows(const struct piece *t)                                       \
	{                                                                                          \
		by_columns(rows, t);                                                               \
	}
PIECE(1)
PIECE(2)
PIECE(3)
PIECE(4)
static piece_fn *const pieces[2][ROWS] = {
	{ by_rows_1, by_rows_2, by_rows_3, by_rows_4 },
	{ by_columns_1, by_columns_2, by_columns_3, by_columns_4 },
};

/* Elements [k0, k0 + k) of rows of A, filled up to whole steps with 0. */
static void widen(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t k0, int64_t k,
		  float *to)
{
	const int trans = !!(op->flags & ZR_MM_TRANS_A);
	const int64_t down = trans ? op->lda : 1, right = trans ? 1 : op->lda;

	for (int64_t r = 0; r < rows; r++)
		for (int64_t e = 0; e < k; e += STEP) {
			const uint16_t *a =
				(const uint16_t *)op->a.data + (row0 + r) * right + (k0 + e) * down;
			const int64_t n = min(STEP, k - e);
			uint16_t line[STEP];
			for (int64_t i = 0; trans && i < n; i++)
				line[i] = a[i * down];
			const vi words = _mm512_maskz_loadu_epi16(first_of_32(n), trans ? line : a);
			vstore_f32(to + r * KB + e, low_half(words));
			vstore_f32(to + r * KB + e + ZR_TILE_PAIRS, high_half(words));
		}
}

/* Some of K for all rows and columns; B is taken piece by piece. */
static void block(const struct piece *t, int64_t rows, int trans)
{
	const int64_t deep = trans ? t->k : STEP, wide = trans ? GROUP : STRIP;

	for (int64_t e = 0; e < t->k; e += deep)
		for (int64_t j = 0; j < t->cols; j += wide)
			for (int64_t r = 0; r < rows; r += ROWS) {
				const struct piece p = {
					.a = t->a + r * KB + e,
					.b = t->b + (trans ? j * t->ld : e * t->ld + j),
					.ld = t->ld,
					.k = min(deep, t->k - e),
					.cols = min(wide, t->cols - j),
					.c = t->c + r * t->ldc + j,
					.ldc = t->ldc,
					.add = t->add || e > 0,
				};
				pieces[trans][min(ROWS, rows - r) - 1](&p);
			}
}

/* noinline: no operation on floats leaves the mode that the caller sets. */
__attribute__((noinline)) static void sum_up(const struct zr_op_matmul *op, int64_t row0,
					     int64_t rows, int64_t col0, struct piece *t, float *a)
{
	const int trans = !!(op->flags & ZR_MM_TRANS_B);

	for (int64_t k = 0; k < op->k; k += KB) {
		t->k = min(KB, op->k - k);
		t->b = (const uint16_t *)op->b.data +
		       (trans ? col0 * op->ldb + k : k * op->ldb + col0);
		widen(op, row0, rows, k, t->k, a);
		block(t, rows, trans);
		t->add = 1;
	}
}

void ZR_SIMD(gemm_few)(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
		       int64_t cols, float *c, int64_t ldc, int add, float *a)
{
	struct piece t = { .a = a, .ld = op->ldb, .cols = cols, .c = c, .ldc = ldc, .add = add };
	const unsigned mode = _mm_getcsr();
	_mm_setcsr(0x1f80 | _MM_FLUSH_ZERO_ON | 0x40); /* 0x40: denormal operands are 0 */
	sum_up(op, row0, rows, col0, &t, a);
	_mm_setcsr(mode);
}
