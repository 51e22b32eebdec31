/* SPDX-License-Identifier: Apache-2.0
 *
 * ways.c - see ways.h.
 */
#include "core/program/ways.h"

#include "core/program/program.h"

#define PAGE 4096u

int zr_ways_add(struct zr_ways *w, int32_t op, int32_t legs, uint64_t bytes, struct zr_error *err)
{
	int32_t cap = w->cap;
	struct zr_way *way = zr_list_grow(w->way, w->n + 1, &cap, sizeof *way);
	w->way = way ? way : w->way;
	struct zr_lifetime *slot = way ? zr_list_grow(w->slot, w->n + 1, &w->cap, sizeof *slot) : NULL;
	w->slot = slot ? slot : w->slot;
	if (!slot)
		return zr_err(err, ZR_ENOMEM, "out of memory while recording a program");
	bytes = (bytes + PAGE - 1) / PAGE * PAGE; /* disks want places of whole pages */
	w->slot[w->n] = (struct zr_lifetime){ .bytes = bytes, .first = op, .last = op };
	w->way[w->n++] = (struct zr_way){ .op = op, .left = legs - 1 };
	return 0;
}

void zr_ways_end(struct zr_ways *w, int32_t op, int32_t at)
{
	for (int32_t i = w->first; i < w->n; i++)
		if (w->way[i].op == op) {
			w->slot[i].last = at;
			w->way[i].over = 1;
		}
	while (w->first < w->n && w->way[w->first].over)
		w->first++;
}
