/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_twin.c - the product of bf16 operands in the order of bf16_pairs.h, an element at a time.
 */
#include "cpu/table.h"
#include "tests/twins/twins.h"

/* n elements that are `step` apart, of which `left` are there. */
static void take(uint16_t *to, const uint16_t *from, int64_t step, int64_t n, int64_t left)
{
	const int64_t there = n < left ? n : left;
	for (int64_t e = 0; e < there; e++)
		to[e] = from[e * step];
	for (int64_t e = there; e < n; e++)
		to[e] = 0;
}

/* sum + that of pairs [p, end) */
static float chain(const struct zr_op_matmul *op, int tiles, int64_t row, int64_t col, int64_t p,
		   int64_t end, float sum)
{
	const int ta = !!(op->flags & ZR_MM_TRANS_A), tb = !!(op->flags & ZR_MM_TRANS_B);
	const int64_t at_once = tiles ? ZR_TILE_PAIRS : 1;
	const int64_t right = ta ? op->lda : 1, down = tb ? 1 : op->ldb;
	const uint16_t *from_a = (const uint16_t *)op->a.data + row * (ta ? 1 : op->lda),
		       *from_b = (const uint16_t *)op->b.data + col * (tb ? op->ldb : 1);
	uint16_t a[ZR_TILE_PAIRS][2], b[ZR_TILE_PAIRS][2];
	for (; p < end; p += at_once) {
		take(a[0], from_a + 2 * p * right, right, 2 * at_once, op->k - 2 * p);
		take(b[0], from_b + 2 * p * down, down, 2 * at_once, op->k - 2 * p);
		sum = tiles ? zr_tile_sum(sum, a, b) : zr_pair_sum(sum, a[0], b[0]);
	}
	return sum;
}

/* start + the sum over all of K */
static float element(const struct zr_op_matmul *op, int tiles, int64_t row, int64_t col, int add,
		     float start)
{
	const int64_t pairs = (op->k + 1) / 2, block = zr_pairs_block(pairs);
	int64_t p = 0;
	if (tiles)
		return chain(op, tiles, row, col, 0, pairs, add ? start : 0);
	do {
		int64_t end = p + block < pairs ? p + block : pairs;
		float sum = chain(op, tiles, row, col, p, end, 0);
		start = add ? start + sum : sum;
		add = 1;
		p = end;
	} while (p < pairs);
	return start;
}

static float update(const struct zr_op_matmul_low_rank *l, int tiles, int64_t row, int64_t col)
{
	const struct zr_op_matmul uv = zr_low_rank_product(l);
	float x = element(&uv, tiles, row, col, 0, 0) * l->gain;
	if (l->dropout > 0)
		x = zr_rng_word(&l->rng, (uint64_t)(l->first + row * uv.n + col)) >=
				    zr_drop_below(l->dropout) ?
			    x * zr_drop_scale(l->dropout) :
			    0;
	return x;
}

void zr_gemm_tile_twin(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
		       int tiles, int64_t row0, int64_t rows, int64_t col0, int64_t cols)
{
	struct zr_op_matmul last = *op;
	last.flags &= ~ZR_MM_ACCUMULATE;
	for (int64_t i = row0; i < row0 + rows; i++)
		for (int64_t j = col0; j < col0 + cols; j++) {
			const int add = !!(op->flags & ZR_MM_ACCUMULATE);
			void *d = zr_at(op->d.data, i * op->ldd + j, op->d.dtype);
			float x =
				element(op, tiles, i, j, add, add ? zr_get(d, 0, op->d.dtype) : 0);
			if (low)
				x += update(low, tiles, i, j);
			zr_gemm_finish_scalar(
				&last, &x, 1, 1, 1,
				op->bias ? zr_at(op->bias, j, op->b.dtype) : NULL, d,
				op->pre ? zr_at(op->pre, i * op->ldd + j, op->d.dtype) : NULL);
		}
}
