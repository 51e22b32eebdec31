/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_low_rank.h - what a low-rank update adds to a tile of sums: MC rows and UC columns of it are
 * summed at once by blocks(), at UPDATE in the scratch. Included by gemm.simd.c and
 * gemm_tiles.simd.c only, which have these.
 */
#ifndef ZEROTH_KERNELS_CPU_GEMM_LOW_RANK_H
#define ZEROTH_KERNELS_CPU_GEMM_LOW_RANK_H

/* Words of the elements from `element` on, which is that of word[element % 4]. */
static void draw(const struct zr_rng *rng, uint64_t element, int64_t n, uint32_t *word)
{
	for (int64_t k = 0; k < n + 4; k += 4 * ZR_W) {
		vi w[4];
		vrng(rng, element / 4 + (uint64_t)k / 4, w);
		for (int i = 0; i < 4; i++)
			vistore(word + k + i * ZR_W, w[i]);
	}
}

/* to[0..cols) += drop(gain uv), of which the first is `element` */
static void add_update(const struct zr_op_matmul_low_rank *l, uint64_t element, int64_t cols,
		       const float *uv, float *to)
{
	uint32_t word[UC + 5 * ZR_W];
	const uint32_t below = zr_drop_below(l->dropout);
	const float scale = zr_drop_scale(l->dropout);
	const int drops = l->dropout > 0;
	if (drops)
		draw(&l->rng, element, cols + ZR_W, word);
	for (int64_t j = 0; j < cols; j += ZR_W) {
		const int n = vlanes(cols - j);
		vf x = vload_n(uv, j, ZR_F32, n) * vset(l->gain);
		if (drops)
			x = vdrop(x, viload(word + element % 4 + j), below, scale);
		vstore_n(to, j, ZR_F32, vload_n(to, j, ZR_F32, n) + x, n);
	}
}

void ZR_SIMD(gemm_low_rank)(const struct zr_op_matmul_low_rank *l, int64_t row0, int64_t rows,
			    int64_t col0, int64_t cols, float *tile, int64_t ld, void *scratch)
{
	const struct zr_op_matmul op = zr_low_rank_product(l);
#ifdef ZR_PAIRS
	if (!zr_pairs(&op)) {
		zr_gemm_low_rank_avx512(l, row0, rows, col0, cols, tile, ld, scratch);
		return;
	}
#endif
	float *uv = (float *)scratch + UPDATE;
	for (int64_t i = 0; i < rows; i += MC)
		for (int64_t j = 0; j < cols; j += UC) {
			const int64_t m = min(MC, rows - i), n = min(UC, cols - j);
			const int64_t first = l->first + (row0 + i) * op.n + col0 + j;
			blocks(&op, row0 + i, m, col0 + j, n, uv, UC, 0, scratch);
			for (int64_t r = 0; r < m; r++)
				add_update(l, (uint64_t)(first + r * op.n), n, uv + r * UC,
					   tile + (i + r) * ld + j);
		}
}

#endif
