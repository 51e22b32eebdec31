/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.simd.c - the matrix product of gemm.c, register-blocked (Goto and van de Geijn, 2008).
 *
 * K runs in blocks of at most KC. Per block a tile's rows of A are packed once, into panels of MR
 * rows; then, for NR columns of B at a time, a panel of B is packed (it now lies in the first-level
 * cache) and meets each panel of A in a micro-kernel that keeps MR x NR sums in registers. Packing
 * widens 16-bit types and resolves transposes, so one micro-kernel serves all types and layouts.
 * It reads fp32 rows of A where they lie if few columns would use them packed. With AVX-512 fp32
 * that is not transposed is not packed before: the micro-kernel does it when it reads it first.
 *
 * An element is, over blocks of K in ascending order, the sum of chains of fused multiply-adds over
 * ascending k. How K is cut depends on K only: where the caller cuts tiles does not matter (I1). A
 * low-rank update is another such product, into a place of its own, and is added while the tile is
 * in the cache.
 *
 * With ZR_PAIRS it is the product of bf16 operands by an instruction that multiplies pairs of them:
 * bf16_pairs.h says in which order. Operands that are not both bf16 are then left to AVX-512.
 */
#include "gemv.h"
#include "transpose_simd.h"

#ifdef ZR_PAIRS
#include "bf16_pairs.h"
#include "table.h"
#define STEP 2 /* elements of K in 32 packed bits */
#else
#define STEP 1
#endif

#if ZR_W == 16
#define MR     8         /* 8 x 3 sums, 3 of B, 1 of A: 28 of 32 registers */
#define DIRECT INT64_MAX /* columns of a tile for which packing fp32 rows of A does not pay */
#ifdef ZR_PAIRS
#define KC 192
#else
#define KC 256
#endif
#else
#define MR     4 /* 4 x 3 sums, 3 of B, 1 of A: all 16 */
#define KC     256
#define DIRECT 384
#endif
/* Whether the micro-kernel packs operands of fp32 when it reads them first. */
#define ON_THE_WAY (ZR_W == 16 && STEP == 1)
#define STEPS      4           /* elements of K between jumps */
#define NV         3           /* vectors in a row of sums */
#define NR         (NV * ZR_W) /* KC x NR floats fill most of the first-level cache */
#define MC         256 /* rows of A packed at once: MC x KC floats lie in the second-level cache */
/* Floats between panels of A: an odd number of cache lines, so that the panels do not share
 * sets. */
#define A_PANEL (MR * KC + 16)
#define NC      1536 /* columns of a tile whose sums need a place of their own */
#define UC      192  /* columns of a low-rank update summed at once, a multiple of NR */

/* Floats in the scratch of a tile: a panel of B, rows of B before they are transposed, packed A,
 * the sums of a result that is not fp32, and those of a low-rank update. */
#define B_PANEL 0
#define B_ROWS  (B_PANEL + KC * NR)
#define A_BLOCK (B_ROWS + KC * NR)
#define SUMS    (A_BLOCK + MC / MR * A_PANEL)
#define UPDATE  (SUMS + MC * NC)
_Static_assert((UPDATE + MC * UC) * sizeof(float) <= ZR_GEMM_SCRATCH, "scratch of gemm_tile");
_Static_assert(UC % NR == 0, "columns of a low-rank update");

#ifdef __clang__ /* which unrolls the whole of these on demand alone */
#undef UNROLL
#define UNROLL _Pragma("clang loop unroll(full)")
#endif

static int64_t min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* dst[k][0..ZR_W) = src[0..ZR_W)[k], rows of src ld apart, rows of dst width apart. */
static void transpose(const float *src, int64_t ld, int64_t kc, float *dst, int width)
{
	int64_t k = 0;
	int j;

	for (; k + 4 <= kc; k += 4) {
		vf r[4];
		load_columns(src + k, ld * (int64_t)sizeof *src, r);
		UNROLL
		for (j = 0; j < 4; j++)
			vstore_f32(dst + (k + j) * width, r[j]);
	}

	for (; k < kc; k++)
		for (j = 0; j < ZR_W; j++)
			dst[k * width + j] = src[j * ld + k];
}

#ifdef ZR_PAIRS
#include "gemm_pairs.h"
#else
#include "gemm_pack.h"
#endif
#include "gemm_ahead.h"

/* ---- the micro-kernel ------------------------------------------------------------ */

/* n panels of A below each other against a panel of B, into c; meanwhile things to come are
 * fetched. */
struct rows {
	int64_t n, kc;
	const float *a;
	int64_t lda;    /* between rows, or columns where A is stored by them */
	int64_t next_a; /* from panel to panel */
	float *b;
	float *c;
	int64_t ldc;
	int add;
	struct ahead *ask_a, *ask_b; /* asked for some rows at a time */
	struct ahead **ask;          /* asked for by lines */
	/* The micro-kernel packs what it reads first, unless these are NULL: the panel of B, as it
	 * is stored, to b, and A, stored by columns, to packed_a. */
	const float *unpacked;
	int64_t ldb;
	float *packed_a;
};

#if ZR_W == 16
#include "gemm_wide.h"
#else
ZR_INLINE vf multiply_add(vf x, vf y, vf sum)
{
	/* as it is written: compilers load y again for each use, and loads are dear */
	__asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
	return sum;
}

/* The sums to come are fetched while the products are summed. */
ZR_INLINE void ask_sums(const int nv, const float *c, int64_t ldc)
{
	for (int i = 0; i < MR; i++) {
		__builtin_prefetch(c + i * ldc, 0, 3);
		__builtin_prefetch(c + i * ldc + nv * ZR_W - 1, 0, 3);
	}
}

/* s += element k of a panel of A, or of the rows themselves, times element k of a panel of B. nv
 * and by_rows are constants. */
ZR_INLINE void add_step(const int nv, const int by_rows, int64_t k, const float *a,
			const float *const row[MR], const float *b, vf s[MR][NV])
{
	vf y[NV], x;
	int i, j;

	UNROLL
	for (j = 0; j < nv; j++)
		y[j] = vload_f32(b + j * ZR_W);
	UNROLL
	for (i = 0; i < MR; i++) {
		if (!by_rows)
			x = vset(a[k * MR + i]);
		else
			x = vset(row[i][k]);
		UNROLL
		for (j = 0; j < nv; j++)
			s[i][j] = multiply_add(x, y[j], s[i][j]);
	}
}

/* c[MR][nv * ZR_W] (ldc apart) = or += MR rows of A times a panel of B. nv and by_rows are
 * constants. */
ZR_INLINE void micro(const int nv, const int by_rows, int64_t kc, const float *a, int64_t lda,
		     const float *b, float *c, int64_t ldc, int add)
{
	const float *row[MR];
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

	ask_sums(nv, c, ldc);
	for (; k + STEPS <= kc; k += STEPS, b += STEPS * nv * ZR_W)
		UNROLL
	for (i = 0; i < STEPS; i++)
		add_step(nv, by_rows, k + i, a, row, b + i * nv * ZR_W, s);
	for (; k < kc; k++, b += nv * ZR_W)
		add_step(nv, by_rows, k, a, row, b, s);
	UNROLL
	for (i = 0; i < MR; i++)
		UNROLL
	for (j = 0; j < nv; j++) {
		float *at = c + i * ldc + j * ZR_W;
		if (add)
			s[i][j] = vload_f32(at) + s[i][j];
		vstore_f32(at, s[i][j]);
	}
}
#endif

typedef void rows_fn(const struct rows *);
#ifndef ROWS
#define ROWS(nv, by_rows)                                                                          \
	static void rows_##nv##_##by_rows(const struct rows *r)                                    \
	{                                                                                          \
		for (int64_t i = 0; i < r->n; i++) {                                               \
			ahead_ask(r->ask_a);                                                       \
			ahead_ask(r->ask_b);                                                       \
			micro(nv, by_rows, r->kc, r->a + i * r->next_a, r->lda, r->b,              \
			      r->c + i * MR * r->ldc, r->ldc, r->add);                             \
		}                                                                                  \
	}
#endif
ROWS(1, 0)
ROWS(2, 0)
ROWS(1, 1)
ROWS(2, 1)
ROWS(3, 0)
ROWS(3, 1)
static rows_fn *const kernels[NV][2] = {
	{ rows_1_0, rows_1_1 },
	{ rows_2_0, rows_2_1 },
	{ rows_3_0, rows_3_1 },
};

/* Rows and columns that do not fill the micro-kernel: by way of a full block of its own. */
static void edge(rows_fn *fn, const struct rows *of, int64_t rows, int64_t cols, int width)
{
	float t[MR * NR], *c = of->c;
	struct rows r = *of;
	int64_t i, j;
	r.n = 1;
	r.c = t;
	r.ldc = width;
	r.add = 0;
	r.unpacked = r.packed_a = NULL;
	fn(&r);
	for (i = 0; i < rows; i++, c += of->ldc)
		for (j = 0; j < cols; j++)
			c[j] = of->add ? c[j] + t[i * width + j] : t[i * width + j];
}

/* One block of K of a tile: c (rows x cols, rows <= MC) = or += its product. K is counted in
 * steps. */
struct block {
	const struct zr_op_matmul *op;
	int64_t row0, rows, col0, cols, k0, kc;
	float *c;
	int64_t ldc;
	int add;
	float *scratch;
};

/* Rows of A that the micro-kernel reads where they lie, of fp32: all but those that do not fill a
 * panel. Rows a multiple of 2 KiB apart would share few sets of the caches. */
static int64_t rows_in_place(const struct block *t)
{
	const struct zr_op_matmul *op = t->op;
	const int can = t->cols <= DIRECT && op->a.dtype == ZR_F32 &&
			!(op->flags & ZR_MM_TRANS_A) && op->lda % 512;
	return can ? t->rows / MR * MR : 0;
}

/* Rows of A, stored by columns, that the micro-kernel packs when it reads them for the first panel
 * of B: all but those that do not fill two panels, which is what pack_a() packs at a time. */
static int64_t rows_on_the_way(const struct block *t)
{
	const struct zr_op_matmul *op = t->op;
	const int can = ON_THE_WAY && t->cols >= NR && op->a.dtype == ZR_F32 &&
			op->flags & ZR_MM_TRANS_A;
	return can ? t->rows / ZR_W * ZR_W : 0;
}

/* Whether the micro-kernel packs n columns of B when it reads them first. */
static int packs_on_the_way(const struct block *t, int64_t n)
{
	const struct zr_op_matmul *op = t->op;
	return ON_THE_WAY && n == NR && t->rows >= MR && op->b.dtype == ZR_F32 &&
	       !(op->flags & ZR_MM_TRANS_B);
}

/* All rows of the block against the packed panel of B for columns [j, j + n). */
static void panel(const struct block *t, int64_t j, int64_t n, int nv, struct ahead *ask_a,
		  struct ahead *ask_b, struct ahead *ask)
{
	const struct zr_op_matmul *op = t->op;
	const int64_t whole = n == nv * ZR_W ? t->rows / MR : 0, in_place = rows_in_place(t);
	const int trans = !!(op->flags & ZR_MM_TRANS_A);
	const float *packed = t->scratch + A_BLOCK;
	rows_fn *fn = kernels[nv - 1][!trans];
	struct rows r = { .n = whole,
			  .kc = t->kc,
			  .a = packed,
			  .lda = trans ? MR : KC,
			  .next_a = A_PANEL,
			  .b = t->scratch + B_PANEL,
			  .c = t->c + j,
			  .ldc = t->ldc,
			  .add = t->add,
			  .ask_a = ask_a,
			  .ask_b = ask_b,
			  .ask = &ask,
			  .ldb = op->ldb };
	if (in_place) {
		r.a = (const float *)op->a.data + t->row0 * op->lda + t->k0;
		r.lda = op->lda;
		r.next_a = MR * op->lda;
	}
	if (!j && rows_on_the_way(t)) {
		r.a = (const float *)op->a.data + t->k0 * op->lda + t->row0;
		r.lda = op->lda;
		r.next_a = MR;
		r.packed_a = t->scratch + A_BLOCK;
	}

	if (packs_on_the_way(t, n))
		r.unpacked = (const float *)op->b.data + t->k0 * op->ldb + t->col0 + j;
	const float *a = r.a;
	fn(&r);
	for (int64_t i = whole * MR; i < t->rows; i += MR) {
		const int64_t at = i - in_place;
		r.a = at < 0 ? a + i / MR * r.next_a : packed + at / MR * A_PANEL;
		r.lda = at < 0 ? op->lda : trans ? MR : KC;
		r.c = t->c + i * t->ldc + j;
		edge(fn, &r, min(MR, t->rows - i), n, nv * ZR_W);
	}
}

/* Columns of the panel of B from j on, of so many left: the last two share them, for the
 * micro-kernel is slow with one vector. */
static int64_t panel_columns(int64_t left, int64_t j)
{
	const int last = NV > 2 && j && left > NR && left <= NR + ZR_W;
	return last ? NR - ZR_W : min(NR, left);
}

static void block(const struct block *t)
{
	const struct zr_op_matmul *op = t->op;
	int64_t calls = (t->rows + MR - 1) / MR, next = t->k0 + t->kc,
		next_kc = min(t->kc, (op->k + STEP - 1) / STEP - next), j, n;
	const int64_t in_place = rows_in_place(t), on_the_way = rows_on_the_way(t);
	struct ahead none = { .at = (const char *)t->scratch, .then = &none }, a = none, b, c;
	if (next_kc > 0)
		a = ahead_a(op, t->row0, t->rows, next, next_kc, calls * ((t->cols + NR - 1) / NR));
	a.then = &none;
	if (in_place + on_the_way < t->rows)
		pack_a(op, t->row0 + in_place + on_the_way, t->rows - in_place - on_the_way, t->k0,
		       t->kc, t->scratch + A_BLOCK + on_the_way / MR * A_PANEL);
	for (j = 0; j < t->cols; j += n) {
		n = panel_columns(t->cols - j, j);
		int64_t left = t->cols - j - n;
		int nv = (int)((n + ZR_W - 1) / ZR_W);
		b = c = none;
		if (left > 0)
			b = ahead_b(op, t->col0 + j + n, panel_columns(left, j + n), t->k0, t->kc,
				    calls);
		else if (next_kc > 0)
			b = ahead_b(op, t->col0, panel_columns(t->cols, 0), next, next_kc, calls);
		if (b.rows)
			c = ahead_of(t->c, ZR_F32, left > 0 ? j + n : 0, t->ldc, t->rows, NR,
				     calls);
		b.then = &c;
		c.then = a.rows > 0 ? &a : &none;
		if (!packs_on_the_way(t, n))
			pack_b(op, t->k0, t->kc, t->col0 + j, n, nv, t->scratch + B_PANEL,
			       t->scratch + B_ROWS);
		panel(t, j, n, nv, &a, &b, b.rows ? &b : &none);
	}
}

#ifdef ZR_PAIRS
_Static_assert(KC == ZR_PAIRS_KC, "bf16_pairs.h says how K is cut");
static int64_t block_length(int64_t pairs)
{
	return zr_pairs_block(pairs);
}
#else
/* Length of the blocks of K: even, so that none is short. */
static int64_t block_length(int64_t k)
{
	int64_t blocks = (k + KC - 1) / KC;
	return blocks ? ((k + blocks - 1) / blocks + 3) / 4 * 4 : KC;
}
#endif

/* c (rows x cols, rows <= MC) = or += the product over all of K. */
static void blocks(const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
		   int64_t cols, float *c, int64_t ldc, int add, float *scratch)
{
	const int64_t depth = (op->k + STEP - 1) / STEP;
	int64_t kb = block_length(depth), k = 0;
	if (rows == 1 && ZR_SIMD(gemv)(op, row0, col0, cols, kb, c, add))
		return;

	do {
		struct block t = { op, row0, rows, col0,   cols, k, min(kb, depth - k),
				   c,  ldc,  add,  scratch };
		block(&t);
		add = 1;
		k += kb;
	} while (k < depth);
}

#include "gemm_low_rank.h"

/* ---- the tile -------------------------------------------------------------------- */

static void store_row(const struct zr_op_matmul *op, const float *t, int64_t cols, const void *bias,
		      void *d, void *pre)
{
	for (int64_t j = 0; j < cols; j += ZR_W) {
		int n = vlanes(cols - j);
		vf x = n == ZR_W ? vload_f32(t + j) : vload_f32_n(t + j, n);
		if (bias)
			x = x + (n == ZR_W ? vload(bias, j, op->b.dtype) :
					     vload_n(bias, j, op->b.dtype, n));
		if (op->flags & ZR_MM_ACCUMULATE)
			x = (n == ZR_W ? vload(d, j, op->d.dtype) : vload_n(d, j, op->d.dtype, n)) +
			    x;
		if (op->flags & ZR_MM_GELU) {
			if (pre && n == ZR_W)
				vstore(pre, j, op->d.dtype, x);
			else if (pre)
				vstore_n(pre, j, op->d.dtype, x, n);
			x = vactivation(x, zr_gelu_of(op->activation));
		}

		if (n == ZR_W)
			vstore(d, j, op->d.dtype, x);
		else
			vstore_n(d, j, op->d.dtype, x, n);
	}
}

/* The same of most rows: the type of all is known, and nothing but a bias is added. */
ZR_INLINE void store_plain_row(const float *t, int64_t cols, const void *bias, void *d,
			       int32_t dtype)
{
	int64_t j = 0;

	for (; j + ZR_W <= cols; j += ZR_W) {
		vf x = vload_f32(t + j);
		if (bias)
			x = x + vload(bias, j, dtype);
		vstore(d, j, dtype, x);
	}

	if (j < cols) {
		const int n = (int)(cols - j);
		vf x = vload_f32_n(t + j, n);
		if (bias)
			x = x + vload_n(bias, j, dtype, n);
		vstore_n(d, j, dtype, x, n);
	}
}

ZR_INLINE void store_plain(const struct zr_op_matmul *op, const float *tile, int64_t ld,
			   int64_t rows, int64_t cols, const void *bias, void *d, int32_t dtype)
{
	for (int64_t i = 0; i < rows; i++, tile += ld, d = zr_at(d, op->ldd, dtype))
		if (bias)
			store_plain_row(tile, cols, bias, d, dtype);
		else
			store_plain_row(tile, cols, NULL, d, dtype);
}

void ZR_SIMD(gemm_finish)(const struct zr_op_matmul *op, const float *tile, int64_t ld,
			  int64_t rows, int64_t cols, const void *bias, void *d, void *pre)
{
	if (!(op->flags & (ZR_MM_ACCUMULATE | ZR_MM_GELU)) &&
	    (!bias || op->b.dtype == op->d.dtype)) {
		ZR_BY_DTYPE(op->d.dtype, store_plain, op, tile, ld, rows, cols, bias, d);
		return;
	}
	for (int64_t i = 0; i < rows; i++)
		store_row(op, tile + i * ld, cols, bias, zr_at(d, i * op->ldd, op->d.dtype),
			  pre ? zr_at(pre, i * op->ldd, op->d.dtype) : NULL);
}

/* At most MC rows, and at most NC columns if the sums are not D itself. */
static void subtile(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
		    int64_t row0, int64_t rows, int64_t col0, int64_t cols, float *scratch)
{
	int direct = op->d.dtype == ZR_F32;
	int64_t at = row0 * op->ldd + col0, ldc = direct ? op->ldd : cols;
	float *c = direct ? (float *)op->d.data + at : scratch + SUMS;
	blocks(op, row0, rows, col0, cols, c, ldc, !!(op->flags & ZR_MM_ACCUMULATE), scratch);
	if (low)
		ZR_SIMD(gemm_low_rank)(low, row0, rows, col0, cols, c, ldc, scratch);
	if (op->bias || op->flags & ZR_MM_GELU || !direct)
		ZR_SIMD(gemm_finish)
	(op, c, ldc, rows, cols, op->bias ? zr_at(op->bias, col0, op->b.dtype) : NULL,
	 zr_at(op->d.data, at, op->d.dtype), op->pre ? zr_at(op->pre, at, op->d.dtype) : NULL);
}

void ZR_SIMD(gemm_tile)(const struct zr_op_matmul *op, const struct zr_op_matmul_low_rank *low,
			int64_t row0, int64_t rows, int64_t col0, int64_t cols, void *scratch)
{
#ifdef ZR_PAIRS
	if (!zr_pairs(op)) {
		zr_gemm_tile_avx512(op, low, row0, rows, col0, cols, scratch);
		return;
	}
#endif
	int64_t nc = op->d.dtype == ZR_F32 ? cols : NC;
	for (int64_t i = 0; i < rows; i += MC)
		for (int64_t j = 0; j < cols; j += nc)
			subtile(op, low, row0 + i, min(MC, rows - i), col0 + j, min(nc, cols - j),
				scratch);
}
