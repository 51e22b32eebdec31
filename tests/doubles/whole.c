/* SPDX-License-Identifier: Apache-2.0
 *
 * whole.c - model/gpt2, of which one block, the last, computes all rows of a sequence at once. For
 * tests/system/slices.sh.
 */
#include <zeroth/model.h>

#include "wrapped.h"

WRAP_MADE(model, "model/gpt2.so", "whole")

static int declare(struct zr_inst *inst, struct zr_model_decl *d)
{
	int rc = real_vtbl->declare(inst, d);
	if (rc)
		return rc;

	const uintptr_t layers = (uintptr_t)d->layers;
	struct zr_layer *last = (void *)(layers + (size_t)(d->n_layers - 2) * d->layer_stride);
	last->cut = ZR_CUT_WHOLE;
	return 0;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.declare = declare;
}

ZR_PLUGIN(&desc);
