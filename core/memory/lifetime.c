/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime.c - see lifetime.h.
 */
#include "core/memory/lifetime.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/list.h"
#include "core/base/numbers.h"

#define ALIGN 64u
#define SPANS 512 /* of time */

static int by_size(const void *a, const void *b)
{
	const struct zr_buffer *x = *(struct zr_buffer *const *)a,
			       *y = *(struct zr_buffer *const *)b;
	if ((x->last == INT32_MAX) != (y->last == INT32_MAX))
		return x->last == INT32_MAX ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x < y ? -1 : x > y;
}

/* What has its offset. */
struct placed {
	uint64_t last, end; /* its last point of time; where its bytes end */
	int32_t first;
};

/* All that lie at one offset: they live one after the other, and are sorted by `last`. */
struct row {
	uint64_t offset;
	struct placed *placed;
	int32_t n, cap;
};

struct rows {
	struct row *row; /* sorted by offset */
	int32_t n, cap;
	uint64_t largest;       /* bytes of anything placed */
	uint64_t filled[SPANS]; /* all below is taken, at each point of a span of time */
	int32_t points;         /* of a span */
};

/* Number of the first of n elements whose key is not below `least`; n: there is none. The key is
 * the uint64_t that an element begins with, and they are sorted by it. */
static int32_t find_at_least(const void *list, int32_t n, size_t size, uint64_t least)
{
	int32_t from = 0;
	while (from < n) {
		int32_t middle = from + (n - from) / 2;
		if (*(const uint64_t *)((const char *)list + (size_t)middle * size) < least)
			from = middle + 1;
		else
			n = middle;
	}
	return from;
}

/* The lowest gap that holds x among those placed that live at the same time. */
static uint64_t first_fit(const struct zr_buffer *x, const struct rows *rows)
{
	uint64_t at = 0;
	for (int32_t k = x->first / rows->points; k < SPANS && k <= x->last / rows->points; k++)
		at = zr_max(at, zr_up(rows->filled[k], x->align));

	uint64_t least = at - zr_min(at, rows->largest);
	int32_t i = find_at_least(rows->row, rows->n, sizeof *rows->row, least);
	for (; i < rows->n && rows->row[i].offset < at + x->bytes; i++) {
		const struct row *r = &rows->row[i];
		int32_t k = find_at_least(r->placed, r->n, sizeof *r->placed, (uint64_t)x->first);
		for (; k < r->n && r->placed[k].first <= x->last; k++)
			at = zr_max(at, zr_up(r->placed[k].end, x->align));
	}
	return at;
}

/* Room for one more at `at` of *(T **)list. */
static int insert(void *list, int32_t at, int32_t *n, int32_t *cap, size_t size)
{
	char *first;
	if (zr_list_room(list, *n + 1, cap, size))
		return ZR_ENOMEM;
	memcpy(&first, list, sizeof first);
	first += (size_t)at * size;
	memmove(first + size, first, (size_t)((*n)++ - at) * size);
	return 0;
}

static int place_buffer(struct rows *rows, const struct zr_buffer *x, uint64_t end)
{
	int32_t i = find_at_least(rows->row, rows->n, sizeof *rows->row, x->offset),
		span = rows->points;
	rows->largest = zr_max(rows->largest, end - x->offset);
	for (int32_t k = (x->first + span - 1) / span; k < SPANS && x->last / span >= k + 1; k++)
		if (rows->filled[k] >= x->offset)
			rows->filled[k] = zr_max(rows->filled[k], end);
	if (i == rows->n || rows->row[i].offset > x->offset) {
		if (insert(&rows->row, i, &rows->n, &rows->cap, sizeof *rows->row))
			return ZR_ENOMEM;

		rows->row[i] = (struct row){ .offset = x->offset };
	}

	struct row *r = &rows->row[i];
	int32_t k = find_at_least(r->placed, r->n, sizeof *r->placed, (uint64_t)x->last);
	if (insert(&r->placed, k, &r->n, &r->cap, sizeof *r->placed))
		return ZR_ENOMEM;

	r->placed[k] = (struct placed){ (uint64_t)x->last, end, x->first };
	return 0;
}

int zr_lifetime_assign(struct zr_buffer **list, int n, uint64_t *total, struct zr_error *err)
{
	struct rows rows = { .points = 1 };
	int rc = 0;
	for (int i = 0; i < n; i++)
		if (list[i]->first / SPANS >= rows.points)
			rows.points = list[i]->first / SPANS + 1;
	if (n)
		qsort(list, (size_t)n, sizeof *list, by_size);
	int32_t first = INT32_MIN, last = INT32_MAX; /* points at which all of them so far live */
	*total = 0;
	for (int i = 0; !rc && i < n; i++) {
		struct zr_buffer *x = list[i];
		if (x->first > first)
			first = x->first;
		if (x->last < last)
			last = x->last;

		/* As long as there is such a point, there is no gap. */
		if (first <= last)
			x->offset = zr_up(*total, x->align);
		else
			x->offset = first_fit(x, &rows);
		uint64_t end = zr_up(x->offset + x->bytes, ALIGN);
		if (x->bytes)
			rc = place_buffer(&rows, x, end);
		*total = zr_max(*total, end);
	}

	for (int32_t i = 0; i < rows.n; i++)
		free(rows.row[i].placed);
	free(rows.row);
	if (rc)
		return zr_err(err, rc, "out of memory while planning %d buffers", n);
	return 0;
}
