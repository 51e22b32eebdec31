/* SPDX-License-Identifier: Apache-2.0
 *
 * whole.c - model/gpt2, of which one block, the last, computes all rows of a sequence at once; or,
 * with SUMS_AT=BYTE, whose outputs have a sum there. For tests/system/slices.sh.
 */
#include <zeroth/model.h>

#include "wrapped.h"

WRAP_MADE(model, "model/gpt2.so", "whole")

static int declare(struct zr_inst *inst, struct zr_model_decl *d)
{
	int rc = real_vtbl->declare(inst, d);
	if (rc || getenv("SUMS_AT"))
		return rc;

	const uintptr_t layers = (uintptr_t)d->layers;
	struct zr_layer *last = (void *)(layers + (size_t)(d->n_layers - 2) * d->layer_stride);
	last->cut = ZR_CUT_WHOLE;
	return 0;
}

static int bytes(struct zr_inst *inst, int32_t layer, int64_t batch, int64_t length, int32_t dtype,
		 const struct zr_ops *ops, struct zr_layer_bytes *out)
{
	const char *at = getenv("SUMS_AT");
	int rc = real_vtbl->bytes(inst, layer, batch, length, dtype, ops, out);
	if (rc || !at)
		return rc;

	out->sums_at = strtoull(at, NULL, 10);
	out->sums = sizeof(double);
	return 0;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.declare = declare;
	vtbl.bytes = bytes;
}

ZR_PLUGIN(&desc);
