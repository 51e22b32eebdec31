/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.c - AdamW, or Adam with L2, in one sweep over n elements, scalar.
 */
#include "adamw.h"
#include "master.h"
#include "moments8.h"
#include "table.h"

/* Moments in 8 bits, group by group. */
static void in_groups(const struct zr_op_adamw *op, int64_t lo, int64_t hi)
{
	const struct adamw_factors f = adamw_factors(op);
	const zr_real *grad = zr_reals(op->grad);
	const struct zr_kept p =
		zr_kept(op->master, op->lowp, op->lowp_dtype, op->rem, op->rem_bits);

	for (int64_t i = lo; i < hi; i += ZR_MOMENT8_GROUP) {
		int n = hi - i < ZR_MOMENT8_GROUP ? (int)(hi - i) : ZR_MOMENT8_GROUP;
		float m8[ZR_MOMENT8_GROUP], v8[ZR_MOMENT8_GROUP];
		zr_get8(op->m, i, n, 0, m8);
		zr_get8(op->v, i, n, 1, v8);
		for (int k = 0; k < n; k++) {
			zr_real m = m8[k], v = v8[k], old = zr_kept_get(&p, i + k);
			zr_kept_put(&p, i + k,
				    adamw_update(&f, op->l2, old, grad[i + k], &m, &v));
			m8[k] = (float)m;
			v8[k] = (float)v;
		}
		zr_put8(op->m, i, n, 0, m8);
		zr_put8(op->v, i, n, 1, v8);
	}
}

void ZR_SCALAR(adamw)(const struct zr_op_adamw *op, int64_t lo, int64_t hi)
{
	const struct adamw_factors f = adamw_factors(op);
	const zr_real *grad = zr_reals(op->grad);
	const struct zr_kept p =
		zr_kept(op->master, op->lowp, op->lowp_dtype, op->rem, op->rem_bits);
	int32_t dtype = op->moment_dtype == ZR_BF16 ? ZR_BF16 : ZR_REAL_DTYPE;

	if (op->moment_dtype == ZR_U8) {
		in_groups(op, lo, hi);
		return;
	}
	for (int64_t i = lo; i < hi; i++) {
		zr_real m = zr_get(op->m, i, dtype), v = zr_get(op->v, i, dtype);
		zr_kept_put(&p, i,
			    adamw_update(&f, op->l2, zr_kept_get(&p, i), grad[i], &m, &v));
		zr_put(op->m, i, dtype, m);
		zr_put(op->v, i, dtype, v);
	}
}
