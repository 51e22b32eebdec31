/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_tiles_simd.h - what attention_tiles.simd.c and attention_tiles_bwd.simd.c share: a
 * head's work, how its operands are packed, and single elements.
 *
 * A tile of queries, at most 512 of a head, goes through tiles of TK keys in panels of PW queries.
 * Products are of pieces of 32 by 32 (tile_queue.h), whose left operand is rows as they lie and
 * whose right one is packed. While a panel's scores become P, tile registers work on the panel
 * before and the panel after. Beside them operations of floats are half as many a second, those of
 * integers not: rounding is by integers.
 *
 * Invariant I1: a head (backward: a part of those that share a key-value head) is computed by one
 * call. Elements of a product are sums of blocks that pass through memory between tiles, and blocks
 * begin where the document does, so of all sizes only TK is seen in the bits, and forward alone.
 */
#ifndef ZEROTH_KERNELS_CPU_ATTENTION_TILES_SIMD_H
#define ZEROTH_KERNELS_CPU_ATTENTION_TILES_SIMD_H

#include "attention_simd.h"
#include "attention_tiles.h"
#include "tile_queue.h"
#include "transpose_simd.h"

#define BLOCK ZR_TILES_BLOCK
#define KEPT  512 /* keys that the forward has packed at once */
#define GROUP 4   /* panels that the backward adds to dK and dV at once */
_Static_assert(BLOCK == NR * ZR_W, "rows of a head are of whole blocks");

struct tiles {
	struct work w;    /* of its scratch p, ds, keep, words, max, sum and ot */
	float unit;       /* of S: the scale, 1 under a soft cap */
	int64_t tq, half; /* queries of a tile at most; Dp / 2 */
	uint32_t *raw;    /* [TK, half]: rows as they are loaded */
	uint32_t *k, *v;  /* rows of keys [TK, half] */
	uint32_t *kt;     /* K' [KEPT/16][half][16]; backward [TK/32][Dp][16], of pairs of keys */
	uint32_t *v2;     /* V [Dp/16][KEPT/2][16] */
	uint32_t *q;      /* rows of queries [tq, half] */
	uint32_t *prow, *dsrow; /* [2 * GROUP][TK][16] */
	uint32_t *ds2;          /* [2][2][TK/2][16] */
	uint32_t *qt, *dot;     /* Q', dO' [tq/16][half][16] */
	uint32_t *q2, *do2;     /* Q, dO [Dp/16][tq/2][16] */
	float *by;              /* [PW]: what O shrinks by */
	int64_t packed;         /* the first of the keys whose K' and V are packed */
	struct queue *queue;
};

/* ---- load and pack --------------------------------------------------------------- */

/* dst[padded, half] = rows [0, n) of src, `stride` elements apart; zeros around. */
static inline void load_words(const struct tiles *x, uint32_t *dst, int64_t padded, const void *src,
			      int64_t stride, int64_t n)
{
	const uint16_t *s = src;
	const int64_t whole = x->w.D / 32 * 32;

	for (int64_t i = 0; i < n; i++, s += stride, dst += x->half) {
		for (int64_t e = 0; e < whole; e += 32)
			vistore(dst + e / 2, _mm512_loadu_si512(s + e));
		if (whole < x->w.D) {
			__mmask32 m = (1u << (x->w.D - whole)) - 1;
			vistore(dst + whole / 2, _mm512_maskz_loadu_epi16(m, s + whole));
		}
	}

	if (n < padded)
		memset(dst, 0, (size_t)((padded - n) * x->half) * sizeof *dst);
}

/* dst[16 words][16] from 16 rows of 16 words, `row` words apart. */
ZR_INLINE void transpose_words(void *dst, const void *src, int64_t row)
{
	UNROLL for (int i = 0; i < COL; i += 4)
	{
		vf r[4];
		load_columns((const float *)src + i, row * (int64_t)sizeof(float), r);
		UNROLL for (int k = 0; k < 4; k++) vstore_f32((float *)dst + (i + k) * COL, r[k]);
	}
}

/* dst[rows/16][half][16] from src[rows, half]; rows is a multiple of 16 */
static inline void pack_columns(const struct tiles *x, uint32_t *dst, const uint32_t *src,
				int64_t rows)
{
	for (int64_t i = 0; i < rows; i += COL)
		for (int64_t e = 0; e < x->half; e += COL)
			transpose_words(dst + i * x->half + e * COL, src + i * x->half + e,
					x->half);
}

/* dst[Dp/16][all/2][16], pairs of rows, from src[rows, half]; rows is even */
static inline void pack_pairs(const struct tiles *x, uint32_t *dst, int64_t all,
			      const uint32_t *src, int64_t rows)
{
	const uint16_t *s = (const uint16_t *)(const void *)src;
	const int64_t Dp = x->w.Dp;

	for (int64_t i = 0; i < rows; i += 2, s += 2 * Dp, dst += COL)
		for (int64_t d = 0; d < Dp; d += COL)
			vistore(dst + d * (all / 2), interleave(s + d, s + Dp + d, COL));
}

/* dst[rows/32][Dp][16], pairs of rows transposed, from src[rows, half] */
static inline void pack_across(const struct tiles *x, uint32_t *dst, const uint32_t *src,
			       int64_t rows)
{
	const uint16_t *s = (const uint16_t *)(const void *)src;
	const int64_t Dp = x->w.Dp;
	uint32_t pairs[COL * COL];

	for (int64_t i = 0; i < rows; i += BLOCK)
		for (int64_t d = 0; d < Dp; d += COL) {
			for (int64_t j = 0; j < COL; j++) {
				const uint16_t *low = s + (i + 2 * j) * Dp + d;
				vistore(pairs + j * COL, interleave(low, low + Dp, COL));
			}
			transpose_words(dst + i / BLOCK * Dp * COL + d * COL, pairs, COL);
		}
}

/* ---- elements -------------------------------------------------------------------- */

/* 2^x; that of -infinity is 0 */
ZR_INLINE vf vpower(vf x)
{
	vf r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
	vf q = vfma(vset(ZR_EXP2_F3), r, vset(ZR_EXP2_F2));

	q = vfma(q, r, vset(ZR_EXP2_F1));
	return vscale2(vfma(q, r, vset(1)), x);
}

/* bf16 of the lanes of a, then of those of b, by integer operations: beside tile registers there
 * are twice as many a second as of those of floats */
ZR_INLINE vi vrow(vf a, vf b)
{
	const vi half = viset(0x8000);
	const vi high = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35,
					 33, 31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3,
					 1);
	return _mm512_permutex2var_epi16(_mm512_add_epi32(vbits(a), half), high,
					 _mm512_add_epi32(vbits(b), half));
}

/* The keys [*lo, *hi) of the tile at k0, whole blocks, that the panel at q0 goes through; returns
 * whether there are any. */
static inline int keys_of_panel(const struct work *w, int64_t q0, int64_t k0, int64_t *lo,
				int64_t *hi)
{
	*lo = most(0, q0 - w->window + 1 - k0) / BLOCK * BLOCK;
	*hi = least(TK, q0 + PW - k0);
	return *lo < *hi;
}

/* A panel of the tile of queries and the keys of a tile that it goes through. */
struct panel {
	int64_t at, q0, n;  /* place in the tile, the first query, how many there are */
	int64_t k0, lo, hi; /* keys [lo, hi) from k0 on: none where hi is 0 */
	int first;          /* no tile before had keys for it */
};

static inline struct panel panel_of(const struct tiles *x, int64_t at, int64_t q0, int64_t n,
				    int64_t k0)
{
	struct panel p = { .at = at, .q0 = q0 + at, .n = least(PW, n - at), .k0 = k0 };
	if (at < 0 || at >= n || !keys_of_panel(&x->w, p.q0, k0, &p.lo, &p.hi))
		p.hi = 0;
	p.first = k0 == first_tile(&x->w, p.q0);
	return p;
}

static inline void cap_scores(const struct tiles *x, float *s, int64_t n)
{
	const float cap = x->w.o->softcap;

	for (int64_t i = 0; i < n; i += ZR_W)
		vstore_f32(s + i, vset(cap) * vtanh(vload_f32(s + i) * vset(x->w.o->scale / cap)));
}

/* Places of a head's work from base on, which may be NULL; returns the bytes. */
static inline uint64_t layout(struct tiles *x, const struct zr_op_attention *o, char *base,
			      int backward)
{
	struct work *w = &x->w;
	int64_t Dp, tile;
	uint64_t used = 0;

	begin_layout(w, o);
	Dp = w->Dp;
	x->half = Dp / 2;
	x->tq = Dp <= 256 ? 512 : PW;
	w->lds = PW;
	tile = x->tq * Dp;
	x->unit = o->softcap > 0 ? 1 : o->scale;
	x->raw = carve(base, &used, TK * Dp / 2);
	x->kt = carve(base, &used, (backward ? TK : KEPT) * Dp / 2);
	x->q = carve(base, &used, tile / 2);
	w->p = carve(base, &used, 2 * TK * PW);
	x->queue = carve(base, &used, sizeof *x->queue / sizeof(float));
	w->keep = carve(base, &used, TK * PW);
	w->words = carve(base, &used, PW * WORDS);
	w->max = carve(base, &used, x->tq);
	w->ot = carve(base, &used, tile);
	if (!backward) {
		x->v2 = carve(base, &used, KEPT * Dp / 2);
		x->by = carve(base, &used, PW);
		w->sum = carve(base, &used, x->tq * ZR_W);
		return used;
	}

	x->k = carve(base, &used, TK * Dp / 2);
	x->v = carve(base, &used, TK * Dp / 2);
	x->qt = carve(base, &used, tile / 2);
	x->dot = carve(base, &used, tile / 2);
	x->q2 = carve(base, &used, tile / 2);
	x->do2 = carve(base, &used, tile / 2);
	x->prow = carve(base, &used, GROUP * PW * TK);
	x->dsrow = carve(base, &used, GROUP * PW * TK);
	x->ds2 = carve(base, &used, TK * PW);
	w->ds = carve(base, &used, 2 * TK * PW);
	w->sum = carve(base, &used, x->tq);
	return used;
}

#endif
