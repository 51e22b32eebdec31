/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_tiles.simd.c - the product of bf16 operands on the tile registers of AMX; those of other
 * types are left to AVX-512, few rows to gemm_few.simd.c. The order of operations is said in
 * bf16_pairs.h: it does not depend on how K is cut here.
 *
 * Four registers hold 32 x 32 sums, two 32 rows of A and two 32 columns of B, 16 pairs of K each: a
 * word is a pair of neighbours along K. A panel of 32 columns of B is taken in parts of KC pairs,
 * which stay in the first-level cache while all rows use them. A tile instruction takes 16 cycles:
 * beside those of a step the vector units pack a little of the next part and take a little of
 * complete sums. Packed rows of A pass by the first-level cache: where they lie they would fall on
 * few of its sets. What bounds all this is the traffic between the caches.
 */
#include "transpose_simd.h"

#include "bf16_pairs.h"
#include "gemm_few.h"
#include "table.h"
#include "tiles.h"

#define MC    256       /* rows that are always taken at once, if there are so many */
#define MOST  1024      /* zr_gemm_rows_at_once() at most */
#define KC    192       /* pairs of a part of B: 24 KiB */
#define DEPTH 1024      /* pairs of A that are packed at once at most */
#define NC    1536      /* columns of a tile whose sums need a place of their own */
#define UC    192       /* columns of a low-rank update summed at once */
#define LARGE (1 << 18) /* elements of a result that goes past the caches */
#define SIDE  32        /* rows of A and columns of B in a step */
#define GROUP 64        /* columns of B that are packed together at most */
#define LEAD  32        /* rows of B that are asked for before they are packed */
#define PAIRS ZR_TILE_PAIRS
#define TILE  (16 * PAIRS) /* words of a tile */

/* Words in the scratch of a tile: two parts of groups of B, packed A, sums of a group, complete
 * sums of a block of 32 rows, sums of all, sums of a low-rank update. */
#define B_PARTS  0
#define A_TILES  (B_PARTS + 2 * KC * GROUP)
#define SUMS     (A_TILES + MC * DEPTH)
#define COMPLETE (SUMS + MOST * GROUP)
#define ALL_SUMS (COMPLETE + SIDE * SIDE)
#define UPDATE   (ALL_SUMS + MC * NC)
_Static_assert((UPDATE + MC * UC) * sizeof(float) <= ZR_GEMM_SCRATCH, "scratch of gemm_tile");
_Static_assert(ZR_FEW_ROWS *ZR_FEW_K <= SUMS, "room of gemm_few");
_Static_assert(KC % PAIRS == 0 && DEPTH % PAIRS == 0, "parts of whole tiles");

static int64_t min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t up(int64_t x, int64_t unit)
{
	return (x + unit - 1) / unit * unit;
}

/* n cut into nearly equal parts of whole units, none longer than `most`: their length. */
static int64_t even(int64_t n, int64_t most, int64_t unit)
{
	const int64_t parts = (n + most - 1) / most;
	return up((n + parts - 1) / parts, unit);
}

#include "gemm_tiles_pack.h"

/* ---- complete sums ---------------------------------------------------------------- */

/* Rows and columns of a product, rows <= MOST, whose sums go to c; `add`: they begin as it is. */
struct tile {
	const struct zr_op_matmul *op;
	int64_t row0, rows, col0, cols;
	float *c;
	int64_t ldc;
	int add;
	uint32_t *scratch;
	int finishes; /* sums are finished once they are complete */
};

/* Rows of sums as begun with: those of c. */
static void take_sums(const struct tile *t, int64_t col, int64_t cols, float *to)
{
	for (int64_t i = 0; i < t->rows; i++)
		for (int64_t j = 0; j < cols; j += 16)
			vstore_f32(to + i * SIDE + j, vload_f32_n(t->c + i * t->ldc + col + j,
								  (int)min(cols - j, 16)));
}

/* What is left of a block of 32 rows of complete sums: its rows are taken a few at a time. */
struct complete {
	const struct tile *t;
	float *sums; /* of its first row, rows of 32 */
	int64_t row, rows, col, cols;
	int finishes; /* D gets what becomes of them, else c gets them */
	int streams;  /* past the caches */
};

/* A large result is written past the caches, which would read it first: unless it was read. */
static int may_stream(const struct tile *t, int64_t cols, int was_read)
{
	return !was_read && cols == SIDE && t->ldc % 16 == 0 && (uintptr_t)t->c % 64 == 0 &&
	       t->op->m * t->op->n >= LARGE;
}

static void leave_rows(const struct complete *s, int64_t n)
{
	const float *from = s->sums;
	float *to = s->t->c + s->row * s->t->ldc + s->col;

	for (; n > 0; n--, from += SIDE, to += s->t->ldc)
		if (s->streams) {
			_mm512_stream_ps(to, vload_f32(from));
			_mm512_stream_ps(to + 16, vload_f32(from + 16));
		} else {
			vstore_f32_n(to, vload_f32(from), (int)min(s->cols, 16));
			if (s->cols > 16)
				vstore_f32_n(to + 16, vload_f32(from + 16), (int)s->cols - 16);
		}
}

/* What the operation does to sums, ld apart. */
static void finish_sums(const struct tile *t, int64_t row, int64_t rows, int64_t col, int64_t cols,
			const float *sums, int64_t ld)
{
	const struct zr_op_matmul *op = t->op;
	const int64_t at = (t->row0 + row) * op->ldd + t->col0 + col;
	zr_gemm_finish_avx512(op, sums, ld, rows, cols,
			      op->bias ? zr_at(op->bias, t->col0 + col, op->b.dtype) : NULL,
			      zr_at(op->d.data, at, op->d.dtype),
			      op->pre ? zr_at(op->pre, at, op->d.dtype) : NULL);
}

/* n rows more. */
ZR_INLINE void take_rows(struct complete *s, int64_t n)
{
	n = min(n, s->rows);
	if (n <= 0)
		return;
	if (s->finishes)
		finish_sums(s->t, s->row, n, s->col, s->cols, s->sums, SIDE);
	else
		leave_rows(s, n);
	s->sums += n * SIDE;
	s->row += n;
	s->rows -= n;
}

/* ---- the micro-kernel ------------------------------------------------------------ */

/* Sums of 32 rows and 32 columns lie in rows of 32. Register t holds those of the rows from
 * 16 (t / 2) on and of the columns from 16 (t % 2) on. */
#define ROW         (SIDE * (int64_t)sizeof(float))
#define PLACE(c, t) ((c) + (t) / 2 * 16 * SIDE + (t) % 2 * 16)
#define LEAVE(c, t) TILE_STORE(t, PLACE(c, t), ROW)
/* The sums before leave a register where the next begin, at 0 unless they are added to c: the
 * stores go on beside products. */
#define CHANGE(before, c, add, t)                                                                  \
	do {                                                                                       \
		if (before)                                                                        \
			LEAVE(before, t);                                                          \
		if (add)                                                                           \
			TILE_LOAD(t, PLACE(c, t), ROW);                                            \
		else                                                                               \
			TILE_ZERO(t);                                                              \
	} while (0)

/* A step: two tiles of A by two of B; FIRST is what a register has to do before. wide is a
 * constant: without it only 16 columns are summed. */
#define STEP(wide, a, b, FIRST)                                                                    \
	do {                                                                                       \
		TILE_STREAM(4, a, 64);                                                             \
		TILE_LOAD(6, b, 128);                                                              \
		FIRST(0);                                                                          \
		TILE_MULTIPLY_ADD(0, 4, 6);                                                        \
		TILE_STREAM(5, (a) + TILE, 64);                                                    \
		if (wide) {                                                                        \
			TILE_LOAD(7, (b) + 16, 128);                                               \
			FIRST(1);                                                                  \
			TILE_MULTIPLY_ADD(1, 4, 7);                                                \
		}                                                                                  \
		FIRST(2);                                                                          \
		TILE_MULTIPLY_ADD(2, 5, 6);                                                        \
		if (wide) {                                                                        \
			FIRST(3);                                                                  \
			TILE_MULTIPLY_ADD(3, 5, 7);                                                \
		}                                                                                  \
	} while (0)

/* Lines of D that n rows from `row` on of this panel and the next will be written to, asked into
 * the second-level cache: a store that waits for one holds up those behind it. */
ZR_INLINE void expect_rows(const struct complete *s, int64_t row, int64_t n)
{
	const struct zr_op_matmul *op = s->t->op;
	const int64_t size = zr_size(op->d.dtype), bytes = op->ldd * size;
	const int64_t at = ((s->t->row0 + row) * op->ldd + s->t->col0 + s->col) * size;
	const char *d = (const char *)op->d.data + at, *pre = (const char *)op->pre + at;

	for (; n > 0; n--, d += bytes, pre += bytes) {
		__builtin_prefetch(d, 0, 2);
		__builtin_prefetch(d + 64, 0, 2);
		if (op->pre) {
			__builtin_prefetch(pre, 0, 2);
			__builtin_prefetch(pre + 64, 0, 2);
		}
	}
}

/* All rows against one part of a panel. */
struct pass {
	int64_t blocks, steps; /* of 32 rows; of 16 pairs, at least one */
	const uint32_t *a;     /* of the first block */
	int64_t next;          /* words from block to block */
	const uint32_t *b;
	float *sums;            /* of the first block */
	int add;                /* they begin as they are, not at 0 */
	int last;               /* complete ones go to the place of the panel's */
	struct complete panel;  /* complete sums of all rows */
	struct packing *coming; /* is packed meanwhile */
	struct ahead *ahead;    /* is asked for meanwhile */
	struct complete *left;  /* is taken meanwhile, or by the next pass */
};

/* The sums of block i of a panel. */
static struct complete block_of(const struct complete *panel, int64_t i)
{
	struct complete s = *panel;
	s.row = i * SIDE;
	s.rows = min(SIDE, s.t->rows - s.row);
	return s;
}

/* wide and by_columns are constants. */
ZR_INLINE void pass(const int wide, const int by_columns, const struct pass *m)
{
	const int64_t steps = m->steps;
	/* rows in a step: the first one stores the sums, and they are taken from the third on */
	const int64_t each = steps > 2 ? (SIDE + steps - 3) / (steps - 2) : 0;
	const int64_t ask = steps > 1 ? (SIDE + steps - 2) / (steps - 1) : 0;
	const int expects = m->last && m->panel.finishes && m->panel.col % (2 * SIDE) == 0;
	struct packing coming = *m->coming;
	struct ahead ahead = *m->ahead;
	struct complete left = *m->left;
	float *sums = m->sums, *before = NULL, *const complete = m->panel.sums;
	for (int64_t i = 0; i < m->blocks; i++, sums += SIDE * SIDE) {
		const uint32_t *a = m->a + i * m->next, *b = m->b;
#define CHANGE_TO_THESE(t) CHANGE(before, sums, m->add, t)
#define NOTHING(t)         (void)0
		STEP(wide, a, b, CHANGE_TO_THESE);
		pack_units(by_columns, &coming, coming.each);
		ahead_ask(&ahead, ahead.each);
		if (m->last && i)
			left = block_of(&m->panel, i - 1);
		for (int64_t s = 1; s < steps; s++) {
			a += 2 * TILE;
			b += PAIRS * SIDE;
			STEP(wide, a, b, NOTHING);
			pack_units(by_columns, &coming, coming.each);
			ahead_ask(&ahead, ahead.each);
			if (expects)
				expect_rows(&m->panel, i * SIDE + (s - 1) * ask, ask);
			if (s > 1)
				take_rows(&left, each);
		}

		take_rows(&left, SIDE);
		before = m->last ? complete : sums;
	}

	LEAVE(before, 0);
	LEAVE(before, 2);
	if (wide) {
		LEAVE(before, 1);
		LEAVE(before, 3);
	}
	*m->coming = coming;
	*m->ahead = ahead;
	*m->left = m->last ? block_of(&m->panel, m->blocks - 1) : left;
}

typedef void pass_fn(const struct pass *);
#define PASS(wide, by_columns)                                                                     \
	static void pass_##wide##_##by_columns(const struct pass *m)                               \
	{                                                                                          \
		pass(wide, by_columns, m);                                                         \
	}
PASS(0, 0)
PASS(0, 1)
PASS(1, 0)
PASS(1, 1)
static pass_fn *const passes[2][2] = { { pass_0_0, pass_0_1 }, { pass_1_0, pass_1_1 } };

/* ---- a tile of the result -------------------------------------------------------- */

/* Pairs [k0, k0 + kc) of A and B. */
struct depth {
	int64_t k0, kc, part; /* of parts so long */
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
		pack_a_columns((const uint16_t *)op->a.data + 2 * d->k0 * op->lda + t->row0,
			       op->lda, t->rows, k, steps, to);
	else
		pack_a_rows((const uint16_t *)op->a.data + t->row0 * op->lda + 2 * d->k0, op->lda,
			    t->rows, k, steps, to);
}

/* Columns of a part: of those that are stored contiguously more than one line. */
static int64_t group_of(const struct tile *t)
{
	return t->op->flags & ZR_MM_TRANS_B ? SIDE : GROUP;
}

/* Part i of those that a tile takes one after the other: group after group, each in parts of K. */
static struct part part_at(const struct tile *t, const struct depth *d, int64_t i)
{
	const struct zr_op_matmul *op = t->op;
	const int64_t parts = parts_of(d), col = i / parts * group_of(t), k0 = i % parts * d->part,
		      k = d->k0 + k0;
	const int by_columns = !!(op->flags & ZR_MM_TRANS_B);
	struct part p = { .b = op->b.data, .ld = op->ldb, .by_columns = by_columns };
	if (col >= t->cols)
		return p;

	p.b += by_columns ? (t->col0 + col) * op->ldb + 2 * k : 2 * k * op->ldb + t->col0 + col;
	p.k = elements(t, k, min(d->part, d->kc - k0));
	p.cols = min(group_of(t), t->cols - col);
	return p;
}

/* Where complete sums of n columns go: those of K up to the end of a depth. */
static struct complete complete_of(const struct tile *t, const struct depth *d, int64_t col,
				   int64_t n, int was_read)
{
	return (struct complete){ .t = t,
				  .sums = (float *)t->scratch + COMPLETE,
				  .col = col,
				  .cols = n,
				  .finishes = t->finishes && d->last,
				  /* sums of a part of K are read again */
				  .streams = d->last && may_stream(t, n, was_read) };
}

/* A and the first part of B, and the first rows of the next are asked for. */
static void pack_first(const struct tile *t, const struct depth *d, uint32_t *b)
{
	const struct part part[2] = { part_at(t, d, 0), part_at(t, d, 1) };
	struct ahead ahead = ahead_of(&part[0], &part[0], 1);
	ahead_ask(&ahead, ahead.each);
	ahead = ahead_of(&part[0], &part[1], 1);
	ahead_ask(&ahead, ahead.each);
	pack_a(t, d);
	struct packing first = packing_of(&part[0], b);
	if (part[0].by_columns)
		pack_units(1, &first, first.left);
	else
		pack_units(0, &first, first.left);
}

/* All groups of columns. One part is multiplied while the next is packed. */
static void groups(const struct tile *t, const struct depth *d)
{
	const int64_t parts = parts_of(d);
	const int add = t->add || d->k0 > 0, by_columns = !!(t->op->flags & ZR_MM_TRANS_B);
	uint32_t *b = t->scratch + B_PARTS, *other = b + KC * GROUP, *packed;
	struct packing coming;
	struct ahead ahead;
	struct complete left = { .rows = 0 };
	struct pass m = { .blocks = up(t->rows, SIDE) / SIDE,
			  .coming = &coming,
			  .ahead = &ahead,
			  .left = &left,
			  .next = up(d->kc, PAIRS) / PAIRS * 2 * TILE };
	pack_first(t, d, b);
	for (int64_t i = 0; i / parts * group_of(t) < t->cols; i++) {
		const struct part part = part_at(t, d, i), next = part_at(t, d, i + 1),
				  after = part_at(t, d, i + 2);
		const int64_t p = i % parts, col = i / parts * group_of(t);
		m.steps = up(part.k, 2 * PAIRS) / (2 * PAIRS);
		const int64_t steps = up(part.cols, SIDE) / SIDE * m.blocks * m.steps;
		coming = packing_of(&next, other);
		coming.each = (coming.left + steps - 1) / steps;
		ahead = ahead_of(&next, &after, steps);
		m.a = t->scratch + A_TILES + p * d->part / PAIRS * 2 * TILE;
		m.b = b;
		m.add = add || p > 0;
		m.last = p == parts - 1;
		m.sums = (float *)t->scratch + SUMS;
		for (int64_t j = 0; j < part.cols; j += SIDE, m.b += PANEL, m.sums += MOST * SIDE) {
			const int64_t n = min(SIDE, part.cols - j);
			if (add && !p)
				take_sums(t, col + j, n, m.sums);
			m.panel = complete_of(t, d, col + j, n, add);
			passes[n > 16][by_columns](&m);
		}

		packed = other;
		other = b;
		b = packed;
	}

	take_rows(&left, SIDE);
}

/* c (rows x cols, rows <= MOST) = or += the product over all of K; with `finishes` D gets what
 * becomes of it. */
static void sum_up(const struct tile *t)
{
	const struct zr_op_matmul *op = t->op;
	if (t->rows <= ZR_FEW_ROWS) {
		ZR_SIMD(gemm_few)
		(op, t->row0, t->rows, t->col0, t->cols, t->c, t->ldc, t->add, (float *)t->scratch);
		if (t->finishes)
			finish_sums(t, 0, t->rows, 0, t->cols, t->c, t->ldc);
		return;
	}

	const int64_t pairs = up(op->k, 2) / 2, room = MC * DEPTH / up(max(t->rows, MC), SIDE);
	/* where sums are kept anyway, packed A leaves them more of the second-level cache */
	const int64_t most = pairs > room ? room / 4 * 3 : room;
	struct depth d = { .kc = 0 };
	tiles_begin();
	do {
		d.kc = min(even(pairs, most, PAIRS), pairs - d.k0);
		d.part = even(d.kc, KC, PAIRS);
		d.last = d.k0 + d.kc >= pairs;
		groups(t, &d);
		d.k0 += d.kc;
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

/* cols_at_once() at most. */
static void subtile(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
		    int64_t row0, int64_t rows, int64_t col0, int64_t cols, float *scratch)
{
	const int direct = op->d.dtype == ZR_F32;
	const int more = op->bias || op->flags & ZR_MM_GELU || !direct;
	const int64_t at = row0 * op->ldd + col0;
	const struct tile t = { op,
				row0,
				rows,
				col0,
				cols,
				direct ? (float *)op->d.data + at : scratch + ALL_SUMS,
				direct ? op->ldd : cols,
				!!(op->flags & ZR_MM_ACCUMULATE),
				(uint32_t *)(void *)scratch,
				more && !low };
	sum_up(&t);
	if (!low)
		return;

	ZR_SIMD(gemm_low_rank)(low, row0, rows, col0, cols, t.c, t.ldc, scratch);
	if (more)
		finish_sums(&t, 0, rows, 0, cols, t.c, t.ldc);
}

/* All of so many columns if no sums are kept but in D: those of one depth are complete at once. */
static int64_t cols_at_once(const struct zr_op_matmul *op, int keep_sums, int64_t rows,
			    int64_t cols)
{
	if (op->d.dtype == ZR_F32 || (!keep_sums && op->k <= 2 * DEPTH && rows > ZR_FEW_ROWS))
		return cols;
	return min(cols, NC);
}

void ZR_SIMD(gemm_tile)(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
			int64_t row0, int64_t rows, int64_t col0, int64_t cols, void *scratch)
{
	if (!zr_pairs(op) || !op->k) {
		zr_gemm_tile_avx512(op, low, row0, rows, col0, cols, scratch);
		return;
	}
	const int64_t most = low ? MC : zr_gemm_rows_at_once(op->k);
	const int64_t mc = even(max(rows, 1), most, SIDE);
	for (int64_t i = 0; i < rows; i += mc) {
		const int64_t m = min(mc, rows - i), nc = cols_at_once(op, low != NULL, m, cols);
		for (int64_t j = 0; j < cols; j += nc)
			subtile(op, low, row0 + i, m, col0 + j, min(nc, cols - j), scratch);
	}
	_mm_sfence(); /* results that went past the caches are there for who is told so */
}
