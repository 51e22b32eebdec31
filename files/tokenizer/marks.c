/* SPDX-License-Identifier: Apache-2.0
 *
 * marks.c - bytes of a text that are followed to their tokens; see parts.h. A mark is a place in
 * what went into a stage. When the stage hands that on, the mark goes with it; a token that takes
 * the place, or comes behind it, ends the way. Marks are in ascending order, so that those behind
 * are in the same stage or an earlier one.
 */
#include <stdlib.h>

#include "files/tokenizer/parts.h"

int zr_marks_add(struct zr_marks *m, uint64_t at, int first)
{
	if (m->settled) { /* those of the document before */
		m->n = m->first = 0;
		m->settled = 0;
	}

	if (m->n == m->room) {
		size_t room = m->room ? 2 * m->room : 64;
		struct zr_mark *more = realloc(m->mark, room * sizeof *more);
		if (!more)
			return ZR_ENOMEM;

		m->mark = more;
		m->room = room;
	}

	m->mark[m->n++] = (struct zr_mark){ at, 0, first };
	return 0;
}

/* Where a byte of what a stage hands on is in the next one; ZR_MARK_LOST: no memory. */
static size_t place_of(zr_marks_map *map, const void *arg, const char *p, size_t n, size_t off,
		       int first)
{
	if (!map)
		return off;

	return map(arg, p, n, off, first);
}

int zr_marks_pass(struct zr_marks *m, int stage, uint64_t n, uint64_t to, zr_marks_map *map,
		  const void *arg, const char *p)
{
	uint64_t from = m->at[stage];

	m->at[stage] += n;
	for (size_t i = m->first; i < m->n; i++) {
		struct zr_mark *k = &m->mark[i];
		if (k->stage < stage || (k->stage == stage && k->at >= from + n))
			break;
		if (k->stage != stage)
			continue;

		const size_t off = (size_t)(k->at - from);
		const size_t place = place_of(map, arg, p, (size_t)n, off, k->first);
		if (place == ZR_MARK_LOST)
			return ZR_ENOMEM;

		k->at = to + place;
		if (k->first && !off)
			k->at -= m->inserted;
		k->stage++;
	}

	m->inserted = 0;
	return 0;
}

void zr_marks_token(struct zr_marks *m, int stage, uint64_t end)
{
	while (zr_marks_before(m, stage, end))
		m->mark[m->first++].at = m->tokens;
	m->tokens++;
}

void zr_marks_end(struct zr_marks *m)
{
	while (m->first < m->n)
		m->mark[m->first++].at = m->tokens;
	m->tokens = 0;
	m->settled = 1;
	for (int i = 0; i < ZR_MARK_STAGES; i++)
		m->at[i] = 0;
}
