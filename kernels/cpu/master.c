/* SPDX-License-Identifier: Apache-2.0
 *
 * master.c - a master of 32 bits as bf16 and the 16 bits below, scalar. Rounding half away from zero makes the way
 * back exact: the bf16 is one above the upper half exactly when the lower half has its top bit. (Ties to even would
 * leave 0x8000 ambiguous.)
 */
#include "scalar.h"
#include "table.h"

void ZR_SCALAR(master_join)(const struct zr_op_master *op, int64_t lo, int64_t hi)
{
	zr_real *master = zr_reals(op->master);

	for (int64_t i = lo; i < hi; i++) {
		uint32_t low = op->rem[i], high = op->lowp[i] - (low >> 15);
		master[i] = zr_from_bits(high << 16 | low);
	}
}

void ZR_SCALAR(master_split)(const struct zr_op_master *op, int64_t lo, int64_t hi)
{
	const zr_real *master = zr_reals(op->master);

	for (int64_t i = lo; i < hi; i++) {
		float x = (float)master[i];
		op->lowp[i] = zr_bf16(x);
		op->rem[i] = (uint16_t)zr_bits(x);
	}
}
