/* SPDX-License-Identifier: Apache-2.0
 *
 * lengths.c - see look.h.
 */
#include <stdlib.h>

#include "cmd/look/look.h"

static int grow(int64_t **list, int64_t room)
{
	int64_t *more = realloc(*list, (size_t)room * sizeof *more);
	if (!more)
		return ZR_ENOMEM;

	*list = more;
	return 0;
}

int zr_lengths_add(struct zr_lengths *l, int64_t tokens, int64_t targets)
{
	if (l->n == l->room) {
		const int64_t room = 2 * l->room + 1024;
		if (grow(&l->tokens, room) || grow(&l->targets, room))
			return ZR_ENOMEM;
		l->room = room;
	}

	l->tokens[l->n] = tokens;
	l->targets[l->n++] = targets;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

void zr_lengths_spread(int64_t *value, int64_t n, struct zr_spread *s)
{
	qsort(value, (size_t)n, sizeof *value, by_value);
	s->sum = 0;
	for (int64_t i = 0; i < n; i++)
		s->sum += (double)value[i];
	s->least = value[0];
	s->middle = value[(n - 1) / 2];
	s->p95 = value[(95 * n + 99) / 100 - 1];
	s->most = value[n - 1];
	s->mean = s->sum / (double)n;
}

void zr_lengths_free(struct zr_lengths *l)
{
	free(l->tokens);
	free(l->targets);
	*l = (struct zr_lengths){ 0 };
}
