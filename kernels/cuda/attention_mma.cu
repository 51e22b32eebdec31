/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_mma.cu - causal attention and its gradients on tensor cores: bf16 and fp16, heads of
 * width 64, 80, 96 and 128; formulas as in cpu/attention.c. A CUDA block is four warps; a warp
 * takes 16 or 32 queries (for dk and dv, 16 keys), holds them in registers where those suffice, and
 * walks the keys (queries) in tiles that the block loads into shared memory together: one tile
 * arrives while the one before is computed. Scores are in units of log2, or of a soft cap,
 * and scores, sums and
 * results in fp32; probabilities and their gradients are rounded to 16 bits, to the nearest even,
 * where they enter a product.
 */
#include "attention.h"
#include "mma.h"

#define WARPS 4
#define THREADS (WARPS * ZR_WARP)
#define ROWS (WARPS * 16) /* of a CUDA block, backward */
#define KEYS 64           /* of a tile, forward */
#define STEP 32           /* keys or queries of a tile, backward */
#define LOG2E 1.44269504f
#define LN2 0.693147181f

/* A tile's rows are 8 elements longer than a head: the rows that a warp reads together then lie in
 * different banks. */
template <int D> struct tile {
	enum { STRIDE = D + 8 };
	uint16_t *x;
	ZR_MEMBER const void *at(int row, int col) const { return x + row * STRIDE + col; }
	/* Rows [row, row+16) and columns [16k, 16k+16) as an A. */
	ZR_MEMBER void as_a(uint32_t (&a)[4], int row, int k) const
	{
		const int lane = (int)threadIdx.x % ZR_WARP;
		zr_load_rows(a, at(row + lane % 16, k * 16 + lane / 16 * 8));
	}
};

/* 16 rows of a tile as A, in registers, or brought each time. */
template <int D, bool HELD> struct rows16 {
	uint32_t a[HELD ? D / 16 : 1][4];
	tile<D> from;
	int row;
	ZR_MEMBER void start(tile<D> t, int r)
	{
		from = t;
		row = r;
		if constexpr (HELD) {
#pragma unroll
			for (int k = 0; k < D / 16; k++)
				t.as_a(a[k], r, k);
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

/* Starts to bring `rows` tokens from t0 on of head h; 0 past the last, and for queries that are not
 * computed. */
template <int D, bool QUERY = false>
ZR_DEVICE void load(const struct zr_op_attention &o, tile<D> to, int rows, const heads &from,
		    int64_t b, int64_t h, int64_t t0)
{
#pragma unroll 1 /* registers are short, and these are not waited for */
	for (int i = (int)threadIdx.x; i < rows * (D / 8); i += THREADS) {
		int r = i / (D / 8), c = i % (D / 8) * 8;
		bool inside = t0 + r < o.length && (!QUERY || t0 + r >= o.first);
		int64_t at = QUERY ? query_of(o, from, b, inside ? t0 + r : o.first, h) :
				     row_of(o, from, b, inside ? t0 + r : 0, h);
		zr_copy16(to.x + r * tile<D>::STRIDE + c, (const uint16_t *)from.x + at + c,
			  inside);
	}
}

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

/* Row `half` of this lane (0: g, 1: g + 8) of 16 rows to token t. */
template <class T, int D>
ZR_DEVICE void store_row(T *to, const float (&acc)[D / 8][4], int half, float by)
{
	const int t = (int)threadIdx.x % 4;
#pragma unroll
	for (int n = 0; n < D / 8; n++) {
		zr_narrow(acc[n][2 * half] * by, &to[n * 8 + 2 * t]);
		zr_narrow(acc[n][2 * half + 1] * by, &to[n * 8 + 2 * t + 1]);
	}
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
		uint64_t e = at + (uint64_t)(k / 2 % 2 * 8) * row +
			     (uint64_t)(k / 4 * 8 + k % 2) * col;
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
	const float by = 2 * LOG2E * o.scale / o.softcap;
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				s[m][n][e] = 1 - 2 * zr_reciprocal(1 + zr_exp2(s[m][n][e] * by));
}

/* What takes those to units of log2. */
ZR_DEVICE float score_unit(const struct zr_op_attention &o)
{
	return (o.softcap > 0 ? o.softcap : o.scale) * LOG2E;
}

/* Over the four lanes that share a row. */
ZR_DEVICE float row_sum(float x)
{
	x += __shfl_xor_sync(ZR_FULL_WARP, x, 1, ZR_WARP);
	return x + __shfl_xor_sync(ZR_FULL_WARP, x, 2, ZR_WARP);
}

ZR_DEVICE float row_max(float x)
{
	x = zr_larger(x, __shfl_xor_sync(ZR_FULL_WARP, x, 1, ZR_WARP));
	return zr_larger(x, __shfl_xor_sync(ZR_FULL_WARP, x, 2, ZR_WARP));
}

/* Number n of the tiles of `room`, each of up to `rows` rows. */
template <int D> ZR_DEVICE tile<D> tile_at(unsigned char *room, int rows_before)
{
	return tile<D>{ (uint16_t *)(void *)room + rows_before * tile<D>::STRIDE };
}

/* ---- forward --------------------------------------------------------------------- */

/* Sixteens of queries that a warp takes: registers hold the results of so many, if there is no
 * generator beside them. */
template <int D, bool DROP> ZR_INLINE constexpr int sixteens()
{
	return D == 64 && !DROP ? 2 : 1;
}

/* Scores of 16 rows become probabilities under the largest score so far, in `max`, and what was
 * added before shrinks. Column 2t of column block 0 is key j; row g is query i, whose first key is
 * first[0], and that of row g + 8 is first[1]. */
template <int D, bool DROP>
ZR_DEVICE void soften(float (&s)[KEYS / 8][4], float (&acc)[D / 8][4], float (&max)[2],
		      float (&sum)[2], float scale, float m, uint32_t bits, int i, int j,
		      const int (&first)[2])
{
	/* some of the tile may be later than some of the rows, or of another document */
	const bool masked = j + KEYS > i || j < first[0] || j < first[1];
#pragma unroll
	for (int half = 0; half < 2; half++) {
		float most = max[half], base, shrink;
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
			for (int e = 2 * half; e < 2 * half + 2; e++) {
				const int key = j + n * 8 + e % 2;
				s[n][e] = !masked || (key <= i + 8 * half && key >= first[half]) ?
						  s[n][e] * scale :
						  -INFINITY;
				most = zr_larger(most, s[n][e]);
			}
		most = row_max(most);
		base = seen_or_0(most);
		shrink = zr_exp2(max[half] - base);
		max[half] = most;
		sum[half] *= shrink;
#pragma unroll
		for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
			for (int e = 2 * half; e < 2 * half + 2; e++) {
				float p = zr_exp2(s[n][e] - base);
				sum[half] += p;
				s[n][e] = !DROP ? p : bits >> (4 * n + e) & 1 ? p * m : 0;
			}
#pragma unroll
		for (int n = 0; n < D / 8; n++) {
			acc[n][2 * half] *= shrink;
			acc[n][2 * half + 1] *= shrink;
		}
	}
}

template <class T, int D, bool DROP>
static __global__ void __launch_bounds__(THREADS, 2)
	forward_kernel(const __grid_constant__ struct zr_op_attention o)
{
	ZR_DYNAMIC_SHARED(room);
	constexpr int M = sixteens<D, DROP>(), BLOCK = ROWS * M;
	const tile<D> q = tile_at<D>(room, 0);
	const int warp = (int)threadIdx.x / ZR_WARP, g = (int)threadIdx.x % ZR_WARP / 4,
		  t = (int)threadIdx.x % 4;
	const int64_t b = blockIdx.y / o.heads, h = blockIdx.y % o.heads,
		      kv = h / (o.heads / o.kv_heads);
	/* the longest walks start first */
	const int i0 = (o.first / BLOCK + (int)(gridDim.x - 1 - blockIdx.x)) * BLOCK,
		  mine = i0 + warp * 16 * M;
	const int end = i0 + BLOCK < (int)o.length ? i0 + BLOCK : (int)o.length;
	const float scale = score_unit(o), m = DROP ? keep_scale(o) : 1;
	rows16<D, (M == 1 && !DROP)> a[M] = {};
	const int from = first_key(o, b, i0) / KEYS * KEYS;
	const int seen = first_key(o, b, mine);
	float acc[M][D / 8][4] = { { { 0 } } }, max[M][2], sum[M][2];
	int first[M][2];

#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int half = 0; half < 2; half++) {
			max[r][half] = -INFINITY;
			sum[r][half] = 0;
			first[r][half] = first_key(o, b, mine + r * 16 + g + 8 * half);
		}
	load<D, true>(o, q, BLOCK, as_q(o, o.q), b, h, i0);
	load(o, tile_at<D>(room, BLOCK), KEYS, as_k(o, o.k), b, kv, from);
	load(o, tile_at<D>(room, BLOCK + KEYS), KEYS, as_v(o, o.v), b, kv, from);
	for (int j0 = from, at = BLOCK, other = BLOCK + 2 * KEYS; j0 < end; j0 += KEYS) {
		const tile<D> k = tile_at<D>(room, at), v = tile_at<D>(room, at + KEYS);
		float s[M][KEYS / 8][4] = { { { 0 } } };
		zr_copied();
		/* this tile is here, and nobody reads the one before it any more */
		__syncthreads();
		if (j0 == from)
#pragma unroll
			for (int r = 0; r < M; r++)
				a[r].start(q, (warp * M + r) * 16);
		if (j0 + KEYS < end) {
			load(o, tile_at<D>(room, other), KEYS, as_k(o, o.k), b, kv, j0 + KEYS);
			load(o, tile_at<D>(room, other + KEYS), KEYS, as_v(o, o.v), b, kv,
			     j0 + KEYS);
		}
		other = at;
		at = 2 * BLOCK + 2 * KEYS - at;
		/* a whole warp: these keys come after its queries, or before its first one's */
		if (j0 >= mine + 16 * M || j0 + KEYS <= seen)
			continue;
		add_scores<T>(s, a, k);
		soft_cap(o, s);
#pragma unroll
		for (int r = 0; r < M; r++) {
			const int i = mine + r * 16 + g, j = j0 + 2 * t;
			const uint32_t bits = DROP ? kept<KEYS / 8>(o, element(o, b, h, i, j),
								    (uint64_t)o.length, 1) :
						     0;
			soften<D, DROP>(s[r], acc[r], max[r], sum[r], scale, m, bits, i, j,
					first[r]);
		}
		add_rows<T, D>(acc, s, v);
	}
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int half = 0; half < 2; half++) {
			const int row = mine + r * 16 + g + 8 * half;
			const float all = row_sum(sum[r][half]);
			if (row >= o.length || row < o.first)
				continue;
			store_row<T, D>((T *)o.out + query_of(o, as_out(o, o.out), b, row, h),
					acc[r], half, 1 / all);
			if (t == 0)
				o.lse[lse_of(o, b, h, row)] =
					fmaf(max[r][half], LN2, zr_ln(all));
		}
}

/* ---- backward -------------------------------------------------------------------- */

/* s, of soft_cap, becomes m_ij P_ij and dp becomes dS_ij: lse is in units of log2, infinite past
 * the last query; m is m_ij. */
ZR_DEVICE void grad_score(float scale, bool seen, bool capped, float m, float lse, float delta,
			  float *s, float *dp)
{
	/* rounding must not let it grow */
	float x = fmaf(*s, scale, -lse), p = seen ? zr_exp2(x > 0 ? 0 : x) : 0;
	const float slope = capped ? fmaf(-*s, *s, 1) : 1;
	*s = m * p;
	*dp = p * (m * *dp - delta);
	if (capped)
		*dp *= slope;
}

template <class T, int D>
static __global__ void __launch_bounds__(THREADS)
	dq_kernel(const __grid_constant__ struct zr_op_attention_bwd op)
{
	ZR_DYNAMIC_SHARED(room);
	const struct zr_op_attention &o = op.fwd;
	const int warp = (int)threadIdx.x / ZR_WARP, g = (int)threadIdx.x % ZR_WARP / 4,
		  t = (int)threadIdx.x % 4;
	const int64_t b = blockIdx.y / o.heads, h = blockIdx.y % o.heads,
		      kv = h / (o.heads / o.kv_heads);
	const int64_t n0 = (b * o.heads + h) * o.length;
	const int i0 = (int)(gridDim.x - 1 - blockIdx.x) * ROWS, i = i0 + warp * 16 + g;
	const int end = i0 + ROWS < (int)o.length ? i0 + ROWS : (int)o.length;
	const float scale = score_unit(o), m = keep_scale(o);
	const int from = first_key(o, b, i0) / STEP * STEP,
		  seen = first_key(o, b, i0 + warp * 16);
	rows16<D, true> q[1], dout[1];
	float acc[1][D / 8][4] = { { { 0 } } }, lse[2], delta[2];
	int first[2];

#pragma unroll
	for (int half = 0; half < 2; half++) {
		const int row = i + 8 * half;
		lse[half] = row < o.length ? o.lse[n0 + row] * LOG2E : INFINITY;
		delta[half] = row < o.length ? ((const float *)op.work)[n0 + row] : 0;
		first[half] = first_key(o, b, row);
	}
	load(o, tile_at<D>(room, 0), ROWS, as_q(o, o.q), b, h, i0);
	load(o, tile_at<D>(room, ROWS), ROWS, as_out(o, op.dout), b, h, i0);
	load(o, tile_at<D>(room, 2 * ROWS), STEP, as_k(o, o.k), b, kv, from);
	load(o, tile_at<D>(room, 2 * ROWS + STEP), STEP, as_v(o, o.v), b, kv, from);
	for (int j0 = from, at = 2 * ROWS, other = 2 * ROWS + 2 * STEP; j0 < end; j0 += STEP) {
		const tile<D> k = tile_at<D>(room, at), v = tile_at<D>(room, at + STEP);
		float s[1][STEP / 8][4] = { { { 0 } } }, dp[1][STEP / 8][4] = { { { 0 } } };
		zr_copied();
		/* this tile is here, and nobody reads the one before it any more */
		__syncthreads();
		if (j0 == from) {
			q[0].start(tile_at<D>(room, 0), warp * 16);
			dout[0].start(tile_at<D>(room, ROWS), warp * 16);
		}
		if (j0 + STEP < end) {
			load(o, tile_at<D>(room, other), STEP, as_k(o, o.k), b, kv, j0 + STEP);
			load(o, tile_at<D>(room, other + STEP), STEP, as_v(o, o.v), b, kv,
			     j0 + STEP);
		}
		other = at;
		at = 4 * ROWS + 2 * STEP - at;
		/* a whole warp: these keys come after its queries, or before its first one's */
		if (j0 > i0 + warp * 16 + 15 || j0 + STEP <= seen)
			continue;
		add_scores<T>(s, q, k);
		soft_cap(o, s);
		add_scores<T>(dp, dout, v);
		const uint32_t bits =
			kept<STEP / 8>(o, element(o, b, h, i, j0 + 2 * t), (uint64_t)o.length, 1);
#pragma unroll
		for (int n = 0; n < STEP / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				const int key = j0 + n * 8 + 2 * t + e % 2;
				grad_score(scale, key <= i + e / 2 * 8 && key >= first[e / 2],
					   o.softcap > 0,
					   bits >> (4 * n + e) & 1 ? m : 0, lse[e / 2],
					   delta[e / 2], &s[0][n][e], &dp[0][n][e]);
			}
		add_rows<T, D>(acc, dp, k);
	}
#pragma unroll
	for (int half = 0; half < 2; half++)
		if (i + 8 * half < o.length)
			store_row<T, D>((T *)op.dq + row_of(o, as_q(o, op.dq), b, i + 8 * half, h),
					acc[0], half, o.scale);
}

/* A step of dkv_kernel's walk: STEP queries of a head, with what the forward and delta left of
 * each. */
template <int D> struct queries {
	tile<D> q, dout;
	float *lse, *delta; /* [STEP] */
	int *first;         /* [STEP] */
};

/* Behind two tiles of ROWS keys. */
template <int D> ZR_DEVICE queries<D> queries_at(unsigned char *room, float *rows, int stage)
{
	return queries<D>{ tile_at<D>(room, 2 * ROWS + stage * 2 * STEP),
			   tile_at<D>(room, 2 * ROWS + (2 * stage + 1) * STEP),
			   rows + stage * 2 * STEP, rows + (2 * stage + 1) * STEP,
			   (int *)(void *)(rows + (4 + stage) * STEP) };
}

template <int D>
ZR_DEVICE void load_queries(const struct zr_op_attention_bwd &op, queries<D> to, int64_t b,
			    int64_t h, int64_t i0)
{
	const struct zr_op_attention &o = op.fwd;
	load(o, to.q, STEP, as_q(o, o.q), b, h, i0);
	load(o, to.dout, STEP, as_out(o, op.dout), b, h, i0);
	if (threadIdx.x < STEP) {
		const int64_t i = i0 + threadIdx.x, n = (b * o.heads + h) * o.length + i;
		to.lse[threadIdx.x] = i < o.length ? o.lse[n] * LOG2E : INFINITY;
		to.delta[threadIdx.x] = i < o.length ? ((const float *)op.work)[n] : 0;
		to.first[threadIdx.x] = first_key(o, b, i);
	}
}

/* Steps from query j0 on until no query of a step reads keys [j0, j0 + ROWS). */
ZR_DEVICE int steps_of(const struct zr_op_attention &o, int64_t b, int j0)
{
	int i = j0;
	while (i < o.length && first_key(o, b, i) < j0 + ROWS)
		i += STEP;
	return (i - j0) / STEP;
}

/* A row is a key: scores are transposed. The queries of all heads that read it. */
template <class T, int D>
static __global__ void __launch_bounds__(THREADS)
	dkv_kernel(const __grid_constant__ struct zr_op_attention_bwd op)
{
	ZR_DYNAMIC_SHARED(room);
	__shared__ float rows[6 * STEP]; /* lse, delta and first keys of two tiles */
	constexpr bool HELD = D < 96; /* else registers are short */
	const struct zr_op_attention &o = op.fwd;
	const int warp = (int)threadIdx.x / ZR_WARP, g = (int)threadIdx.x % ZR_WARP / 4,
		  t = (int)threadIdx.x % 4;
	const int64_t share = o.heads / o.kv_heads, b = blockIdx.y / o.kv_heads,
		      kv = blockIdx.y % o.kv_heads;
	const int j0 = (int)blockIdx.x * ROWS, j = j0 + warp * 16 + g;
	const int steps = steps_of(o, b, j0), all = (int)share * steps;
	const float scale = score_unit(o), m = keep_scale(o);
	rows16<D, HELD> k[1], v[1];
	float dk[1][D / 8][4] = { { { 0 } } }, dv[1][D / 8][4] = { { { 0 } } };

	load(o, tile_at<D>(room, 0), ROWS, as_k(o, o.k), b, kv, j0);
	load(o, tile_at<D>(room, ROWS), ROWS, as_v(o, o.v), b, kv, j0);
	load_queries(op, queries_at<D>(room, rows, 0), b, kv * share, j0);
	for (int n = 0, step = 0, h = (int)(kv * share); n < all; n++) {
		const int i0 = j0 + step * STEP, mine = h;
		const queries<D> now = queries_at<D>(room, rows, n & 1);
		float s[1][STEP / 8][4] = { { { 0 } } }, dp[1][STEP / 8][4] = { { { 0 } } };
		if (++step == steps) {
			step = 0;
			h++;
		}
		zr_copied();
		/* these queries are here, and nobody reads those before them any more */
		__syncthreads();
		if (n == 0) {
			k[0].start(tile_at<D>(room, 0), warp * 16);
			v[0].start(tile_at<D>(room, ROWS), warp * 16);
		}
		if (n + 1 < all)
			load_queries(op, queries_at<D>(room, rows, (n + 1) & 1), b, h,
				     j0 + step * STEP);
		/* a whole warp: these queries come before its keys, or attend to later ones */
		if (i0 + STEP <= j0 + warp * 16 || now.first[0] > j0 + warp * 16 + 15)
			continue;
		add_scores<T>(s, k, now.q);
		soft_cap(o, s);
		add_scores<T>(dp, v, now.dout);
		const uint32_t bits = kept<STEP / 8>(o, element(o, b, mine, i0 + 2 * t, j), 1,
						     (uint64_t)o.length);
#pragma unroll
		for (int c = 0; c < STEP / 8; c++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				int at = c * 8 + 2 * t + e % 2;
				const int key = j + e / 2 * 8;
				grad_score(scale, key <= i0 + at && key >= now.first[at],
					   o.softcap > 0,
					   bits >> (4 * c + e) & 1 ? m : 0, now.lse[at],
					   now.delta[at], &s[0][c][e], &dp[0][c][e]);
			}
		add_rows<T, D>(dv, s, now.dout);
		add_rows<T, D>(dk, dp, now.q);
	}
#pragma unroll
	for (int half = 0; half < 2; half++) {
		if (j + 8 * half >= o.length)
			continue;
		store_row<T, D>((T *)op.dk + row_of(o, as_k(o, op.dk), b, j + 8 * half, kv), dk[0],
				half, o.scale);
		store_row<T, D>((T *)op.dv + row_of(o, as_v(o, op.dv), b, j + 8 * half, kv), dv[0],
				half, 1);
	}
}

/* ---- launches -------------------------------------------------------------------- */

static int vectors(const void *p, int64_t stride, int64_t head)
{
	return (uintptr_t)p % 16 == 0 && stride % 8 == 0 && head % 8 == 0;
}

int zr_cuda_attention_mma_takes(const struct zr_op_attention *o)
{
	return (o->dtype == ZR_BF16 || o->dtype == ZR_F16) && o->length < 1 << 24 &&
	       (o->head_dim == 64 || o->head_dim == 80 || o->head_dim == 96 ||
		o->head_dim == 128) &&
	       vectors(o->q, o->q_stride, o->q_head) && vectors(o->k, o->k_stride, o->k_head) &&
	       vectors(o->v, o->v_stride, o->v_head);
}

int zr_cuda_attention_mma_takes_bwd(const struct zr_op_attention_bwd *op)
{
	return zr_cuda_attention_mma_takes(&op->fwd) && vectors(op->dout, op->fwd.out_stride, 0);
}

static dim3 grid_of(const struct zr_op_attention *o, int64_t heads, int rows)
{
	return dim3((unsigned)(zr_ceil_div(o->length, rows) - o->first / rows),
		    (unsigned)(o->batch * heads));
}

template <class T, int D, bool DROP>
static cudaError_t forward_drop(const struct zr_op_attention *o, cudaStream_t s)
{
	constexpr int rows = ROWS * sixteens<D, DROP>();
	return zr_launch(forward_kernel<T, D, DROP>, grid_of(o, o->heads, rows), dim3(THREADS),
			 (rows + 4 * KEYS) * tile<D>::STRIDE * 2, s, *o);
}

template <class T, int D>
static cudaError_t forward(const struct zr_op_attention *o, cudaStream_t s)
{
	return o->dropout > 0 ? forward_drop<T, D, true>(o, s) : forward_drop<T, D, false>(o, s);
}

template <class T, int D>
static cudaError_t backward(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	const struct zr_op_attention *o = &op->fwd;
	const size_t shared = (2 * ROWS + 4 * STEP) * tile<D>::STRIDE * 2;
	cudaError_t e = zr_launch(dq_kernel<T, D>, grid_of(o, o->heads, ROWS), dim3(THREADS),
				  shared, s, *op);
	return e != cudaSuccess ? e :
				  zr_launch(dkv_kernel<T, D>, grid_of(o, o->kv_heads, ROWS),
					    dim3(THREADS), shared, s, *op);
}

#define BY_WIDTH(width, fn, T, ...) \
	((width) == 64 ? fn<T, 64>(__VA_ARGS__) : \
	 (width) == 80 ? fn<T, 80>(__VA_ARGS__) : \
	 (width) == 96 ? fn<T, 96>(__VA_ARGS__) : \
			 fn<T, 128>(__VA_ARGS__))

cudaError_t zr_cuda_attention_mma(const struct zr_op_attention *o, cudaStream_t s)
{
	return o->dtype == ZR_BF16 ? BY_WIDTH(o->head_dim, forward, bf16, o, s) :
				     BY_WIDTH(o->head_dim, forward, f16, o, s);
}

cudaError_t zr_cuda_attention_mma_bwd(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	return op->fwd.dtype == ZR_BF16 ? BY_WIDTH(op->fwd.head_dim, backward, bf16, op, s) :
					  BY_WIDTH(op->fwd.head_dim, backward, f16, op, s);
}
