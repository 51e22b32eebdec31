/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_mma.cu - causal attention on tensor cores: bf16 and fp16, heads of width 64, 80, 96, 128
 * and 256; formulas as in cpu/attention.c. A CUDA block is four warps; a warp takes 16 or 32 queries,
 * holds them in registers where those suffice, and walks the keys in tiles that the block loads
 * into shared memory together: one tile arrives while the one before is computed. Only a tile that
 * holds keys which some of a warp's queries do not see is masked. Scores, sums and results are
 * fp32; probabilities are rounded to 16 bits, to the nearest even, where they enter a product.
 */
#include "attention_mma.h"

/* Sixteens of queries that a warp takes, and keys of a tile: registers hold so many results and
 * scores, if there is no generator beside them. */
template <int D, bool PLAIN> ZR_INLINE constexpr int sixteens()
{
	return PLAIN && D <= 128 ? 2 : 1;
}

template <int D> ZR_INLINE constexpr int tile_keys()
{
	if (D > 128)
		return 16;
	return D < 128 ? 64 : 32;
}

/* What a warp has of its rows: sum of probabilities times values, their base and their sum over
 * the keys of this lane. */
template <int D, int M> struct results {
	float acc[M][D / 8][4], base[M][2], sum[M][2];
};

/* Moves the bases of rows of which a score is far above. */
template <int D, int M, int N>
ZR_DEVICE void raise_bases(results<D, M> &x, const float (&s)[M][N][4], float scale)
{
	float next[M][2];
	bool any = false;
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int half = 0; half < 2; half++) {
			float most = s[r][0][2 * half];
#pragma unroll
			for (int n = 0; n < N; n++)
#pragma unroll
				for (int e = 2 * half; e < 2 * half + 2; e++)
					most = fmaxf(most, s[r][n][e]);
			most = row_max(most) * scale;
			const bool raise = most > x.base[r][half] + ABOVE_BASE;
			next[r][half] = raise ? most : x.base[r][half];
			any |= raise;
		}
	if (!__ballot_sync(ZR_FULL_WARP, any))
		return;
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int half = 0; half < 2; half++) {
			const float shrink = zr_exp2(x.base[r][half] - seen_or_0(next[r][half]));
			x.base[r][half] = next[r][half];
			x.sum[r][half] *= shrink;
#pragma unroll
			for (int n = 0; n < D / 8; n++) {
				x.acc[r][n][2 * half] *= shrink;
				x.acc[r][n][2 * half + 1] *= shrink;
			}
		}
}

/* Scores become probabilities above the bases. With dropout, those that `bits` keep are multiplied
 * by m, and the others are 0. */
template <bool PLAIN, int D, int M, int N>
ZR_DEVICE void soften(results<D, M> &x, float (&s)[M][N][4], float scale, float m,
		      const uint32_t (&bits)[M])
{
	raise_bases(x, s, scale);
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				const float base = seen_or_0(x.base[r][e / 2]);
				const float p = zr_exp2(fmaf(s[r][n][e], scale, -base));
				x.sum[r][e / 2] += p;
				s[r][n][e] = PLAIN ? p : bits[r] >> (4 * n + e) & 1 ? p * m : 0;
			}
}

/* LARGEST: the largest scores are wanted. A thread keeps its own in shared memory, behind the tiles:
 * there is no register left. */
template <class T, int D, bool PLAIN, bool LARGEST>
static __global__ void __launch_bounds__(THREADS, 2)
	forward_kernel(const __grid_constant__ struct zr_op_attention o)
{
	ZR_DYNAMIC_SHARED(room);
	constexpr int M = sixteens<D, PLAIN>(), BLOCK = ROWS * M, KEYS = tile_keys<D>();
	const tile<D> q = tile_at<D>(room, 0);
	const int warp = (int)threadIdx.x / ZR_WARP, g = (int)threadIdx.x % ZR_WARP / 4,
		  t = (int)threadIdx.x % 4;
	const auto [b, h, kv] = head_of_block(o);
	/* the longest walks start first */
	const int i0 = (o.first / BLOCK + (int)(gridDim.x - 1 - blockIdx.x)) * BLOCK,
		  mine = i0 + warp * 16 * M;
	const int length = (int)o.length, end = i0 + BLOCK < length ? i0 + BLOCK : length;
	const float scale = score_unit(o), m = PLAIN ? 1 : keep_scale(o);
	rows16<D, PLAIN && D == 64> a[M];
	const int from = first_key(o, b, i0) / KEYS * KEYS;
	const seen_keys seen = keys_seen(o, b, mine, 16 * M);
	results<D, M> x = {};
	float *const largest = (float *)(void *)tile_at<D>(room, BLOCK + 4 * KEYS).x + threadIdx.x;
	carrier<D> queries, keys, values;

	if constexpr (LARGEST)
		*largest = 0;
#pragma unroll
	for (int r = 0; r < M; r++) {
		x.base[r][0] = x.base[r][1] = -INFINITY;
		a[r].place(q, (warp * M + r) * 16);
	}
	queries.start(as_q(o, o.q), query_of(o, as_q(o, o.q), b, i0, h));
	keys.start(as_k(o, o.k), row_of(o, as_k(o, o.k), b, from, kv));
	values.start(as_v(o, o.v), row_of(o, as_v(o, o.v), b, from, kv));
	queries.template bring<BLOCK>(q, length - i0, o.first - i0);
	keys.template bring<KEYS>(tile_at<D>(room, BLOCK), length - from);
	values.template bring<KEYS>(tile_at<D>(room, BLOCK + KEYS), length - from);
	for (int j0 = from, at = BLOCK, other = BLOCK + 2 * KEYS; j0 < end; j0 += KEYS) {
		const tile<D> k = tile_at<D>(room, at), v = tile_at<D>(room, at + KEYS);
		float s[M][KEYS / 8][4] = { { { 0 } } };
		uint32_t bits[M] = { 0 };
		zr_copied();
		/* this tile is here, and nobody reads the one before it any more */
		__syncthreads();
		if (j0 == from)
#pragma unroll
			for (int r = 0; r < M; r++)
				a[r].hold();
		if (j0 + KEYS < end) {
			keys.template bring<KEYS>(tile_at<D>(room, other), length - j0 - KEYS);
			values.template bring<KEYS>(tile_at<D>(room, other + KEYS),
						    length - j0 - KEYS);
		}
		other = at;
		at = 2 * BLOCK + 2 * KEYS - at;
		/* a whole warp: these keys come after its queries, or before its first one's */
		if (j0 >= mine + 16 * M || j0 + KEYS <= seen.any)
			continue;
		const bool masked = j0 + KEYS > mine + 1 || j0 < seen.all;
		add_scores<T>(s, a, k);
		if constexpr (PLAIN || LARGEST)
			if (masked)
				mask_keys(o, b, mine + g, j0 + 2 * t, s);
		if constexpr (LARGEST)
			*largest = larger_of(*largest, s);
		if constexpr (!PLAIN) {
			soft_cap(o, s);
			if (masked)
				mask_keys(o, b, mine + g, j0 + 2 * t, s);
			bits[0] = kept<KEYS / 8>(o, element(o, b, h, mine + g, j0 + 2 * t),
						 (uint64_t)zr_drop_rows(&o), 1);
		}
		soften<PLAIN>(x, s, scale, m, bits);
		add_rows<T, D>(x.acc, s, v);
	}
	if constexpr (LARGEST)
		raise_largest(o, h, *largest * o.scale);
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int half = 0; half < 2; half++) {
			const int row = mine + r * 16 + g + 8 * half;
			const float all = row_sum(x.sum[r][half]);
			if (row >= length || row < o.first)
				continue;
			store_row<T, D>((T *)o.out + query_of(o, as_out(o, o.out), b, row, h),
					x.acc[r], half, zr_reciprocal(all));
			if (t == 0)
				o.lse[lse_of(o, b, h, row)] =
					(seen_or_0(x.base[r][half]) + zr_log2(all)) * LN2;
		}
}

template <class T, int D, bool PLAIN, bool LARGEST>
static cudaError_t launch(const struct zr_op_attention *o, cudaStream_t s)
{
	constexpr int rows = ROWS * sixteens<D, PLAIN>();
	constexpr size_t tiles = (rows + 4 * tile_keys<D>()) * tile<D>::STRIDE * 2;
	return zr_launch(forward_kernel<T, D, PLAIN, LARGEST>,
			 attention_grid(o, o->heads, o->first, rows), dim3(THREADS),
			 tiles + (LARGEST ? THREADS * sizeof(float) : 0), s, *o);
}

template <class T, int D>
static cudaError_t forward(const struct zr_op_attention *o, cudaStream_t s)
{
	const bool plain = attention_is_plain(o);
	if (!o->max_scores)
		return plain ? launch<T, D, true, false>(o, s) : launch<T, D, false, false>(o, s);
	return plain ? launch<T, D, true, true>(o, s) : launch<T, D, false, true>(o, s);
}

int zr_cuda_attention_mma_takes(const struct zr_op_attention *o)
{
	return (o->dtype == ZR_BF16 || o->dtype == ZR_F16) && o->length < 1 << 24 &&
	       (o->head_dim == 64 || o->head_dim == 80 || o->head_dim == 96 || o->head_dim == 128 ||
		o->head_dim == 256) &&
	       o->scale > 0 && attention_pieces(o->q, o->q_stride, o->q_head) &&
	       attention_pieces(o->k, o->k_stride, o->k_head) &&
	       attention_pieces(o->v, o->v_stride, o->v_head) &&
	       attention_pieces(o->out, o->out_stride, 0);
}

cudaError_t zr_cuda_attention_mma(const struct zr_op_attention *o, cudaStream_t s)
{
	return o->dtype == ZR_BF16 ? BY_WIDTH(o->head_dim, forward, bf16, o, s) :
				     BY_WIDTH(o->head_dim, forward, f16, o, s);
}
