/* SPDX-License-Identifier: Apache-2.0
 *
 * fold.c - accumulates gradients, scalar: acc = or += g rounded to comm_dtype, or several
 * contributions one after the other, or as trees. The first contribution is stored, not added to
 * 0, so that -0 survives. Optionally measures each block of ZR_BLOCK elements after that (sumsq.h).
 */
#include "mx.h"
#include "sumsq.h"
#include "table.h"

static void measure(const zr_real *acc, int64_t n, double *sumsq, uint32_t *nonfinite)
{
	double chain[ZR_CHAINS] = { 0 };
	uint32_t bad = 0;

	for (int64_t j = 0; j < n; j++) {
		zr_chain(chain, j, acc[j]);
		bad += !isfinite(acc[j]);
	}
	*sumsq = zr_chains_meet(chain);
	*nonfinite = bad;
}

/* Element i of an array of a type, which in fp32 is one of reals. */
static zr_real get(const void *p, int64_t i, int32_t dtype)
{
	if (dtype == ZR_F32)
		return zr_reals(p)[i];
	return zr_get(p, i, dtype);
}

static void put(void *p, int64_t i, int32_t dtype, zr_real x)
{
	if (dtype == ZR_F32)
		zr_reals(p)[i] = x;
	else
		zr_put(p, i, dtype, x);
}

/* Element i of contribution k, as it comes over the wire. */
static zr_real leaf(const struct zr_op_fold *op, const struct zr_fold_shape *s, int32_t k,
		    int64_t i)
{
	const void *from = (const char *)op->g + k * op->apart;
	if (op->each)
		from = op->each[k];
	if (s->from == ZR_MXINT8)
		return (zr_real)zr_mx_get(from, i);
	return zr_rounded(get(from, i, s->from), op->comm_dtype);
}

/* The k-th sum of a call joins its siblings. Whether it is that of all leaves of its tree that the
 * call has; otherwise it waits. */
static int join_inside(const struct zr_op_fold *op, const struct zr_fold_shape *s, int32_t k,
		       zr_real *waiting, zr_real *x)
{
	int32_t level = 0;
	for (; level < s->inside && (k >> level & 1); level++)
		*x = zr_rounded(waiting[level] + *x, op->comm_dtype);
	if (level < s->inside)
		waiting[level] = *x;
	return level == s->inside;
}

/* What a call has of a tree joins its siblings of earlier turns. Whether it is the root. */
static int join_turns(const struct zr_op_fold *op, const struct zr_fold_shape *s, int64_t i,
		      zr_real *x)
{
	int32_t level = s->inside;
	if (level == s->levels)
		return 1;

	zr_real *waiting = zr_reals(op->waiting) + i;
	for (int32_t turn = op->turn; level < s->levels && (turn & 1); turn >>= 1, level++) {
		*x = zr_rounded(*waiting + *x, op->comm_dtype);
		waiting += op->waiting_apart;
	}
	if (level < s->levels)
		*waiting = *x;
	return level == s->levels;
}

/* Element i of all contributions. */
static void add_many(const struct zr_op_fold *op, const struct zr_fold_shape *s, int64_t i)
{
	zr_real waiting[ZR_FOLD_LEVELS], sum = 0;
	int64_t stored = 0;
	int added = op->flags & ZR_OP_ACCUMULATE, roots = 0;
	if (added)
		sum = zr_reals(op->acc)[i];

	for (int32_t k = 0; k < s->number; k++) {
		zr_real x = leaf(op, s, k, i);
		if (!join_inside(op, s, k, waiting, &x) || !join_turns(op, s, i, &x))
			continue;
		if (op->to_apart) {
			put(op->acc, i + stored++ * op->to_apart, s->to, x);
			continue;
		}
		sum = added ? sum + x : x;
		added = roots = 1;
	}

	if (roots)
		put(op->acc, i, s->to, sum);
}

static void add_one(const struct zr_op_fold *op, int64_t i)
{
	zr_real x = zr_rounded(zr_reals(op->g)[i], op->comm_dtype);
	zr_real *acc = zr_reals(op->acc) + i;
	*acc = op->flags & ZR_OP_ACCUMULATE ? *acc + x : x;
}

void ZR_SCALAR(fold)(const struct zr_op_fold *op, int64_t lo, int64_t hi)
{
	const int many = zr_folds_many(op);
	struct zr_fold_shape shape = { 0 };
	if (many)
		shape = zr_fold_shape_of(op);

	for (int64_t b = lo; b < hi; b++) {
		int64_t from = b * ZR_BLOCK, to = from + ZR_BLOCK < op->n ? from + ZR_BLOCK : op->n;
		for (int64_t i = from; i < to; i++)
			if (many)
				add_many(op, &shape, i);
			else
				add_one(op, i);
		if (op->sumsq)
			measure(zr_reals(op->acc) + from, to - from, op->sumsq + b,
				op->nonfinite + b);
	}
}
