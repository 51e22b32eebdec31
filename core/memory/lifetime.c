/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime.c - see lifetime.h.
 */
#include "core/memory/lifetime.h"

#include <stdlib.h>
#include <string.h>

#include "core/model/layout.h"

#define ALIGN 64u

static int by_size(const void *a, const void *b)
{
	const struct zr_buffer *x = *(struct zr_buffer *const *)a, *y = *(struct zr_buffer *const *)b;
	if ((x->last == INT32_MAX) != (y->last == INT32_MAX))
		return x->last == INT32_MAX ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x < y ? -1 : x > y;
}

/* What has its offset: apart from the list, so that a walk stays in few lines of the cache. */
struct placed {
	uint64_t offset, end;
	int32_t first, last;
};

static int overlap(const struct zr_buffer *x, const struct placed *y)
{
	return x->first <= y->last && y->first <= x->last;
}

/* The first of placed[from .. n) at or behind this offset, that, at this offset, does not end before `point`. */
static int behind(const struct placed *placed, int from, int n, uint64_t offset, int32_t point)
{
	while (from < n) {
		int middle = from + (n - from) / 2;
		const struct placed *p = &placed[middle];
		if (p->offset < offset || (p->offset == offset && p->last < point))
			from = middle + 1;
		else
			n = middle;
	}
	return from;
}

/* The lowest gap that holds x among the placed ones that live at the same time. They are sorted by
 * offset; those at one offset live one after the other, by time: only few of them can meet x. */
static uint64_t first_fit(const struct zr_buffer *x, const struct placed *placed, int n)
{
	uint64_t at = 0;
	for (int i = 0; i < n;) {
		const struct placed *p = &placed[i];
		int met = overlap(x, p), alone = i + 1 == n || placed[i + 1].offset > p->offset;
		if (met && p->offset >= at + x->bytes)
			break;
		uint64_t end = !met ? 0 : x->align > ALIGN ? zr_up(p->end, x->align) : p->end;
		at = end > at ? end : at;
		i = met || alone ? i + 1 : p->last < x->first ? behind(placed, i, n, p->offset, x->first) :
		    behind(placed, i, n, p->offset + 1, INT32_MIN);
	}
	return at;
}

int zr_lifetime_assign(struct zr_buffer **list, int n, uint64_t *total, struct zr_error *err)
{
	struct placed *placed = malloc((size_t)(n + 1) * sizeof *placed);
	if (!placed)
		return zr_err(err, ZR_ENOMEM, "out of memory while planning %d buffers", n);
	if (n)
		qsort(list, (size_t)n, sizeof *list, by_size);
	int32_t first = INT32_MIN, last = INT32_MAX; /* points at which all of them so far live */
	*total = 0;
	for (int i = 0; i < n; i++) {
		struct zr_buffer *x = list[i];
		first = x->first > first ? x->first : first;
		last = x->last < last ? x->last : last;
		/* As long as there is such a point, there is no gap. */
		x->offset = first <= last ? zr_up(*total, x->align) : first_fit(x, placed, i);
		uint64_t end = zr_up(x->offset + x->bytes, ALIGN);
		int to = behind(placed, 0, i, x->offset, x->last);
		memmove(&placed[to + 1], &placed[to], (size_t)(i - to) * sizeof *placed);
		placed[to] = (struct placed){ x->offset, end, x->first, x->last };
		*total = end > *total ? end : *total;
	}
	free(placed);
	return 0;
}
