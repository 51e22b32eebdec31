/* SPDX-License-Identifier: Apache-2.0
 *
 * muon.c - the elementwise parts of Muon (Jordan 2024), between its matrix products, scalar.
 */
#include "sumsq.h"
#include "table.h"
#include "update.h"

void ZR_SCALAR(muon_momentum)(const struct zr_op_muon *op, int64_t lo, int64_t hi)
{
	const zr_real *grad = zr_reals(op->grad);
	zr_real *buf = zr_reals(op->buf), *x = zr_reals(op->x);
	const struct muon_factors f = muon_factors(op);

	for (int64_t b = lo; b < hi; b++) {
		int64_t from = b * ZR_BLOCK, to = from + ZR_BLOCK < op->n ? from + ZR_BLOCK : op->n;
		double chain[ZR_CHAINS] = { 0 };
		for (int64_t i = from; i < to; i++) {
			x[i] = muon_average(&f, grad[i], buf + i);
			zr_chain(chain, i - from, x[i]);
		}
		op->sumsq[b] = zr_chains_meet(chain);
	}
}

void ZR_SCALAR(muon_normalize)(const struct zr_op_muon *op, zr_real factor, int64_t lo, int64_t hi)
{
	zr_real *x = zr_reals(op->x);

	for (int64_t i = lo; i < hi; i++)
		x[i] = x[i] * factor;
}

void ZR_SCALAR(muon_factor)(const struct zr_op_muon_factor *op, int64_t lo, int64_t hi)
{
	zr_real *gram = zr_reals(op->gram);
	const zr_real *square = zr_reals(op->square);

	for (int64_t r = lo; r < hi; r++) {
		for (int64_t i = r * op->n; i < (r + 1) * op->n; i++)
			gram[i] = op->b * gram[i] + op->c * square[i];
		gram[r * op->n + r] += op->a;
	}
}

void ZR_SCALAR(muon_update)(const struct zr_op_muon *op, int64_t lo, int64_t hi)
{
	const zr_real *x = zr_reals(op->x);
	zr_real *master = zr_reals(op->master);
	const struct muon_factors f = muon_factors(op);

	for (int64_t i = lo; i < hi; i++) {
		zr_real p = muon_step(&f, master[i], x[i]);
		master[i] = p;
		if (op->lowp)
			zr_put(op->lowp, i, op->lowp_dtype, p);
	}
}
