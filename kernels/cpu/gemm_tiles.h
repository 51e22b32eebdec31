/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_tiles.h - the micro-kernel of gemm.simd.c on the tile registers of AMX: 32 x 32 sums in four
 * of them, two for A, two for B. Included by gemm.simd.c only.
 */
#ifndef ZEROTH_KERNELS_CPU_GEMM_TILES_H
#define ZEROTH_KERNELS_CPU_GEMM_TILES_H

#include "tiles.h"

/* c[MR][nv * ZR_W] (ldc apart) = or += a panel of A, by rows, times a panel of B; both are filled
 * up with 0 to a multiple of 16 pairs. nv is constant. */
ZR_INLINE void micro(const int nv, const int by_rows, int64_t kc, const float *a, int64_t lda,
		     const float *b, float *c, int64_t ldc, int add)
{
	(void)by_rows;
	(void)lda;
	_Alignas(64) float sums[MR * NR];
	const int64_t a_stride = KC * sizeof(float), b_stride = nv * ZR_W * (int64_t)sizeof(float);
	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	TILE_ZERO(3);
	for (int64_t p = 0; p < kc; p += 16, a += 16, b += 16 * nv * ZR_W) {
		TILE_LOAD(4, a, a_stride);
		TILE_LOAD(5, a + 16 * KC, a_stride);
		TILE_LOAD(6, b, b_stride);
		TILE_MULTIPLY_ADD(0, 4, 6);
		TILE_MULTIPLY_ADD(2, 5, 6);
		if (nv == 1)
			continue;
		TILE_LOAD(7, b + ZR_W, b_stride);
		TILE_MULTIPLY_ADD(1, 4, 7);
		TILE_MULTIPLY_ADD(3, 5, 7);
	}
	TILE_STORE(0, sums, b_stride);
	TILE_STORE(2, sums + 16 * nv * ZR_W, b_stride);
	if (nv == 2) {
		TILE_STORE(1, sums + ZR_W, b_stride);
		TILE_STORE(3, sums + 16 * nv * ZR_W + ZR_W, b_stride);
	}
	for (int i = 0; i < MR; i++)
		for (int j = 0; j < nv; j++) {
			float *at = c + i * ldc + j * ZR_W;
			vf x = vload_f32(sums + (i * nv + j) * ZR_W);
			if (add)
				x = vload_f32(at) + x;
			vstore_f32(at, x);
		}
}

#endif
