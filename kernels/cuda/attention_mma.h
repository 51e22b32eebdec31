/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_mma.h - what attention on tensor cores and its gradients share: tiles of keys or
 * queries in shared memory, how threads bring them, products with them, masks, soft caps and
 * dropout.
 */
#ifndef ZEROTH_KERNELS_CUDA_ATTENTION_MMA_H
#define ZEROTH_KERNELS_CUDA_ATTENTION_MMA_H

#include "attention.h"
#include "mma.h"

#define WARPS   4
#define THREADS (WARPS * ZR_WARP)
#define ROWS    (WARPS * 16) /* of a CUDA block whose warps take 16 each */
#define LOG2E   1.44269504f
#define LN2     0.693147181f

/* ---- who does what ---------------------------------------------------------------- */

/* What a CUDA block computes by the grid's second side: a head of a batch entry, and the head of
 * keys that it reads. */
struct block_head {
	int b, h, kv;
};

ZR_DEVICE block_head head_of_block(const struct zr_op_attention &o)
{
	const unsigned heads = (unsigned)o.heads, b = blockIdx.y / heads, h = blockIdx.y % heads;
	return block_head{ (int)b, (int)h, (int)(h * (unsigned)o.kv_heads / heads) };
}

/* Keys of n queries from i on: none sees one before `any`, and all see those from `all` on, but
 * later ones than themselves. */
struct seen_keys {
	int any, all;
};

ZR_DEVICE seen_keys keys_seen(const struct zr_op_attention &o, int64_t b, int i, int n)
{
	const int length = (int)o.length, last = (i + n < length ? i + n : length) - 1;
	return seen_keys{ first_key(o, b, i), first_key(o, b, last) };
}

/* The end of a walk in tiles of n queries, from query i on until none of a tile sees keys before
 * `behind`. */
ZR_DEVICE int end_of_walk(const struct zr_op_attention &o, int64_t b, int i, int behind, int n)
{
	if (!o.starts && !o.window)
		return i + ((int)o.length - i + n - 1) / n * n;
	while (i < o.length && first_key(o, b, i) < behind)
		i += n;
	return i;
}

/* ---- tiles ----------------------------------------------------------------------- */

/* A tile's rows are 8 elements longer than a head: the rows that a warp reads together then lie in
 * different banks. */
template <int D> struct tile {
	enum { STRIDE = D + 8 };
	uint16_t *x;
	ZR_MEMBER const void *at(int row, int col) const
	{
		return x + row * STRIDE + col;
	}
	ZR_MEMBER tile from(int row) const
	{
		return tile{ x + row * STRIDE };
	}
	/* Rows [row, row+16) and columns [16k, 16k+16) as an A. */
	ZR_MEMBER void as_a(uint32_t (&a)[4], int row, int k) const
	{
		const int lane = (int)threadIdx.x % ZR_WARP;
		zr_load_rows(a, at(row + lane % 16, k * 16 + lane / 16 * 8));
	}
};

/* The tile behind so many rows of `room`. */
template <int D> ZR_DEVICE tile<D> tile_at(unsigned char *room, int rows_before)
{
	return tile<D>{ (uint16_t *)(void *)room }.from(rows_before);
}

/* 16 rows of a tile as A, in registers once the tile is there, or brought each time. */
template <int D, bool HELD> struct rows16 {
	tile<D> from;
	int row;
	uint32_t a[HELD ? D / 16 : 1][4];
	ZR_MEMBER void place(tile<D> t, int r)
	{
		from = t;
		row = r;
	}
	ZR_MEMBER void hold()
	{
		if constexpr (HELD) {
#pragma unroll
			for (int k = 0; k < D / 16; k++)
				from.as_a(a[k], row, k);
		}
	}
	ZR_MEMBER void get(uint32_t (&x)[4], int k) const
	{
		if constexpr (HELD) {
			for (int i = 0; i < 4; i++)
				x[i] = a[k][i];
		} else {
			from.as_a(x, row, k);
		}
	}
};

/* A thread's share in bringing tile after tile of a head: pieces of 16 bytes, of the same columns
 * each time. SIDE threads stand side by side at a row, so many that no row leaves one idle. */
template <int D> struct carrier {
	enum { PIECES = D / 8, SIDE = PIECES & -PIECES, AT_ONCE = THREADS / SIDE };
	const uint16_t *next; /* this thread's first piece of the next tile */
	int64_t stride;
	ZR_MEMBER static int row()
	{
		return (int)threadIdx.x / SIDE;
	}
	ZR_MEMBER static int col()
	{
		return (int)threadIdx.x % SIDE * 8;
	}
	/* The next tile's row 0 is at element `at`. */
	ZR_MEMBER void start(const heads &x, int64_t at)
	{
		stride = x.stride;
		next = (const uint16_t *)x.x + at + row() * stride + col();
	}
	/* Starts to bring N rows, zeros for those outside [from, end), and goes on to the tile
	 * behind them. */
	template <int N> ZR_MEMBER void bring(tile<D> to, int64_t end, int64_t from = 0)
	{
		uint16_t *x = to.x + row() * tile<D>::STRIDE + col();
		const int last = (int)end - row(), before = (int)from - row();
#pragma unroll
		for (int r = 0; r < N; r += AT_ONCE) {
			if (N < AT_ONCE && row() >= N)
				break;
#pragma unroll
			for (int c = 0; c < D; c += SIDE * 8)
				zr_copy16(x + r * tile<D>::STRIDE + c, next + r * stride + c,
					  r < last && r >= before);
		}
		next += N * stride;
	}
};

/* ---- products -------------------------------------------------------------------- */

/* D[16 rows, N * 8] += A B^T for M matrices A, where row n of the tile is column n of B: scores. */
template <class T, int D, int N, int M, class A>
ZR_DEVICE void add_scores(float (&s)[M][N][4], const A (&a)[M], tile<D> b)
{
	const int lane = (int)threadIdx.x % ZR_WARP;
#pragma unroll
	for (int k = 0; k < D / 16; k++) {
		uint32_t x[M][4];
#pragma unroll
		for (int m = 0; m < M; m++)
			a[m].get(x[m], k);
#pragma unroll
		for (int n = 0; n < N; n += 2) {
			uint32_t y[4];
			zr_load_rows(y, b.at(n * 8 + lane / 16 * 8 + lane % 8,
					     k * 16 + lane / 8 % 2 * 8));
#pragma unroll
			for (int m = 0; m < M; m++) {
				zr_mma(s[m][n], x[m], y[0], y[1], T());
				zr_mma(s[m][n + 1], x[m], y[2], y[3], T());
			}
		}
	}
}

/* D[16 rows, D] += P B for M matrices P, 16 rows of N * 8 numbers as add_scores leaves them, and
 * row k of the tile is row k of B. */
template <class T, int D, int N, int M>
ZR_DEVICE void add_rows(float (&acc)[M][D / 8][4], const float (&p)[M][N][4], tile<D> b)
{
	const int lane = (int)threadIdx.x % ZR_WARP;
#pragma unroll
	for (int k = 0; k < N / 2; k++) {
		uint32_t a[M][4];
#pragma unroll
		for (int m = 0; m < M; m++)
#pragma unroll
			for (int i = 0; i < 4; i++)
				a[m][i] = zr_pair(p[m][2 * k + i / 2][i % 2 * 2],
						  p[m][2 * k + i / 2][i % 2 * 2 + 1], T());
#pragma unroll
		for (int n = 0; n < D / 8; n += 2) {
			uint32_t v[4];
			zr_load_transposed(v, b.at(k * 16 + lane % 16, n * 8 + lane / 16 * 8));
#pragma unroll
			for (int m = 0; m < M; m++) {
				zr_mma(acc[m][n], a[m], v[0], v[1], T());
				zr_mma(acc[m][n + 1], a[m], v[2], v[3], T());
			}
		}
	}
}

/* Row `half` of this lane (0: g, 1: g + 8) of 16 rows, times `by`. `to`: a multiple of 4 bytes. */
template <class T, int D>
ZR_DEVICE void store_row(T *to, const float (&acc)[D / 8][4], int half, float by)
{
	uint32_t *x = (uint32_t *)(void *)to + threadIdx.x % 4;
#pragma unroll
	for (int n = 0; n < D / 8; n++)
		x[n * 4] = zr_pair(acc[n][2 * half] * by, acc[n][2 * half + 1] * by, T());
}

/* The same in fp32. `to`: a multiple of 8 bytes. */
template <int D>
ZR_DEVICE void store_sums(float *to, const float (&acc)[D / 8][4], int half, float by)
{
	struct alignas(8) two {
		float x[2];
	};
	two *x = (two *)(void *)to + threadIdx.x % 4;
#pragma unroll
	for (int n = 0; n < D / 8; n++)
		x[n * 4] = two{ { acc[n][2 * half] * by, acc[n][2 * half + 1] * by } };
}

/* Row `half` of 16 keys, of gradient `which` (0: of keys, 1: of values): to sums, if there are any,
 * or to the gradient. */
template <class T, int D>
ZR_DEVICE void store_key(const struct zr_op_attention &o, float *sums, int which, const heads &to,
			 int64_t b, int64_t row, int64_t kv, const float (&x)[D / 8][4], int half,
			 float by)
{
	if (sums)
		store_sums<D>(sums + zr_key_sums_at(&o, b, row, kv, which), x, half, by);
	else
		store_row<T, D>((T *)to.x + row_of(o, to, b, row, kv), x, half, by);
}

/* ---- scores ---------------------------------------------------------------------- */

/* Number e of column block n of 16 rows r that is not seen(r, n, e) becomes -infinity. */
template <int N, int M, class F> ZR_DEVICE void mask(float (&s)[M][N][4], const F &seen)
{
#pragma unroll
	for (int n = 0; n < N; n++)
#pragma unroll
		for (int r = 0; r < M; r++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				s[r][n][e] = seen(r, n, e) ? s[r][n][e] : -INFINITY;
}

/* The same where rows are queries, of which row g of 16 rows r is query i + 16r, and column 2t of
 * column block 0 is key j. */
template <int N, int M>
ZR_DEVICE void mask_keys(const struct zr_op_attention &o, int64_t b, int i, int j,
			 float (&s)[M][N][4])
{
	int first[M][2];
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int half = 0; half < 2; half++)
			first[r][half] = first_key(o, b, i + r * 16 + half * 8) - j;
	mask(s, [&](int r, int n, int e) {
		const int key = n * 8 + e % 2;
		return (key <= i - j + r * 16 + e / 2 * 8) & (key >= first[r][e / 2]);
	});
}

/* Which of this lane's numbers of 16 rows and N * 8 columns dropout keeps, number e of column block
 * n as bit 4n + e. `at` is the element of the generator of the lane's first number; rows and
 * columns are so many elements apart. One loop that is not unrolled: the generator is long. */
template <int N>
ZR_DEVICE uint32_t kept(const struct zr_op_attention &o, uint64_t at, uint64_t row, uint64_t col)
{
	const uint32_t below = zr_drop_below(o.dropout);
	uint32_t bits = 0;
	if (o.dropout <= 0)
		return 0xffffffffu;
#pragma unroll 1
	for (int k = 0; k < 4 * N; k++) {
		uint64_t e =
			at + (uint64_t)(k / 2 % 2 * 8) * row + (uint64_t)(k / 4 * 8 + k % 2) * col;
		bits |= (uint32_t)(zr_rng_word(&o.rng, e) >= below) << k;
	}
	return bits;
}

ZR_DEVICE float keep_scale(const struct zr_op_attention &o)
{
	return o.dropout > 0 ? zr_drop_scale(o.dropout) : 1;
}

/* Scores under a soft cap, in units of the cap: tanh of so many of what add_scores has left, of an
 * absolute error of 3e-7. Without a cap they stay. */
template <int N, int M>
ZR_DEVICE void soft_cap(const struct zr_op_attention &o, float (&s)[M][N][4])
{
	if (o.softcap <= 0)
		return;
	const float by = 2 * LOG2E * o.scale * zr_reciprocal(o.softcap);
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				s[m][n][e] = 1 - 2 * zr_reciprocal(1 + zr_exp2(s[m][n][e] * by));
}

/* What takes those to units of log2. More than 0. */
ZR_DEVICE float score_unit(const struct zr_op_attention &o)
{
	return (o.softcap > 0 ? o.softcap : o.scale) * LOG2E;
}

/* The largest of scores before their soft cap, where keys that are not seen have -infinity, and of
 * what was there before. */
template <int N, int M> ZR_DEVICE float larger_of(float largest, const float (&s)[M][N][4])
{
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				largest = fmaxf(largest, s[r][n][e]);
	return largest;
}

/* ---- probabilities --------------------------------------------------------------- */

/* A row's probabilities are 2^(score - base), scores in units of log2. The base is a score that
 * was once the largest, and moves only if one exceeds it by more than this: results seldom have to
 * be rescaled, and what enters products stays below 2^8. */
#define ABOVE_BASE 8

/* The largest over the four lanes that share a row; NaN is left to the sum. */
ZR_DEVICE float row_max(float x)
{
	x = fmaxf(x, __shfl_xor_sync(ZR_FULL_WARP, x, 1, ZR_WARP));
	return fmaxf(x, __shfl_xor_sync(ZR_FULL_WARP, x, 2, ZR_WARP));
}

ZR_DEVICE float row_sum(float x)
{
	x += __shfl_xor_sync(ZR_FULL_WARP, x, 1, ZR_WARP);
	return x + __shfl_xor_sync(ZR_FULL_WARP, x, 2, ZR_WARP);
}

/* ---- launches -------------------------------------------------------------------- */

/* Of tiles of rows [first, length). */
static inline dim3 attention_grid(const struct zr_op_attention *o, int64_t heads, int64_t first,
				  int rows)
{
	return dim3((unsigned)(zr_ceil_div(o->length, rows) - first / rows),
		    (unsigned)(o->batch * heads));
}

/* Kernels come PLAIN, without soft cap and dropout, and otherwise. */
static inline int attention_is_plain(const struct zr_op_attention *o)
{
	return o->dropout <= 0 && o->softcap <= 0;
}

/* Whether rows of heads are whole pieces of 16 bytes. */
static inline int attention_pieces(const void *p, int64_t stride, int64_t head)
{
	return (uintptr_t)p % 16 == 0 && stride % 8 == 0 && head % 8 == 0;
}

#define BY_WIDTH(width, fn, T, ...)                                                                \
	((width) == 64  ? fn<T, 64>(__VA_ARGS__) :                                                 \
	 (width) == 80  ? fn<T, 80>(__VA_ARGS__) :                                                 \
	 (width) == 96  ? fn<T, 96>(__VA_ARGS__) :                                                 \
	 (width) == 128 ? fn<T, 128>(__VA_ARGS__) :                                                \
			  fn<T, 256>(__VA_ARGS__))

#endif
