/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_mma_bwd.cu - gradients of causal attention on tensor cores, what attention_mma.cu is to
 * the forward. Two kernels compute scores and their gradients, each in the order that its results
 * are added in: dq_kernel walks the keys of its queries, dkv_kernel the queries of its keys.
 * Gradients of scores are rounded to 16 bits where they enter a product, like probabilities.
 */
#include "attention_mma.h"

/* Keys or queries that a warp takes at once. */
template <int D> ZR_INLINE constexpr int step()
{
	return D > 128 ? 16 : 32;
}

/* Of a tile that is loaded together: several steps, where shared memory holds two blocks of it. */
template <int D> ZR_INLINE constexpr int tile_rows()
{
	return D < 128 ? 2 * step<D>() : step<D>();
}

/* Tiles that walk by: the next one comes while one is computed, where 99 KB have room for both. */
template <int D> ZR_INLINE constexpr int stages()
{
	return D > 128 ? 1 : 2;
}

/* Sixteens of rows that a warp takes: registers hold the results of so many. */
template <int D, bool PLAIN> ZR_INLINE constexpr int sixteens()
{
	return D == 64 && PLAIN ? 2 : 1;
}

/* What the forward and delta left of a query; lse is in units of log2. */
struct left {
	float lse, delta;
};

/* The same of N queries in shared memory, as it was left. */
template <int N> struct lefts {
	float lse[N], delta[N];
	ZR_MEMBER left of(int at) const
	{
		return left{ lse[at] * LOG2E, delta[at] };
	}
	/* Starts to bring it for queries from i0 on; zeros for those that are not there, whose q
	 * and dout are 0 too. */
	ZR_MEMBER void bring(const struct zr_op_attention_bwd &op, int64_t b, int64_t h, int i0)
	{
		const struct zr_op_attention &o = op.fwd;
		const int64_t n = lse_of(o, b, h, i0);
#pragma unroll
		for (int k = 0; k < 2 * N; k += THREADS) {
			const int at = k + (int)threadIdx.x;
			const float *from = (at < N ? o.lse : (const float *)op.work) + n;
			if (2 * N % THREADS == 0 || at < 2 * N)
				zr_copy4(at < N ? &lse[at] : &delta[at - N], from + at % N,
					 i0 + at % N < (int)o.length && i0 + at % N >= o.first);
		}
	}
};

/* Of M times 16 rows, s, of soft_cap or -infinity, becomes m_ij P_ij and dp becomes dS_ij. of(r, n,
 * e) is what is left of the query of number e of column block n of 16 rows r. With dropout, m_ij is
 * m for numbers that `bits` keep, and 0 for others. */
template <bool PLAIN, int N, int M, class F>
ZR_DEVICE void grad_scores(const struct zr_op_attention &o, float (&s)[M][N][4],
			   float (&dp)[M][N][4], float scale, float m, uint32_t bits, const F &of)
{
#pragma unroll
	for (int n = 0; n < N; n++)
#pragma unroll
		for (int r = 0; r < M; r++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				float &x = s[r][n][e], &y = dp[r][n][e];
				const left q = of(r, n, e);
				/* rounding must not let P grow beyond 1 */
				const float p = zr_exp2(zr_smaller(fmaf(x, scale, -q.lse), 0));
				if (PLAIN) {
					x = p;
					y = p * (y - q.delta);
					continue;
				}
				const float slope = o.softcap > 0 ? fmaxf(fmaf(-x, x, 1), 0) : 1;
				const float keep = bits >> (4 * n + e) & 1 ? m : 0;
				x = keep * p;
				y = p * (keep * y - q.delta) * slope;
			}
}

template <class T, int D, bool PLAIN>
static __global__ void __launch_bounds__(THREADS, 2)
	dq_kernel(const __grid_constant__ struct zr_op_attention_bwd op)
{
	ZR_DYNAMIC_SHARED(room);
	constexpr int M = sixteens<D, PLAIN>(), BLOCK = ROWS * M, KEYS = tile_rows<D>(),
		      STEP = step<D>();
	constexpr bool AHEAD = stages<D>() == 2, HELD = D <= 128;
	__shared__ lefts<BLOCK> rows;
	const struct zr_op_attention &o = op.fwd;
	const int warp = (int)threadIdx.x / ZR_WARP, g = (int)threadIdx.x % ZR_WARP / 4,
		  t = (int)threadIdx.x % 4;
	const auto [b, h, kv] = head_of_block(o);
	const int i0 = (o.first / BLOCK + (int)(gridDim.x - 1 - blockIdx.x)) * BLOCK,
		  mine = i0 + warp * 16 * M;
	const int length = (int)o.length, end = i0 + BLOCK < length ? i0 + BLOCK : length;
	const float scale = score_unit(o), m = PLAIN ? 1 : keep_scale(o);
	const int from = first_key(o, b, i0) / KEYS * KEYS;
	const seen_keys seen = keys_seen(o, b, mine, 16 * M);
	rows16<D, HELD> q[M], dout[M];
	float acc[M][D / 8][4] = { { { 0 } } };
	carrier<D> pieces, keys, values;

	rows.bring(op, b, h, i0);
	pieces.start(as_q(o, o.q), query_of(o, as_q(o, o.q), b, i0, h));
	pieces.template bring<BLOCK>(tile_at<D>(room, 0), length - i0, o.first - i0);
	pieces.start(as_out(o, op.dout), query_of(o, as_out(o, op.dout), b, i0, h));
	pieces.template bring<BLOCK>(tile_at<D>(room, BLOCK), length - i0, o.first - i0);
	keys.start(as_k(o, o.k), row_of(o, as_k(o, o.k), b, from, kv));
	values.start(as_v(o, o.v), row_of(o, as_v(o, o.v), b, from, kv));
	keys.template bring<KEYS>(tile_at<D>(room, 2 * BLOCK), length - from);
	values.template bring<KEYS>(tile_at<D>(room, 2 * BLOCK + KEYS), length - from);
#pragma unroll
	for (int r = 0; r < M; r++) {
		q[r].place(tile_at<D>(room, 0), (warp * M + r) * 16);
		dout[r].place(tile_at<D>(room, BLOCK), (warp * M + r) * 16);
	}
	for (int j0 = from, at = 2 * BLOCK, other = 2 * BLOCK + 2 * KEYS; j0 < end; j0 += KEYS) {
		if (!AHEAD && j0 != from) {
			__syncthreads(); /* nobody reads the one before it any more */
			keys.template bring<KEYS>(tile_at<D>(room, at), length - j0);
			values.template bring<KEYS>(tile_at<D>(room, at + KEYS), length - j0);
		}
		zr_copied();
		/* this tile is here, and nobody reads the one before it any more */
		__syncthreads();
		if (HELD && j0 == from)
#pragma unroll
			for (int r = 0; r < M; r++) {
				q[r].hold();
				dout[r].hold();
			}
		if (AHEAD && j0 + KEYS < end) {
			keys.template bring<KEYS>(tile_at<D>(room, other), length - j0 - KEYS);
			values.template bring<KEYS>(tile_at<D>(room, other + KEYS),
						    length - j0 - KEYS);
		}
#pragma unroll 1
		for (int part = 0; part < KEYS; part += STEP) {
			const tile<D> k = tile_at<D>(room, at + part),
				      v = tile_at<D>(room, at + KEYS + part);
			const int j = j0 + part;
			float s[M][STEP / 8][4] = { { { 0 } } }, dp[M][STEP / 8][4] = { { { 0 } } };
			uint32_t bits = 0;
			/* a whole warp: no query of it sees any of these keys */
			if (j >= mine + 16 * M || j + STEP <= seen.any)
				continue;
			add_scores<T>(s, q, k);
			if constexpr (!PLAIN)
				soft_cap(o, s);
			if (j + STEP > mine + 1 || j < seen.all)
				mask_keys(o, b, mine + g, j + 2 * t, s);
			add_scores<T>(dp, dout, v);
			if constexpr (!PLAIN)
				bits = kept<STEP / 8>(o, element(o, b, h, mine + g, j + 2 * t),
						      (uint64_t)zr_drop_rows(&o), 1);
			const auto of = [&](int r, int, int e) {
				return rows.of(warp * 16 * M + r * 16 + g + e / 2 * 8);
			};
			grad_scores<PLAIN>(o, s, dp, scale, m, bits, of);
			add_rows<T, D>(acc, dp, k);
		}
		if (AHEAD) {
			other = at;
			at = 4 * BLOCK + 2 * KEYS - at;
		}
	}
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int half = 0; half < 2; half++) {
			const int row = mine + r * 16 + g + 8 * half;
			if (row >= o.first && row < length)
				store_row<T, D>((T *)op.dq + query_of(o, as_q(o, op.dq), b, row, h),
						acc[r], half, o.scale);
		}
}

/* A row is a key: scores are transposed. The queries of all heads that read it. DK, DV: which
 * gradients; registers do not hold both of the widest heads. */
template <class T, int D, bool PLAIN, bool DK, bool DV>
static __global__ void __launch_bounds__(THREADS, 2)
	dkv_kernel(const __grid_constant__ struct zr_op_attention_bwd op)
{
	ZR_DYNAMIC_SHARED(room);
	constexpr int M = sixteens<D, PLAIN>(), BLOCK = ROWS * M, QUERIES = tile_rows<D>(),
		      STEP = step<D>();
	constexpr bool AHEAD = stages<D>() == 2;
	constexpr bool HELD = M == 1 && D < 96; /* else registers are short */
	__shared__ lefts<QUERIES> of_tile[2];
	__shared__ int starts[2][QUERIES]; /* of the queries' documents */
	const struct zr_op_attention &o = op.fwd;
	const int warp = (int)threadIdx.x / ZR_WARP, g = (int)threadIdx.x % ZR_WARP / 4,
		  t = (int)threadIdx.x % 4;
	const unsigned heads = (unsigned)o.kv_heads;
	const int share = (int)((unsigned)o.heads / heads), b = (int)(blockIdx.y / heads),
		  kv = (int)(blockIdx.y % heads);
	const int first_h = kv * share, end_h = first_h + share;
	const int j0 = (int)blockIdx.x * BLOCK, mine = j0 + warp * 16 * M, length = (int)o.length;
	const int from = first_tile_of_queries(o, j0, QUERIES),
		  end = end_of_walk(o, b, from, j0 + BLOCK, QUERIES);
	const float scale = score_unit(o), m = PLAIN ? 1 : keep_scale(o);
	rows16<D, HELD> k[M], v[M];
	float dk[DK ? M : 1][DK ? D / 8 : 1][4] = { { { 0 } } };
	float dv[DV ? M : 1][DV ? D / 8 : 1][4] = { { { 0 } } };
	carrier<D> pieces;

	const auto bring = [&](int stage, int h, int i0) {
		const tile<D> to = tile_at<D>(room, 2 * BLOCK + stage * 2 * QUERIES);
		pieces.start(as_q(o, o.q), query_of(o, as_q(o, o.q), b, i0, h));
		pieces.template bring<QUERIES>(to, length - i0, o.first - i0);
		pieces.start(as_out(o, op.dout), query_of(o, as_out(o, op.dout), b, i0, h));
		pieces.template bring<QUERIES>(to.from(QUERIES), length - i0, o.first - i0);
		of_tile[stage].bring(op, b, h, i0);
		if (o.starts && (int)threadIdx.x < QUERIES)
			zr_copy4(&starts[stage][threadIdx.x],
				 o.starts + b * o.length + i0 + threadIdx.x,
				 i0 + (int)threadIdx.x < length);
	};

	pieces.start(as_k(o, o.k), row_of(o, as_k(o, o.k), b, j0, kv));
	pieces.template bring<BLOCK>(tile_at<D>(room, 0), length - j0);
	if constexpr (DK) {
		pieces.start(as_v(o, o.v), row_of(o, as_v(o, o.v), b, j0, kv));
		pieces.template bring<BLOCK>(tile_at<D>(room, BLOCK), length - j0);
	}
	if (!o.starts && (int)threadIdx.x < QUERIES)
		starts[0][threadIdx.x] = starts[1][threadIdx.x] = 0;
	bring(0, first_h, from);
#pragma unroll
	for (int r = 0; r < M; r++) {
		k[r].place(tile_at<D>(room, 0), (warp * M + r) * 16);
		v[r].place(tile_at<D>(room, BLOCK), (warp * M + r) * 16);
	}
	for (int h = first_h, i0 = from, stage = 0; h < end_h; stage ^= AHEAD) {
		const tile<D> tiles = tile_at<D>(room, 2 * BLOCK + stage * 2 * QUERIES);
		const lefts<QUERIES> &now = of_tile[stage];
		const auto first = [&](int i) { return first_since(o, starts[stage][i - i0], i); };
		const int next = i0 + QUERIES < end ? i0 + QUERIES : from,
			  next_h = next == from ? h + 1 : h;
		if (!AHEAD && (i0 != from || h != first_h)) {
			__syncthreads(); /* nobody reads those before them any more */
			bring(0, h, i0);
		}
		zr_copied();
		/* these queries are here, and nobody reads those before them any more */
		__syncthreads();
		if (HELD && i0 == from && h == first_h)
#pragma unroll
			for (int r = 0; r < M; r++) {
				k[r].hold();
				v[r].hold();
			}
		if (AHEAD && next_h < end_h)
			bring(stage ^ 1, next_h, next);
#pragma unroll 1
		for (int part = 0; part < QUERIES; part += STEP) {
			const tile<D> q = tiles.from(part), dout = tiles.from(QUERIES + part);
			const int i = i0 + part, last = (i + STEP < length ? i + STEP : length) - 1;
			float s[M][STEP / 8][4] = { { { 0 } } }, dp[M][STEP / 8][4] = { { { 0 } } };
			uint32_t bits = 0;
			/* a whole warp: no query of these sees any of its keys */
			if (i >= length || last < mine || first(i) >= mine + 16 * M)
				continue;
			add_scores<T>(s, k, q);
			if constexpr (!PLAIN)
				soft_cap(o, s);
			if (i < mine + 16 * M - 1 || first(last) > mine)
				mask(s, [&](int r, int c, int e) {
					const int query = i + c * 8 + 2 * t + e % 2,
						  key = mine + r * 16 + g + e / 2 * 8;
					return (key <= query) & (key >= first(query));
				});
			if constexpr (DK)
				add_scores<T>(dp, v, dout);
			if constexpr (!PLAIN)
				bits = kept<STEP / 8>(o, element(o, b, h, i + 2 * t, mine + g), 1,
						      (uint64_t)zr_drop_rows(&o));
			const auto of = [&](int, int c, int e) {
				return now.of(part + c * 8 + 2 * t + e % 2);
			};
			grad_scores<PLAIN>(o, s, dp, scale, m, bits, of);
			if constexpr (DV)
				add_rows<T, D>(dv, s, dout);
			if constexpr (DK)
				add_rows<T, D>(dk, dp, q);
		}
		h = next_h;
		i0 = next;
	}
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int half = 0; half < 2; half++) {
			const int row = mine + r * 16 + g + 8 * half;
			if (row >= length)
				continue;
			if constexpr (DK)
				store_key<T, D>(o, o.key_sums, 0, as_k(o, op.dk), b, row, kv, dk[r],
						half, o.scale);
			if constexpr (DV)
				store_key<T, D>(o, o.key_sums, 1, as_v(o, op.dv), b, row, kv, dv[r],
						half, 1);
		}
}

template <class T, int D, bool PLAIN>
static cudaError_t launch(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	constexpr int rows = ROWS * sixteens<D, PLAIN>();
	constexpr size_t shared =
		(2 * rows + 2 * stages<D>() * tile_rows<D>()) * tile<D>::STRIDE * 2;
	const struct zr_op_attention *o = &op->fwd;
	cudaError_t e = zr_launch(dq_kernel<T, D, PLAIN>,
				  attention_grid(o, o->heads, o->first, rows), dim3(THREADS),
				  shared, s, *op);
	if (e != cudaSuccess)
		return e;
	const dim3 grid = attention_grid(o, o->kv_heads, 0, rows);
	if constexpr (D <= 128)
		return zr_launch(dkv_kernel<T, D, PLAIN, true, true>, grid, dim3(THREADS), shared,
				 s, *op);
	e = zr_launch(dkv_kernel<T, D, PLAIN, false, true>, grid, dim3(THREADS), shared, s, *op);
	if (e != cudaSuccess)
		return e;
	return zr_launch(dkv_kernel<T, D, PLAIN, true, false>, grid, dim3(THREADS), shared, s, *op);
}

template <class T, int D>
static cudaError_t backward(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	return attention_is_plain(&op->fwd) ? launch<T, D, true>(op, s) :
					      launch<T, D, false>(op, s);
}

int zr_cuda_attention_mma_takes_bwd(const struct zr_op_attention_bwd *op)
{
	const struct zr_op_attention *o = &op->fwd;
	return zr_cuda_attention_mma_takes(o) && (uintptr_t)o->key_sums % 8 == 0 &&
	       attention_pieces(op->dout, o->out_stride, 0) &&
	       attention_pieces(op->dq, o->q_stride, o->q_head) &&
	       attention_pieces(op->dk, o->k_stride, o->k_head) &&
	       attention_pieces(op->dv, o->v_stride, o->v_head);
}

cudaError_t zr_cuda_attention_mma_bwd(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	return op->fwd.dtype == ZR_BF16 ? BY_WIDTH(op->fwd.head_dim, backward, bf16, op, s) :
					  BY_WIDTH(op->fwd.head_dim, backward, f16, op, s);
}
