/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_hopper.h - what attention's kernels for compute capability 9.0 share: tiles of heads in
 * boxes of 64 columns, how a thread brings them and warpgroups hand them back, products with them.
 * A CUDA block is three warpgroups: threads of the first one bring tiles, the other two compute.
 */
#ifndef ZEROTH_KERNELS_CUDA_ATTENTION_HOPPER_H
#define ZEROTH_KERNELS_CUDA_ATTENTION_HOPPER_H

#include "attention_mma.h"
#include "hopper.h"

#define GROUP_ROWS 64 /* of a warpgroup's products */
#define CONSUMERS  8  /* warps that read tiles */
#define BLOCK      (3 * ZR_WARPGROUP)
#define BOX_WIDTH  64 /* elements, 128 bytes */
#define BOX_ROW    (BOX_WIDTH * 2)
#define EIGHT      (8 * BOX_ROW)

/* What a kernel does to scores. Each is one of its own, for registers are short: no kernel both
 * caps scores and drops probabilities. */
enum attention_kind { PLAIN, CAPPED, DROPS };

static inline int hopper_takes_options(const struct zr_op_attention *o)
{
	return o->dropout <= 0 || o->softcap <= 0;
}

/* Boxes side by side that hold heads of width D; the last one is filled up with zeros. */
template <int D> ZR_INLINE constexpr int boxes()
{
	return (D + BOX_WIDTH - 1) / BOX_WIDTH;
}

/* Bytes of a tile of so many rows. */
template <int D> ZR_INLINE constexpr int tile_bytes(int rows)
{
	return rows * BOX_ROW * boxes<D>();
}

/* A kind of tiles on its way from the copy engine to the warpgroups, by turns in each stage. */
template <int STAGES> struct ring {
	unsigned char *tiles;
	uint64_t *full, *empty;
	int stage, parity;
	ZR_MEMBER void next()
	{
		stage = (stage + 1) % STAGES;
		parity ^= !stage;
	}
	/* To the n-th tile, counted from 0. */
	ZR_MEMBER void move(int n)
	{
		stage = n % STAGES;
		parity = n / STAGES % 2;
	}
	ZR_MEMBER void wait() const
	{
		zr_mbarrier_wait(&full[stage], parity);
	}
	/* Until the stage may be filled anew. */
	ZR_MEMBER void wait_empty() const
	{
		zr_mbarrier_wait(&empty[stage], parity ^ 1);
	}
	/* A warp reads the tile no more: each of them says so. */
	ZR_MEMBER void release()
	{
		if (threadIdx.x % ZR_WARP == 0)
			zr_mbarrier_arrive(&empty[stage]);
		next();
	}
};

/* ---- bringing -------------------------------------------------------------------- */

/* Rows from `row` on of head h of batch entry b, all columns. */
template <int D, int COUNT>
ZR_DEVICE void bring(unsigned char *to, const zr_tensor_map *map, uint64_t *full, int row, int h,
		     int b)
{
	zr_mbarrier_arrive_expecting(full, tile_bytes<D>(COUNT));
#pragma unroll
	for (int c = 0; c < boxes<D>(); c++)
		zr_bring_box(to + c * COUNT * BOX_ROW, map, full, c * BOX_WIDTH, row, h, b);
}

template <int D, int COUNT, int STAGES>
ZR_DEVICE void bring_next(ring<STAGES> &r, const zr_tensor_map *map, int row, int h, int b)
{
	r.wait_empty();
	bring<D, COUNT>(r.tiles + r.stage * tile_bytes<D>(COUNT), map, &r.full[r.stage], row, h, b);
	r.next();
}

/* ---- products -------------------------------------------------------------------- */

/* s = a b^T: 64 rows of a tile of A_ROWS with N * 8 rows of one of B_ROWS. a_row and b_row are
 * the first of these rows. */
template <class T, int D, int A_ROWS, int B_ROWS, int N>
ZR_DEVICE void multiply_rows(float (&s)[N][4], const unsigned char *a_row,
			     const unsigned char *b_row)
{
	const uint64_t a = zr_operand(a_row, 0, EIGHT, ZR_SWIZZLE_128),
		       b = zr_operand(b_row, 0, EIGHT, ZR_SWIZZLE_128);
#pragma unroll
	for (int k = 0; k < D; k += 16) {
		const int box = k / BOX_WIDTH, in_row = k % BOX_WIDTH * 2;
		zr_product<T, N * 8>(s, zr_operand_at(a, box * A_ROWS * BOX_ROW + in_row),
				     zr_operand_at(b, box * B_ROWS * BOX_ROW + in_row), k > 0);
	}
	zr_products_commit();
}

/* acc = p x, or += if `add`; p has 16 rows for each piece, of a tile of X_ROWS from row x on. */
template <class T, int D, int X_ROWS, int N>
ZR_DEVICE void multiply_columns(float (&acc)[D / 8][4], const uint32_t (&p)[N][4],
				const unsigned char *x, bool add)
{
	const uint64_t b = zr_operand(x, X_ROWS * BOX_ROW, EIGHT, ZR_SWIZZLE_128);
#pragma unroll
	for (int k = 0; k < N; k++)
		zr_product<T, D, true>(acc, p[k], zr_operand_at(b, k * 16 * BOX_ROW), add || k);
	zr_products_commit();
}

/* Two numbers of a row side by side, rounded, are an element of A. */
template <class T, int N>
ZR_DEVICE void round_pairs(uint32_t (&p)[N / 2][4], const float (&s)[N][4])
{
#pragma unroll
	for (int k = 0; k < N / 2; k++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			p[k][i] = zr_pair(s[2 * k + i / 2][i % 2 * 2],
					  s[2 * k + i / 2][i % 2 * 2 + 1], T());
}

/* ---- launches -------------------------------------------------------------------- */

/* Boxes of so many rows of a tensor's heads, of `tokens` tokens. */
static cudaError_t map_heads(zr_tensor_map *map, const struct zr_op_attention *o, const void *x,
			     int64_t tokens, int64_t stride, int64_t head, int64_t heads, int rows)
{
	const int64_t apart = head ? head : o->head_dim;
	const zr_boxes boxes = {
		x,
		4,
		{ o->head_dim, tokens, heads, o->batch },
		{ 0, stride * 2, apart * 2, tokens * stride * 2 },
		{ BOX_WIDTH, rows, 1, 1 },
		ZR_SWIZZLE_128,
	};
	return zr_tensor_map_of(map, &boxes);
}

#endif
