/* SPDX-License-Identifier: Apache-2.0
 *
 * trie.h - texts by their beginnings, character by character. Node 0 is the root; as the result of
 * a step it means that there is no such node. Only files/tokenizer/ and its tests include it.
 */
#ifndef ZR_TOKENIZER_TRIE_H
#define ZR_TOKENIZER_TRIE_H

#include <stddef.h>
#include <stdint.h>

#define ZR_BMP 65536 /* tables by character have the characters below */

/* The children of a node lie in a row. Each character has one of 64 bits (zr_trie_bit), of which
 * has[] are those of the children: the number of bits below its own says where a child lies. Of
 * several children with one bit the first lies there, and the others behind all of those. */
struct zr_trie_node {
	uint32_t c : 21;     /* the character that leads here */
	uint32_t last : 1;   /* no sibling follows */
	uint32_t shares : 1; /* siblings have the same bit */
	uint32_t has[2];
	uint32_t child; /* the first one */
	int32_t id;     /* of the text that ends here; -1: none does */
};

struct zr_trie {
	struct zr_trie_node *node;
	size_t n;
	int moved;        /* the nodes are in pages of their own */
	uint32_t *first;  /* [ZR_BMP] children of the root, by their character */
	uint32_t *second; /* the same of node `widest`; in the memory of `first` */
	uint32_t widest;  /* the node with the most children, but for the root */
};

struct zr_trie_text {
	const char *p;
	uint32_t n;
	int32_t id;         /* of equal texts the largest counts */
	uint64_t beginning; /* zr_trie_build sets it */
};

/* Sorts the n texts and builds the trie of them. 0 or ZR_ENOMEM. */
int zr_trie_build(struct zr_trie *t, struct zr_trie_text *text, size_t n);
void zr_trie_free(struct zr_trie *t);
/* The node that a text leads to from the root. */
uint32_t zr_trie_walk(const struct zr_trie *t, const char *p, size_t n);

/* ---- one step, in two parts: the memory of the first one is waited for before the second ---- */

/* The number of a character's bit: ASCII's small letters have others than its digits and marks. */
static inline uint32_t zr_trie_bit(uint32_t c)
{
	return (c ^ (c >> 1 & 32)) % 64;
}

static inline uint64_t zr_trie_has(const struct zr_trie_node *o)
{
	return (uint64_t)o->has[1] << 32 | o->has[0];
}

/* How many bits are set. */
static inline uint32_t zr_trie_count(uint64_t x)
{
	x -= x >> 1 & UINT64_C(0x5555555555555555);
	x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
	x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (uint32_t)(x * UINT64_C(0x0101010101010101) >> 56);
}

/* Where the child lies that a character leads to, if a node has one; 0: it has none. */
static inline uint32_t zr_trie_place(const struct zr_trie *t, uint32_t node, uint32_t c)
{
	const struct zr_trie_node *o = &t->node[node];
	uint64_t has = zr_trie_has(o), bit = UINT64_C(1) << zr_trie_bit(c);

	if ((!node || node == t->widest) && c < ZR_BMP)
		return node ? t->second[c] : t->first[c];
	if (!(has & bit))
		return 0;

	return o->child + zr_trie_count(has & (bit - 1));
}

/* The child with that character, of those that lie at a place; 0: there is none. */
static inline uint32_t zr_trie_at(const struct zr_trie *t, uint32_t place, uint32_t c)
{
	const struct zr_trie_node *o = &t->node[place];

	if (o->c != c && o->shares)
		while (!o->last && (++o)->c != c)
			;
	return o->c == c ? (uint32_t)(o - t->node) : 0;
}

/* The child of a node that a character leads to; 0: there is none. */
static inline uint32_t zr_trie_next(const struct zr_trie *t, uint32_t node, uint32_t c)
{
	return zr_trie_at(t, zr_trie_place(t, node, c), c);
}

#endif
