/* SPDX-License-Identifier: Apache-2.0
 *
 * lion.c - Lion (Chen et al. 2023) in one sweep over n elements, scalar.
 */
#include "master.h"
#include "moments8.h"
#include "table.h"
#include "update.h"

/* The average in 8 bits, group by group. */
static void in_groups(const struct zr_op_lion *op, int64_t lo, int64_t hi)
{
	const zr_real *grad = zr_reals(op->grad);
	const struct zr_kept p =
		zr_kept_at(op->master, op->lowp, op->lowp_dtype, op->rem, op->rem_bits);
	const struct lion_factors f = lion_factors(op);

	for (int64_t i = lo; i < hi; i += ZR_MOMENT8_GROUP) {
		int n = zr_group8(i, hi);
		float m8[ZR_MOMENT8_GROUP];
		zr_get8(op->m, i, n, 0, m8);
		for (int k = 0; k < n; k++) {
			zr_real m = m8[k], old = zr_kept_get(&p, i + k);
			zr_kept_put(&p, i + k, lion_update(&f, old, grad[i + k], &m));
			m8[k] = (float)m;
		}
		zr_put8(op->m, i, n, 0, m8);
	}
}

void ZR_SCALAR(lion)(const struct zr_op_lion *op, int64_t lo, int64_t hi)
{
	const zr_real *grad = zr_reals(op->grad);
	zr_real *m = op->m;
	const struct zr_kept p =
		zr_kept_at(op->master, op->lowp, op->lowp_dtype, op->rem, op->rem_bits);
	const struct lion_factors f = lion_factors(op);

	if (op->moment_dtype == ZR_U8) {
		in_groups(op, lo, hi);
		return;
	}
	for (int64_t i = lo; i < hi; i++)
		zr_kept_put(&p, i, lion_update(&f, zr_kept_get(&p, i), grad[i], m + i));
}
