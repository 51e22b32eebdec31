/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_blocks.h - the products of attention.simd.c, in blocks of MR rows by NR vectors.
 */
#ifndef ZEROTH_KERNELS_CPU_ATTENTION_BLOCKS_H
#define ZEROTH_KERNELS_CPU_ATTENTION_BLOCKS_H

#include "attention_simd.h"

/* Of a panel of queries, or of the elements of a head: as wide as a block. */
#define COLUMN  (NR * ZR_W)
#define COLUMNS (PW / COLUMN)
#if defined __clang__ /* which would unroll nothing within */
#define STEPS
#else
#define STEPS _Pragma("GCC unroll 8") /* a processor foresees the end of a short loop only */
#endif
#define LINE 16 /* floats of a line of a cache: rows that are a power of 2 apart share few sets */

/* Within a block of rows by vecs vectors. */
#define OF_ROWS UNROLLED(i, MR, rows)
#define OF_VECS UNROLLED(n, NR, vecs)

/* Of a block: what lies in c before. */
enum { SET, ADD, SCALED };

/* acc[rows, vecs] += a[m*row] * b[vecs*ZR_W] */
ZR_INLINE void step_of(int rows, int vecs, vf acc[MR][NR], const float *a, int64_t row,
		       const float *b)
{
	vf y[NR];

	OF_VECS
	y[n] = vload_f32(b + n * ZR_W);
	OF_ROWS
	{
		vf x = vset(a[i * row]);
		OF_VECS
		acc[i][n] = vfma(x, y[n], acc[i][n]);
	}
}

/* c[rows, vecs*ZR_W] = sum over k of a[m*row + j*step] * b[j, vecs*ZR_W], added to c or to c times
 * by[m]. */
ZR_INLINE void micro(int rows, int vecs, int how, float *c, int64_t ldc, const float *by,
		     const float *a, int64_t row, int64_t step, const float *b, int64_t ldb,
		     int64_t k)
{
	vf acc[MR][NR];

	OF_ROWS
	OF_VECS
	acc[i][n] = vset(0);
	if (how != SET)
		OF_ROWS
	OF_VECS
	acc[i][n] = vload_f32(c + i * ldc + n * ZR_W);
	if (how == SCALED)
		OF_ROWS
	OF_VECS
	acc[i][n] = acc[i][n] * vset(by[i]);
	STEPS for (; k > 0; k--)
	{
		step_of(rows, vecs, acc, a, row, b);
		a += step;
		b += ldb;
	}
	OF_ROWS
	OF_VECS
	vstore_f32(c + i * ldc + n * ZR_W, acc[i][n]);
}

/* The same of as many rows as are left, rounded up to 2, at most MR. Not inlined: compilers take
 * long for each. */
__attribute__((noinline)) static void block(int64_t rows, int vecs, int how, float *c, int64_t ldc,
					    const float *by, const float *a, int64_t row,
					    int64_t step, const float *b, int64_t ldb, int64_t k)
{
#define ROWS(n)                                                                                    \
	do {                                                                                       \
		if (vecs == 1)                                                                     \
			micro(n, 1, how, c, ldc, by, a, row, step, b, ldb, k);                     \
		else                                                                               \
			micro(n, NR, how, c, ldc, by, a, row, step, b, ldb, k);                    \
	} while (0)
	if (rows > MR - 2)
		ROWS(MR);
	else if (rows > MR - 4)
		ROWS(MR - 2);
	else if (rows > 2)
		ROWS(4);
	else
		ROWS(2);
#undef ROWS
}

/* The next row of the tile of keys after this one into the cache. A processor drops what is asked
 * for at once: this is called in between other work. */
static void prefetch_row(const struct work *w)
{
	const struct zr_op_attention *o = w->o;
	struct ahead *a = w->ahead;
	const char *p;

	if (a->row == a->end)
		return;

	if (a->row & 1)
		p = at_v(w, o->v, a->row / 2);
	else
		p = at_k(w, o->k, a->row / 2);
	a->row++;
	for (int64_t b = 0; b < w->D * zr_size(o->dtype); b += 64)
		_mm_prefetch(p + b, _MM_HINT_T0);
}

/* c[keys, PW] = a[keys, D] b[D, PW], of each column of queries the keys that it goes through. */
static void scores(const struct work *w, float *c, const float *a, const float *b, int64_t all,
		   const int64_t keys[COLUMNS])
{
	for (int64_t i = 0; i < all; i += MR)
		for (int col = 0; col < COLUMNS; col++) {
			prefetch_row(w);
			if (i < keys[col])
				block(keys[col] - i, NR, SET, c + i * w->lds + col * COLUMN, w->lds,
				      NULL, a + i * w->ldk, w->ldk, 1, b + col * COLUMN, PW, w->D);
		}
}

/* Vectors of the block of elements of a head from d on. */
static inline int vectors(const struct work *w, int64_t d)
{
	return w->D - d > ZR_W ? NR : 1;
}

/* c[keys, D] += a[keys, n] b[n, D]; query i precedes the keys from i + ahead + 1 on. */
static void add_keys(const struct work *w, float *c, const float *a, const float *b, int64_t keys,
		     int64_t n, int64_t ahead)
{
	for (int64_t d = 0; d < w->D; d += COLUMN)
		for (int64_t i = 0; i < keys; i += MR) {
			int64_t from = most(0, i - ahead);
			if (from < n)
				block(keys - i, vectors(w, d), ADD, c + i * w->Dp + d, w->Dp, NULL,
				      a + i * w->lds + from, w->lds, 1, b + from * w->Dp + d, w->Dp,
				      n - from);
		}
}

/* c[n, D] = or += a[keys, n]' b[keys, D], or added to c times by[n]; query i precedes the keys from
 * i + ahead + 1 on. */
static void add_queries(const struct work *w, int how, float *c, const float *by, const float *a,
			const float *b, int64_t keys, int64_t n, int64_t ahead)
{
	for (int64_t d = 0; d < w->D; d += COLUMN)
		for (int64_t i = 0; i < n; i += MR)
			block(n - i, vectors(w, d), how, c + i * w->Dp + d, w->Dp,
			      how == SCALED ? by + i : NULL, a + i, 1, w->lds, b + d, w->ldk,
			      least(keys, most(0, ahead + i + MR)));
}

#endif
