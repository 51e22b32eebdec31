/* SPDX-License-Identifier: Apache-2.0
 *
 * master.c - splits a master of 32 bits into its bf16 rounding and bits below, and joins them,
 * scalar.
 */
#include "master.h"
#include "table.h"

void ZR_SCALAR(master_join)(const struct zr_op_master *op, int64_t lo, int64_t hi)
{
	zr_real *master = zr_reals(op->master);

	for (int64_t i = lo; i < hi; i++)
		master[i] = zr_master_joined(op, i);
}

void ZR_SCALAR(master_split)(const struct zr_op_master *op, int64_t lo, int64_t hi)
{
	const zr_real *master = zr_reals(op->master);

	for (int64_t i = lo; i < hi; i++)
		zr_master_split(op, i, (float)master[i]);
}
