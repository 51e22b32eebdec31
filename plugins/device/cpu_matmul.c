/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_matmul.c - a matrix product as a grid of tiles, each computed whole by one worker. Where the
 * grid would be too small for the work (a long sum into a small result) K is split as well: the parts
 * are stored apart and added in index order. The grid depends on the shape only (I1).
 */
#include "cpu.h"

#include <string.h>

#define TILE_M 256       /* largest tile: with these its operands stay in a second-level cache */
#define TILE_N 384
#define TILE_MIN 64      /* a smaller tile spends its time on packing its operands */
#define GRID 8           /* tiles wanted, so that few workers end together */
#define BIG (1ll << 22)  /* multiply-adds worth an item of their own */
#define SPLIT_K 2048     /* shortest part of a sum that is split */

struct grid {
	int64_t tm, tn, tk;    /* size of a tile and length of a part of the sum */
	int64_t nm, nn, nk;    /* how many */
};

/* n cut in `parts` of a multiple of `unit` each, the last shorter. */
static int64_t even(int64_t n, int64_t parts, int64_t unit)
{
	int64_t each = cpu_ceil_div(cpu_ceil_div(n, parts), unit) * unit;
	return each < n ? each : n;
}

static struct grid grid_of(int64_t m, int64_t n, int64_t k)
{
	struct grid g = { .nm = cpu_ceil_div(m, TILE_M), .nn = cpu_ceil_div(n, TILE_N), .nk = 1 };
	int64_t want = cpu_min(GRID, m * n * (k / BIG) + m * n * (k % BIG) / BIG);
	while (g.nm * g.nn < want) {
		int64_t tm = m / g.nm, tn = n / g.nn;
		if (tn >= tm && tn >= 2 * TILE_MIN)
			g.nn++;
		else if (tm >= 2 * TILE_MIN)
			g.nm++;
		else
			break;
	}
	while (g.nm * g.nn * g.nk < want && k / (g.nk + 1) >= SPLIT_K &&
	       (uint64_t)(m * n * (g.nk + 1)) * sizeof(float) <= CPU_SPLIT)
		g.nk++;
	g.tm = even(m, g.nm, 8);
	g.tn = even(n, g.nn, 32);
	g.tk = even(k, g.nk, 64);
	g.nm = cpu_ceil_div(m, g.tm);
	g.nn = cpu_ceil_div(n, g.tn);
	g.nk = k ? cpu_ceil_div(k, g.tk) : 1;
	return g;
}

struct job {
	const struct zr_inst *d;
	const struct zr_op_matmul *op;
	struct grid g;
};

static void tile(const struct zr_inst *d, const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
		 int64_t cols, void *scratch)
{
	if (d->blas == CPU_OPENBLAS)
		cpu_blas_tile(d, op, row0, rows, col0, cols, scratch);
	else
		d->k->gemm_tile(op, row0, rows, col0, cols, scratch);
}

static void tile_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	int64_t row = item / j->g.nn * j->g.tm, col = item % j->g.nn * j->g.tn;
	tile(j->d, j->op, row, cpu_min(j->g.tm, j->op->m - row), col, cpu_min(j->g.tn, j->op->n - col),
	     cpu_scratch(j->d, worker));
}

/* ---- split sums ----------------------------------------------------------------------------------- */

/* The product over part `p` of K, stored as fp32 in its place of the split buffer. */
static struct zr_op_matmul part_of(const struct job *j, int64_t p)
{
	struct zr_op_matmul op = *j->op;
	int64_t k0 = p * j->g.tk;
	op.flags &= ZR_MM_TRANS_A | ZR_MM_TRANS_B;
	op.a = cpu_at(op.a, op.a_dtype, op.flags & ZR_MM_TRANS_A ? k0 * op.lda : k0);
	op.b = cpu_at(op.b, op.b_dtype, op.flags & ZR_MM_TRANS_B ? k0 : k0 * op.ldb);
	op.k = cpu_min(j->g.tk, op.k - k0);
	op.d = cpu_split(j->d) + p * op.m * op.n;
	op.d_dtype = ZR_F32;
	op.ldd = op.n;
	op.bias = op.pre = NULL;
	return op;
}

static void part_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	int64_t tiles = j->g.nm * j->g.nn, t = item % tiles;
	int64_t row = t / j->g.nn * j->g.tm, col = t % j->g.nn * j->g.tn;
	struct zr_op_matmul op = part_of(j, item / tiles);
	tile(j->d, &op, row, cpu_min(j->g.tm, op.m - row), col, cpu_min(j->g.tn, op.n - col),
	     cpu_scratch(j->d, worker));
}

/* Row `item` of the result: the parts in index order, then what the operation does to a sum. */
static void sum_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_matmul *op = j->op;
	const float *part = cpu_split(j->d) + item * op->n;
	float *sum = cpu_scratch(j->d, worker);
	int64_t p, i;
	memcpy(sum, part, (size_t)op->n * sizeof *sum);
	for (p = 1; p < j->g.nk; p++) {
		part += op->m * op->n;
		for (i = 0; i < op->n; i++)
			sum[i] += part[i];
	}
	j->d->k->gemm_finish(op, sum, op->n, 1, op->n, op->bias, cpu_at(op->d, op->d_dtype, item * op->ldd),
			     op->pre ? cpu_at(op->pre, op->d_dtype, item * op->ldd) : NULL);
}

static int check(const struct zr_inst *d, const struct zr_op_matmul *op)
{
	int rc = cpu_check_dtype(d, "matmul", op->a_dtype);
	if (!rc)
		rc = cpu_check_dtype(d, "matmul", op->b_dtype);
	if (!rc)
		rc = cpu_check_dtype(d, "matmul", op->d_dtype);
	if (!rc && op->flags & ZR_MM_ACCUMULATE && (op->d_dtype != ZR_F32 || op->bias || op->flags & ZR_MM_GELU))
		rc = zr_fail(d->h, ZR_EINVAL,
			     "device/cpu: matmul: only an fp32 result without bias and GELU can be added to");
	return rc;
}

int cpu_matmul(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_matmul *op)
{
	struct job job = { ops->dev, op, grid_of(op->m, op->n, op->k) };
	int64_t tiles = job.g.nm * job.g.nn;
	int rc = check(ops->dev, op);
	(void)s;
	if (rc || op->m < 1 || op->n < 1)
		return rc;
	if (job.g.nk == 1) {
		cpu_parallel(ops->dev, tiles, tile_item, &job);
		return ZR_OK;
	}
	cpu_parallel(ops->dev, tiles * job.g.nk, part_item, &job);
	cpu_parallel(ops->dev, op->m, sum_item, &job);
	return ZR_OK;
}
