/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_tiles.simd.c - the product of bf16 operands on the tile registers of AMX; those of other
 * types are left to AVX-512, few rows to gemm_few.simd.c. The order of operations is said in
 * bf16_pairs.h: it does not depend on how K is cut here.
 *
 * Four registers hold 32 x 32 sums, two 32 rows of A and two 32 columns of B, 16 pairs of K each: a
 * word is a pair of neighbours along K. A panel of 32 columns of B is taken in parts of KC pairs,
 * which stay in the first-level cache while all rows use them. A tile instruction takes 16 cycles:
 * beside those of a step the vector units pack a little of the next part. Rows of A pass by the
 * first-level cache, from where they lie if they fill tiles, else from a copy. What bounds all this
 * is the bandwidth of the second-level cache.
 */
#include "transpose_simd.h"

#include "bf16_pairs.h"
#include "gemm_few.h"
#include "table.h"
#include "tiles.h"

#define MC 256
#define KC 192     /* pairs of a part of B: 32 KiB */
#define DEPTH 1024 /* pairs of A that are packed at once */
#define NC 1536    /* columns of a tile whose sums need a place of their own */
#define UC 192     /* columns of a low-rank update summed at once */
#define LARGE (1 << 18) /* elements of a result that goes past the caches */
#define SIDE 32    /* rows of A and columns of B in a step */
#define GROUP 128  /* columns whose sums are stored together: rows of many lines */
#define PAIRS ZR_TILE_PAIRS
#define TILE (16 * PAIRS) /* words of a tile */

/* Words in the scratch of a tile: two parts of panels of B, packed A, sums of a group
 * of panels, sums of all, sums of a low-rank update. */
#define B_PARTS 0
#define A_TILES (B_PARTS + 2 * KC * SIDE)
#define SUMS (A_TILES + MC * DEPTH)
#define ALL_SUMS (SUMS + MC * GROUP)
#define UPDATE (ALL_SUMS + MC * NC)
_Static_assert((UPDATE + MC * UC) * sizeof(float) <= ZR_GEMM_SCRATCH, "scratch of gemm_tile");
_Static_assert(ZR_FEW_ROWS * ZR_FEW_K <= SUMS, "room of gemm_few");
_Static_assert(KC % PAIRS == 0 && DEPTH % PAIRS == 0, "parts of whole tiles");

static int64_t min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t up(int64_t x, int64_t unit)
{
	return (x + unit - 1) / unit * unit;
}

/* n cut into nearly equal parts of whole tiles, none longer than `most`: their length. */
static int64_t even(int64_t n, int64_t most)
{
	const int64_t parts = (n + most - 1) / most;
	return up((n + parts - 1) / parts, PAIRS);
}

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
			_mm512_store_si512(pairs[p], interleave(a + 2 * p * ld,
								a + (2 * p + 1) * ld, 16));
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
 * A part of a panel: of each pair 32 columns. */

struct part {
	const uint16_t *b; /* its first element */
	int64_t ld, k;     /* elements between rows as stored; elements of K */
	int64_t cols;
	int by_columns;    /* K is stored contiguously */
};

/* Whether a part is packed in units, a few at a time. */
ZR_INLINE int has_units(const struct part *p)
{
	return p->cols == SIDE && p->k % (2 * PAIRS) == 0;
}

/* Units of a part that are packed, and how many are left: one pair of 32 columns, or where K is
 * contiguous four pairs of 16 columns. */
struct packing {
	const uint16_t *from;
	int64_t ld;
	uint32_t *to;
	int64_t left;
};

/* n units more. by_columns is a constant. */
ZR_INLINE void pack_units(const int by_columns, struct packing *p, int64_t n)
{
	/* quarters of the first and second half side by side, as unpacking takes them */
	const vi order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
	const int64_t ld = p->ld;
	for (; n > 0 && p->left > 0; n--, p->left--)
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
			p->from += 2 * ld;
			p->to += SIDE;
		}
}

/* Any part. */
static void pack_part(const struct part *p, uint32_t *to)
{
	const int n0 = (int)min(p->cols, 16), n1 = (int)(p->cols - n0);
	memset(to, 0, (size_t)up(p->k, 2 * PAIRS) / 2 * SIDE * sizeof *to);
	for (int64_t e = 0; !p->by_columns && e < p->k; e += 2, to += SIDE) {
		const uint16_t *low = p->b + e * p->ld, *high = e + 1 < p->k ? low + p->ld : NULL;
		_mm512_store_si512(to, interleave(low, high, n0));
		if (n1)
			_mm512_store_si512(to + 16, interleave(low + 16, high ? high + 16 : NULL,
							       n1));
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
	const int units = has_units(p);
	if (!units && p->k)
		pack_part(p, to);
	return (struct packing){ p->b, p->ld, to,
				 units ? p->k / (p->by_columns ? 4 : 2) : 0 };
}

/* ---- prefetching -----------------------------------------------------------------
 * Lines of B that will be packed are asked into the second-level cache, row by row as they are
 * stored: memory gives neighbouring lines several times faster than lone ones. */

struct ahead {
	const char *row;
	int64_t bytes; /* from row to row */
	int64_t lines, line, rows; /* of a row; the next; rows left */
	int64_t each;  /* lines asked in a step */
};

ZR_INLINE void ahead_ask(struct ahead *s)
{
	for (int64_t n = s->each; n > 0 && s->rows > 0; n--) {
		__builtin_prefetch(s->row + s->line * 64, 0, 2);
		if (++s->line == s->lines) {
			s->line = 0;
			s->row += s->bytes;
			s->rows--;
		}
	}
}

/* ---- the micro-kernel ------------------------------------------------------------ */

/* 32 rows against 32 columns. */
struct sums {
	float *c;    /* [32][32], ldc apart */
	int64_t ldc;
	int add;     /* they begin as it is, not at 0 */
};

/* Register t holds sums of the rows from 16 (t / 2) on and of the columns from 16 (t % 2) on. */
#define PLACE(s, t) ((s)->c + (t) / 2 * 16 * (s)->ldc + (t) % 2 * 16)
#define LEAVE(s, t) TILE_STORE(t, PLACE(s, t), (s)->ldc * (int64_t)sizeof(float))
#define BEGIN(s, t) \
	do { \
		if ((s)->add) \
			TILE_LOAD(t, PLACE(s, t), (s)->ldc * (int64_t)sizeof(float)); \
		else \
			TILE_ZERO(t); \
	} while (0)
/* The sums before leave a register where the next begin: the stores go on beside products. */
#define CHANGE(before, s, t) \
	do { \
		if (before) \
			LEAVE(before, t); \
		BEGIN(s, t); \
	} while (0)

/* Rows of A: the second 16 are `half` words behind the first, those of the next step `step`. */
struct rows {
	const uint32_t *a;
	int64_t bytes; /* from row to row */
	int64_t half, step;
};

/* A step: two tiles of A by two of B; FIRST is what a register has to do before. wide is a
 * constant: without it only 16 columns are summed. */
#define STEP(wide, r, b, FIRST) \
	do { \
		TILE_STREAM(4, (r).a, (r).bytes); \
		TILE_LOAD(6, b, 128); \
		FIRST(0); \
		TILE_MULTIPLY_ADD(0, 4, 6); \
		TILE_STREAM(5, (r).a + (r).half, (r).bytes); \
		if (wide) { \
			TILE_LOAD(7, (b) + 16, 128); \
			FIRST(1); \
			TILE_MULTIPLY_ADD(1, 4, 7); \
		} \
		FIRST(2); \
		TILE_MULTIPLY_ADD(2, 5, 6); \
		if (wide) { \
			FIRST(3); \
			TILE_MULTIPLY_ADD(3, 5, 7); \
		} \
	} while (0)

/* All rows against one part of a panel. */
struct pass {
	int64_t blocks, steps; /* of 32 rows; of 16 pairs, at least one */
	struct rows rows;      /* of the first block */
	int64_t next;          /* words from block to block of rows */
	const uint32_t *b;
	struct sums sums;      /* of the first block */
	struct packing coming; /* is packed meanwhile */
	struct ahead *ahead;   /* is asked for meanwhile */
};

/* wide and by_columns are constants. */
ZR_INLINE void pass(const int wide, const int by_columns, const struct pass *m)
{
	const int64_t steps = m->steps,
		      units = (m->coming.left + m->blocks * steps - 1) / (m->blocks * steps);
	struct packing coming = m->coming;
	struct ahead ahead = *m->ahead;
	struct sums sums = m->sums, last, *before = NULL;
	struct rows rows = m->rows;
	for (int64_t i = 0; i < m->blocks; i++) {
		const uint32_t *b = m->b;
		rows.a = m->rows.a + i * m->next;
#define CHANGE_TO_THESE(t) CHANGE(before, &sums, t)
#define NOTHING(t) (void)0
		STEP(wide, rows, b, CHANGE_TO_THESE);
		pack_units(by_columns, &coming, units);
		ahead_ask(&ahead);
		for (int64_t s = 1; s < steps; s++) {
			rows.a += rows.step;
			b += PAIRS * SIDE;
			STEP(wide, rows, b, NOTHING);
			pack_units(by_columns, &coming, units);
			ahead_ask(&ahead);
		}
		last = sums;
		before = &last;
		sums.c += SIDE * sums.ldc;
	}
	LEAVE(before, 0);
	LEAVE(before, 2);
	if (wide) {
		LEAVE(before, 1);
		LEAVE(before, 3);
	}
	*m->ahead = ahead;
}

typedef void pass_fn(const struct pass *);
#define PASS(wide, by_columns) \
	static void pass_##wide##_##by_columns(const struct pass *m) \
	{ \
		pass(wide, by_columns, m); \
	}
PASS(0, 0)
PASS(0, 1)
PASS(1, 0)
PASS(1, 1)
static pass_fn *const passes[2][2] = { { pass_0_0, pass_0_1 }, { pass_1_0, pass_1_1 } };

/* ---- a tile of the result -------------------------------------------------------- */

/* Rows and columns of a product, rows <= MC, whose sums go to c; `add`: they begin as it is. */
struct tile {
	const struct zr_op_matmul *op;
	int64_t row0, rows, col0, cols;
	float *c;
	int64_t ldc;
	int add;
	uint32_t *scratch;
	int finishes; /* sums are finished once they are complete */
};

/* Pairs [k0, k0 + kc) of A and B. */
struct depth {
	int64_t k0, kc, part; /* of parts so long */
	int in_place;         /* A is read where it lies */
	int last;
};

static int64_t parts_of(const struct depth *d)
{
	return (d->kc + d->part - 1) / d->part;
}

static int64_t elements(const struct tile *t, int64_t pair, int64_t pairs)
{
	return min(2 * pairs, t->op->k - 2 * pair);
}

static void pack_a(const struct tile *t, const struct depth *d)
{
	const struct zr_op_matmul *op = t->op;
	const int64_t k = elements(t, d->k0, d->kc), steps = up(d->kc, PAIRS) / PAIRS;
	uint32_t *to = t->scratch + A_TILES;
	if (op->flags & ZR_MM_TRANS_A)
		pack_a_columns((const uint16_t *)op->a + 2 * d->k0 * op->lda + t->row0, op->lda,
			       t->rows, k, steps, to);
	else
		pack_a_rows((const uint16_t *)op->a + t->row0 * op->lda + 2 * d->k0, op->lda,
			    t->rows, k, steps, to);
}

/* Part i of those that a tile takes one after the other: panel after panel, each in parts of K. */
static struct part part_at(const struct tile *t, const struct depth *d, int64_t i)
{
	const struct zr_op_matmul *op = t->op;
	const int64_t parts = parts_of(d), col = i / parts * SIDE, k0 = i % parts * d->part,
		      k = d->k0 + k0;
	const int by_columns = !!(op->flags & ZR_MM_TRANS_B);
	struct part p = { .ld = op->ldb, .by_columns = by_columns };
	if (col >= t->cols)
		return p;
	p.b = (const uint16_t *)op->b + (by_columns ? (t->col0 + col) * op->ldb + 2 * k :
						      2 * k * op->ldb + t->col0 + col);
	p.k = elements(t, k, min(d->part, d->kc - k0));
	p.cols = min(SIDE, t->cols - col);
	return p;
}

/* Sums of n columns from and to their place. */
static void take_sums(const struct tile *t, int64_t col, int64_t n, float *to)
{
	for (int64_t i = 0; i < t->rows; i++)
		for (int64_t j = 0; j < n; j += 16)
			vstore_f32(to + i * GROUP + j, vload_f32_n(t->c + i * t->ldc + col + j,
								    (int)min(n - j, 16)));
}

/* A large result is written past the caches, which would read it first: unless it was read. */
static void leave_sums(const struct tile *t, int64_t col, int64_t n, int was_read,
		       const float *from)
{
	float *to = t->c + col;
	const int whole = n % 16 == 0 && t->ldc % 16 == 0 && (uintptr_t)to % 64 == 0;
	const int streams = whole && !was_read && t->op->m * t->op->n >= LARGE;
	for (int64_t i = 0; i < t->rows; i++, from += GROUP, to += t->ldc)
		for (int64_t j = 0; j < n; j += 16)
			if (streams)
				_mm512_stream_ps(to + j, _mm512_load_ps(from + j));
			else
				vstore_f32_n(to + j, vload_f32(from + j), (int)min(n - j, 16));
}

/* What the operation does to the sums of n columns, ld apart. */
static void finish_sums(const struct tile *t, int64_t col, int64_t n, const float *sums, int64_t ld)
{
	const struct zr_op_matmul *op = t->op;
	const int64_t at = t->row0 * op->ldd + t->col0 + col;
	zr_gemm_finish_avx512(op, sums, ld, t->rows, n,
			      op->bias ? zr_at(op->bias, t->col0 + col, op->b_dtype) : NULL,
			      zr_at(op->d, at, op->d_dtype),
			      op->pre ? zr_at(op->pre, at, op->d_dtype) : NULL);
}

static struct rows rows_at(const struct tile *t, const struct depth *d, int64_t part)
{
	const struct zr_op_matmul *op = t->op;
	const int64_t pair = part * d->part;
	if (d->in_place)
		return (struct rows){ (const uint32_t *)(const void *)
				      ((const uint16_t *)op->a + t->row0 * op->lda +
				       2 * (d->k0 + pair)),
				      2 * op->lda, 8 * op->lda, PAIRS };
	return (struct rows){ t->scratch + A_TILES + pair / PAIRS * 2 * TILE, 64, TILE, 2 * TILE };
}

/* Columns of the group that begins at col: little of B is asked for before the first. */
static int64_t group_at(const struct tile *t, int64_t col)
{
	return min(col ? GROUP : SIDE, t->cols - col);
}

/* What of B follows the group of n columns at col. */
static struct ahead ahead_of(const struct tile *t, const struct depth *d, int64_t col, int64_t n)
{
	const struct zr_op_matmul *op = t->op;
	const int64_t k = elements(t, d->k0, d->kc), next = min(GROUP, t->cols - col - n),
		      panels = up(n, SIDE) / SIDE, blocks = up(t->rows, SIDE) / SIDE,
		      steps = panels * blocks * up(d->kc, PAIRS) / PAIRS;
	const uint16_t *b = op->b;
	struct ahead s = { .bytes = 2 * op->ldb };
	if (next <= 0)
		return s;
	if (op->flags & ZR_MM_TRANS_B)
		b += (t->col0 + col + n) * op->ldb + 2 * d->k0;
	else
		b += 2 * d->k0 * op->ldb + t->col0 + col + n;
	s.row = (const char *)b;
	s.lines = up((op->flags & ZR_MM_TRANS_B ? k : next) * 2, 64) / 64;
	s.rows = op->flags & ZR_MM_TRANS_B ? next : k;
	s.each = (s.lines * s.rows + steps - 1) / steps;
	return s;
}

static void panels(const struct tile *t, const struct depth *d)
{
	const int64_t parts = parts_of(d), steps = up(d->kc, PAIRS) / PAIRS;
	const int add = t->add || d->k0 > 0, by_columns = !!(t->op->flags & ZR_MM_TRANS_B);
	struct part part = part_at(t, d, 0);
	uint32_t *b = t->scratch + B_PARTS, *other = b + KC * SIDE;
	struct ahead ahead;
	struct pass m = { .blocks = up(t->rows, SIDE) / SIDE, .ahead = &ahead,
			     .next = d->in_place ? 16 * t->op->lda : steps * 2 * TILE };
	struct packing first = packing_of(&part, b);
	float *sums = (float *)t->scratch + SUMS;
	int64_t i = 0;
	pack_units(by_columns, &first, first.left);
	for (int64_t col = 0, n; col < t->cols; col += n) {
		n = group_at(t, col);
		ahead = ahead_of(t, d, col, n);
		if (add)
			take_sums(t, col, n, sums);
		for (int64_t j = 0; j < n; j += SIDE)
			for (int64_t p = 0; p < parts; p++) {
				m.steps = up(part.k, 2 * PAIRS) / (2 * PAIRS);
				m.rows = rows_at(t, d, p);
				m.b = b;
				m.sums = (struct sums){ sums + j, GROUP, add || p > 0 };
				part = part_at(t, d, ++i);
				m.coming = packing_of(&part, other);
				passes[n - j > 16][by_columns](&m);
				other = b;
				b = m.coming.to;
			}
		if (t->finishes && d->last)
			finish_sums(t, col, n, sums, GROUP);
		else
			leave_sums(t, col, n, add, sums);
	}
}

/* c (rows x cols, rows <= MC) = or += the product over all of K; with `finishes` D gets what
 * becomes of it. */
static void sum_up(const struct tile *t)
{
	const struct zr_op_matmul *op = t->op;
	if (t->rows <= ZR_FEW_ROWS) {
		ZR_SIMD(gemm_few)(op, t->row0, t->rows, t->col0, t->cols, t->c, t->ldc, t->add,
				  (float *)t->scratch);
		if (t->finishes)
			finish_sums(t, 0, t->cols, t->c, t->ldc);
		return;
	}
	const int64_t pairs = up(op->k, 2) / 2, whole = op->k / (2 * PAIRS) * PAIRS;
	struct depth d = { .kc = 0 };
	d.in_place = !(op->flags & ZR_MM_TRANS_A) && t->rows % SIDE == 0 && whole;
	tiles_begin();
	do {
		const int64_t end = d.in_place ? whole : pairs;
		d.kc = min(even(end, DEPTH), end - d.k0);
		d.part = even(d.kc, KC);
		d.last = d.k0 + d.kc >= pairs;
		if (!d.in_place)
			pack_a(t, &d);
		panels(t, &d);
		d.k0 += d.kc;
		d.in_place = d.in_place && d.k0 < whole;
	} while (!d.last);
	tiles_end();
}

static void blocks(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
		   int64_t cols, float *c, int64_t ldc, int add, void *scratch)
{
	const struct tile t = { op, row0, rows, col0, cols, c, ldc, add, scratch, 0 };
	sum_up(&t);
}

#include "gemm_low_rank.h"

/* At most MC rows, and at most NC columns if the sums are not D itself. */
static void subtile(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
		    int64_t row0, int64_t rows, int64_t col0, int64_t cols, float *scratch)
{
	const int direct = op->d_dtype == ZR_F32;
	const int more = op->bias || op->flags & ZR_MM_GELU || !direct;
	const int64_t at = row0 * op->ldd + col0;
	const struct tile t = { op, row0, rows, col0, cols,
				direct ? (float *)op->d + at : scratch + ALL_SUMS,
				direct ? op->ldd : cols, !!(op->flags & ZR_MM_ACCUMULATE),
				(uint32_t *)(void *)scratch, more && !low };
	sum_up(&t);
	if (!low)
		return;
	ZR_SIMD(gemm_low_rank)(low, row0, rows, col0, cols, t.c, t.ldc, scratch);
	if (more)
		finish_sums(&t, 0, cols, t.c, t.ldc);
}

void ZR_SIMD(gemm_tile)(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
			int64_t row0, int64_t rows, int64_t col0, int64_t cols, void *scratch)
{
	const int64_t nc = op->d_dtype == ZR_F32 ? cols : NC;
	if (!zr_pairs(op) || !op->k) {
		zr_gemm_tile_avx512(op, low, row0, rows, col0, cols, scratch);
		return;
	}
	for (int64_t i = 0; i < rows; i += MC)
		for (int64_t j = 0; j < cols; j += nc)
			subtile(op, low, row0 + i, min(MC, rows - i), col0 + j, min(nc, cols - j),
				scratch);
}
