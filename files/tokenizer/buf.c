/* SPDX-License-Identifier: Apache-2.0
 *
 * buf.c - see buf.h.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

int zr_buf_reserve(struct zr_buf *b, size_t n)
{
	if (b->p && n <= b->room - b->n)
		return 0;

	size_t room = b->room ? b->room : 4096;
	while (room - b->n < n)
		room *= 2;
	char *more = realloc(b->p, room);
	if (!more)
		return ZR_ENOMEM;

	b->p = more;
	b->room = room;
	return 0;
}

int zr_buf_add(struct zr_buf *b, const void *p, size_t n)
{
	if (zr_buf_reserve(b, n))
		return ZR_ENOMEM;
	if (n)
		memcpy(b->p + b->n, p, n);
	b->n += n;
	return 0;
}

void zr_buf_drop(struct zr_buf *b, size_t n)
{
	if (n && n < b->n)
		memmove(b->p, b->p + n, b->n - n);
	b->n -= n;
}

void zr_buf_free(struct zr_buf *b)
{
	free(b->p);
	*b = (struct zr_buf){ 0 };
}

int zr_ids_room(struct zr_ids *ids, size_t n)
{
	if (n <= ids->room)
		return 0;

	free(ids->id);
	for (ids->room = 1024; ids->room < n; ids->room *= 2)
		;
	ids->id = malloc(ids->room * sizeof *ids->id);
	if (ids->id)
		return 0;

	ids->room = 0;
	return ZR_ENOMEM;
}
