/* SPDX-License-Identifier: Apache-2.0
 *
 * transfers.c - see transfers.h.
 */
#include "core/program/transfers.h"

#include "core/program/program.h"

int zr_transfers_add(struct zr_transfers *t, int32_t op, int32_t hops, struct zr_error *err)
{
	struct zr_transfer *list = zr_list_grow(t->transfer, t->n + 1, &t->cap, sizeof *list);
	if (!list)
		return zr_err(err, ZR_ENOMEM, "out of memory while recording a program");
	t->transfer = list;
	t->transfer[t->n++] = (struct zr_transfer){ .op = op, .left = hops - 1 };
	return 0;
}

void zr_transfers_end(struct zr_transfers *t, int32_t op)
{
	for (int32_t i = t->first; i < t->n; i++)
		t->transfer[i].over |= t->transfer[i].op == op;
	while (t->first < t->n && t->transfer[t->first].over)
		t->first++;
}
