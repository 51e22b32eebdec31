/* SPDX-License-Identifier: Apache-2.0
 *
 * trie.c - texts by their beginnings; see parts.h. The nodes are numbered level by level, so that
 * the children of one are neighbours, in the order of the bytes that lead to them.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

static int by_text(const void *a, const void *b)
{
	const struct zr_trie_text *x = a, *y = b;
	int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
	if (order)
		return order;
	return x->n != y->n ? (x->n < y->n ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

/* The texts that start as the node does. */
struct range {
	size_t from, to;
};

static int add_node(struct zr_trie *t, struct range **of, size_t *room, struct range texts,
		    unsigned byte)
{
	if (t->n == *room) {
		size_t more = 2 * *room;
		void *a = realloc(*of, more * sizeof **of);
		*of = a ? a : *of;
		void *b = a ? realloc(t->node, (more + 1) * sizeof *t->node) : NULL;
		t->node = b ? b : t->node;
		if (!b)
			return ZR_ENOMEM;
		*room = more;
	}
	(*of)[t->n] = texts;
	t->node[t->n++] = (struct zr_trie_node){ .id = -1, .byte = (uint8_t)byte };
	return 0;
}

/* The node's id and children; its texts have the first `depth` bytes in common. */
static int fill(struct zr_trie *t, size_t node, size_t depth, const struct zr_trie_text *text,
		struct range **of, size_t *room)
{
	struct range r = (*of)[node];
	t->node[node].child = (uint32_t)t->n;
	for (; r.from < r.to && text[r.from].n == depth; r.from++)
		t->node[node].id = text[r.from].id;
	for (size_t end; r.from < r.to; r.from = end) {
		unsigned char byte = (unsigned char)text[r.from].p[depth];
		for (end = r.from; end < r.to && (unsigned char)text[end].p[depth] == byte; end++)
			;
		if (add_node(t, of, room, (struct range){ r.from, end }, byte))
			return ZR_ENOMEM;
	}
	return 0;
}

int zr_trie_build(struct zr_trie *t, struct zr_trie_text *text, size_t n)
{
	size_t room = 2 * n + 16, end = 1, depth = 0;
	struct range *of = malloc(room * sizeof *of);
	t->node = malloc((room + 1) * sizeof *t->node);
	int rc = of && t->node ? add_node(t, &of, &room, (struct range){ 0, n }, 0) : ZR_ENOMEM;
	qsort(text, n, sizeof *text, by_text);
	for (size_t i = 0; !rc && i < t->n; i++) {
		if (i == end) {
			depth++;
			end = t->n;
		}
		rc = fill(t, i, depth, text, &of, &room);
	}
	if (!rc)
		t->node[t->n].child = (uint32_t)t->n; /* where the children of the last one end */
	for (int b = 0; !rc && b < 256; b++)
		t->first[b] = zr_trie_search(t, 0, (unsigned char)b);
	free(of);
	return rc;
}

void zr_trie_free(struct zr_trie *t)
{
	free(t->node);
	*t = (struct zr_trie){ 0 };
}

uint32_t zr_trie_search(const struct zr_trie *t, uint32_t node, unsigned char byte)
{
	uint32_t from = t->node[node].child, to = t->node[node + 1].child;
	while (from < to) {
		uint32_t mid = from + (to - from) / 2;
		if (t->node[mid].byte == byte)
			return mid;
		if (t->node[mid].byte < byte)
			from = mid + 1;
		else
			to = mid;
	}
	return 0;
}

uint32_t zr_trie_walk(const struct zr_trie *t, const char *p, size_t n)
{
	uint32_t node = 0;
	for (size_t i = 0; i < n && (node || !i); i++)
		node = zr_trie_next(t, node, (unsigned char)p[i]);
	return node;
}

int zr_trie_room(struct zr_trie_work *w, size_t n)
{
	if (n <= w->room)
		return 0;
	for (w->room = 64; w->room < n; w->room *= 2)
		;
	free(w->best);
	free(w->id);
	w->best = malloc(w->room * sizeof *w->best);
	w->id = malloc(w->room * sizeof *w->id);
	if (w->best && w->id)
		return 0;
	w->room = 0;
	return ZR_ENOMEM;
}
