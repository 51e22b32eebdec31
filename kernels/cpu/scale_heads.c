/* SPDX-License-Identifier: Apache-2.0
 *
 * scale_heads.c - x *= the factor of its head, scalar: in runs of elements that have the same head
 * or none.
 */
#include "scale_heads.h"
#include "table.h"

/* How many elements from `e` on have its head, at least. */
static int64_t run_of(const struct zr_op_scale_heads *o, int64_t e)
{
	const int64_t col = e % o->width, in_row = o->width - col, line = col - o->begin;
	int64_t in_head;

	if (!(o->flags & ZR_SCALE_COLUMNS))
		return in_row;

	if (line < 0)
		in_head = -line;
	else if (line % o->apart < o->lines)
		in_head = o->lines - line % o->apart;
	else
		in_head = o->apart - line % o->apart;
	return in_head < in_row ? in_head : in_row;
}

void ZR_SCALAR(scale_heads)(const struct zr_op_scale_heads *o, int64_t lo, int64_t hi)
{
	const zr_real *factor = zr_reals(o->factor);
	zr_real *x = zr_reals(o->x);

	for (int64_t at = lo, end; at < hi; at = end) {
		const int64_t head = zr_scaled_head(o, o->first + at);
		end = at + run_of(o, o->first + at);
		if (end > hi)
			end = hi;
		for (int64_t i = at; head >= 0 && i < end; i++)
			x[i] *= factor[head];
	}
}
