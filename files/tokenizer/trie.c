/* SPDX-License-Identifier: Apache-2.0
 *
 * trie.c - texts by their beginnings, character by character; see parts.h. The children of a node
 * are neighbours, in an order in which their bits say where one is, unless two share a bit.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/pages.h"
#include "files/tokenizer/parts.h"

/* What orders texts of up to 8 bytes: the order of their bytes is that of their characters. */
static uint64_t beginning(const struct zr_trie_text *text)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < 8; i++)
		bytes = bytes << 8 | (i < text->n ? (unsigned char)text->p[i] : 0);
	return bytes;
}

static int by_text(const void *a, const void *b)
{
	const struct zr_trie_text *x = a, *y = b;

	if (x->beginning != y->beginning)
		return x->beginning < y->beginning ? -1 : 1;

	int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
	if (order)
		return order;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;

	return (x->id > y->id) - (x->id < y->id);
}

/* To `to`, in the order of a byte of their beginnings; those that are alike stay as they are. */
static void sort_by_byte(const struct zr_trie_text *from, size_t n, int byte,
			 struct zr_trie_text *to)
{
	size_t start[257] = { 0 };

	for (size_t i = 0; i < n; i++)
		start[(from[i].beginning >> 8 * byte & 255) + 1]++;
	for (int i = 0; i < 256; i++)
		start[i + 1] += start[i];
	for (size_t i = 0; i < n; i++)
		to[start[from[i].beginning >> 8 * byte & 255]++] = from[i];
}

/* By their beginnings, the last byte first; then those with the same one. 0 or ZR_ENOMEM. */
static int sort_texts(struct zr_trie_text *text, size_t n)
{
	struct zr_trie_text *other = malloc((n + 1) * sizeof *other);
	if (!other)
		return ZR_ENOMEM;

	for (size_t i = 0; i < n; i++)
		text[i].beginning = beginning(&text[i]);
	for (int byte = 0; byte < 8; byte += 2) {
		sort_by_byte(text, n, byte, other);
		sort_by_byte(other, n, byte + 1, text);
	}

	free(other);
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && text[to].beginning == text[from].beginning; to++)
			;
		if (to - from > 1)
			qsort(text + from, to - from, sizeof *text, by_text);
	}

	return 0;
}

/* The texts that start as the node does, with `depth` bytes. */
struct range {
	size_t from, to, depth;
};

static int add_node(struct zr_trie *t, struct range **of, size_t *room, struct range texts,
		    uint32_t c)
{
	if (t->n == *room) {
		size_t more = 2 * *room;
		void *a = realloc(*of, more * sizeof **of);
		if (a)
			*of = a;
		void *b = NULL;
		if (a)
			b = realloc(t->node, more * sizeof *t->node);
		if (b)
			t->node = b;
		if (!b)
			return ZR_ENOMEM;

		*room = more;
	}

	(*of)[t->n] = texts;
	t->node[t->n++] = (struct zr_trie_node){ .c = c & 0x1fffff, .id = -1 };
	return 0;
}

/* Puts the last node where it belongs among the children from `first` on: the first of each bit in
 * their order, then the others. has: bits of those before it. */
static void sort_in(struct zr_trie *t, struct range *of, size_t first, uint64_t has)
{
	struct zr_trie_node node = t->node[t->n - 1];
	struct range texts = of[t->n - 1];
	uint64_t bit = UINT64_C(1) << zr_trie_bit(node.c);
	size_t at = t->n - 1, to = first + zr_trie_count(has & (bit - 1));

	if (has & bit) {
		t->node[to].shares = 1;
		return;
	}

	for (; at > to; at--) {
		t->node[at] = t->node[at - 1];
		of[at] = of[at - 1];
	}

	t->node[at] = node;
	of[at] = texts;
}

/* The node's id and children. */
static int fill(struct zr_trie *t, size_t node, const struct zr_trie_text *text, struct range **of,
		size_t *room)
{
	struct range r = (*of)[node];
	size_t first = t->n, len, end;
	uint64_t has = 0;

	for (; r.from < r.to && text[r.from].n == r.depth; r.from++)
		t->node[node].id = text[r.from].id;
	for (; r.from < r.to; r.from = end) {
		const char *p = text[r.from].p + r.depth;
		uint32_t c = zr_utf8_read(p, &len);
		for (end = r.from; end < r.to && !memcmp(text[end].p + r.depth, p, len); end++)
			;
		if (add_node(t, of, room, (struct range){ r.from, end, r.depth + len }, c))
			return ZR_ENOMEM;

		sort_in(t, *of, first, has);
		has |= UINT64_C(1) << zr_trie_bit(c);
	}

	struct zr_trie_node *o = &t->node[node];
	o->has[0] = (uint32_t)has;
	o->has[1] = (uint32_t)(has >> 32);
	o->child = (uint32_t)first;
	if (has)
		t->node[t->n - 1].last = 1;

	return 0;
}

/* The nodes that follow one come soon behind it, as they do in texts. */
static int fill_all(struct zr_trie *t, const struct zr_trie_text *text, struct range **of,
		    size_t *room)
{
	struct zr_buf stack = { 0 };
	uint32_t node = 0, most = 0;
	int rc = zr_buf_add(&stack, &node, sizeof node);
	while (!rc && stack.n) {
		stack.n -= sizeof node;
		memcpy(&node, stack.p + stack.n, sizeof node);
		rc = fill(t, node, text, of, room);
		uint32_t first = t->node[node].child, children = (uint32_t)t->n - first;
		if (node && children > most) {
			most = children;
			t->widest = node;
		}

		for (uint32_t child = (uint32_t)t->n; !rc && child-- > first;)
			rc = zr_buf_add(&stack, &child, sizeof child);
	}

	zr_buf_free(&stack);
	return rc;
}

/* The children of a node by their character. */
static void list_children(const struct zr_trie *t, uint32_t node, uint32_t *by_character)
{
	uint32_t child = t->node[node].child;

	if (!zr_trie_has(&t->node[node]))
		return;

	do {
		if (t->node[child].c < ZR_BMP)
			by_character[t->node[child].c] = child;
	} while (!t->node[child++].last);
}

/* To pages of their own; 0 or ZR_ENOMEM. */
static int move_nodes(struct zr_trie *t)
{
	struct zr_trie_node *node = zr_pages_open(t->n * sizeof *node);
	if (!node)
		return ZR_ENOMEM;

	memcpy(node, t->node, t->n * sizeof *node);
	free(t->node);
	t->node = node;
	t->moved = 1;
	return 0;
}

int zr_trie_build(struct zr_trie *t, struct zr_trie_text *text, size_t n)
{
	size_t room = 2 * n + 16;
	struct range *of = malloc(room * sizeof *of);

	t->node = malloc(room * sizeof *t->node);
	t->first = calloc(2 * ZR_BMP, sizeof *t->first);
	t->second = t->first ? t->first + ZR_BMP : NULL;
	int rc = ZR_ENOMEM;
	if (of && t->node && t->first)
		rc = add_node(t, &of, &room, (struct range){ 0, n, 0 }, 0);
	if (!rc)
		rc = sort_texts(text, n);
	if (!rc)
		rc = fill_all(t, text, &of, &room);
	if (!rc)
		rc = move_nodes(t);
	if (!rc) {
		list_children(t, 0, t->first);
		list_children(t, t->widest, t->second);
	}

	free(of);
	return rc;
}

void zr_trie_free(struct zr_trie *t)
{
	if (t->moved)
		zr_pages_close(t->node, t->n * sizeof *t->node);
	else
		free(t->node);
	free(t->first);
	*t = (struct zr_trie){ 0 };
}

uint32_t zr_trie_walk(const struct zr_trie *t, const char *p, size_t n)
{
	uint32_t node = 0;

	for (size_t at = 0, len; at < n && (node || !at); at += len) {
		uint32_t c = zr_utf8_read(p + at, &len);
		node = zr_trie_next(t, node, c);
	}

	return node;
}
