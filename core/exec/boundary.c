/* SPDX-License-Identifier: Apache-2.0
 *
 * boundary.c - see boundary.h.
 */
#include "core/exec/boundary.h"

#include <string.h>

static void merge(struct zr_boundary *to, const struct zr_boundary *from, int rank)
{
	zr_exact_merge(&to->loss, &from->loss);
	zr_exact_merge(&to->norm, &from->norm);
	if (from->bad_tensor < to->bad_tensor) {
		to->bad_tensor = from->bad_tensor;
		to->bad_rank = rank;
	}
	if (!to->stop)
		to->stop = from->stop;
}

int zr_boundary_merge(struct zr_boundary *mine, const struct zr_boundary *all, int ranks, int rank, struct zr_error *err)
{
	int64_t check = mine->check;
	memset(mine, 0, sizeof *mine);
	mine->bad_tensor = INT64_MAX;
	for (int r = 0; r < ranks; r++) {
		if (all[r].check != check)
			return zr_err(err, ZR_EINVAL, "rank %d runs another program than rank %d: its config, model or plugins differ", r, rank);
		merge(mine, &all[r], r);
	}
	mine->check = check;
	return 0;
}
