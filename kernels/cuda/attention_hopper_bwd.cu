/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_hopper_bwd.cu - gradients of causal attention by products of warpgroups, what
 * attention_hopper.cu is to the forward. A CUDA block takes 128 keys, 64 for each of the two
 * warpgroups that compute, and walks the queries that see them, of all heads that read them. Scores
 * are transposed, a row is a key: probabilities and gradients of scores, rounded to 16 bits, are
 * operands from registers for the gradients of values and keys. Gradients of scores go to shared
 * memory too, where both warpgroups multiply them by all 128 keys: that is the CUDA block's part of
 * the gradients of a tile of queries.
 *
 * Parts of a tile are added in fp32 in global memory, by the copy engine, in descending order of
 * keys: the order says the same for every slice of the sequence. The first one has the diagonal and
 * waits for nobody; each other one comes a step behind the one before it. Whoever is waited for has
 * drawn its keys earlier. A last kernel rounds the sums.
 *
 * In the first warpgroup each warp has a task of its own: to bring queries, to bring what the
 * forward left of them, to send sums, to bring gradients of results.
 *
 * Registers do not hold the gradients of both keys and values of heads of width 256: there a second
 * kernel computes those of values.
 */
#include "attention_hopper.h"

#define KEYS (2 * GROUP_ROWS) /* of a CUDA block */

/* Of heads of width D; DK: gradients of keys and queries, DV: of values. */
template <int D, bool DK, bool DV> struct bwd_shape {
	enum {
		QUERIES = D > 64 ? 64 : 128, /* of a tile */
		STAGES = D > 128 && DK ? 1 : 2,
		SCORES = D > 128 ? 1 : 2,          /* tiles of gradients of scores */
		SUM_WIDTH = D > 128 ? 128 : 64,    /* columns of a warpgroup's sums of queries */
		PARTS = D > 128 ? 4 : 1,           /* in which they are sent */
		SUMS = 2 * GROUP_ROWS * SUM_WIDTH, /* floats, of a tile of queries */
		/* where the second warpgroup's sums begin: other queries, or other columns */
		SUM_ROWS_APART = D > 64 ? 0 : GROUP_ROWS,
		SUM_COLUMNS_APART = D > 64 ? SUM_WIDTH : 0,
		KEY_BYTES = tile_bytes<D>(KEYS),
		QUERY_BYTES = tile_bytes<D>(QUERIES),
		SCORE_BYTES = KEYS * QUERIES * 2,
		PART_BYTES = SUMS / PARTS * 4,
	};
};

/* What is left of the queries of a tile: lse in units of log2, dout . out, the first key that each
 * attends to. */
template <int N> struct bwd_left {
	float lse[N], delta[N];
	int first[N];
};

/* The keys of a CUDA block: tile n of head kv of batch entry b, from key j0 on; for each of the
 * heads from first_h on the queries [from, end) see some. */
struct key_tile {
	int b, kv, n, j0, first_h, end_h, from, end;
};

template <class S> struct bwd_tail {
	uint64_t keys, values, query_full[S::STAGES], query_empty[S::STAGES], dout_full[S::STAGES],
		dout_empty[S::STAGES], sums_full, sums_empty;
	bwd_left<S::QUERIES> left[S::STAGES];
	key_tile tile;
};

/* The room of a CUDA block. */
template <int D, bool DK, bool DV> struct bwd_room {
	using shape = bwd_shape<D, DK, DV>;
	using tail = bwd_tail<shape>;
	enum {
		QUERIES_AT = (DK ? 2 : 1) * shape::KEY_BYTES,
		DOUT_AT = QUERIES_AT + shape::STAGES * shape::QUERY_BYTES,
		SCORES_AT = DOUT_AT + shape::STAGES * shape::QUERY_BYTES,
		SUMS_AT = SCORES_AT + (DK ? shape::SCORES * shape::SCORE_BYTES : 0),
		TAIL_AT = SUMS_AT + (DK ? shape::PART_BYTES : 0),
		ALL_BYTES = TAIL_AT + sizeof(tail),
	};
	unsigned char *keys, *values, *scores;
	tail *x;
	ring<shape::STAGES> queries, dout;
	ring<1> sums;
	ZR_MEMBER explicit bwd_room(unsigned char *room)
	{
		static_assert(ALL_BYTES <= ZR_HOPPER_SHARED, "more than a CUDA block may have");
		keys = room;
		values = room + shape::KEY_BYTES;
		scores = room + SCORES_AT;
		x = (tail *)(void *)(room + TAIL_AT);
		queries = ring<shape::STAGES>{ room + QUERIES_AT, x->query_full, x->query_empty, 0,
					       0 };
		dout = ring<shape::STAGES>{ room + DOUT_AT, x->dout_full, x->dout_empty, 0, 0 };
		sums = ring<1>{ room + SUMS_AT, &x->sums_full, &x->sums_empty, 0, 0 };
	}
	ZR_MEMBER void begin() const
	{
		zr_mbarrier_init(&x->keys, 1);
		zr_mbarrier_init(&x->values, 1);
		zr_mbarrier_init(&x->sums_full, CONSUMERS);
		zr_mbarrier_init(&x->sums_empty, 1);
		for (int i = 0; i < shape::STAGES; i++) {
			zr_mbarrier_init(&x->query_full[i], 1 + ZR_WARP);
			zr_mbarrier_init(&x->query_empty[i], CONSUMERS);
			zr_mbarrier_init(&x->dout_full[i], 1);
			zr_mbarrier_init(&x->dout_empty[i], CONSUMERS);
		}
		zr_fence_async();
	}
};

struct bwd_maps {
	zr_tensor_map q, k, v, dout;
};

/* Sums that a thread has of a block of 8 columns: two of a row, two of the row 8 below. */
struct alignas(16) thread_sums {
	float x[4];
};

/* In global memory: of each head the sums of its tiles of queries, and whose turn each tile is. */
struct query_sums {
	float *x;
	unsigned *turns, *drawn;
	int tiles; /* of a head */
};

/* Of heads one after the other, the last keys first. */
template <int QUERIES>
ZR_DEVICE key_tile key_tile_of(const struct zr_op_attention &o, unsigned drawn)
{
	const unsigned tiles = ((unsigned)o.length + KEYS - 1) / KEYS, heads = (unsigned)o.kv_heads;
	const int share = (int)((unsigned)o.heads / heads);
	key_tile w;

	w.n = (int)(tiles - 1 - drawn % tiles);
	w.b = (int)(drawn / tiles / heads);
	w.kv = (int)(drawn / tiles % heads);
	w.j0 = w.n * KEYS;
	w.first_h = w.kv * share;
	w.end_h = w.first_h + share;
	w.from = first_tile_of_queries(o, w.j0, QUERIES);
	w.end = end_of_walk(o, w.b, w.from, w.j0 + KEYS, QUERIES);
	return w;
}

/* f(head, first query of the tile), of each tile that the CUDA block walks. */
template <int QUERIES, class F> ZR_DEVICE void walk_queries(const key_tile &w, const F &f)
{
	for (int h = w.first_h; h < w.end_h; h++)
		for (int i0 = w.from; i0 < w.end; i0 += QUERIES)
			f(h, i0);
}

/* ---- the first warpgroup --------------------------------------------------------- */

template <int D, bool DK, bool DV>
ZR_DEVICE void bring_queries(const struct zr_op_attention &o, const bwd_maps &maps,
			     const key_tile &w, bwd_room<D, DK, DV> &at)
{
	constexpr int QUERIES = bwd_shape<D, DK, DV>::QUERIES;
	const int absent = o.first;

	bring<D, KEYS>(at.keys, &maps.k, &at.x->keys, w.j0, w.kv, w.b);
	walk_queries<QUERIES>(w, [&](int h, int i0) {
		bring_next<D, QUERIES>(at.queries, &maps.q, i0 - absent, h, w.b);
	});
}

template <int D, bool DK, bool DV>
ZR_DEVICE void bring_dout(const struct zr_op_attention &o, const bwd_maps &maps, const key_tile &w,
			  bwd_room<D, DK, DV> &at)
{
	constexpr int QUERIES = bwd_shape<D, DK, DV>::QUERIES;
	const int absent = o.first;

	if constexpr (DK)
		bring<D, KEYS>(at.values, &maps.v, &at.x->values, w.j0, w.kv, w.b);
	walk_queries<QUERIES>(w, [&](int h, int i0) {
		bring_next<D, QUERIES>(at.dout, &maps.dout, i0 - absent, h, w.b);
	});
}

/* A warp. Of queries that are not there, whose q and dout are 0, zeros. */
template <int D, bool DK, bool DV>
ZR_DEVICE void bring_left(const struct zr_op_attention_bwd &op, const key_tile &w,
			  bwd_room<D, DK, DV> &at)
{
	constexpr int QUERIES = bwd_shape<D, DK, DV>::QUERIES;
	const struct zr_op_attention &o = op.fwd;
	const float *const delta = (const float *)op.work;
	const int lane = (int)threadIdx.x % ZR_WARP;

	walk_queries<QUERIES>(w, [&](int h, int i0) {
		bwd_left<QUERIES> &x = at.x->left[at.queries.stage];
		at.queries.wait_empty();
		for (int k = lane; k < QUERIES; k += ZR_WARP) {
			const int i = i0 + k;
			const bool there = i >= o.first && i < (int)o.length;
			const int64_t n = lse_of(o, w.b, h, i);
			x.lse[k] = there ? o.lse[n] * LOG2E : 0;
			x.delta[k] = there ? delta[n] : 0;
			x.first[k] = first_key(o, w.b, i);
		}
		zr_mbarrier_arrive(&at.queries.full[at.queries.stage]);
		at.queries.next();
	});
}

/* A thread: in its turn, which the number of later tiles of keys says that the queries see. */
template <int D, bool DK, bool DV>
ZR_DEVICE void send_sums(const struct zr_op_attention &o, const query_sums &to, const key_tile &w,
			 bwd_room<D, DK, DV> &at)
{
	using t = bwd_shape<D, DK, DV>;
	const int length = (int)o.length;

	walk_queries<t::QUERIES>(w, [&](int h, int i0) {
		const int end = i0 + t::QUERIES < length ? i0 + t::QUERIES : length;
		const unsigned turn = (unsigned)((end - 1) / KEYS - w.n);
		const int64_t tile = (int64_t)(w.b * (int)o.heads + h) * to.tiles +
				     i0 / t::QUERIES - o.first / t::QUERIES;
		for (int part = 0; part < t::PARTS; part++) {
			at.sums.wait();
			if (part == 0 && turn > 0) {
				zr_wait_turn(&to.turns[tile], turn);
				zr_fence_async_global();
			}
			zr_send_floats(to.x + tile * t::SUMS + part * (t::PART_BYTES / 4),
				       at.sums.tiles, t::PART_BYTES, turn > 0);
			zr_sends_commit();
			zr_sends_read<0>();
			zr_mbarrier_arrive(at.sums.empty);
			at.sums.next();
		}
		zr_sends_wait<0>();
		zr_pass_turn(&to.turns[tile], turn + 1);
	});
}

/* ---- the other warpgroups -------------------------------------------------------- */

/* Scores of queries from i0 + part on become -infinity where the query does not attend to the key.
 * The warpgroup's first key is `key`. */
template <int QUERIES, int N>
ZR_DEVICE void mask_queries(const bwd_left<QUERIES> &x, int key, int i0, int part,
			    float (&s)[1][N][4])
{
	const int lane = (int)threadIdx.x % ZR_WARP, warp = (int)threadIdx.x / ZR_WARP % 4;
	const int at = part + lane % 4 * 2, j = key + warp * 16 + lane / 4;
	mask(s, [&](int, int n, int e) {
		const int query = at + n * 8 + e % 2, other = j + e / 2 * 8;
		return (other <= i0 + query) & (other >= x.first[query]);
	});
}

/* Of dropout: what kept probabilities are multiplied by, and which of a lane's numbers are kept, as
 * kept() says it. */
struct dropping {
	float m;
	uint32_t bits;
	ZR_MEMBER float keep(int n, int e) const
	{
		return bits >> (4 * n + e) & 1 ? m : 0;
	}
};

/* Scores become probabilities, which are rounded to p; what s holds then is what turns dP - delta
 * into dS. */
template <class T, int KIND, int QUERIES, int N>
ZR_DEVICE void soften_queries(const bwd_left<QUERIES> &x, int part, float (&s)[1][N][4],
			      uint32_t (&p)[N / 2][4], float scale, const dropping &d)
{
	const float *const lse = x.lse + part + threadIdx.x % 4 * 2;
#pragma unroll
	for (int k = 0; k < N / 2; k++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int n = 2 * k + i / 2, e0 = i % 2 * 2;
			float *const pair = &s[0][n][e0];
			float slope[2];
#pragma unroll
			for (int e = 0; e < 2; e++) {
				/* rounding must not let P grow beyond 1 */
				const float up = fmaf(pair[e], scale, -lse[n * 8 + e]);
				slope[e] = KIND == CAPPED ? fmaxf(fmaf(-pair[e], pair[e], 1), 0) :
							    1;
				pair[e] = zr_exp2(zr_smaller(up, 0));
			}
			if constexpr (KIND == DROPS)
				p[k][i] = zr_pair(pair[0] * d.keep(n, e0),
						  pair[1] * d.keep(n, e0 + 1), T());
			else
				p[k][i] = zr_pair(pair[0], pair[1], T());
			if constexpr (KIND == CAPPED) {
				pair[0] *= slope[0];
				pair[1] *= slope[1];
			}
		}
}

/* The same, with soft cap and masks. */
template <class T, int KIND, int QUERIES, int N>
ZR_DEVICE void soften_tile(const struct zr_op_attention &o, const bwd_left<QUERIES> &x, int key,
			   int i0, int part, float (&s)[1][N][4], uint32_t (&p)[N / 2][4],
			   const dropping &d)
{
	const int i = i0 + part, end = i + N * 8 < (int)o.length ? i + N * 8 : (int)o.length;
	if constexpr (KIND == CAPPED)
		soft_cap(o, s);
	if (i < key + GROUP_ROWS - 1 || x.first[end - 1 - i0] > key)
		mask_queries(x, key, i0, part, s);
	soften_queries<T, KIND>(x, part, s, p, score_unit(o), d);
}

/* dP becomes dS. */
template <int KIND, int QUERIES, int N>
ZR_DEVICE void grad_queries(const bwd_left<QUERIES> &x, int part, const float (&s)[1][N][4],
			    float (&dp)[N][4], const dropping &d)
{
	const float *const delta = x.delta + part + threadIdx.x % 4 * 2;
#pragma unroll
	for (int n = 0; n < N; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			const float y = KIND == DROPS ? d.keep(n, e) * dp[n][e] : dp[n][e];
			dp[n][e] = s[0][n][e] * (y - delta[n * 8 + e % 2]);
		}
}

/* To shared memory, a box of 64 queries with a row for each key; `row` is the warpgroup's first
 * key. */
template <int N> ZR_DEVICE void store_scores(unsigned char *to, int row, const uint32_t (&ds)[N][4])
{
	const int lane = (int)threadIdx.x % ZR_WARP, warp = (int)threadIdx.x / ZR_WARP % 4;
	unsigned char *const own = to + (row + warp * 16 + lane / 4) * BOX_ROW + lane % 4 * 4;
#pragma unroll
	for (int k = 0; k < N; k++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int piece = 2 * k + i / 2; /* of 8 queries */
			const int at = i % 2 * EIGHT + (piece ^ lane / 4) * 16;
			zr_store_for_async((uint32_t *)(void *)(own + at), ds[k][i]);
		}
}

/* The CUDA block's part of the gradients of queries, without their scale: of heads of width 64 a
 * warpgroup has 64 queries, and otherwise columns of all. */
template <class T, int D, int N>
ZR_DEVICE void multiply_scores(float (&sums)[N][4], const unsigned char *scores,
			       const unsigned char *keys, int group)
{
	using t = bwd_shape<D, true, true>;
	static_assert(N * 8 == t::SUM_WIDTH, "not the sums of a warpgroup");
	const int box = group * (t::SUM_COLUMNS_APART / BOX_WIDTH),
		  score_box = group * (t::SUM_ROWS_APART / BOX_WIDTH);
	const uint64_t a = zr_operand(scores + score_box * KEYS * BOX_ROW, 0, EIGHT,
				      ZR_SWIZZLE_128),
		       b = zr_operand(keys + box * KEYS * BOX_ROW, KEYS * BOX_ROW, EIGHT,
				      ZR_SWIZZLE_128);
#pragma unroll
	for (int k = 0; k < KEYS; k += 16)
		zr_product<T, N * 8, true, true>(sums, zr_operand_at(a, k * BOX_ROW),
						 zr_operand_at(b, k * BOX_ROW), k > 0);
	zr_products_commit();
}

/* A warpgroup's sums to where they are sent from: each thread's four of a column block together. */
template <int PARTS, int N>
ZR_DEVICE void hand_over(ring<1> &to, const float (&sums)[N][4], int group)
{
	constexpr int EACH = N / PARTS;
	thread_sums *const own = (thread_sums *)(void *)to.tiles + group * EACH * ZR_WARPGROUP +
				 threadIdx.x % ZR_WARPGROUP;
#pragma unroll
	for (int part = 0; part < PARTS; part++) {
		to.wait_empty();
#pragma unroll
		for (int n = 0; n < EACH; n++) {
			const float(&x)[4] = sums[part * EACH + n];
			zr_store_for_async(own + n * ZR_WARPGROUP,
					   thread_sums{ { x[0], x[1], x[2], x[3] } });
		}
		zr_fence_async();
		__syncwarp();
		if (threadIdx.x % ZR_WARP == 0)
			zr_mbarrier_arrive(to.full);
		to.next();
	}
}

/* The gradients of 64 keys. Queries come in tiles, of which scores and their gradients are computed
 * 64 at a time. */
template <class T, int D, int KIND, bool DK, bool DV>
ZR_DEVICE void walk(const struct zr_op_attention_bwd &op, bwd_room<D, DK, DV> &at, int group)
{
	using t = bwd_shape<D, DK, DV>;
	constexpr int N = GROUP_ROWS / 8;
	const struct zr_op_attention &o = op.fwd;
	const key_tile &w = at.x->tile;
	const int key = w.j0 + group * GROUP_ROWS, lane = (int)threadIdx.x % ZR_WARP,
		  warp = (int)threadIdx.x / ZR_WARP % 4;
	const unsigned char *const keys = at.keys + group * GROUP_ROWS * BOX_ROW,
				   *const values = at.values + group * GROUP_ROWS * BOX_ROW;
	float dk[DK ? D / 8 : 1][4] = { { 0 } }, dv[DV ? D / 8 : 1][4] = { { 0 } };
	uint32_t p[N / 2][4], ds[N / 2][4]; /* products read them beyond a turn of the loop */
	/* Who stores scores again knows that the other warpgroup has multiplied the last ones there:
	 * it stands at most one tile behind, or its sums were waited for, between two parts. */
	static_assert(t::SCORES == 2 || t::PARTS > 1, "scores are stored over");
	int n = 0; /* tiles so far: all rings follow from it, for registers are short */

	zr_mbarrier_wait(&at.x->keys, 0);
	if constexpr (DK)
		zr_mbarrier_wait(&at.x->values, 0);
#pragma unroll 1
	for (int h = w.first_h; h < w.end_h; h++)
#pragma unroll 1
		for (int i0 = w.from; i0 < w.end; i0 += t::QUERIES, n++) {
			at.queries.move(n);
			unsigned char *const scores = at.scores + n % t::SCORES * t::SCORE_BYTES;
			const bwd_left<t::QUERIES> &left = at.x->left[at.queries.stage];

			at.dout.move(n);
			at.queries.wait();
#pragma unroll 1
			for (int part = 0; part < t::QUERIES; part += GROUP_ROWS) {
				float s[1][N][4], dp[N][4];
				dropping drop = { 1, 0 };
				const unsigned char *const q = at.queries.tiles +
							       at.queries.stage * t::QUERY_BYTES +
							       part * BOX_ROW;
				const unsigned char *const dout = at.dout.tiles +
								  at.dout.stage * t::QUERY_BYTES +
								  part * BOX_ROW;
				/* before the products, which take the registers that this takes */
				if constexpr (KIND == DROPS) {
					const int i = i0 + part + lane % 4 * 2,
						  j = key + warp * 16 + lane / 4;
					drop.m = keep_scale(o);
					drop.bits = kept<N>(o, element(o, w.b, h, i, j), 1,
							    (uint64_t)zr_drop_rows(&o));
				}
				zr_pin(s[0]);
				zr_products_fence();
				multiply_rows<T, D, KEYS, t::QUERIES>(s[0], keys, q);
				if (part == 0)
					at.dout.wait();
				if constexpr (DK) {
					zr_pin(dp);
					zr_products_fence();
					multiply_rows<T, D, KEYS, t::QUERIES>(dp, values, dout);
				}

				zr_products_wait<DK ? 1 : 0>();
				zr_pin(s[0]);
				soften_tile<T, KIND>(o, left, key, i0, part, s, p, drop);
				if constexpr (DV) {
					zr_pin(p);
					zr_pin(dv);
					zr_products_fence();
					multiply_columns<T, D, t::QUERIES>(dv, p, dout, true);
				}
				if constexpr (!DK)
					continue;

				zr_products_wait<DV ? 1 : 0>();
				zr_pin(dp);
				grad_queries<KIND>(left, part, s, dp, drop);
				round_pairs<T>(ds, dp);
				if constexpr (DK) {
					zr_pin(ds);
					zr_pin(dk);
					zr_products_fence();
					multiply_columns<T, D, t::QUERIES>(dk, ds, q, true);
				}
				store_scores(scores + part / BOX_WIDTH * KEYS * BOX_ROW,
					     group * GROUP_ROWS, ds);
			}

			if constexpr (DK) {
				float sums[t::SUM_WIDTH / 8][4];

				zr_fence_async();
				zr_barrier_sync(1, 2 * ZR_WARPGROUP);
				zr_pin(sums);
				zr_products_fence();
				multiply_scores<T, D>(sums, scores, at.keys, group);
				zr_products_wait<1>();
				zr_pin(dk);
				if constexpr (DV)
					zr_pin(dv);
				__syncwarp();
				at.queries.release();
				at.dout.release();

				zr_products_wait<0>();
				zr_pin(sums);
				at.sums.move(n * t::PARTS);
				hand_over<t::PARTS>(at.sums, sums, group);
			} else {
				zr_products_wait<0>();
				zr_pin(dv);
				__syncwarp();
				at.queries.release();
				at.dout.release();
			}
		}

#pragma unroll
	for (int half = 0; half < 2; half++) {
		const int j = key + warp * 16 + lane / 4 + 8 * half;
		if (j >= (int)o.length)
			continue;
		if constexpr (DK)
			store_key<T, D>(o, o.key_sums, 0, as_k(o, op.dk), w.b, j, w.kv, dk, half,
					o.scale);
		if constexpr (DV)
			store_key<T, D>(o, o.key_sums, 1, as_v(o, op.dv), w.b, j, w.kv, dv, half,
					1);
	}
}

template <class T, int D, int KIND, bool DK, bool DV>
static __global__ void __launch_bounds__(BLOCK, 1)
	hopper_bwd_kernel(const __grid_constant__ struct zr_op_attention_bwd op,
			  const __grid_constant__ struct bwd_maps maps,
			  const __grid_constant__ struct query_sums to)
{
#ifdef ZR_HOPPER
	ZR_ALIGNED_SHARED(room);
	const int group = __shfl_sync(ZR_FULL_WARP, (int)threadIdx.x / ZR_WARPGROUP, 0, ZR_WARP),
		  warp = (int)threadIdx.x / ZR_WARP;
	const bool leads = threadIdx.x % ZR_WARP == 0;
	bwd_room<D, DK, DV> at(room);

	if (threadIdx.x == 0) {
		const unsigned drawn = DK ? (unsigned)atomicAdd((int *)(void *)to.drawn, 1) :
					    blockIdx.x;
		at.begin();
		at.x->tile = key_tile_of<bwd_shape<D, DK, DV>::QUERIES>(op.fwd, drawn);
	}
	__syncthreads();
	const key_tile &w = at.x->tile;
	if (group == 0) {
		zr_fewer_registers<40>();
		if (warp == 0 && leads)
			bring_queries(op.fwd, maps, w, at);
		if (warp == 1)
			bring_left(op, w, at);
		if (DK && warp == 2 && leads)
			send_sums(op.fwd, to, w, at);
		if (warp == 3 && leads)
			bring_dout(op.fwd, maps, w, at);
	} else {
		zr_more_registers<232>();
		walk<T, D, KIND>(op, at, group - 1);
	}
#endif
}

/* ---- the gradients of queries ---------------------------------------------------- */

/* The sums of a tile of queries, as warpgroups handed them over, become their gradients. */
template <class T, int D>
static __global__ void __launch_bounds__(2 * ZR_WARPGROUP)
	hopper_dq_kernel(const __grid_constant__ struct zr_op_attention_bwd op,
			 const __grid_constant__ struct query_sums from)
{
	using t = bwd_shape<D, true, true>;
	constexpr int N = t::SUM_WIDTH / 8, EACH = N / t::PARTS;
	const struct zr_op_attention &o = op.fwd;
	const block_head head = head_of_block(o);
	const int group = (int)threadIdx.x / ZR_WARPGROUP, thread = (int)threadIdx.x % ZR_WARPGROUP,
		  lane = thread % ZR_WARP;
	const int i0 = (o.first / t::QUERIES + (int)blockIdx.x) * t::QUERIES,
		  row = i0 + group * t::SUM_ROWS_APART + thread / ZR_WARP * 16 + lane / 4,
		  col = group * t::SUM_COLUMNS_APART + lane % 4 * 2;
	const int64_t tile = (int64_t)blockIdx.y * from.tiles + blockIdx.x;
	const thread_sums *const sums =
		(const thread_sums *)(const void *)(from.x + tile * t::SUMS) + thread;
	T *const to = (T *)op.dq + query_of(o, as_q(o, op.dq), head.b, row, head.h) + col;

#pragma unroll
	for (int n = 0; n < N; n++) {
		const thread_sums x =
			sums[((n / EACH * 2 + group) * EACH + n % EACH) * ZR_WARPGROUP];
#pragma unroll
		for (int half = 0; half < 2; half++) {
			const int i = row + 8 * half;
			if (i < o.first || i >= (int)o.length || col + n * 8 >= D)
				continue;
			uint32_t *const pair =
				(uint32_t *)(void *)(to + half * 8 * o.q_stride + n * 8);
			*pair = zr_pair(x.x[2 * half] * o.scale, x.x[2 * half + 1] * o.scale, T());
		}
	}
}

/* ---- launches -------------------------------------------------------------------- */

/* Bytes of work, behind the dout . out of zr_cuda_attention_delta: turns, and sums. */
struct bwd_work {
	int tiles; /* of a head */
	size_t turns_at, turns, sums_at, bytes;
};

template <class T, int D> static bwd_work work_of(const struct zr_op_attention *o)
{
	using t = bwd_shape<D, true, true>;
	const size_t heads = (size_t)(o->batch * o->heads);
	bwd_work w;

	w.tiles = (int)(zr_ceil_div(o->length, t::QUERIES) - o->first / t::QUERIES);
	w.turns_at = heads * (size_t)(o->length - o->first) * sizeof(float);
	w.turns = heads * (size_t)w.tiles + 1; /* one to draw from */
	w.sums_at = (w.turns_at + w.turns * sizeof(unsigned) + 127) / 128 * 128;
	w.bytes = w.sums_at + heads * (size_t)w.tiles * t::SUMS * sizeof(float);
	return w;
}

template <class T, int D>
static cudaError_t map_all(struct bwd_maps *maps, const struct zr_op_attention_bwd *op)
{
	constexpr int QUERIES = bwd_shape<D, true, true>::QUERIES;
	const struct zr_op_attention *o = &op->fwd;
	const int64_t queries = o->length - o->first;

	cudaError_t e =
		map_heads(&maps->q, o, o->q, queries, o->q_stride, o->q_head, o->heads, QUERIES);
	if (e == cudaSuccess)
		e = map_heads(&maps->dout, o, op->dout, queries, o->out_stride, 0, o->heads,
			      QUERIES);
	if (e == cudaSuccess)
		e = map_heads(&maps->k, o, o->k, o->length, o->k_stride, o->k_head, o->kv_heads,
			      KEYS);
	if (e == cudaSuccess)
		e = map_heads(&maps->v, o, o->v, o->length, o->v_stride, o->v_head, o->kv_heads,
			      KEYS);
	return e;
}

template <class T, int D, int KIND, bool DK, bool DV>
static cudaError_t launch_kind(const struct zr_op_attention_bwd *op, const struct bwd_maps &maps,
			       const struct query_sums &sums, cudaStream_t s)
{
	const struct zr_op_attention *o = &op->fwd;
	const int64_t tiles = zr_ceil_div(o->length, KEYS) * o->batch * o->kv_heads;

	return zr_launch_hopper(hopper_bwd_kernel<T, D, KIND, DK, DV>, dim3((unsigned)tiles),
				dim3(BLOCK), bwd_room<D, DK, DV>::ALL_BYTES, s, *op, maps, sums);
}

template <class T, int D, bool DK, bool DV>
static cudaError_t launch(const struct zr_op_attention_bwd *op, const struct bwd_maps &maps,
			  const struct query_sums &sums, cudaStream_t s)
{
	if (op->fwd.softcap > 0)
		return launch_kind<T, D, CAPPED, DK, DV>(op, maps, sums, s);
	if (op->fwd.dropout > 0)
		return launch_kind<T, D, DROPS, DK, DV>(op, maps, sums, s);
	return launch_kind<T, D, PLAIN, DK, DV>(op, maps, sums, s);
}

template <class T, int D>
static cudaError_t backward(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	const struct zr_op_attention *o = &op->fwd;
	const bwd_work work = work_of<T, D>(o);
	unsigned char *const room = (unsigned char *)op->work;
	unsigned *const turns = (unsigned *)(void *)(room + work.turns_at);
	const query_sums sums = { (float *)(void *)(room + work.sums_at), turns,
				  turns + work.turns - 1, work.tiles };
	struct bwd_maps maps;

	cudaError_t e = map_all<T, D>(&maps, op);
	if (e == cudaSuccess)
		e = cudaMemsetAsync(turns, 0, work.turns * sizeof *turns, s);
	if (e != cudaSuccess)
		return e;

	if constexpr (D <= 128) {
		e = launch<T, D, true, true>(op, maps, sums, s);
	} else {
		e = launch<T, D, true, false>(op, maps, sums, s);
		if (e == cudaSuccess)
			e = launch<T, D, false, true>(op, maps, sums, s);
	}
	if (e != cudaSuccess)
		return e;

	return zr_launch(hopper_dq_kernel<T, D>,
			 attention_grid(o, o->heads, o->first, bwd_shape<D, true, true>::QUERIES),
			 dim3(2 * ZR_WARPGROUP), 0, s, *op, sums);
}

int zr_cuda_attention_hopper_takes_bwd(const struct zr_op_attention_bwd *op)
{
	return zr_cuda_attention_mma_takes_bwd(op) && hopper_takes_options(&op->fwd) &&
	       (uintptr_t)op->work % 128 == 0;
}

uint64_t zr_cuda_attention_hopper_bwd_work(const struct zr_op_attention_bwd *op)
{
	return BY_WIDTH(op->fwd.head_dim, work_of, void, &op->fwd).bytes;
}

cudaError_t zr_cuda_attention_hopper_bwd(const struct zr_op_attention_bwd *op, cudaStream_t s)
{
	return op->fwd.dtype == ZR_BF16 ? BY_WIDTH(op->fwd.head_dim, backward, bf16, op, s) :
					  BY_WIDTH(op->fwd.head_dim, backward, f16, op, s);
}
