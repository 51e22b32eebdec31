/* SPDX-License-Identifier: Apache-2.0
 *
 * wordpiece.c - the longest token that a word starts with, then the longest of those that go on
 * with one; a word of which something is left over is unknown (Devlin et al. 2019, BERT). The
 * words take turns at reading a node of the trie, as the processor waits for the memory of all of
 * them at once.
 */
#include "files/tokenizer/parts.h"

/* Where the next character leads to from a node; 0: nowhere. */
static int look_for_token(const struct zr_tokenizer *t, struct zr_wordpiece *w, uint32_t node)
{
	size_t len;

	w->c = zr_utf8_read(w->p + w->next, &len);
	w->place = zr_trie_place(&t->trie, node, w->c);
	__builtin_prefetch(&t->trie.node[w->place]);
	w->next += len;
	return w->place != 0;
}

static int unknown(const struct zr_tokenizer *t, struct zr_wordpiece *w)
{
	w->id[0] = t->unknown;
	w->count = 1;
	return 0;
}

/* Begins with a word. Returns whether it goes on. */
static int begin(const struct zr_tokenizer *t, struct zr_wordpiece *w)
{
	w->count = 0;
	w->at = w->next = w->end = 0;
	if (w->n > t->longest_word && zr_alphabet_count(w->p, w->n) > t->longest_word)
		return unknown(t, w);

	return look_for_token(t, w, 0) || unknown(t, w);
}

/* Reads the next character. Returns whether the word goes on. */
static int go_on(const struct zr_tokenizer *t, struct zr_wordpiece *w)
{
	uint32_t node = zr_trie_at(&t->trie, w->place, w->c);
	if (node && t->trie.node[node].id >= 0) {
		w->id[w->count] = t->trie.node[node].id;
		w->end = w->next;
	}

	if (node && w->next < w->n && look_for_token(t, w, node))
		return 1;
	if (w->end == w->at) /* of the rest there is none */
		return unknown(t, w);

	w->count++;
	w->at = w->next = w->end;
	if (w->at == w->n)
		return 0;

	return (!t->no_continuing && look_for_token(t, w, t->continuing)) || unknown(t, w);
}

int zr_wordpiece_encode(const struct zr_tokenizer *t, struct zr_ids *ids, struct zr_wordpiece *word,
			size_t words)
{
	struct zr_wordpiece *going[ZR_WORDPIECES];
	size_t bytes = 0, active = 0;

	for (size_t i = 0; i < words; i++)
		bytes += word[i].n + 1;
	if (zr_ids_room(ids, bytes))
		return ZR_ENOMEM;

	bytes = 0;
	for (size_t i = 0; i < words; i++) {
		word[i].id = ids->id + bytes;
		bytes += word[i].n + 1;
		going[active] = &word[i];
		active += begin(t, &word[i]) != 0;
	}

	for (size_t still; active; active = still) {
		still = 0;
		for (size_t i = 0; i < active; i++) {
			going[still] = going[i];
			still += go_on(t, going[i]) != 0;
		}
	}

	return 0;
}
