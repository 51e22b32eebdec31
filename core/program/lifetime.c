/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime.c - see lifetime.h.
 */
#include "core/program/lifetime.h"

#include <stdlib.h>

#define ALIGN 64u

static int by_size(const void *a, const void *b)
{
	const struct zr_lifetime *x = *(struct zr_lifetime *const *)a, *y = *(struct zr_lifetime *const *)b;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x < y ? -1 : x > y;
}

static int overlap(const struct zr_lifetime *x, const struct zr_lifetime *y)
{
	return x->first <= y->last && y->first <= x->last;
}

/* The lowest gap that holds x among the placed ones that live at the same time, sorted by offset. */
static uint64_t first_fit(const struct zr_lifetime *x, struct zr_lifetime **placed, int n)
{
	uint64_t at = 0;
	for (int i = 0; i < n; i++) {
		if (!overlap(x, placed[i]))
			continue;
		if (placed[i]->offset >= at + x->bytes)
			break;
		uint64_t end = (placed[i]->offset + placed[i]->bytes + ALIGN - 1) / ALIGN * ALIGN;
		if (end > at)
			at = end;
	}
	return at;
}

int zr_lifetime_assign(struct zr_lifetime *list, int n, uint64_t *total, struct zr_error *err)
{
	struct zr_lifetime **order = malloc(2 * (size_t)(n + 1) * sizeof *order);
	if (!order)
		return zr_err(err, ZR_ENOMEM, "out of memory while planning %d buffers", n);
	struct zr_lifetime **placed = order + n + 1;
	for (int i = 0; i < n; i++)
		order[i] = &list[i];
	qsort(order, (size_t)n, sizeof *order, by_size);
	*total = 0;
	for (int i = 0; i < n; i++) {
		order[i]->offset = first_fit(order[i], placed, i);
		int to = i;
		for (; to > 0 && placed[to - 1]->offset > order[i]->offset; to--)
			placed[to] = placed[to - 1];
		placed[to] = order[i];
		uint64_t end = (order[i]->offset + order[i]->bytes + ALIGN - 1) / ALIGN * ALIGN;
		if (end > *total)
			*total = end;
	}
	free(order);
	return 0;
}
