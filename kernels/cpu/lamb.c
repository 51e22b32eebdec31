/* SPDX-License-Identifier: Apache-2.0
 *
 * lamb.c - LAMB (You et al. 2020) in two passes, scalar: first the norms that the update needs,
 * then the update. Both compute the same r.
 */
#include "lamb.h"
#include "sumsq.h"
#include "table.h"

/* r of element i; *m and *v become the new moments. */
static zr_real direction(const struct zr_op_lamb *op, const struct lamb_factors *f, int64_t i,
			 zr_real *m, zr_real *v)
{
	*m = zr_reals(op->m)[i];
	*v = zr_reals(op->v)[i];
	return lamb_direction(f, zr_reals(op->master)[i], zr_reals(op->grad)[i], m, v);
}

void ZR_SCALAR(lamb_norms)(const struct zr_op_lamb *op, int64_t lo, int64_t hi)
{
	const struct lamb_factors f = lamb_factors(op);
	zr_real m, v;

	for (int64_t b = lo; b < hi; b++) {
		int64_t from = b * ZR_BLOCK, to = from + ZR_BLOCK < op->n ? from + ZR_BLOCK : op->n;
		double p[ZR_CHAINS] = { 0 }, r[ZR_CHAINS] = { 0 };
		for (int64_t i = from; i < to; i++) {
			zr_chain(p, i - from, zr_reals(op->master)[i]);
			zr_chain(r, i - from, direction(op, &f, i, &m, &v));
		}
		op->block_norms[2 * b] = zr_chains_meet(p);
		op->block_norms[2 * b + 1] = zr_chains_meet(r);
	}
}

void ZR_SCALAR(lamb)(const struct zr_op_lamb *op, int64_t lo, int64_t hi)
{
	const struct lamb_factors f = lamb_factors(op);
	zr_real *master = zr_reals(op->master), rate = lamb_rate(op);

	for (int64_t i = lo; i < hi; i++) {
		zr_real m, v, p = master[i] - rate * direction(op, &f, i, &m, &v);
		zr_reals(op->m)[i] = m;
		zr_reals(op->v)[i] = v;
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
