/* SPDX-License-Identifier: Apache-2.0
 *
 * ways.c - see ways.h.
 */
#include "core/program/ways.h"

#include "core/program/program.h"

int zr_ways_add(struct zr_ways *w, int32_t op, int32_t legs, struct zr_error *err)
{
	struct zr_way *way = zr_list_grow(w->way, w->n + 1, &w->cap, sizeof *way);
	if (!way)
		return zr_err(err, ZR_ENOMEM, "out of memory while recording a program");
	w->way = way;
	w->way[w->n++] = (struct zr_way){ .op = op, .left = legs - 1 };
	return 0;
}

void zr_ways_end(struct zr_ways *w, int32_t op)
{
	for (int32_t i = w->first; i < w->n; i++)
		w->way[i].over |= w->way[i].op == op;
	while (w->first < w->n && w->way[w->first].over)
		w->first++;
}
