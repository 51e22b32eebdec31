/* SPDX-License-Identifier: Apache-2.0
 *
 * unigram.c - the segmentation of a word whose tokens have the largest sum of scores (Kudo 2018,
 * "Subword Regularization", section 3.2; Viterbi's search). Sums are made in the order of the text
 * and in doubles, and of equal ones the first that was found stands, as in the library: ties and
 * roundings decide as they do there.
 */
#include <string.h>

#include "files/tokenizer/parts.h"

#define NOWHERE UINT32_MAX
#define SPACE "\u2581"

static void reach(struct zr_trie_best *to, double score, uint32_t from, int32_t id)
{
	if (to->from == NOWHERE || score > to->score)
		*to = (struct zr_trie_best){ score, from, id };
}

/* The best way to each place of the word. */
static void search(const struct zr_tokenizer *t, struct zr_trie_best *best, const char *p, size_t n)
{
	const struct zr_trie *trie = &t->trie;
	for (size_t i = 0; i <= n; i++)
		best[i] = (struct zr_trie_best){ 0, NOWHERE, 0 };
	for (size_t at = 0, len; at < n; at += len) {
		double score = best[at].score;
		uint32_t node = 0;
		int single = 0;
		len = (size_t)zr_utf8_at(p + at, n - at);
		for (size_t end = at; end < n; end++) {
			node = zr_trie_next(trie, node, (unsigned char)p[end]);
			if (!node)
				break;
			int32_t id = trie->node[node].id;
			if (id < 0)
				continue;
			reach(&best[end + 1], score + t->score[id], (uint32_t)at, id);
			single |= end + 1 == at + len;
		}
		if (!single)
			reach(&best[at + len], score + t->unknown_score, (uint32_t)at, t->unknown);
	}
}

static size_t put_byte(const struct zr_tokenizer *t, int32_t *id, unsigned char byte)
{
	if (t->byte[byte] < 0)
		return 0;
	*id = t->byte[byte];
	return 1;
}

/* The bytes of a text without a token, the last first, in reverse before `id`; 0: one has none. */
static size_t put_bytes(const struct zr_tokenizer *t, int32_t *id, const char *p, size_t n)
{
	size_t ids = 0;
	for (size_t i = n; i-- > 0;) {
		int space = t->spaced && p[i] == ' ';
		const char *q = space ? SPACE : p + i;
		for (size_t k = space ? 3 : 1; k-- > 0; ids++)
			if (!put_byte(t, id - ids - 1, (unsigned char)q[k]))
				return 0;
	}
	return ids;
}

/* The ids before `id` of a text that is unknown: a token that has all of it, bytes, or none. */
static size_t put_unknown(const struct zr_tokenizer *t, int32_t *id, const char *p, size_t n)
{
	uint32_t node = zr_trie_walk(&t->trie, p, n);
	size_t ids = 0;
	int32_t whole = node ? t->trie.node[node].id : -1;
	if (whole < 0 && t->byte_fallback)
		ids = put_bytes(t, id, p, n);
	if (!ids)
		id[-1] = whole < 0 ? t->unknown : whole;
	return ids ? ids : 1;
}

int64_t zr_unigram_encode(const struct zr_tokenizer *t, struct zr_trie_work *w, const char *p,
			  size_t n, const int32_t **ids)
{
	if (zr_trie_room(w, 3 * n + 1))
		return ZR_ENOMEM;
	int32_t *end = w->id + 3 * n, *id = end;
	search(t, w->best, p, n);
	for (size_t at = n, from; at; at = from) {
		from = w->best[at].from;
		if (w->best[at].id != t->unknown) {
			*--id = w->best[at].id;
			continue;
		}
		while (from && w->best[from].id == t->unknown) /* neighbours are one */
			from = w->best[from].from;
		id -= put_unknown(t, id, p + from, at - from);
	}
	*ids = id;
	return end - id;
}
