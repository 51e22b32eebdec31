/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_mma.cu - causal attention and its gradients on tensor cores: bf16 and fp16, heads of width 64, 80, 96 and
 * 128; formulas as in cpu/attention.c. A CUDA block is four warps; a warp takes 16 queries (for dk and dv, 16 keys) and
 * walks the keys (queries) in tiles that the block loads into shared memory together. Scores are in units of log2, and
 * scores, sums and results in fp32; probabilities and their gradients are rounded to 16 bits, to the nearest even, where
 * they enter a product.
 */
#include "attention.h"
#include "mma.h"

#define WARPS 4
#define THREADS (WARPS * ZR_WARP)
#define ROWS (WARPS * 16) /* of a CUDA block */
#define KEYS 64           /* of a tile, forward */
#define STEP 32           /* keys or queries of a tile, backward */
#define LOG2E 1.44269504f
#define LN2 0.693147181f

/* A tile's rows are 8 elements longer than a head: what a warp reads together then lies in different banks. */
template <int D> struct tile {
	enum { STRIDE = D + 8 };
	uint16_t *x;
	ZR_MEMBER uint32_t pair(int row, int col) const { return *(const uint32_t *)(const void *)(x + row * STRIDE + col); }
	ZR_MEMBER const void *at(int row, int col) const { return x + row * STRIDE + col; }
	/* Rows [row, row+16) and columns [16k, 16k+16) as an A. */
	ZR_MEMBER void as_a(uint32_t (&a)[4], int row, int k) const
	{
		int g = (int)threadIdx.x % ZR_WARP / 4, col = k * 16 + (int)threadIdx.x % 4 * 2;
		a[0] = pair(row + g, col);
		a[1] = pair(row + g + 8, col);
		a[2] = pair(row + g, col + 8);
		a[3] = pair(row + g + 8, col + 8);
	}
};

/* `rows` tokens from t0 on of head h; 0 past the last. */
template <int D> ZR_DEVICE void load(const struct zr_op_attention &o, tile<D> to, int rows, const void *from, int64_t stride,
				     int64_t b, int64_t h, int64_t t0)
{
	for (int i = (int)threadIdx.x; i < rows * (D / 8); i += THREADS) {
		int r = i / (D / 8), c = i % (D / 8) * 8;
		uint4 v = { 0, 0, 0, 0 };
		if (t0 + r < o.length)
			v = *(const uint4 *)(const void *)((const uint16_t *)from + row_of(o, stride, b, t0 + r, h) + c);
		*(uint4 *)(void *)(to.x + r * tile<D>::STRIDE + c) = v;
	}
}

/* D[16 rows, N * 8] += A B^T, where row n of the tile is column n of B: scores. */
template <class T, int D, int N> ZR_DEVICE void add_scores(float (&s)[N][4], tile<D> a, int row, tile<D> b)
{
	const int g = (int)threadIdx.x % ZR_WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
	for (int k = 0; k < D / 16; k++) {
		uint32_t x[4];
		a.as_a(x, row, k);
#pragma unroll
		for (int n = 0; n < N; n++)
			zr_mma(s[n], x, b.pair(n * 8 + g, k * 16 + 2 * t), b.pair(n * 8 + g, k * 16 + 2 * t + 8), T());
	}
}

/* D[16 rows, D] += P B, where P is 16 rows of N * 8 numbers as add_scores leaves them, and row k of the tile is row k of B. */
template <class T, int D, int N> ZR_DEVICE void add_rows(float (&acc)[D / 8][4], const float (&p)[N][4], tile<D> b)
{
	const int lane = (int)threadIdx.x % ZR_WARP;
#pragma unroll
	for (int k = 0; k < N / 2; k++) {
		const uint32_t a[4] = { zr_pair(p[2 * k][0], p[2 * k][1], T()), zr_pair(p[2 * k][2], p[2 * k][3], T()),
					zr_pair(p[2 * k + 1][0], p[2 * k + 1][1], T()),
					zr_pair(p[2 * k + 1][2], p[2 * k + 1][3], T()) };
#pragma unroll
		for (int n = 0; n < D / 8; n++) {
			uint32_t v[2];
			zr_load_transposed(v, b.at(k * 16 + lane % 16, n * 8));
			zr_mma(acc[n], a, v[0], v[1], T());
		}
	}
}

/* Row `half` of this lane (0: g, 1: g + 8) of 16 rows to token t. */
template <class T, int D> ZR_DEVICE void store_row(T *to, const float (&acc)[D / 8][4], int half, float by)
{
	const int t = (int)threadIdx.x % 4;
#pragma unroll
	for (int n = 0; n < D / 8; n++) {
		zr_narrow(acc[n][2 * half] * by, &to[n * 8 + 2 * t]);
		zr_narrow(acc[n][2 * half + 1] * by, &to[n * 8 + 2 * t + 1]);
	}
}

/* Which of this lane's numbers of 16 rows and N * 8 columns dropout keeps, number e of column block n as bit 4n + e. `at` is
 * the element of the generator of the lane's first number; rows and columns are so many elements apart. One loop that is
 * not unrolled: the generator is long. */
template <int N> ZR_DEVICE uint32_t kept(const struct zr_op_attention &o, uint64_t at, uint64_t row, uint64_t col)
{
	const uint32_t below = zr_drop_below(o.dropout);
	uint32_t bits = 0;
	if (o.dropout <= 0)
		return 0xffffffffu;
#pragma unroll 1
	for (int k = 0; k < 4 * N; k++) {
		uint64_t e = at + (uint64_t)(k / 2 % 2 * 8) * row + (uint64_t)(k / 4 * 8 + k % 2) * col;
		bits |= (uint32_t)(zr_rng_word(&o.rng, e) >= below) << k;
	}
	return bits;
}

ZR_DEVICE float keep_scale(const struct zr_op_attention &o)
{
	return o.dropout > 0 ? zr_drop_scale(o.dropout) : 1;
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

/* ---- forward ----------------------------------------------------------------------------------- */

template <class T, int D>
static __global__ void __launch_bounds__(THREADS) forward_kernel(const __grid_constant__ struct zr_op_attention o)
{
	ZR_DYNAMIC_SHARED(room);
	const tile<D> q = tile_at<D>(room, 0), k = tile_at<D>(room, ROWS), v = tile_at<D>(room, ROWS + KEYS);
	const int warp = (int)threadIdx.x / ZR_WARP, g = (int)threadIdx.x % ZR_WARP / 4, t = (int)threadIdx.x % 4;
	const int64_t b = blockIdx.y / o.heads, h = blockIdx.y % o.heads, kv = h / (o.heads / o.kv_heads);
	const int64_t i0 = (int64_t)(gridDim.x - 1 - blockIdx.x) * ROWS, i = i0 + warp * 16 + g; /* the longest walks start first */
	const float scale = o.scale * LOG2E, m = keep_scale(o);
	float acc[D / 8][4] = { { 0 } }, max[2] = { -INFINITY, -INFINITY }, sum[2] = { 0, 0 };

	load(o, q, ROWS, o.q, o.q_stride, b, h, i0);
	for (int64_t j0 = 0; j0 <= i0; j0 += KEYS) {
		float s[KEYS / 8][4] = { { 0 } }, shrink[2];
		__syncthreads();
		load(o, k, KEYS, o.k, o.k_stride, b, kv, j0);
		load(o, v, KEYS, o.v, o.v_stride, b, kv, j0);
		__syncthreads();
		add_scores<T>(s, q, warp * 16, k);
		const uint32_t bits = kept<KEYS / 8>(o, element(o, b, h, i, j0 + 2 * t), (uint64_t)o.length, 1);
#pragma unroll
		for (int half = 0; half < 2; half++) {
			float most = max[half];
#pragma unroll
			for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
				for (int e = 2 * half; e < 2 * half + 2; e++) {
					s[n][e] = j0 + n * 8 + 2 * t + e % 2 <= i + 8 * half ? s[n][e] * scale : -INFINITY;
					most = zr_larger(most, s[n][e]);
				}
			most = row_max(most);
			shrink[half] = zr_exp2(max[half] - most);
			max[half] = most;
			sum[half] *= shrink[half];
#pragma unroll
			for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
				for (int e = 2 * half; e < 2 * half + 2; e++) {
					float p = zr_exp2(s[n][e] - most);
					sum[half] += p;
					s[n][e] = bits >> (4 * n + e) & 1 ? p * m : 0;
				}
		}
#pragma unroll
		for (int n = 0; n < D / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				acc[n][e] *= shrink[e / 2];
		add_rows<T>(acc, s, v);
	}
#pragma unroll
	for (int half = 0; half < 2; half++) {
		const int64_t row = i + 8 * half;
		const float all = row_sum(sum[half]);
		if (row >= o.length)
			continue;
		store_row<T, D>((T *)o.out + row_of(o, o.out_stride, b, row, h), acc, half, 1 / all);
		if (t == 0)
			o.lse[(b * o.heads + h) * o.length + row] = fmaf(max[half], LN2, zr_ln(all));
	}
}

/* ---- backward ---------------------------------------------------------------------------------- */

/* s becomes m_ij P_ij and dp becomes dS_ij: lse is in units of log2, infinite past the last query; m is m_ij. */
ZR_DEVICE void grad_score(float scale, bool seen, float m, float lse, float delta, float *s, float *dp)
{
	float x = fmaf(*s, scale, -lse), p = seen ? zr_exp2(x > 0 ? 0 : x) : 0; /* rounding must not let it grow */
	*s = m * p;
	*dp = p * (m * *dp - delta);
}

template <class T, int D>
static __global__ void __launch_bounds__(THREADS) dq_kernel(const __grid_constant__ struct zr_op_attention_bwd op)
{
	ZR_DYNAMIC_SHARED(room);
	const struct zr_op_attention &o = op.fwd;
	const tile<D> q = tile_at<D>(room, 0), dout = tile_at<D>(room, ROWS), k = tile_at<D>(room, 2 * ROWS);
	const tile<D> v = tile_at<D>(room, 2 * ROWS + STEP);
	const int warp = (int)threadIdx.x / ZR_WARP, g = (int)threadIdx.x % ZR_WARP / 4, t = (int)threadIdx.x % 4;
	const int64_t b = blockIdx.y / o.heads, h = blockIdx.y % o.heads, kv = h / (o.heads / o.kv_heads);
	const int64_t i0 = (int64_t)(gridDim.x - 1 - blockIdx.x) * ROWS, i = i0 + warp * 16 + g, n0 = (b * o.heads + h) * o.length;
	const float scale = o.scale * LOG2E, m = keep_scale(o);
	float acc[D / 8][4] = { { 0 } }, lse[2], delta[2];

#pragma unroll
	for (int half = 0; half < 2; half++) {
		const int64_t row = i + 8 * half;
		lse[half] = row < o.length ? o.lse[n0 + row] * LOG2E : INFINITY;
		delta[half] = row < o.length ? ((const float *)op.work)[n0 + row] : 0;
	}
	load(o, q, ROWS, o.q, o.q_stride, b, h, i0);
	load(o, dout, ROWS, op.dout, o.out_stride, b, h, i0);
	for (int64_t j0 = 0; j0 < i0 + ROWS && j0 < o.length; j0 += STEP) {
		float s[STEP / 8][4] = { { 0 } }, dp[STEP / 8][4] = { { 0 } };
		__syncthreads();
		load(o, k, STEP, o.k, o.k_stride, b, kv, j0);
		load(o, v, STEP, o.v, o.v_stride, b, kv, j0);
		__syncthreads();
		if (j0 > i0 + warp * 16 + 15) /* a whole warp */
			continue;
		add_scores<T>(s, q, warp * 16, k);
		add_scores<T>(dp, dout, warp * 16, v);
		const uint32_t bits = kept<STEP / 8>(o, element(o, b, h, i, j0 + 2 * t), (uint64_t)o.length, 1);
#pragma unroll
		for (int n = 0; n < STEP / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				grad_score(scale, j0 + n * 8 + 2 * t + e % 2 <= i + e / 2 * 8, bits >> (4 * n + e) & 1 ? m : 0,
					   lse[e / 2], delta[e / 2], &s[n][e], &dp[n][e]);
		add_rows<T>(acc, dp, k);
	}
#pragma unroll
	for (int half = 0; half < 2; half++)
		if (i + 8 * half < o.length)
			store_row<T, D>((T *)op.dq + row_of(o, o.q_stride, b, i + 8 * half, h), acc, half, o.scale);
}

/* A row is a key: scores are transposed. The queries of all heads that read it. */
template <class T, int D>
static __global__ void __launch_bounds__(THREADS) dkv_kernel(const __grid_constant__ struct zr_op_attention_bwd op)
{
	ZR_DYNAMIC_SHARED(room);
	__shared__ float lse[STEP], delta[STEP];
	const struct zr_op_attention &o = op.fwd;
	const tile<D> k = tile_at<D>(room, 0), v = tile_at<D>(room, ROWS), q = tile_at<D>(room, 2 * ROWS);
	const tile<D> dout = tile_at<D>(room, 2 * ROWS + STEP);
	const int warp = (int)threadIdx.x / ZR_WARP, g = (int)threadIdx.x % ZR_WARP / 4, t = (int)threadIdx.x % 4;
	const int64_t share = o.heads / o.kv_heads, b = blockIdx.y / o.kv_heads, kv = blockIdx.y % o.kv_heads;
	const int64_t j0 = (int64_t)blockIdx.x * ROWS, j = j0 + warp * 16 + g;
	const float scale = o.scale * LOG2E, m = keep_scale(o);
	float dk[D / 8][4] = { { 0 } }, dv[D / 8][4] = { { 0 } };

	load(o, k, ROWS, o.k, o.k_stride, b, kv, j0);
	load(o, v, ROWS, o.v, o.v_stride, b, kv, j0);
	for (int64_t h = kv * share; h < (kv + 1) * share; h++)
		for (int64_t i0 = j0; i0 < o.length; i0 += STEP) {
			float s[STEP / 8][4] = { { 0 } }, dp[STEP / 8][4] = { { 0 } };
			__syncthreads();
			load(o, q, STEP, o.q, o.q_stride, b, h, i0);
			load(o, dout, STEP, op.dout, o.out_stride, b, h, i0);
			if (threadIdx.x < STEP) {
				const int64_t i = i0 + threadIdx.x, n = (b * o.heads + h) * o.length + i;
				lse[threadIdx.x] = i < o.length ? o.lse[n] * LOG2E : INFINITY;
				delta[threadIdx.x] = i < o.length ? ((const float *)op.work)[n] : 0;
			}
			__syncthreads();
			if (i0 + STEP <= j0 + warp * 16) /* a whole warp: these queries come before its keys */
				continue;
			add_scores<T>(s, k, warp * 16, q);
			add_scores<T>(dp, v, warp * 16, dout);
			const uint32_t bits = kept<STEP / 8>(o, element(o, b, h, i0 + 2 * t, j), 1, (uint64_t)o.length);
#pragma unroll
			for (int n = 0; n < STEP / 8; n++)
#pragma unroll
				for (int e = 0; e < 4; e++) {
					int at = n * 8 + 2 * t + e % 2;
					grad_score(scale, j + e / 2 * 8 <= i0 + at, bits >> (4 * n + e) & 1 ? m : 0, lse[at],
						   delta[at], &s[n][e], &dp[n][e]);
				}
			add_rows<T>(dv, s, dout);
			add_rows<T>(dk, dp, q);
		}
#pragma unroll
	for (int half = 0; half < 2; half++) {
		if (j + 8 * half >= o.length)
			continue;
		store_row<T, D>((T *)op.dk + row_of(o, o.k_stride, b, j + 8 * half, kv), dk, half, o.scale);
		store_row<T, D>((T *)op.dv + row_of(o, o.v_stride, b, j + 8 * half, kv), dv, half, 1);
	}
}

/* ---- launches ---------------------------------------------------------------------------------- */

static int vectors(const void *p, int64_t stride)
{
	return (uintptr_t)p % 16 == 0 && stride % 8 == 0;
}

int zr_cuda_attention_mma_takes(const struct zr_op_attention *o)
{
	return (o->dtype == ZR_BF16 || o->dtype == ZR_F16) &&
	       (o->head_dim == 64 || o->head_dim == 80 || o->head_dim == 96 || o->head_dim == 128) && vectors(o->q, o->q_stride) &&
	       vectors(o->k, o->k_stride) && vectors(o->v, o->v_stride);
}

int zr_cuda_attention_mma_takes_bwd(const struct zr_op_attention_bwd *op)
{
	return zr_cuda_attention_mma_takes(&op->fwd) && vectors(op->dout, op->fwd.out_stride);
}

static dim3 grid_of(const struct zr_op_attention *o, int64_t heads)
{
	return dim3((unsigned)zr_ceil_div(o->length, ROWS), (unsigned)(o->batch * heads));
}

template <class T, int D> static cudaError_t forward(const struct zr_op_attention *o, cudaStream_t s)
{
	return zr_launch(forward_kernel<T, D>, grid_of(o, o->heads), dim3(THREADS), (ROWS + 2 * KEYS) * tile<D>::STRIDE * 2, s, *o);
}

template <class T, int D> static cudaError_t backward(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	const struct zr_op_attention *o = &op->fwd;
	const size_t shared = (2 * ROWS + 2 * STEP) * tile<D>::STRIDE * 2;
	cudaError_t e = zr_launch(dq_kernel<T, D>, grid_of(o, o->heads), dim3(THREADS), shared, s, *op);
	return e != cudaSuccess ? e : zr_launch(dkv_kernel<T, D>, grid_of(o, o->kv_heads), dim3(THREADS), shared, s, *op);
}

#define BY_WIDTH(width, fn, T, ...)                                                                                                \
	((width) == 64	 ? fn<T, 64>(__VA_ARGS__)                                                                                  \
	 : (width) == 80 ? fn<T, 80>(__VA_ARGS__)                                                                                  \
	 : (width) == 96 ? fn<T, 96>(__VA_ARGS__)                                                                                  \
			 : fn<T, 128>(__VA_ARGS__))

cudaError_t zr_cuda_attention_mma(const struct zr_op_attention *o, cudaStream_t s)
{
	return o->dtype == ZR_BF16 ? BY_WIDTH(o->head_dim, forward, bf16, o, s) : BY_WIDTH(o->head_dim, forward, f16, o, s);
}

cudaError_t zr_cuda_attention_mma_bwd(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	return op->fwd.dtype == ZR_BF16 ? BY_WIDTH(op->fwd.head_dim, backward, bf16, op, s) :
					  BY_WIDTH(op->fwd.head_dim, backward, f16, op, s);
}
