/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul.c - a matrix product as a grid of tiles, each computed whole by one worker. Where eight
 * workers would find too few tiles (a long sum into a small result) K is split as well: the parts
 * are summed apart and added in index order. How K is split depends on the shape only (I1): on M,
 * too, unless the caller wants each row as if it were alone, then K is not split. Tiles are cut for
 * the workers that there are: fewer take larger ones, and all parts of a tile one after the other,
 * in the cache, instead of as items of their own. A low-rank update is added to the sum over all
 * of K, before it is rounded.
 */
#include "cpu.h"

#include <string.h>

#define GRID     8           /* items wanted of a big product, so that few workers end together */
#define BIG      (1ll << 21) /* multiply-adds worth an item of their own */
#define LONG     (1ll << 29) /* multiply-adds of a worker from which on two items share them */
#define SHORTEST 256         /* length of the shortest part of a split sum */
#define LONG_SUM 8192        /* one that is worth splitting for its operands alone */
#define ROWS     16          /* of split sums that are added up by one item */
#define TILE_M   256         /* of the largest tile */
#define TILE_N   1536
_Static_assert(ZR_GEMM_SCRATCH + 2 * TILE_M * TILE_N * sizeof(float) <= CPU_SCRATCH,
	       "two tiles of sums beside the scratch of gemm_tile");

struct grid {
	int64_t tm, tn, tk; /* size of a tile and length of a part of the sum */
	int64_t nm, nn, nk; /* how many */
	int64_t unit;       /* of tn */
	int apart;          /* parts of the sum are items of their own */
};

static const int64_t tms[] = { TILE_M, 128, 64, 32 };
#define LEN(a) (sizeof(a) / sizeof *(a))

/* n cut in `parts` of a multiple of `unit` each, the last shorter. */
static int64_t even(int64_t n, int64_t parts, int64_t unit)
{
	int64_t each = cpu_ceil_div(cpu_ceil_div(n, parts), unit) * unit;
	return each < n ? each : n;
}

/* What a grid costs beside its multiply-adds, in thousandths of them: packing an element of A pays
 * for tn multiply-adds, one of B for tm; a part of a split sum is stored and added once per tk. The
 * weights were measured in cycles on AVX-512; their ratio is much the same elsewhere. */
static int64_t cost_of(const struct grid *g)
{
	return 9600 / g->tm + 9600 / g->tn + (g->nk > 1 ? 16000 / g->tk : 0);
}

/* Tiles of about tm x tn, and K split, into `most` parts, if they are fewer than `want`. */
static struct grid grid_with(int64_t m, int64_t n, int64_t k, int64_t tm, int64_t tn, int64_t unit,
			     int64_t want, int64_t most)
{
	struct grid g = {
		.nm = cpu_ceil_div(m, tm), .nn = cpu_ceil_div(n, tn), .nk = 1, .unit = unit
	};
	int64_t room = (int64_t)(CPU_SPLIT / sizeof(float)) / m / n;
	g.nk = cpu_min(cpu_min(cpu_ceil_div(want, g.nm * g.nn), k / SHORTEST), room);
	g.nk = cpu_min(g.nk > 1 ? g.nk : 1, most);
	g.tm = even(m, g.nm, 8);
	g.tn = even(n, g.nn, unit);
	g.tk = even(k, g.nk, 64);
	g.nm = cpu_ceil_div(m, g.tm);
	g.nn = cpu_ceil_div(n, g.tn);
	g.nk = k ? cpu_ceil_div(k, g.tk) : 1;
	return g;
}

/* The cheapest grid that has enough items, else the one with most. */
static struct grid grid_of(int64_t m, int64_t n, int64_t k, int64_t unit, int each_row, int split)
{
	static const int64_t tns[] = { TILE_N, 768, 384, 192, 96, 48 };
	/* of a few rows it is B that takes the time */
	int64_t work = each_row && m < 16 ? 16 : m, items, most = 0, cost, least = 0;
	int64_t want = cpu_min(GRID, 1 + work * n / 1024 * k / (BIG / 1024));
	struct grid best = { 0 }, g;
	size_t i, j;
	for (i = 0; i < LEN(tms); i++)
		for (j = 0; j < LEN(tns); j++) {
			g = grid_with(m, n, k, tms[i], tns[j], unit, want, split ? GRID : 1);
			items = cpu_min(g.nm * g.nn * g.nk, want);
			cost = cost_of(&g);
			if (items > most || (items == most && cost < least)) {
				best = g;
				most = items;
				least = cost;
			}
		}
	return best;
}

/* What the busiest of so many workers does, in thousandths of multiply-adds. */
static int64_t time_of(const struct grid *g, int64_t k, int64_t workers, int64_t at_once)
{
	const int64_t items = g->nm * g->nn * (g->apart ? g->nk : 1);
	const int64_t add = g->nk > 1 ? (g->apart ? 35000 : 8000) / g->tk : 0;
	return cpu_ceil_div(items, workers) * g->tm * g->tn * (g->apart ? g->tk : k) *
	       (1000 + 9600 / cpu_min(g->tm, at_once) + 9600 / g->tn + add);
}

/* g with tiles of about tm x tn. */
static struct grid with_tiles(struct grid g, int64_t m, int64_t n, int64_t tm, int64_t tn)
{
	g.tm = even(m, cpu_ceil_div(m, tm), 8);
	g.tn = even(n, cpu_ceil_div(n, tn), g.unit);
	g.nm = cpu_ceil_div(m, g.tm);
	g.nn = cpu_ceil_div(n, g.tn);
	return g;
}

/* The fastest way to cut m x n for so many workers, K split as g has it. Of equal ones that with
 * the longest rows: parts of a row of D that two workers write are near each other, and processors
 * fetch more of a row than was asked for. at_once: rows for which the kernel packs B once, or 0:
 * tiles are TILE_M x TILE_N at most. */
static struct grid cut(struct grid g, int64_t m, int64_t n, int64_t k, int64_t workers,
		       int64_t at_once)
{
	static const int64_t tms[] = { 1024, 512, TILE_M, 128, 64, 32 };
	static const int64_t tns[] = { INT32_MAX, TILE_N, 1152, 768, 576, 512, 384, 288,
				       256,       192,    144,  128, 96,  64,  48 };
	/* sums of a tile are kept where K is split */
	const int large = at_once && g.nk == 1;
	const size_t row = at_once > TILE_M && large ? 0 : 2, col = large ? 0 : 1;
	struct grid best = with_tiles(g, m, n, tms[row], tns[col]);
	int64_t least = INT64_MAX, time;
	for (size_t i = row * LEN(tns); workers > 1 && i < LEN(tms) * LEN(tns); i++) {
		struct grid t = with_tiles(g, m, n, tms[i / LEN(tns)], tns[i % LEN(tns)]);
		if (i % LEN(tns) < col)
			continue;
		for (t.apart = 0; t.apart <= (g.nk > 1); t.apart++) {
			time = time_of(&t, k, workers, large ? at_once : TILE_M);
			if (time < least || (time == least && t.tn > best.tn)) {
				best = t;
				least = time;
			}
		}
	}
	return best;
}

struct job {
	const struct zr_inst *d;
	const struct zr_op_matmul *op;
	const struct zr_op_matmul_low_rank *low; /* or NULL */
	struct grid g;
};

static void tile_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	int64_t row = item / j->g.nn * j->g.tm, col = item % j->g.nn * j->g.tn;
	j->d->k->gemm_tile(j->op, j->low, row, cpu_min(j->g.tm, j->op->m - row), col,
			   cpu_min(j->g.tn, j->op->n - col), cpu_scratch(j->d, worker));
}

/* ---- split sums ------------------------------------------------------------------ */

/* The product over part `p` of K from (row, col) on, stored as fp32 at `to`. */
static struct zr_op_matmul part_of(const struct job *j, int64_t p, int64_t row, int64_t col,
				   float *to, int64_t ld)
{
	struct zr_op_matmul op = *j->op;
	int64_t k0 = p * j->g.tk;
	int64_t a = row * op.lda + k0, b = k0 * op.ldb + col;
	if (op.flags & ZR_MM_TRANS_A)
		a = k0 * op.lda + row;
	if (op.flags & ZR_MM_TRANS_B)
		b = col * op.ldb + k0;

	op.flags &= ZR_MM_TRANS_A | ZR_MM_TRANS_B;
	op.a = zr_array_from(&op.a, a);
	op.b = zr_array_from(&op.b, b);
	op.k = cpu_min(j->g.tk, op.k - k0);
	op.d = zr_array_at(ZR_F32, to);
	op.ldd = ld;
	op.bias = op.pre = NULL;
	return op;
}

static void part_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	int64_t tiles = j->g.nm * j->g.nn, t = item % tiles, p = item / tiles;
	int64_t row = t / j->g.nn * j->g.tm, col = t % j->g.nn * j->g.tn;
	float *to = cpu_split(j->d) + (p * j->op->m + row) * j->op->n + col;
	struct zr_op_matmul op = part_of(j, p, row, col, to, j->op->n);
	j->d->k->gemm_tile(&op, NULL, 0, cpu_min(j->g.tm, op.m - row), 0,
			   cpu_min(j->g.tn, op.n - col), cpu_scratch(j->d, worker));
}

/* What the operation does to rows x cols sums. */
static void finish(const struct job *j, int64_t row, int64_t rows, int64_t col, int64_t cols,
		   float *sum, int64_t ld, int32_t worker)
{
	const struct zr_op_matmul *op = j->op;
	const int64_t at = row * op->ldd + col;
	if (j->low)
		j->d->k->gemm_low_rank(j->low, row, rows, col, cols, sum, ld,
				       cpu_scratch(j->d, worker));
	j->d->k->gemm_finish(op, sum, ld, rows, cols,
			     op->bias ? cpu_at(op->bias, op->b.dtype, col) : NULL,
			     cpu_at(op->d.data, op->d.dtype, at),
			     op->pre ? cpu_at(op->pre, op->d.dtype, at) : NULL);
}

/* to[0..n) += part[0..n) */
static void add(float *restrict to, const float *restrict part, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		to[i] += part[i];
}

/* A tile, part by part. */
static void parts_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	int64_t row = item / j->g.nn * j->g.tm, col = item % j->g.nn * j->g.tn;
	int64_t rows = cpu_min(j->g.tm, j->op->m - row), cols = cpu_min(j->g.tn, j->op->n - col);
	char *scratch = cpu_scratch(j->d, worker);
	float *sum = (float *)(void *)(scratch + ZR_GEMM_SCRATCH), *part = sum + rows * cols;
	for (int64_t p = 0; p < j->g.nk; p++) {
		struct zr_op_matmul op = part_of(j, p, row, col, p ? part : sum, cols);
		j->d->k->gemm_tile(&op, NULL, 0, rows, 0, cols, scratch);
		if (p)
			add(sum, part, rows * cols);
	}

	finish(j, row, rows, col, cols, sum, cols, worker);
}

/* Some rows of the result: the parts in index order, then what the operation does to a sum. */
static void sum_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_matmul *op = j->op;
	const int64_t row = item * ROWS, rows = cpu_min(ROWS, op->m - row), n = rows * op->n;
	float *sum = cpu_split(j->d) + row * op->n;
	const float *part = sum;
	for (int64_t p = 1; p < j->g.nk; p++) {
		part += op->m * op->n;
		add(sum, part, n);
	}
	finish(j, row, rows, 0, op->n, sum, op->n, worker);
}

/* Whether the product is one on tile registers: it is cut in columns that fill them. */
static int on_tiles(const struct zr_inst *d, const struct zr_op_matmul *op)
{
	return d->isa == ZR_CPU_AMX && op->a.dtype == ZR_BF16 && op->b.dtype == ZR_BF16;
}

/* Whether K may be split: not where each row is as if it were alone, and on tile registers, for
 * which a part's sums cost most, only where a long sum has a small result. */
static int may_split(const struct zr_inst *d, const struct zr_op_matmul *op, int64_t m, int64_t n)
{
	const int64_t blocks = cpu_ceil_div(m, 64) * cpu_ceil_div(n, 64);
	if (op->flags & ZR_MM_EACH_ROW)
		return 0;
	return !on_tiles(d, op) || blocks < GRID || op->k > LONG_SUM;
}

/* Rows for which the kernel of tile registers packs B once. Beside a GELU there is no gain. */
static int64_t rows_at_once(const struct zr_op_matmul *op)
{
	if (op->flags & ZR_MM_GELU)
		return TILE_M;
	return zr_gemm_rows_at_once(op->k);
}

/* How many items a product is worth: one for each worker, or two if it takes long, for one of them
 * may be slow. On tile registers these would cost more: A is packed for each. */
static int64_t takers(const struct zr_inst *d, const struct zr_op_matmul *op)
{
	/* of a few rows it is B that takes the time */
	const int64_t rows = op->flags & ZR_MM_EACH_ROW && op->m < 16 ? 16 : op->m;
	const int64_t worth = 1 + rows * op->n / 1024 * op->k / (BIG / 1024);
	const int two = worth / d->workers >= LONG / BIG && !on_tiles(d, op);
	const int64_t items = two ? 2 * d->workers : d->workers;
	if (d->workers < 2)
		return 1;
	return cpu_min(items, worth);
}

/* Some rows and columns of a product [m, n]. */
static int run(const struct zr_ops *ops, const struct zr_op_matmul *op,
	       const struct zr_op_matmul_low_rank *low, int64_t m, int64_t n)
{
	struct job job = { .d = ops->dev, .op = op, .low = low };
	struct zr_op_matmul narrow;
	int64_t tiles;
	int rc = zr_check_matmul(ops->dev->h, op);
	if (rc || op->m < 1 || op->n < 1)
		return rc;

	if (op->flags & ZR_MM_FP8) {
		narrow = *op;
		cpu_narrow(ops->dev, &narrow);
		job.op = op = &narrow;
	}

	const int tiles_of_64 = on_tiles(ops->dev, op);
	job.g = grid_of(m, n, op->k, tiles_of_64 ? 64 : 48, !!(op->flags & ZR_MM_EACH_ROW),
			may_split(ops->dev, op, m, n));
	job.g.unit = tiles_of_64 ? 64 : 16;
	job.g = cut(job.g, op->m, op->n, op->k, takers(ops->dev, op),
		    tiles_of_64 && !low ? rows_at_once(op) : 0);
	tiles = job.g.nm * job.g.nn;
	if (!job.g.apart) {
		cpu_parallel(ops->dev, tiles, job.g.nk > 1 ? parts_item : tile_item, &job);
		return ZR_OK;
	}
	cpu_parallel(ops->dev, tiles * job.g.nk, part_item, &job);
	cpu_parallel(ops->dev, cpu_ceil_div(op->m, ROWS), sum_item, &job);
	return ZR_OK;
}

int cpu_matmul_of(const struct zr_ops *ops, const struct zr_op_matmul *op, int64_t m, int64_t n)
{
	return run(ops, op, NULL, m, n);
}

int cpu_matmul(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_matmul *op)
{
	(void)s;
	return run(ops, op, NULL, op->m, op->n);
}

int cpu_matmul_low_rank(const struct zr_ops *ops, struct zr_stream *s,
			const struct zr_op_matmul_low_rank *low)
{
	const struct zr_op_matmul *op = &low->product;
	int rc = zr_check_first(ops->dev->h, "matmul_low_rank", low->first);
	(void)s;
	if (rc)
		return rc;
	return run(ops, op, low, op->m, op->n);
}
