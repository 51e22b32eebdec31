/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - see parts.h: chunks that grow, from which pieces are taken in a row.
 */
#include <stdlib.h>
#include <string.h>

#include "files/chat/jinja/parts.h"

#define FIRST (32u << 10) /* bytes of the first chunk; each next one has twice as many */
#define ALIGN 16u
#define LARGE (8u << 20) /* and no more than this, but for larger pieces */

struct zj_chunk {
	struct zj_chunk *before;
	size_t room, used;
	char p[] __attribute__((aligned(ALIGN)));
};

static struct zj_chunk *add_chunk(struct zr_jinja_memory *m, size_t bytes)
{
	size_t room = FIRST;

	if (m->chunk)
		room = 2 * m->chunk->room;
	if (room > LARGE)
		room = LARGE;
	if (room < bytes)
		room = bytes;
	if (room > m->most || m->used > m->most - room)
		return NULL;

	struct zj_chunk *c = malloc(sizeof *c + room);
	if (!c)
		return NULL;

	*c = (struct zj_chunk){ .before = m->chunk, .room = room };
	m->chunk = c;
	m->used += room;
	return c;
}

void *zj_take(struct zr_jinja_memory *m, size_t bytes)
{
	struct zj_chunk *c = m->chunk;

	if (bytes > m->most)
		return NULL;

	bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
	if (!c || c->room - c->used < bytes)
		c = add_chunk(m, bytes);
	if (!c)
		return NULL;

	void *p = c->p + c->used;
	c->used += bytes;
	memset(p, 0, bytes);
	return p;
}

static void free_behind(struct zr_jinja_memory *m, struct zj_chunk *kept)
{
	while (m->chunk && m->chunk != kept) {
		struct zj_chunk *before = m->chunk->before;
		m->used -= m->chunk->room;
		free(m->chunk);
		m->chunk = before;
	}
}

void zj_forget(struct zr_jinja_memory *m)
{
	struct zj_chunk *largest = m->chunk;

	if (!largest)
		return;
	if (largest->room > LARGE) {
		free_behind(m, NULL);
		return;
	}

	m->chunk = largest->before;
	free_behind(m, NULL);
	largest->before = NULL;
	largest->used = 0;
	m->chunk = largest;
	m->used = largest->room;
}

void zj_memory_free(struct zr_jinja_memory *m)
{
	free_behind(m, NULL);
}
