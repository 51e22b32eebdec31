/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c - how each operation but the matrix products, attention and those of experts is cut into
 * items for the workers. A cut is chosen for the cache and for balance, from the shapes only.
 */
#include "cpu.h"

#include <math.h>

#define ELEMENTS 16384 /* per item of the elementwise operations: some 100 KB of traffic */
#define COLUMNS  64    /* per item of the sums over rows: whole cache lines of each row */
#define BLOCKS   8

struct job {
	const struct zr_inst *d;
	const void *op;
	int64_t n, cut;
	float *part; /* layernorm_bwd, rmsnorm_bwd, muon_normalize */
};

void cpu_parallel(const struct zr_inst *d, int64_t n, void (*fn)(void *, int64_t, int32_t),
		  void *arg)
{
	if (n == 1)
		fn(arg, 0, 0);
	else if (n > 1)
		d->h->parallel(d->h, n, fn, arg);
}

static void run(const struct zr_inst *d, const void *op, int64_t n, int64_t cut,
		void (*fn)(void *, int64_t, int32_t))
{
	struct job job = { d, op, n, cut, NULL };
	cpu_parallel(d, cpu_ceil_div(n, cut), fn, &job);
}

/* Rows per item such that an item has about ELEMENTS elements. */
static int64_t rows_per_item(int64_t width)
{
	int64_t rows = ELEMENTS / (width > 0 ? width : 1);
	return rows < 1 ? 1 : rows;
}

/* An item of the kernel `name`: the range [item * cut, item * cut + cut) of [0, n). */
#define ITEM(name)                                                                                 \
	static void name##_item(void *arg, int64_t item, int32_t worker)                           \
	{                                                                                          \
		const struct job *j = arg;                                                         \
		int64_t lo = item * j->cut;                                                        \
		(void)worker;                                                                      \
		j->d->k->name(j->op, lo, cpu_min(lo + j->cut, j->n));                              \
	}

/* The operation `name` on struct zr_op_<args>, if `check` is ZR_OK, cut every `cut` of `n`; o is
 * its argument struct. */
#define CHECKED_ON(args, name, check, n, cut)                                                      \
	ITEM(name)                                                                                 \
	int cpu_##name(const struct zr_ops *ops, struct zr_stream *s,                              \
		       const struct zr_op_##args *o)                                               \
	{                                                                                          \
		int rc = check;                                                                    \
		(void)s;                                                                           \
		if (!rc)                                                                           \
			run(ops->dev, o, n, cut, name##_item);                                     \
		return rc;                                                                         \
	}
#define CHECKED(name, n, cut) CHECKED_ON(name, name, zr_check_##name(ops->dev->h, o), n, cut)
#define OPERATION_ON(args, name, dtype, n, cut)                                                    \
	CHECKED_ON(args, name, zr_check_dtype(ops->dev->h, #name, dtype), n, cut)
#define OPERATION(name, dtype, n, cut) OPERATION_ON(name, name, dtype, n, cut)

OPERATION(embedding, o->dtype, o->batch * o->length, rows_per_item(o->width))
OPERATION(embedding_bwd, o->dtype, o->width, COLUMNS)
OPERATION(layernorm, o->dtype, o->rows, rows_per_item(o->width))
CHECKED(rmsnorm, o->rows, rows_per_item(o->width))
CHECKED(rotary, o->batch * o->length, rows_per_item(o->heads * o->head_dim))
CHECKED(logit_cap, o->n, ELEMENTS)
CHECKED(scale_heads, o->n, ELEMENTS)
CHECKED(cast_heads, o->rows, rows_per_item(o->heads * o->head_dim))
CHECKED(gelu_bwd, o->n, ELEMENTS)
CHECKED(swiglu, o->n, ELEMENTS)
CHECKED(swiglu_bwd, o->n, ELEMENTS)
CHECKED(residual, o->n, ELEMENTS)
OPERATION(bias_bwd, o->dtype, o->width, COLUMNS)
CHECKED_ON(fold, fold, zr_check_fold(ops->dev->h, o, 1), cpu_ceil_div(o->n, ZR_BLOCK), BLOCKS)
CHECKED(adamw, o->n, ELEMENTS)
CHECKED(lion, o->n, ELEMENTS)
OPERATION(sgd, o->lowp ? o->lowp_dtype : ZR_F32, o->n, ELEMENTS)
OPERATION(adagrad, o->lowp ? o->lowp_dtype : ZR_F32, o->n, ELEMENTS)
OPERATION(lamb, o->lowp ? o->lowp_dtype : ZR_F32, o->n, ELEMENTS)
OPERATION_ON(lamb, lamb_norms, ZR_F32, cpu_ceil_div(o->n, ZR_BLOCK), BLOCKS)
OPERATION_ON(muon, muon_momentum, ZR_F32, cpu_ceil_div(o->n, ZR_BLOCK), BLOCKS)
OPERATION(muon_factor, ZR_F32, o->n, rows_per_item(o->n))
OPERATION_ON(muon, muon_update, o->lowp ? o->lowp_dtype : ZR_F32, o->n, ELEMENTS)
OPERATION(init, ZR_F32, o->n, ELEMENTS)
OPERATION(round_stochastic, ZR_F32, o->n, ELEMENTS)
CHECKED_ON(master, master_join, zr_check_master(ops->dev->h, "master_join", o), o->n, ELEMENTS)
CHECKED_ON(master, master_split, zr_check_master(ops->dev->h, "master_split", o), o->n, ELEMENTS)

ITEM(cast)
ITEM(encode)
ITEM(decode)
ITEM(mx_encode)
ITEM(mx_decode)

int cpu_cast(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_cast *o)
{
	const struct zr_inst *d = ops->dev;
	int rc = zr_check_cast(d->h, o);
	(void)s;
	if (rc)
		return rc;

	if (zr_has_codes(o->dst.dtype))
		run(d, o, o->n / ZR_BLOCK, BLOCKS, encode_item);
	else if (zr_has_codes(o->src.dtype))
		run(d, o, o->n / ZR_BLOCK, BLOCKS, decode_item);
	else if (o->dst.dtype == ZR_MXINT8)
		run(d, o, cpu_ceil_div(o->n, ZR_BLOCK), BLOCKS, mx_encode_item);
	else if (o->src.dtype == ZR_MXINT8)
		run(d, o, cpu_ceil_div(o->n, ZR_BLOCK), BLOCKS, mx_decode_item);
	else
		run(d, o, o->n, ELEMENTS, cast_item);
	return ZR_OK;
}

/* ---- muon_normalize: one factor for all items ------------------------------------ */

static void muon_normalize_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	int64_t lo = item * j->cut;
	(void)worker;
	j->d->k->muon_normalize(j->op, *j->part, lo, cpu_min(lo + j->cut, j->n));
}

int cpu_muon_normalize(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_muon *o)
{
	double sum = 0, norm;
	float factor;
	struct job job = { ops->dev, o, o->n, ELEMENTS, &factor };
	int64_t b;
	(void)s;
	for (b = 0; b < cpu_ceil_div(o->n, ZR_BLOCK); b++)
		sum += o->sumsq[b];
	norm = sqrt(sum);
	factor = (float)(1 / (norm > o->eps ? norm : o->eps));
	cpu_parallel(ops->dev, cpu_ceil_div(o->n, ELEMENTS), muon_normalize_item, &job);
	return ZR_OK;
}

/* ---- layernorm_bwd: tiles of rows leave partial sums, then columns add them in order ---- */

static void layernorm_bwd_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_layernorm_bwd *o = j->op;
	int64_t lo = item * ZR_LN_TILE;
	(void)worker;
	j->d->k->layernorm_bwd(o, lo, cpu_min(lo + ZR_LN_TILE, o->rows),
			       o->dgamma || o->dbeta ? j->part + item * 2 * o->width : NULL);
}

static void layernorm_bwd_sum_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_layernorm_bwd *o = j->op;
	int64_t lo = item * COLUMNS;
	(void)worker;
	j->d->k->layernorm_bwd_sum(o, j->part, j->n, lo, cpu_min(lo + COLUMNS, o->width));
}

uint64_t cpu_layernorm_bwd_work(const struct zr_ops *ops, const struct zr_op_layernorm_bwd *o)
{
	(void)ops;
	return (uint64_t)(cpu_ceil_div(o->rows, ZR_LN_TILE) * 2 * o->width) * sizeof(float);
}

int cpu_layernorm_bwd(const struct zr_ops *ops, struct zr_stream *s,
		      const struct zr_op_layernorm_bwd *o)
{
	int64_t tiles = cpu_ceil_div(o->rows, ZR_LN_TILE);
	struct job job = { ops->dev, o, tiles, ZR_LN_TILE, o->work };
	int rc = zr_check_dtype(ops->dev->h, "layernorm_bwd", o->dtype);
	(void)s;
	if (rc)
		return rc;

	cpu_parallel(ops->dev, tiles, layernorm_bwd_item, &job);
	if (o->dgamma || o->dbeta)
		cpu_parallel(ops->dev, cpu_ceil_div(o->width, COLUMNS), layernorm_bwd_sum_item,
			     &job);
	return ZR_OK;
}

/* ---- rmsnorm_bwd: likewise ------------------------------------------------------- */

static void rmsnorm_bwd_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_rmsnorm_bwd *o = j->op;
	int64_t lo = item * ZR_LN_TILE;
	(void)worker;
	j->d->k->rmsnorm_bwd(o, lo, cpu_min(lo + ZR_LN_TILE, o->rows),
			     o->dgamma ? j->part + item * o->width : NULL);
}

static void rmsnorm_bwd_sum_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_rmsnorm_bwd *o = j->op;
	int64_t lo = item * COLUMNS;
	(void)worker;
	j->d->k->rmsnorm_bwd_sum(o, j->part, j->n, lo, cpu_min(lo + COLUMNS, o->width));
}

uint64_t cpu_rmsnorm_bwd_work(const struct zr_ops *ops, const struct zr_op_rmsnorm_bwd *o)
{
	(void)ops;
	return (uint64_t)(cpu_ceil_div(o->rows, ZR_LN_TILE) * o->width) * sizeof(float);
}

int cpu_rmsnorm_bwd(const struct zr_ops *ops, struct zr_stream *s,
		    const struct zr_op_rmsnorm_bwd *o)
{
	int64_t tiles = cpu_ceil_div(o->rows, ZR_LN_TILE);
	struct job job = { ops->dev, o, tiles, ZR_LN_TILE, o->work };
	int rc = zr_check_rmsnorm_bwd(ops->dev->h, o);
	(void)s;
	if (rc)
		return rc;

	cpu_parallel(ops->dev, tiles, rmsnorm_bwd_item, &job);
	if (o->dgamma)
		cpu_parallel(ops->dev, cpu_ceil_div(o->width, COLUMNS), rmsnorm_bwd_sum_item, &job);
	return ZR_OK;
}

int cpu_embedding_bwd_rows(const struct zr_ops *ops, struct zr_stream *s,
			   const struct zr_op_embedding_bwd *o)
{
	return cpu_embedding_bwd(ops, s, o);
}
