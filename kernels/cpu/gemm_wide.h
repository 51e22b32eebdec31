/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_wide.h - the micro-kernel of gemm.simd.c for vectors of 16 floats. Included by gemm.simd.c
 * only.
 *
 * Caches other than the first answer too late for it, so it asks for cache lines itself, a line
 * every few elements of K: a processor has few requests under way, and a burst of them would hold
 * up its loads.
 */
#ifndef ZEROTH_KERNELS_CPU_GEMM_WIDE_H
#define ZEROTH_KERNELS_CPU_GEMM_WIDE_H

#define AHEAD 8 /* rows that are asked for while they are packed */

ZR_INLINE vf multiply_add(vf x, vf y, vf sum)
{
#ifdef ZR_PAIRS
	return _mm512_dpbf16_ps(sum, (__m512bh)vbits(x), (__m512bh)vbits(y));
#else
	/* as it is written: compilers copy sums from register to register, or load y again */
	__asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
	return sum;
#endif
}

/* s += element k of MR rows of A times element k of a panel of B, which is copied to `to` if
 * `packs`. nv, by_rows and packs are constants. */
ZR_INLINE void add_step(const int nv, const int by_rows, const int packs, int64_t k, const float *a,
			int64_t lda, const float *const row[MR], const float *b, float *to,
			vf s[MR][NV])
{
	vf y[NV], x;
	int i, j;

	UNROLL
	for (j = 0; j < nv; j++)
		y[j] = vload_f32(b + j * ZR_W);
	UNROLL
	for (j = 0; packs && j < nv; j++)
		vstore_f32(to + j * ZR_W, y[j]);
	UNROLL
	for (i = 0; i < MR; i++) {
		x = vset(by_rows ? row[i][k] : a[k * lda + i]);
		UNROLL
		for (j = 0; j < nv; j++)
			s[i][j] = multiply_add(x, y[j], s[i][j]);
	}
}

/* Asks for nv vectors that may begin anywhere in a line. */
ZR_INLINE void ask_row(const int nv, const float *p)
{
	UNROLL
	for (int j = 0; j < nv; j++)
		__builtin_prefetch(p + j * ZR_W, 0, 3);
	__builtin_prefetch(p + nv * ZR_W - 1, 0, 3);
}

/* MR rows of a column of A. */
ZR_INLINE void pack_column(const float *a, int64_t lda, float *to)
{
	__builtin_prefetch(a + AHEAD * lda, 0, 3);
	_mm256_storeu_ps(to, _mm256_loadu_ps(a));
}

/* c[MR][nv * ZR_W] (ldc apart) = or += MR rows of A times a panel of B, whose rows are ldb apart.
 * A, if it is stored by columns, is copied to `packed`, unless that is NULL. nv, by_rows and packs
 * are constants, and whether packed is NULL. */
ZR_INLINE void micro(const int nv, const int by_rows, const int packs, const struct rows *r,
		     const float *a, int64_t lda, float *packed, const float *b, int64_t ldb,
		     float *c)
{
	const int64_t kc = r->kc, ldc = r->ldc;
	const int add = r->add;
	const float *row[MR];
	float *to = r->b;
	vf s[MR][NV];
	int64_t k = 0;
	int i, j;

	UNROLL
	for (i = 0; i < MR; i++) {
		row[i] = a + i * lda;
		UNROLL
		for (j = 0; j < nv; j++)
			s[i][j] = vset(0);
	}

	for (; k + STEPS <= kc; k += STEPS) {
		ask_line(r->ask);
		UNROLL
		for (i = 0; i < STEPS; i++, b += ldb, to += nv * ZR_W) {
			if (packs)
				ask_row(nv, b + AHEAD * ldb);
			if (packed)
				pack_column(a + (k + i) * lda, lda, packed + (k + i) * MR);
			add_step(nv, by_rows, packs, k + i, a, lda, row, b, to, s);
		}
	}

	for (; k < kc; k++, b += ldb, to += nv * ZR_W) {
		if (packed)
			pack_column(a + k * lda, lda, packed + k * MR);
		add_step(nv, by_rows, packs, k, a, lda, row, b, to, s);
	}
	UNROLL
	for (i = 0; i < MR; i++, c += ldc) {
		__asm__("" : "+r"(c)); /* one pointer that walks, instead of one for each row */
		if (add)
			UNROLL
		for (j = 0; j < nv; j++)
			s[i][j] = vload_f32(c + j * ZR_W) + s[i][j];
		UNROLL
		for (j = 0; j < nv; j++)
			vstore_f32(c + j * ZR_W, s[i][j]);
	}
}

/* The panels of A from i to n. packs and packs_a are constants. */
ZR_INLINE void panels(const int nv, const int by_rows, const int packs, const int packs_a,
		      const struct rows *r, int64_t i, int64_t n)
{
	for (; i < n; i++)
		micro(nv, by_rows, packs, r, r->a + i * r->next_a, r->lda,
		      packs_a ? r->packed_a + i * A_PANEL : NULL, packs ? r->unpacked : r->b,
		      packs ? r->ldb : nv * ZR_W, r->c + i * MR * r->ldc);
}

ZR_INLINE void rows(const int nv, const int by_rows, const int packs_a, const struct rows *r)
{
	const int64_t first = nv == NV && r->unpacked;
	if (first)
		panels(nv, by_rows, 1, packs_a, r, 0, 1);
	panels(nv, by_rows, 0, packs_a, r, first, r->n);
}

#define ROWS(nv, by_rows)                                                                          \
	static void rows_##nv##_##by_rows(const struct rows *r)                                    \
	{                                                                                          \
		if (nv == NV && !by_rows && r->packed_a)                                           \
			rows(nv, by_rows, 1, r);                                                   \
		else                                                                               \
			rows(nv, by_rows, 0, r);                                                   \
	}

#endif
