/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_tiles_pack.h - packing of gemm_tiles.simd.c, included by it only: elements of both operands
 * as words, each a pair of neighbours along K, in the order in which tile registers take them.
 */
#ifndef ZEROTH_KERNELS_CPU_GEMM_TILES_PACK_H
#define ZEROTH_KERNELS_CPU_GEMM_TILES_PACK_H

/* The first n of 32 elements, 0 behind them. */
ZR_INLINE vi load_elements(const uint16_t *p, int64_t n)
{
	if (n >= 2 * PAIRS)
		return _mm512_loadu_si512(p);
	return _mm512_maskz_loadu_epi16(n > 0 ? (__mmask32)((1ull << n) - 1) : 0, p);
}

/* to[p][0..16), rows `ld` words apart, = pair p of 16 rows of 16 pairs */
ZR_INLINE void transpose_tile(uint32_t rows[16][PAIRS], uint32_t *to, int64_t ld)
{
	for (int p = 0; p < PAIRS; p += 4) {
		vf r[4];
		load_columns(rows[0] + p, sizeof *rows, r);
		UNROLL
		for (int i = 0; i < 4; i++)
			_mm512_storeu_ps(to + (p + i) * ld, r[i]);
	}
}

/* ---- packing A -------------------------------------------------------------------
 * Tiles of 16 rows of 16 pairs in the order in which they are taken: those of 32 rows, `steps`
 * times two, lie one after the other. k elements of each row; 0 where there are none. */

static void pack_a_rows(const uint16_t *a, int64_t ld, int64_t rows, int64_t k, int64_t steps,
			uint32_t *to)
{
	for (int64_t i = 0; i < up(rows, SIDE); i += 16, a += 16 * ld) {
		uint32_t *at = to + i / SIDE * steps * 2 * TILE + i % SIDE * PAIRS;
		for (int64_t e = 0; e < k; e += 2 * PAIRS, at += 2 * TILE)
			for (int64_t r = 0; r < 16; r++)
				_mm512_store_si512(at + r * PAIRS,
						   load_elements(a + r * ld + e,
								 i + r < rows ? k - e : 0));
	}
}

/* A tile of A stored by columns, which are ld apart. */
ZR_INLINE void pack_a_tile(const uint16_t *a, int64_t ld, int64_t rows, int64_t k, uint32_t *to)
{
	_Alignas(64) uint32_t pairs[PAIRS][16];
	if (rows >= 16 && k >= 2 * PAIRS) {
		UNROLL
		for (int64_t p = 0; p < PAIRS; p++)
			_mm512_store_si512(pairs[p],
					   interleave(a + 2 * p * ld, a + (2 * p + 1) * ld, 16));
	} else {
		memset(pairs, 0, sizeof pairs);
		for (int64_t p = 0; rows > 0 && p < PAIRS && 2 * p < k; p++, a += 2 * ld)
			_mm512_store_si512(pairs[p], interleave(a, 2 * p + 1 < k ? a + ld : NULL,
								(int)min(rows, 16)));
	}

	transpose_tile(pairs, to, PAIRS);
}

static void pack_a_columns(const uint16_t *a, int64_t ld, int64_t rows, int64_t k, int64_t steps,
			   uint32_t *to)
{
	for (int64_t e = 0; e < k; e += 2 * PAIRS, to += 2 * TILE)
		for (int64_t i = 0; i < up(rows, SIDE); i += 16)
			pack_a_tile(a + e * ld + i, ld, rows - i, k - e,
				    to + i / SIDE * steps * 2 * TILE + i % SIDE * PAIRS);
}

/* ---- packing B -------------------------------------------------------------------
 * A part: of each pair up to GROUP columns, in panels of 32 columns that lie PANEL words apart. */

#define PANEL (KC * SIDE)

struct part {
	const uint16_t *b; /* its first element */
	int64_t ld, k;     /* elements between rows as stored; elements of K */
	int64_t cols;
	int by_columns; /* K is stored contiguously */
};

/* Whether a part is packed in units, a few at a time. */
ZR_INLINE int has_units(const struct part *p)
{
	return p->cols % SIDE == 0 && p->k % (2 * PAIRS) == 0;
}

/* Units of a part that are packed, and how many are left: one pair of 32 columns, or where K is
 * contiguous four pairs of 16 columns. They are taken in rows, all panels of a pair or all pairs
 * of a panel; from the end of a row the next is `from_next` and `to_next` away. */
struct packing {
	const uint16_t *from;
	int64_t ld;
	uint32_t *to;
	int64_t left, each; /* each: in a step */
	int64_t row, at;    /* units of a row, of this one so far */
	int64_t from_next, to_next;
};

/* n units more. by_columns is a constant. */
ZR_INLINE void pack_units(const int by_columns, struct packing *p, int64_t n)
{
	/* quarters of the first and second half side by side, as unpacking takes them */
	const vi order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
	const int64_t ld = p->ld;
	for (; n > 0 && p->left > 0; n--, p->left--) {
		if (by_columns) {
			const int second = p->left % 2;
			vf r[4];
			load_columns(p->from, 2 * ld, r);
			UNROLL
			for (int j = 0; j < 4; j++)
				_mm512_store_ps(p->to + j * SIDE, r[j]);
			p->from += second ? 8 - 16 * ld : 16 * ld;
			p->to += second ? 4 * SIDE - 16 : 16;
		} else {
			vi x = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(p->from)),
			   y = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(p->from + ld));
			_mm512_store_si512(p->to, _mm512_unpacklo_epi16(x, y));
			_mm512_store_si512(p->to + 16, _mm512_unpackhi_epi16(x, y));
			p->from += SIDE;
			p->to += PANEL;
		}

		if (++p->at == p->row) {
			p->at = 0;
			p->from += p->from_next;
			p->to += p->to_next;
		}
	}
}

/* One panel of any part. */
static void pack_panel(const struct part *p, uint32_t *to)
{
	const int n0 = (int)min(p->cols, 16), n1 = (int)(p->cols - n0);
	memset(to, 0, (size_t)up(p->k, 2 * PAIRS) / 2 * SIDE * sizeof *to);
	for (int64_t e = 0; !p->by_columns && e < p->k; e += 2, to += SIDE) {
		const uint16_t *low = p->b + e * p->ld, *high = e + 1 < p->k ? low + p->ld : NULL;
		_mm512_store_si512(to, interleave(low, high, n0));
		if (n1)
			_mm512_store_si512(to + 16,
					   interleave(low + 16, high ? high + 16 : NULL, n1));
	}

	for (int64_t e = 0; p->by_columns && e < p->k; e += 2 * PAIRS, to += PAIRS * SIDE)
		for (int64_t j = 0; j < p->cols; j += 16) {
			_Alignas(64) uint32_t columns[16][PAIRS];
			for (int64_t i = 0; i < 16; i++)
				_mm512_store_si512(columns[i],
						   load_elements(p->b + (j + i) * p->ld + e,
								 j + i < p->cols ? p->k - e : 0));
			transpose_tile(columns, to + j, SIDE);
		}
}

/* Begins to pack a part; one without units is packed at once. */
static struct packing packing_of(const struct part *p, uint32_t *to)
{
	const int64_t panels = p->cols / SIDE;
	struct packing s = { .from = p->b, .ld = p->ld, .to = to };
	if (!has_units(p)) {
		struct part panel = *p;
		for (int64_t j = 0; j < p->cols; j += SIDE, to += PANEL) {
			panel.b = p->b + j * (p->by_columns ? p->ld : 1);
			panel.cols = min(SIDE, p->cols - j);
			pack_panel(&panel, to);
		}
	} else if (p->by_columns) {
		s.row = p->k / 4;
		s.left = panels * s.row;
		s.from_next = SIDE * p->ld - p->k;
		s.to_next = PANEL - p->k / 2 * SIDE;
	} else {
		s.row = panels;
		s.left = p->k / 2 * panels;
		s.from_next = 2 * p->ld - panels * SIDE;
		s.to_next = SIDE - panels * PANEL;
	}
	return s;
}

/* ---- prefetching -----------------------------------------------------------------
 * Lines of B are asked into the second-level cache LEAD rows before they are packed, row by row as
 * they are stored: memory gives neighbouring lines several times faster than lone ones. Many rows
 * ahead would do harm: rows that lie a power of two apart fall on few sets of that cache. */

struct ahead {
	const char *row;
	int64_t bytes;             /* from row to row */
	int64_t lines, line, rows; /* of a row; the next; rows left */
	int64_t each;              /* lines asked in a step */
	const char *then;          /* so many rows from here on are asked for after these */
	int64_t then_rows;
};

static int64_t rows_of(const struct part *p)
{
	return p->by_columns ? p->cols : p->k;
}

/* A part but its first rows, and those of the part after it, in so many steps. */
static struct ahead ahead_of(const struct part *p, const struct part *after, int64_t steps)
{
	const int64_t lead = min(LEAD, rows_of(p));
	struct ahead s = { .row = (const char *)(p->b + p->ld * lead),
			   .bytes = 2 * p->ld,
			   .rows = rows_of(p) - lead,
			   .then = (const char *)after->b,
			   .then_rows = min(LEAD, rows_of(after)) };
	s.lines = up(2 * (p->by_columns ? p->k : p->cols), 64) / 64;
	s.each = (s.lines * (s.rows + s.then_rows) + steps - 1) / steps;
	return s;
}

ZR_INLINE void ahead_ask(struct ahead *s, int64_t n)
{
	for (; n > 0; n--) {
		if (!s->rows) {
			if (!s->then_rows)
				return;

			s->row = s->then;
			s->rows = s->then_rows;
			s->then_rows = 0;
		}

		__builtin_prefetch(s->row + s->line * 64, 0, 2);
		if (++s->line == s->lines) {
			s->line = 0;
			s->row += s->bytes;
			s->rows--;
		}
	}
}

#endif
