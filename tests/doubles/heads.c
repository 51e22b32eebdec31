/* SPDX-License-Identifier: Apache-2.0
 *
 * heads.c - model/gpt2, which says something else of its queries and keys. For
 * tests/system/qk_clip.sh, which sets $HEADS:
 *   silent     it says nothing
 *   outside    the last key head has an output that is not there
 *   nowhere    the scores are computed by a layer that is not there
 */
#include <string.h>
#include <zeroth/model.h>

#include "wrapped.h"

WRAP_MADE(model, "model/gpt2.so", "heads")

/* One tensor of the instance, which this may write to. */
static void change(struct zr_tensor *t)
{
	static struct zr_heads outside;
	const char *how = getenv("HEADS");

	if (!t->heads)
		return;

	outside = *t->heads;
	outside.key = 2 * outside.key + 1;
	if (!strcmp(how, "silent"))
		t->heads = NULL;
	if (!strcmp(how, "outside"))
		t->heads = &outside;
	if (!strcmp(how, "nowhere"))
		t->attention = -1;
}

static int declare(struct zr_inst *inst, struct zr_model_decl *d)
{
	int rc = real_vtbl->declare(inst, d);

	for (uint32_t u = 0; !rc && u < d->n_units; u++) {
		const char *units = (const char *)d->units + (size_t)u * d->unit_stride;
		const struct zr_unit *unit = (const void *)units;
		for (uint32_t i = 0; i < unit->n_tensors; i++)
			change((void *)((uintptr_t)unit->tensors + (size_t)i * d->tensor_stride));
	}
	return rc;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.declare = declare;
}

ZR_PLUGIN(&desc);
