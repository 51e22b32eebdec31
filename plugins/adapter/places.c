/* SPDX-License-Identifier: Apache-2.0
 *
 * places.c - which adapted weight, or which gradient of one, a pointer of the model means.
 */
#include "maps.h"

/* What the model is given as the place of the gradient of an adapted weight: never written. */
static float nowhere[LORA_TENSORS];

float *lora_mark(int32_t use)
{
	return nowhere + use;
}

int32_t lora_marked(const void *gradient)
{
	const uintptr_t at = (uintptr_t)gradient - (uintptr_t)nowhere;
	if (at < sizeof nowhere)
		return (int32_t)(at / sizeof *nowhere);

	return -1;
}

int32_t lora_use_of(const struct lora_wrapped *w, const void *weight, int32_t from)
{
	for (int32_t i = from; i < w->l->n; i++)
		if (weight == w->c->param[w->l->use[i].weight])
			return i;
	return -1;
}
