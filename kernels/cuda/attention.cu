/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.cu - causal attention and its gradients in fp32 arithmetic, for any storage type and
 * width of heads; the formulas are those of cpu/attention.c. A CUDA block takes a tile of 32
 * queries (or, for dk and dv, of 32 keys) and goes through the keys (queries) in tiles of 32,
 * ascending; of 16 where heads are wider than 128, for the shared memory of all cards. Threads
 * share a row: of four, each computes every fourth score against a tile and every fourth element of
 * the results.
 */
#include "attention.h"

#define THREADS 128

/* Of heads that are at most WIDTH wide. A multiprocessor of sm_86, sm_89 or sm_120 lends a CUDA
 * block 99 KB. */
template <int WIDTH> struct tiling {
	enum {
		ROWS = WIDTH > 128 ? 16 : 32,
		SHARE = THREADS / ROWS, /* threads of a row */
		EACH = ROWS / SHARE,    /* scores of a thread */
		MOST = WIDTH / SHARE,   /* elements of a result of a thread */
		PAD = ROWS + 1
	};
};

#define LEAST_SHARED (99u << 10)

/* Rows of a matrix of scores, `stride` floats apart: one more than there are, so that threads read
 * different banks. */
struct tile {
	float *x;
	int stride;
	ZR_MEMBER float &at(int row, int d) const
	{
		return x[row * stride + d];
	}
};

/* Tokens [t0, t0 + ROWS) of a head; 0 past the last, and for queries that are not computed. */
template <int ROWS, class T, bool QUERY = false>
ZR_DEVICE void load(const struct zr_op_attention &o, tile to, const heads &from, int64_t b,
		    int64_t h, int64_t t0)
{
	const int width = (int)o.head_dim;
	const int64_t start = QUERY ? query_of(o, from, b, t0, h) : row_of(o, from, b, t0, h);
	for (int i = (int)threadIdx.x; i < ROWS * width; i += THREADS) {
		int r = i / width, d = i % width;
		bool inside = t0 + r < o.length && (!QUERY || t0 + r >= o.first);
		int64_t at = start + r * from.stride + d;
		to.at(r, d) = inside ? zr_widen(((const T *)from.x)[at]) : 0;
	}
}

ZR_DEVICE float dot(tile a, int i, tile b, int j, int width)
{
	float s = 0;
#pragma unroll 8
	for (int d = 0; d < width; d++)
		s = fmaf(a.at(i, d), b.at(j, d), s);
	return s;
}

/* acc += x * row j, this thread's elements. */
template <int SHARE, int MOST>
ZR_DEVICE void add_row(float (&acc)[MOST], float x, tile t, int j, int part, int width)
{
#pragma unroll
	for (int m = 0; m < MOST; m++)
		if (part + m * SHARE < width)
			acc[m] = fmaf(x, t.at(j, part + m * SHARE), acc[m]);
}

template <int SHARE, class T, int MOST>
ZR_DEVICE void store_row(T *to, const float (&acc)[MOST], float x, int part, int width)
{
#pragma unroll
	for (int m = 0; m < MOST; m++)
		if (part + m * SHARE < width)
			zr_narrow(acc[m] * x, &to[part + m * SHARE]);
}

/* The same at element `from` of `sums`, if there are any, else at element `at` of to. */
template <int SHARE, class T, int MOST>
ZR_DEVICE void store_key(float *sums, int64_t from, T *to, int64_t at, const float (&acc)[MOST],
			 float x, int part, int width)
{
#pragma unroll
	for (int m = 0; m < MOST; m++)
		if (part + m * SHARE < width) {
			const float y = acc[m] * x;
			if (sums)
				sums[from + part + m * SHARE] = y;
			else
				zr_narrow(y, &to[at + part + m * SHARE]);
		}
}

/* s_ij of scale q_i.k_j */
ZR_DEVICE float capped(const struct zr_op_attention &o, float s)
{
	return o.softcap > 0 ? zr_softcap(s, o.softcap) : s;
}

/* s_ij of q_i.k_j */
ZR_DEVICE float score(const struct zr_op_attention &o, float qk)
{
	return capped(o, o.scale * qk);
}

/* 0 or 1/(1-dropout) */
ZR_DEVICE float keep(const struct zr_op_attention &o, int64_t b, int64_t h, int64_t i, int64_t j)
{
	if (o.dropout <= 0)
		return 1;
	return zr_rng_word(&o.rng, element(o, b, h, i, j)) >= zr_drop_below(o.dropout) ?
		       zr_drop_scale(o.dropout) :
		       0;
}

/* Over the threads of a row. */
template <int SHARE> ZR_DEVICE float share_sum(float x)
{
#pragma unroll
	for (int mask = 1; mask < SHARE; mask *= 2)
		x += __shfl_xor_sync(ZR_FULL_WARP, x, mask, ZR_WARP);
	return x;
}

template <int SHARE> ZR_DEVICE float share_max(float x)
{
#pragma unroll
	for (int mask = 1; mask < SHARE; mask *= 2)
		x = zr_larger(x, __shfl_xor_sync(ZR_FULL_WARP, x, mask, ZR_WARP));
	return x;
}

/* Tiles one after the other in shared memory. */
template <int ROWS> ZR_DEVICE tile tile_at(unsigned char *room, int number, int width)
{
	return tile{ (float *)(void *)room + number * ROWS * (width + 1), width + 1 };
}

/* ---- forward --------------------------------------------------------------------- */

template <class T, int WIDTH>
static __global__ void __launch_bounds__(THREADS, 1)
	forward_kernel(const __grid_constant__ struct zr_op_attention o)
{
	ZR_DYNAMIC_SHARED(room);
	constexpr int ROWS = tiling<WIDTH>::ROWS, SHARE = tiling<WIDTH>::SHARE,
		      EACH = tiling<WIDTH>::EACH, MOST = tiling<WIDTH>::MOST,
		      PAD = tiling<WIDTH>::PAD;
	const int width = (int)o.head_dim, row = (int)threadIdx.x / SHARE,
		  part = (int)threadIdx.x % SHARE;
	const tile q = tile_at<ROWS>(room, 0, width), k = tile_at<ROWS>(room, 1, width),
		   v = tile_at<ROWS>(room, 2, width);
	const tile p = { (float *)(void *)room + 3 * ROWS * (width + 1), PAD };
	const int64_t b = blockIdx.y / o.heads, h = blockIdx.y % o.heads,
		      g = h / (o.heads / o.kv_heads);
	/* the longest walks start first */
	const int64_t i0 = o.first / ROWS * ROWS + (int64_t)(gridDim.x - 1 - blockIdx.x) * ROWS,
		      i = i0 + row;
	const int first = first_key(o, b, i);
	float acc[MOST] = { 0 }, max = -INFINITY, sum = 0, largest = 0;

	load<ROWS, T, true>(o, q, as_q(o, o.q), b, h, i0);
	for (int64_t j0 = first_key(o, b, i0) / ROWS * ROWS; j0 <= i0; j0 += ROWS) {
		float s[EACH], most = max;
		__syncthreads();
		load<ROWS, T>(o, k, as_k(o, o.k), b, g, j0);
		load<ROWS, T>(o, v, as_v(o, o.v), b, g, j0);
		__syncthreads();
#pragma unroll
		for (int m = 0; m < EACH; m++) {
			int j = part + m * SHARE;
			s[m] = -INFINITY;
			if (j0 + j >= first && j0 + j <= i && j0 + j < o.length) {
				const float raw = o.scale * dot(q, row, k, j, width);
				largest = fmaxf(largest, raw);
				s[m] = capped(o, raw);
			}
			most = zr_larger(most, s[m]);
		}
		most = share_max<SHARE>(most);
		const float base = seen_or_0(most), shrink = zr_exp(max - base);
		float part_sum = 0;
#pragma unroll
		for (int m = 0; m < EACH; m++) {
			int j = part + m * SHARE;
			float x = zr_exp(s[m] - base);
			part_sum += x;
			p.at(row, j) = x * keep(o, b, h, i, j0 + j);
		}
		sum = sum * shrink + share_sum<SHARE>(part_sum);
		max = most;
		__syncwarp(); /* the threads of a row are of one warp */
#pragma unroll
		for (int m = 0; m < MOST; m++)
			acc[m] *= shrink;
		for (int j = 0; j < ROWS; j++)
			add_row<SHARE>(acc, p.at(row, j), v, j, part, width);
	}
	if (o.max_scores)
		raise_largest(o, h, largest);
	if (i >= o.length || i < o.first)
		return;
	store_row<SHARE>((T *)o.out + query_of(o, as_out(o, o.out), b, i, h), acc, 1 / sum, part,
			 width);
	if (part == 0)
		o.lse[lse_of(o, b, h, i)] = max + zr_ln(sum);
}

/* ---- backward -------------------------------------------------------------------- */

struct pair {
	float mp, ds; /* m_ij P_ij and dS_ij; 0 where i does not attend to j or beyond the tokens */
};

ZR_DEVICE pair grad_score(const struct zr_op_attention &o, int64_t b, int64_t h, int64_t i,
			  int first, int64_t j, float qk, float dov, float lse, float delta)
{
	if (j < first || j > i || i < o.first || i >= o.length)
		return pair{ 0, 0 };
	float s = score(o, qk), x = s - lse, p = zr_exp(x > 0 ? 0 : x), m = keep(o, b, h, i, j);
	float ds = p * (m * dov - delta);
	return pair{ m * p, o.softcap > 0 ? ds * zr_softcap_slope(s, o.softcap) : ds };
}

template <class T, int WIDTH>
static __global__ void __launch_bounds__(THREADS, 1)
	dq_kernel(const __grid_constant__ struct zr_op_attention_bwd op)
{
	ZR_DYNAMIC_SHARED(room);
	constexpr int ROWS = tiling<WIDTH>::ROWS, SHARE = tiling<WIDTH>::SHARE,
		      EACH = tiling<WIDTH>::EACH, MOST = tiling<WIDTH>::MOST,
		      PAD = tiling<WIDTH>::PAD;
	const struct zr_op_attention &o = op.fwd;
	const int width = (int)o.head_dim, row = (int)threadIdx.x / SHARE,
		  part = (int)threadIdx.x % SHARE;
	const tile q = tile_at<ROWS>(room, 0, width), dout = tile_at<ROWS>(room, 1, width),
		   k = tile_at<ROWS>(room, 2, width), v = tile_at<ROWS>(room, 3, width);
	const tile ds = { (float *)(void *)room + 4 * ROWS * (width + 1), PAD };
	const int64_t b = blockIdx.y / o.heads, h = blockIdx.y % o.heads,
		      g = h / (o.heads / o.kv_heads);
	const int64_t i0 = o.first / ROWS * ROWS + (int64_t)(gridDim.x - 1 - blockIdx.x) * ROWS,
		      i = i0 + row, n = lse_of(o, b, h, i);
	const bool there = i >= o.first && i < o.length;
	const float lse = there ? o.lse[n] : 0;
	const float delta = there ? ((const float *)op.work)[n] : 0;
	const int first = first_key(o, b, i);
	float acc[MOST] = { 0 };

	load<ROWS, T, true>(o, q, as_q(o, o.q), b, h, i0);
	load<ROWS, T, true>(o, dout, as_out(o, op.dout), b, h, i0);
	for (int64_t j0 = first_key(o, b, i0) / ROWS * ROWS; j0 <= i0; j0 += ROWS) {
		__syncthreads();
		load<ROWS, T>(o, k, as_k(o, o.k), b, g, j0);
		load<ROWS, T>(o, v, as_v(o, o.v), b, g, j0);
		__syncthreads();
		for (int m = 0; m < EACH; m++) {
			int j = part + m * SHARE;
			const float qk = dot(q, row, k, j, width),
				    dov = dot(dout, row, v, j, width);
			ds.at(row, j) =
				grad_score(o, b, h, i, first, j0 + j, qk, dov, lse, delta).ds;
		}
		__syncwarp();
		for (int j = 0; j < ROWS; j++)
			add_row<SHARE>(acc, ds.at(row, j), k, j, part, width);
	}
	if (there)
		store_row<SHARE>((T *)op.dq + query_of(o, as_q(o, op.dq), b, i, h), acc, o.scale,
				 part, width);
}

/* A row is a key; the queries of all heads that read it. */
template <class T, int WIDTH>
static __global__ void __launch_bounds__(THREADS, 1)
	dkv_kernel(const __grid_constant__ struct zr_op_attention_bwd op)
{
	ZR_DYNAMIC_SHARED(room);
	constexpr int ROWS = tiling<WIDTH>::ROWS, SHARE = tiling<WIDTH>::SHARE,
		      EACH = tiling<WIDTH>::EACH, MOST = tiling<WIDTH>::MOST,
		      PAD = tiling<WIDTH>::PAD;
	const struct zr_op_attention &o = op.fwd;
	const int width = (int)o.head_dim, row = (int)threadIdx.x / SHARE,
		  part = (int)threadIdx.x % SHARE;
	const tile k = tile_at<ROWS>(room, 0, width), v = tile_at<ROWS>(room, 1, width),
		   q = tile_at<ROWS>(room, 2, width), dout = tile_at<ROWS>(room, 3, width);
	const tile ds = { (float *)(void *)room + 4 * ROWS * (width + 1), PAD },
		   mp = { ds.x + ROWS * PAD, PAD };
	const int64_t share = o.heads / o.kv_heads, b = blockIdx.y / o.kv_heads,
		      g = blockIdx.y % o.kv_heads;
	const int64_t j0 = (int64_t)blockIdx.x * ROWS, j = j0 + row,
		      from = first_tile_of_queries(o, (int)j0, ROWS);
	float dk[MOST] = { 0 }, dv[MOST] = { 0 };

	load<ROWS, T>(o, k, as_k(o, o.k), b, g, j0);
	load<ROWS, T>(o, v, as_v(o, o.v), b, g, j0);
	for (int64_t h = g * share; h < (g + 1) * share; h++)
		for (int64_t i0 = from; i0 < o.length && first_key(o, b, i0) < j0 + ROWS;
		     i0 += ROWS) {
			__syncthreads();
			load<ROWS, T, true>(o, q, as_q(o, o.q), b, h, i0);
			load<ROWS, T, true>(o, dout, as_out(o, op.dout), b, h, i0);
			__syncthreads();
			for (int m = 0; m < EACH; m++) {
				int at = part + m * SHARE;
				int64_t i = i0 + at, n = lse_of(o, b, h, i);
				bool there = i >= o.first && i < o.length;
				float lse = there ? o.lse[n] : 0,
				      delta = there ? ((const float *)op.work)[n] : 0;
				pair x = grad_score(o, b, h, i, first_key(o, b, i), j,
						    dot(q, at, k, row, width),
						    dot(dout, at, v, row, width), lse, delta);
				ds.at(row, at) = x.ds;
				mp.at(row, at) = x.mp;
			}
			__syncwarp();
			for (int at = 0; at < ROWS; at++) {
				add_row<SHARE>(dk, ds.at(row, at), q, at, part, width);
				add_row<SHARE>(dv, mp.at(row, at), dout, at, part, width);
			}
		}
	if (j >= o.length)
		return;
	store_key<SHARE>(o.key_sums, zr_key_sums_at(&o, b, j, g, 0), (T *)op.dk,
			 row_of(o, as_k(o, op.dk), b, j, g), dk, o.scale, part, width);
	store_key<SHARE>(o.key_sums, zr_key_sums_at(&o, b, j, g, 1), (T *)op.dv,
			 row_of(o, as_v(o, op.dv), b, j, g), dv, 1, part, width);
}

/* delta = dout . out: eight threads take a row, WIDE elements each at a time; the heads of a token
 * follow each other. */
#define DELTA_SHARE 8

template <class T, int WIDE> struct alignas(WIDE * sizeof(T)) wide {
	T x[WIDE];
};

template <class T, int WIDE>
static __global__ void __launch_bounds__(ZR_THREADS)
	delta_kernel(const __grid_constant__ struct zr_op_attention_bwd op)
{
	const struct zr_op_attention &o = op.fwd;
	const int64_t n = ((int64_t)blockIdx.x * ZR_THREADS + threadIdx.x) / DELTA_SHARE,
		      queries = o.length - o.first, h = n % o.heads, row = n / o.heads;
	const bool inside = row < o.batch * queries;
	const int64_t at = inside ? row * o.out_stride + h * o.head_dim : 0;
	const int part = (int)threadIdx.x % DELTA_SHARE;
	float sum = 0;

	for (int64_t d = part * WIDE; inside && d < o.head_dim; d += DELTA_SHARE * WIDE) {
		const wide<T, WIDE> x = *(const wide<T, WIDE> *)((const T *)op.dout + at + d),
				    y = *(const wide<T, WIDE> *)((const T *)o.out + at + d);
#pragma unroll
		for (int k = 0; k < WIDE; k++)
			sum = fmaf(zr_widen(x.x[k]), zr_widen(y.x[k]), sum);
	}
#pragma unroll
	for (int mask = DELTA_SHARE / 2; mask > 0; mask /= 2)
		sum += __shfl_xor_sync(ZR_FULL_WARP, sum, mask, ZR_WARP);
	if (inside && part == 0)
		((float *)op.work)[(row / queries * o.heads + h) * queries + row % queries] = sum;
}

/* ---- launches -------------------------------------------------------------------- */

template <int WIDTH> constexpr size_t shared_bytes(int64_t width, int tiles, int scores)
{
	using t = tiling<WIDTH>;
	return (size_t)(tiles * t::ROWS * (width + 1) + scores * t::ROWS * t::PAD) * sizeof(float);
}

/* dkv_kernel() takes the most. */
static_assert(shared_bytes<128>(128, 4, 2) <= LEAST_SHARED &&
		      shared_bytes<256>(256, 4, 2) <= LEAST_SHARED,
	      "a CUDA block's tiles fit no card of sm_86");

/* Of tiles of rows [first, length). */
static dim3 grid_of(const struct zr_op_attention *o, int64_t heads, int64_t first, int64_t rows)
{
	return dim3((unsigned)(zr_ceil_div(o->length, rows) - first / rows),
		    (unsigned)(o->batch * heads));
}

template <class T, int WIDTH>
static cudaError_t forward(const struct zr_op_attention *o, cudaStream_t s)
{
	return zr_launch(forward_kernel<T, WIDTH>,
			 grid_of(o, o->heads, o->first, tiling<WIDTH>::ROWS), dim3(THREADS),
			 shared_bytes<WIDTH>(o->head_dim, 3, 1), s, *o);
}

template <class T>
static cudaError_t launch_forward(const struct zr_op_attention *o, cudaStream_t s)
{
	if (o->head_dim <= 64)
		return forward<T, 64>(o, s);
	if (o->head_dim <= 128)
		return forward<T, 128>(o, s);
	return forward<T, 256>(o, s);
}

cudaError_t zr_cuda_attention(const struct zr_op_attention *o, cudaStream_t s)
{
	return ZR_BY_TYPE(o->dtype, launch_forward, o, s);
}

template <class T, int WIDTH>
static cudaError_t backward(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	constexpr int ROWS = tiling<WIDTH>::ROWS;
	const struct zr_op_attention *o = &op->fwd;
	cudaError_t e = zr_launch(dq_kernel<T, WIDTH>, grid_of(o, o->heads, o->first, ROWS),
				  dim3(THREADS), shared_bytes<WIDTH>(o->head_dim, 4, 1), s, *op);
	if (e != cudaSuccess)
		return e;
	return zr_launch(dkv_kernel<T, WIDTH>, grid_of(o, o->kv_heads, 0, ROWS), dim3(THREADS),
			 shared_bytes<WIDTH>(o->head_dim, 4, 2), s, *op);
}

template <class T>
static cudaError_t launch_backward(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	if (op->fwd.head_dim <= 64)
		return backward<T, 64>(op, s);
	if (op->fwd.head_dim <= 128)
		return backward<T, 128>(op, s);
	return backward<T, 256>(op, s);
}

cudaError_t zr_cuda_attention_bwd(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->fwd.dtype, launch_backward, op, s);
}

template <class T>
static cudaError_t launch_delta(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	constexpr int WIDE = 16 / sizeof(T);
	const struct zr_op_attention *o = &op->fwd;
	const int whole = o->head_dim % WIDE == 0 && o->out_stride % WIDE == 0 &&
			  (uintptr_t)op->dout % 16 == 0 && (uintptr_t)o->out % 16 == 0;
	const int64_t rows = o->batch * (o->length - o->first);
	const int64_t threads = rows * o->heads * DELTA_SHARE;
	return zr_launch(whole ? delta_kernel<T, WIDE> : delta_kernel<T, 1>,
			 dim3((unsigned)zr_ceil_div(threads, ZR_THREADS)), dim3(ZR_THREADS), 0, s,
			 *op);
}

cudaError_t zr_cuda_attention_delta(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->fwd.dtype, launch_delta, op, s);
}
