/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.c - see machine.h: it knows no instruction.
 */
#include "files/torch/machine.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

/* Memory that goes all at once. */
struct zr_pickle_piece {
	struct zr_pickle_piece *before;
	max_align_t data[];
};

void zr_pickle_free(struct zr_pickle *p)
{
	if (!p)
		return;

	for (struct zr_pickle_piece *at = p->last, *before; at; at = before) {
		before = at->before;
		free(at);
	}
	free(p);
}

void *zr_pickle_allocate(struct zr_pickle_reader *r, size_t bytes)
{
	struct zr_pickle_piece *piece = calloc(1, sizeof *piece + bytes);
	if (!piece) {
		zr_no_memory(r->err);
		return NULL;
	}

	piece->before = r->p->last;
	r->p->last = piece;
	return piece->data;
}

int zr_pickle_refuse(const struct zr_pickle_reader *r, const char *what)
{
	return zr_err(r->err, ZR_EINVAL, "%s: its pickle, byte %lld: %s", r->path,
		      (long long)(r->next - r->bytes), what);
}

/* ---- bytes ---- */

int zr_pickle_take(struct zr_pickle_reader *r, size_t n, const unsigned char **out)
{
	if ((size_t)(r->end - r->next) < n)
		return zr_pickle_refuse(r, "it ends too early");

	*out = r->next;
	r->next += n;
	return 0;
}

/* A number of n bytes, the lowest first; at most 8. */
int zr_pickle_number(struct zr_pickle_reader *r, size_t n, uint64_t *out)
{
	const unsigned char *p = NULL;
	int rc = zr_pickle_take(r, n, &p);

	*out = 0;
	for (size_t i = 0; !rc && i < n; i++)
		*out |= (uint64_t)p[i] << 8 * i;
	return rc;
}

/* Bytes up to the end of a line, with a 0 behind them. */
int zr_pickle_line(struct zr_pickle_reader *r, const char **out)
{
	const unsigned char *from = r->next, *end = memchr(from, '\n', (size_t)(r->end - from));
	if (!end)
		return zr_pickle_refuse(r, "a line without end");

	const size_t n = (size_t)(end - from);
	char *text = zr_pickle_allocate(r, n + 1);
	if (!text)
		return ZR_ENOMEM;

	memcpy(text, from, n);
	r->next = end + 1;
	*out = text;
	return 0;
}

/* ---- the stack ---- */

int zr_pickle_grow(struct zr_pickle_reader *r, struct zr_pickle_list *l, size_t n)
{
	if (n <= l->room)
		return 0;

	const size_t room = n < 32 ? 64 : 2 * n;
	struct zr_py **at = realloc(l->at, room * sizeof(struct zr_py *));
	if (!at)
		return zr_no_memory(r->err);

	memset(at + l->room, 0, (room - l->room) * sizeof(struct zr_py *));
	l->at = at;
	l->room = room;
	return 0;
}

int zr_pickle_push(struct zr_pickle_reader *r, struct zr_py *x)
{
	int rc = zr_pickle_grow(r, &r->stack, r->stack.n + 1);
	if (rc)
		return rc;

	r->stack.at[r->stack.n++] = x;
	return 0;
}

int zr_pickle_push_new(struct zr_pickle_reader *r, enum zr_py_kind kind, struct zr_py **out)
{
	struct zr_py *x = zr_pickle_allocate(r, sizeof *x);
	if (!x)
		return ZR_ENOMEM;

	x->kind = kind;
	*out = x;
	return zr_pickle_push(r, x);
}

int zr_pickle_pop(struct zr_pickle_reader *r, struct zr_py **out)
{
	if (!r->stack.n || r->stack.at[r->stack.n - 1]->kind == ZR_PY_MARK)
		return zr_pickle_refuse(r, "nothing is left to take");

	*out = r->stack.at[--r->stack.n];
	return 0;
}

/* The value below those behind the last mark, or the last value: what is added to. */
int zr_pickle_top(struct zr_pickle_reader *r, struct zr_py **out)
{
	if (!r->stack.n)
		return zr_pickle_refuse(r, "nothing is there to add to");

	*out = r->stack.at[r->stack.n - 1];
	return 0;
}

/* The values behind the last mark, which goes with them; they stay where they are. */
int zr_pickle_pop_marked(struct zr_pickle_reader *r, struct zr_py ***from, size_t *n)
{
	size_t i = r->stack.n;
	while (i && r->stack.at[i - 1]->kind != ZR_PY_MARK)
		i--;
	if (!i)
		return zr_pickle_refuse(r, "no mark is there");

	*from = r->stack.at + i;
	*n = r->stack.n - i;
	r->stack.n = i - 1;
	return 0;
}

/* Adds values to a list or a dictionary. */
int zr_pickle_append(struct zr_pickle_reader *r, struct zr_py *to, struct zr_py **from, size_t n)
{
	if (to->n + n > to->room) {
		const size_t room = 2 * (to->n + n);
		struct zr_py **at = zr_pickle_allocate(r, room * sizeof(struct zr_py *));
		if (!at)
			return ZR_ENOMEM;
		if (to->n)
			memcpy(at, to->at, to->n * sizeof *at);
		to->at = at;
		to->room = room;
	}

	if (n)
		memcpy(to->at + to->n, from, n * sizeof *from);
	to->n += n;
	return 0;
}
