/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_hopper.cu - causal attention by products of warpgroups, of compute capability 9.0: bf16
 * and fp16, heads of width 64, 80, 96, 128 and 256; formulas as in cpu/attention.c. A CUDA block is
 * three warpgroups. A thread of the first one brings tiles of keys and of values, each kind to two
 * stages by turns. The other two take 64 queries each, and walk the keys ascending: while tensor
 * cores multiply the values of one tile, threads compute the probabilities of the next. Scores,
 * sums and results are fp32; probabilities are rounded to 16 bits where they enter a product.
 *
 * Heads narrower than their boxes of 64 columns are filled up with zeros by the copy engine, and so
 * is what lies beyond the sequence.
 */
#include "attention_hopper.h"

#define QUERIES (2 * GROUP_ROWS) /* of a CUDA block */
#define STAGES  2

/* Of heads of width D: results, scores and probabilities of two tiles fill the registers. */
template <int D> struct tiling {
	enum {
		KEYS = D > 128 ? 64 : 128,
		QUERY_BYTES = tile_bytes<D>(QUERIES),
		TILE_BYTES = tile_bytes<D>(KEYS),
		ALL_BYTES = QUERY_BYTES + 2 * STAGES * TILE_BYTES,
	};
};

struct mbarriers {
	uint64_t queries, key_full[STAGES], key_empty[STAGES], value_full[STAGES],
		value_empty[STAGES];
};

/* The room of a CUDA block: queries, stages of keys, stages of values. */
template <int D> struct places {
	unsigned char *queries;
	mbarriers *bars;
	ring<STAGES> keys, values;
	ZR_MEMBER explicit places(unsigned char *room)
	{
		using t = tiling<D>;
		unsigned char *first = room + t::QUERY_BYTES;
		queries = room;
		bars = (mbarriers *)(void *)(room + t::ALL_BYTES);
		keys = ring<STAGES>{ first, bars->key_full, bars->key_empty, 0, 0 };
		values = ring<STAGES>{ first + STAGES * t::TILE_BYTES, bars->value_full,
				       bars->value_empty, 0, 0 };
	}
	ZR_MEMBER void begin() const
	{
		zr_mbarrier_init(&bars->queries, 1);
		for (int i = 0; i < STAGES; i++) {
			zr_mbarrier_init(&bars->key_full[i], 1);
			zr_mbarrier_init(&bars->key_empty[i], CONSUMERS);
			zr_mbarrier_init(&bars->value_full[i], 1);
			zr_mbarrier_init(&bars->value_empty[i], CONSUMERS);
		}
		zr_fence_async();
	}
};

struct maps {
	zr_tensor_map q, k, v;
};

/* ---- probabilities --------------------------------------------------------------- */

/* Of rows g and g + 8 of a warp's sixteen: the base of their probabilities, and their sum over the
 * keys of this lane. */
struct row_sums {
	float base[2], sum[2];
};

/* Scores become probabilities. Where that moves bases, results shrink; whether any does in the
 * warp. */
template <int N>
ZR_DEVICE bool soften(row_sums &x, float (&s)[1][N][4], float scale, float (&shrink)[2])
{
	bool any = false;
#pragma unroll
	for (int half = 0; half < 2; half++) {
		float most = s[0][0][2 * half];
#pragma unroll
		for (int n = 0; n < N; n++)
			most = fmaxf(most, fmaxf(s[0][n][2 * half], s[0][n][2 * half + 1]));
		most = row_max(most) * scale;

		const bool raise = most > x.base[half] + ABOVE_BASE;
		const float next = raise ? most : x.base[half];
		shrink[half] = raise ? zr_exp2(x.base[half] - next) : 1;
		x.base[half] = next;
		x.sum[half] *= shrink[half];
		any |= raise;
	}
#pragma unroll
	for (int n = 0; n < N; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			const float base = seen_or_0(x.base[e / 2]);
			s[0][n][e] = zr_exp2(fmaf(s[0][n][e], scale, -base));
			x.sum[e / 2] += s[0][n][e];
		}
	return __ballot_sync(ZR_FULL_WARP, any) != 0;
}

template <int M> ZR_DEVICE void shrink_rows(float (&acc)[M][4], const float (&by)[2])
{
#pragma unroll
	for (int n = 0; n < M; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			acc[n][e] *= by[e / 2];
}

/* ---- a warpgroup's walk ---------------------------------------------------------- */

/* 64 queries from `first` on; tiles [from, to] of those that the CUDA block walks have keys that
 * some of them see, and all see keys from `all` on, but later ones than themselves. */
struct walk {
	int b, h, first, from, to, all;
};

template <int KEYS>
ZR_DEVICE walk walk_of(const struct zr_op_attention &o, const block_head &at, int first)
{
	const int length = (int)o.length, end = first + GROUP_ROWS;
	const int last = (end < length ? end : length) - 1;
	if (first >= length)
		return walk{ at.b, at.h, first, INT32_MAX, -1, 0 };

	const seen_keys seen = keys_seen(o, at.b, first, GROUP_ROWS);
	return walk{ at.b, at.h, first, seen.any / KEYS, last / KEYS, seen.all };
}

/* Probabilities that dropout keeps grow, and others become 0; sums of rows have all of them. Those
 * of this lane begin at query `row` and `key`. */
template <int N>
ZR_DEVICE void drop(const struct zr_op_attention &o, const walk &w, int row, int key,
		    float (&s)[1][N][4])
{
	const float m = keep_scale(o);
#pragma unroll
	for (int from = 0; from < N; from += 8) {
		const uint32_t bits = kept<8>(o, element(o, w.b, w.h, row, key + from * 8),
					      (uint64_t)zr_drop_rows(&o), 1);
#pragma unroll
		for (int n = 0; n < 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				float &p = s[0][from + n][e];
				p = bits >> (4 * n + e) & 1 ? p * m : 0;
			}
	}
}

/* Scores of tile n become probabilities. LARGEST: the largest scores are wanted. */
template <int KIND, bool LARGEST, int N>
ZR_DEVICE bool soften_tile(const struct zr_op_attention &o, const walk &w, int n, row_sums &x,
			   float (&s)[1][N][4], float scale, float (&shrink)[2], float &largest)
{
	const int lane = (int)threadIdx.x % ZR_WARP, warp = (int)threadIdx.x / ZR_WARP % 4;
	const int first = n * N * 8, key = first + lane % 4 * 2,
		  row = w.first + warp * 16 + lane / 4;
	const bool masked = first + N * 8 > w.first + 1 || first < w.all;
	if constexpr (KIND != CAPPED || LARGEST)
		if (masked)
			mask_keys(o, w.b, row, key, s);
	if constexpr (LARGEST)
		largest = larger_of(largest, s);
	if constexpr (KIND == CAPPED) {
		soft_cap(o, s);
		if (masked)
			mask_keys(o, w.b, row, key, s);
	}

	const bool raised = soften(x, s, scale, shrink);
	if constexpr (KIND == DROPS)
		drop(o, w, row, key, s);
	return raised;
}

template <class T, int D>
ZR_DEVICE void store_results(const struct zr_op_attention &o, const walk &w, const row_sums &x,
			     const float (&acc)[D / 8][4])
{
	const int lane = (int)threadIdx.x % ZR_WARP, warp = (int)threadIdx.x / ZR_WARP % 4;
#pragma unroll
	for (int half = 0; half < 2; half++) {
		const int row = w.first + warp * 16 + lane / 4 + 8 * half;
		const float all = row_sum(x.sum[half]);
		if (row >= o.length || row < o.first)
			continue;
		store_row<T, D>((T *)o.out + query_of(o, as_out(o, o.out), w.b, row, w.h), acc,
				half, zr_reciprocal(all));
		if (lane % 4 == 0)
			o.lse[lse_of(o, w.b, w.h, row)] =
				(seen_or_0(x.base[half]) + zr_log2(all)) * LN2;
	}
}

/* Tiles that the other warpgroup needs, before those of this one. Behind its last one there are no
 * more than STAGES, and nobody waits until those are empty. */
ZR_DEVICE void pass_over(ring<STAGES> &keys, ring<STAGES> &values, int tiles)
{
	for (int i = 0; i < tiles; i++) {
		keys.wait();
		keys.release();
		values.wait();
		values.release();
	}
}

/* Walks tiles w.from to w.to, one at least. */
template <class T, int D, int KIND, bool LARGEST>
ZR_DEVICE void walk_keys(const struct zr_op_attention &o, const walk &w, places<D> &at, int row)
{
	constexpr int N = tiling<D>::KEYS / 8, TILE = tiling<D>::TILE_BYTES;
	const float scale = score_unit(o);
	row_sums x = { { -INFINITY, -INFINITY }, { 0, 0 } };
	float acc[D / 8][4], s[1][N][4], shrink[2], largest = 0;
	uint32_t p[N / 2][4];

	zr_mbarrier_wait(&at.bars->queries, 0);
	at.keys.wait();
	zr_products_fence();
	multiply_rows<T, D, QUERIES, N * 8>(s[0], at.queries + row * BOX_ROW,
					    at.keys.tiles + at.keys.stage * TILE);
	zr_products_wait<0>();
	zr_pin(s[0]);
	at.keys.release();
	soften_tile<KIND, LARGEST>(o, w, w.from, x, s, scale, shrink, largest);
	round_pairs<T>(p, s[0]);

	for (int n = w.from + 1; n <= w.to; n++) {
		at.keys.wait();
		zr_pin(s[0]);
		zr_products_fence();
		multiply_rows<T, D, QUERIES, N * 8>(s[0], at.queries + row * BOX_ROW,
						    at.keys.tiles + at.keys.stage * TILE);

		at.values.wait();
		zr_pin(p);
		zr_pin(acc);
		zr_products_fence();
		multiply_columns<T, D, N * 8>(acc, p, at.values.tiles + at.values.stage * TILE,
					      n > w.from + 1);

		zr_products_wait<1>();
		zr_pin(s[0]);
		at.keys.release();
		const bool raised =
			soften_tile<KIND, LARGEST>(o, w, n, x, s, scale, shrink, largest);

		zr_products_wait<0>();
		zr_pin(acc);
		at.values.release();
		if (raised)
			shrink_rows(acc, shrink);
		round_pairs<T>(p, s[0]);
	}

	at.values.wait();
	zr_pin(p);
	zr_pin(acc);
	zr_products_fence();
	multiply_columns<T, D, N * 8>(acc, p, at.values.tiles + at.values.stage * TILE,
				      w.to > w.from);
	zr_products_wait<0>();
	zr_pin(acc);
	at.values.release();
	store_results<T, D>(o, w, x, acc);
	if constexpr (LARGEST)
		raise_largest(o, w.h, largest * o.scale);
}

template <class T, int D, int KIND, bool LARGEST>
static __global__ void __launch_bounds__(BLOCK, 1)
	hopper_kernel(const __grid_constant__ struct zr_op_attention o,
		      const __grid_constant__ struct maps maps)
{
#ifdef ZR_HOPPER
	ZR_ALIGNED_SHARED(room);
	constexpr int KEYS = tiling<D>::KEYS;
	const block_head head = head_of_block(o);
	const int group = (int)threadIdx.x / ZR_WARPGROUP;
	/* the longest walks start first */
	const int i0 = (o.first / QUERIES + (int)(gridDim.x - 1 - blockIdx.x)) * QUERIES;
	const int length = (int)o.length, end = i0 + QUERIES < length ? i0 + QUERIES : length;
	const int from = first_key(o, head.b, i0) / KEYS, to = (end - 1) / KEYS;
	places<D> at(room);

	if (threadIdx.x == 0)
		at.begin();
	__syncthreads();
	if (group == 0) {
		zr_fewer_registers<24>();
		if (threadIdx.x != 0)
			return;
		bring<D, QUERIES>(at.queries, &maps.q, &at.bars->queries, i0 - o.first, head.h,
				  head.b);
		for (int n = from; n <= to; n++) {
			bring_next<D, KEYS>(at.keys, &maps.k, n * KEYS, head.kv, head.b);
			bring_next<D, KEYS>(at.values, &maps.v, n * KEYS, head.kv, head.b);
		}
	} else {
		const int row = (group - 1) * GROUP_ROWS;
		static_assert(QUERIES - GROUP_ROWS <= STAGES * KEYS, "tiles that are not released");
		const walk w = walk_of<KEYS>(o, head, i0 + row);
		zr_more_registers<240>();
		pass_over(at.keys, at.values, (w.from < to + 1 ? w.from : to + 1) - from);
		if (w.from <= w.to)
			walk_keys<T, D, KIND, LARGEST>(o, w, at, row);
	}
#endif
}

/* ---- launches -------------------------------------------------------------------- */

template <class T, int D, int KIND, bool LARGEST>
static cudaError_t launch(const struct zr_op_attention *o, cudaStream_t s)
{
	constexpr int KEYS = tiling<D>::KEYS;
	struct maps maps;

	cudaError_t e = map_heads(&maps.q, o, o->q, o->length - o->first, o->q_stride, o->q_head,
				  o->heads, QUERIES);
	if (e == cudaSuccess)
		e = map_heads(&maps.k, o, o->k, o->length, o->k_stride, o->k_head, o->kv_heads,
			      KEYS);
	if (e == cudaSuccess)
		e = map_heads(&maps.v, o, o->v, o->length, o->v_stride, o->v_head, o->kv_heads,
			      KEYS);
	if (e != cudaSuccess)
		return e;

	return zr_launch_hopper(hopper_kernel<T, D, KIND, LARGEST>,
				attention_grid(o, o->heads, o->first, QUERIES), dim3(BLOCK),
				tiling<D>::ALL_BYTES + sizeof(mbarriers), s, *o, maps);
}

template <class T, int D, int KIND>
static cudaError_t launch_kind(const struct zr_op_attention *o, cudaStream_t s)
{
	return o->max_scores ? launch<T, D, KIND, true>(o, s) : launch<T, D, KIND, false>(o, s);
}

template <class T, int D>
static cudaError_t forward(const struct zr_op_attention *o, cudaStream_t s)
{
	if (o->softcap > 0)
		return launch_kind<T, D, CAPPED>(o, s);
	if (o->dropout > 0)
		return launch_kind<T, D, DROPS>(o, s);
	return launch_kind<T, D, PLAIN>(o, s);
}

int zr_cuda_attention_hopper_takes(const struct zr_op_attention *o)
{
	return zr_cuda_attention_mma_takes(o) && hopper_takes_options(o);
}

cudaError_t zr_cuda_attention_hopper(const struct zr_op_attention *o, cudaStream_t s)
{
	return o->dtype == ZR_BF16 ? BY_WIDTH(o->head_dim, forward, bf16, o, s) :
				     BY_WIDTH(o->head_dim, forward, f16, o, s);
}
