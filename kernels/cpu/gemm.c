/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.c - the scalar matrix product, oracle of gemm.simd.c:
 *
 *   D[M,N] = op(A)[M,K] op(B)[K,N] + bias[N], optionally through GELU, or D += op(A) op(B)
 *
 * and beside it, before the bias, drop(gain U[M,r] V[r,N]). Every element is one sum over ascending
 * k, rounded after each multiplication and each addition.
 */
#include "scalar.h"

#define ROWS  256 /* rows and columns summed at once, over so many k at a time */
#define COLS  64
#define DEPTH 256

struct room {
	zr_real b[DEPTH][COLS]; /* of op(B), widened: read once for all rows */
	zr_real sum[ROWS][COLS];
	zr_real uv[ROWS][COLS];
};
_Static_assert(sizeof(struct room) <= ZR_GEMM_SCRATCH, "scratch of gemm_tile");

void ZR_SCALAR(gemm_finish)(const struct zr_op_matmul *op, const zr_real *tile, int64_t ld,
			    int64_t rows, int64_t cols, const void *bias, void *d, void *pre)
{
	for (int64_t i = 0; i < rows; i++) {
		for (int64_t j = 0; j < cols; j++) {
			zr_real x = tile[i * ld + j];
			int64_t at = i * op->ldd + j;
			if (bias)
				x += zr_get(bias, j, op->b.dtype);
			if (op->flags & ZR_MM_ACCUMULATE)
				x = zr_get(d, at, op->d.dtype) + x;
			if (op->flags & ZR_MM_GELU) {
				if (pre)
					zr_put(pre, at, op->d.dtype, x);
				x = zr_activation(x, zr_gelu_of(op->activation));
			}
			zr_put(d, at, op->d.dtype, x);
		}
	}
}

/* b[0..depth) = rows k0.. of op(B), columns from col0 on; 0 past the last */
static void pack(const struct zr_op_matmul *op, int64_t k0, int64_t depth, int64_t col0,
		 int64_t cols, zr_real (*b)[COLS])
{
	int64_t down = op->flags & ZR_MM_TRANS_B ? 1 : op->ldb,
		right = op->flags & ZR_MM_TRANS_B ? op->ldb : 1;

	for (int64_t k = 0; k < depth; k++)
		for (int64_t j = 0; j < COLS; j++)
			b[k][j] = j < cols ?
					  zr_get(op->b.data, (k0 + k) * down + (col0 + j) * right,
						 op->b.dtype) :
					  0;
}

/* sum += row i of op(A), from k0 on, times b */
static void add_row(const struct zr_op_matmul *op, int64_t i, int64_t k0, int64_t depth,
		    zr_real (*restrict b)[COLS], zr_real *restrict sum)
{
	int64_t down = op->flags & ZR_MM_TRANS_A ? 1 : op->lda,
		right = op->flags & ZR_MM_TRANS_A ? op->lda : 1;
	for (int64_t k = 0; k < depth; k++) {
		zr_real a = zr_get(op->a.data, i * down + (k0 + k) * right, op->a.dtype);
		for (int64_t j = 0; j < COLS; j++)
			sum[j] += a * b[k][j];
	}
}

/* sum = at most ROWS rows and COLS columns of op(A) op(B) */
static void sum_up(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
		   int64_t cols, zr_real (*b)[COLS], zr_real (*sum)[COLS])
{
	memset(sum, 0, ROWS * sizeof *sum);
	for (int64_t k = 0; k < op->k; k += DEPTH) {
		int64_t depth = op->k - k < DEPTH ? op->k - k : DEPTH;
		pack(op, k, depth, col0, cols, b);
		for (int64_t i = 0; i < rows; i++)
			add_row(op, row0 + i, k, depth, b, sum[i]);
	}
}

/* tile[rows, cols], ld apart, += drop(gain uv) */
static void add_update(const struct zr_op_matmul_low_rank *l, int64_t row0, int64_t rows,
		       int64_t col0, int64_t cols, zr_real (*uv)[COLS], zr_real *tile, int64_t ld)
{
	const uint32_t below = zr_drop_below(l->dropout);
	const zr_real scale = zr_drop_scale(l->dropout);

	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j++) {
			uint64_t element =
				(uint64_t)(l->first + (row0 + i) * l->product.n + col0 + j);
			zr_real x = uv[i][j] * l->gain;
			if (l->dropout > 0)
				x = zr_rng_word(&l->rng, element) >= below ? x * scale : 0;
			tile[i * ld + j] += x;
		}
}

void ZR_SCALAR(gemm_low_rank)(const struct zr_op_matmul_low_rank *l, int64_t row0, int64_t rows,
			      int64_t col0, int64_t cols, zr_real *tile, int64_t ld, void *scratch)
{
	const struct zr_op_matmul uv = zr_low_rank_product(l);
	struct room *room = scratch;

	for (int64_t i = 0; i < rows; i += ROWS)
		for (int64_t j = 0; j < cols; j += COLS) {
			int64_t m = rows - i < ROWS ? rows - i : ROWS,
				n = cols - j < COLS ? cols - j : COLS;
			sum_up(&uv, row0 + i, m, col0 + j, n, room->b, room->uv);
			add_update(l, row0 + i, m, col0 + j, n, room->uv, tile + i * ld + j, ld);
		}
}

/* At most ROWS rows and COLS columns of the product. */
static void part(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
		 int64_t row0, int64_t rows, int64_t col0, int64_t cols, struct room *room)
{
	int64_t at = row0 * op->ldd + col0;
	sum_up(op, row0, rows, col0, cols, room->b, room->sum);
	if (low)
		ZR_SCALAR(gemm_low_rank)
	(low, row0, rows, col0, cols, room->sum[0], COLS, room);
	ZR_SCALAR(gemm_finish)
	(op, room->sum[0], COLS, rows, cols, op->bias ? zr_at(op->bias, col0, op->b.dtype) : NULL,
	 zr_at(op->d.data, at, op->d.dtype), op->pre ? zr_at(op->pre, at, op->d.dtype) : NULL);
}

void ZR_SCALAR(gemm_tile)(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
			  int64_t row0, int64_t rows, int64_t col0, int64_t cols, void *scratch)
{
	for (int64_t i = 0; i < rows; i += ROWS)
		for (int64_t j = 0; j < cols; j += COLS)
			part(op, low, row0 + i, rows - i < ROWS ? rows - i : ROWS, col0 + j,
			     cols - j < COLS ? cols - j : COLS, scratch);
}
