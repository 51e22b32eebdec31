/* SPDX-License-Identifier: Apache-2.0
 *
 * master.c - splits a master of 32 bits into its bf16 rounding and its lower 16 bits, and joins
 * them, scalar. Rounding half away from zero makes the join exact: the bf16 is one above the upper
 * half exactly if the top bit of the lower half is set. (With ties to even, 0x8000 would be
 * ambiguous.)
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
