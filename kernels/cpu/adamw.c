/* SPDX-License-Identifier: Apache-2.0
 *
 * adamw.c - AdamW, or Adam with L2, in one sweep over n elements, scalar.
 */
#include "adamw8.h"
#include "master.h"
#include "table.h"

/* Moments in 8 bits, of the n elements of a group from i on. */
static void in_group(const struct adamw8_factors *f, const struct zr_op_adamw *op,
		     const struct zr_kept *p, int64_t i, int n)
{
	void *const state[2] = { op->m, op->v };
	const zr_real *grad = zr_reals(op->grad) + i;
	uint8_t *code[2];
	float scale[2];
	uint32_t most[2] = { 0, 0 };
	zr_real m[ZR_MOMENT8_GROUP], root[ZR_MOMENT8_GROUP];

	for (int j = 0; j < 2; j++) {
		code[j] = zr_codes8(state[j], i);
		scale[j] = zr_from_f16(*zr_scale8(state[j], i));
	}
	for (int k = 0; k < n; k++) {
		const int old[2] = { (int8_t)code[0][k], code[1][k] };
		adamw8_moments(f, op->l2, op->l2 ? zr_kept_get(p, i + k) : 0, grad[k], old, scale,
			       &m[k], &root[k]);
		most[0] = zr_most8(most[0], (float)m[k]);
		most[1] = zr_most8(most[1], (float)root[k]);
	}

	for (int j = 0; j < 2; j++) {
		*zr_scale8(state[j], i) = zr_scale8_of(most[j]);
		scale[j] = zr_from_f16(zr_scale8_of(most[j]));
	}
	for (int k = 0; k < n; k++) {
		uint8_t new_code[2];
		zr_real old = zr_kept_get(p, i + k);
		zr_kept_put(p, i + k, adamw8_next(f, old, m[k], root[k], scale, new_code));
		code[0][k] = new_code[0];
		code[1][k] = new_code[1];
	}
}

void ZR_SCALAR(adamw)(const struct zr_op_adamw *op, int64_t lo, int64_t hi)
{
	const struct adamw_factors f = adamw_factors(op);
	const zr_real *grad = zr_reals(op->grad);
	const struct zr_kept p =
		zr_kept_at(op->master, op->lowp, op->lowp_dtype, op->rem, op->rem_bits);
	int32_t dtype = op->moment_dtype == ZR_BF16 ? ZR_BF16 : ZR_REAL_DTYPE;

	if (op->moment_dtype == ZR_U8) {
		const struct adamw8_factors f8 = adamw8_factors(op);
		for (int64_t i = lo; i < hi; i += ZR_MOMENT8_GROUP)
			in_group(&f8, op, &p, i,
				 (int)(hi - i < ZR_MOMENT8_GROUP ? hi - i : ZR_MOMENT8_GROUP));
		return;
	}

	for (int64_t i = lo; i < hi; i++) {
		zr_real m = zr_get(op->m, i, dtype), v = zr_get(op->v, i, dtype);
		zr_kept_put(&p, i, adamw_update(&f, op->l2, zr_kept_get(&p, i), grad[i], &m, &v));
		zr_put(op->m, i, dtype, m);
		zr_put(op->v, i, dtype, v);
	}
}
