/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - tokens by what a tokenizer.json calls them; see parts.h.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "files/tokenizer/parts.h"

int zr_names_room(struct zr_names *s, size_t n)
{
	for (s->mask = 15; s->mask < 2 * n; s->mask = 2 * s->mask + 1)
		;
	s->name = malloc((n + 1) * sizeof *s->name);
	s->at = calloc(s->mask + 1, sizeof *s->at);
	if (s->name && s->at)
		return 0;

	return ZR_ENOMEM;
}

void zr_names_free(struct zr_names *s)
{
	free(s->name);
	free(s->at);
	zr_buf_free(&s->text);
}

/* The place of a name in `at`, or where it would be. */
static uint32_t *place(const struct zr_names *s, const char *p, size_t n)
{
	size_t i = (size_t)XXH3_64bits(p, n) & s->mask;

	for (; s->at[i]; i = (i + 1) & s->mask) {
		const struct zr_name *o = &s->name[s->at[i] - 1];
		if (o->n == n && !memcmp(o->p, p, n))
			break;
	}

	return &s->at[i];
}

const struct zr_name *zr_names_find(const struct zr_names *s, const char *p, size_t n)
{
	uint32_t at = *place(s, p, n);
	if (at)
		return &s->name[at - 1];

	return NULL;
}

int zr_names_put(struct zr_names *s, const char *p, size_t n, int64_t id)
{
	uint32_t *at = place(s, p, n);
	int before = *at != 0;
	if (!before) {
		s->name[s->n++] = (struct zr_name){ .p = p, .n = (uint32_t)n };
		*at = (uint32_t)s->n;
	}

	s->name[*at - 1].id = (int32_t)id;
	return before;
}
