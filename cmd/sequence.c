/* SPDX-License-Identifier: Apache-2.0
 *
 * sequence.c - see sequence.h.
 */
#include "cmd/sequence.h"

#include <stdlib.h>

int zr_sequence_batch(const struct zr_setup *s, int32_t split, int64_t slots, struct zr_batch *b,
		      struct zr_error *err)
{
	const int64_t rows = s->facts.batch.length;
	const int documents = zr_has_documents(s->roles.source);

	int32_t *all = calloc((size_t)rows, 5 * sizeof *all);
	if (!all)
		return zr_err(err, ZR_ENOMEM, "out of memory for a sequence");

	*b = (struct zr_batch){
		.size = sizeof *b,
		.split = split,
		.seed = (uint64_t)s->facts.train->seed,
		.slots = slots,
		.sequences = 1,
		.length = rows,
		.inputs = all,
		.targets = all + rows,
		.starts = documents ? all + 2 * rows : NULL,
		.positions = documents ? all + 3 * rows : NULL,
		.weights = documents ? (float *)(all + 4 * rows) : NULL,
	};
	return 0;
}
