/* SPDX-License-Identifier: Apache-2.0
 *
 * drift.c - optimizer/sgd with one defect, built and run by tests/system/drift.sh: rank 1 moves the
 * first parameter of the piece whose name is in DRIFT in step 3 alone, by one unit in its last
 * place.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/device.h> /* the real one computes by its operations */
#include <zeroth/optimizer.h>

#include "wrapped.h"

WRAP_MADE(optimizer, "optimizer/sgd.so", "drift")

static int step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	int rc = real_vtbl->step(inst, s);
	const char *name = getenv("DRIFT");
	for (uint64_t i = 0; host->rank == 1 && s->step == 3 && name && i < s->n_seg; i++)
		if (!strcmp(ZR_SEG(s, i)->name, name) && ZR_SEG(s, i)->param_off == 0)
			((uint32_t *)s->master.data)[ZR_SEG(s, i)->off] ^= 1;
	return rc;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.step = step;
}

ZR_PLUGIN(&desc);
