/* SPDX-License-Identifier: Apache-2.0
 *
 * wordpiece.c - the longest token that a word starts with, then the longest of those that go on
 * with one; a word of which something is left over is unknown (Devlin et al. 2019, BERT).
 */
#include "files/tokenizer/parts.h"

/* The longest token of p[at..n); returns where it ends, at: there is none. */
static size_t longest(const struct zr_tokenizer *t, const char *p, size_t n, size_t at, int32_t *id)
{
	uint32_t node = at ? t->continuing : 0;
	size_t end = at, len;
	for (size_t i = at; i < n; i += len) {
		uint32_t c = zr_utf8_read(p + i, &len);
		node = zr_trie_next(&t->trie, node, c);
		if (!node)
			break;
		if (t->trie.node[node].id >= 0) {
			*id = t->trie.node[node].id;
			end = i + len;
		}
	}
	return end;
}

int64_t zr_wordpiece_encode(const struct zr_tokenizer *t, struct zr_ids *w, const char *p,
			    size_t n, const int32_t **ids)
{
	int64_t count = 0;
	size_t at = 0, end;
	int tried = zr_alphabet_count(p, n) <= t->longest_word;
	if (zr_ids_room(w, n + 1))
		return ZR_ENOMEM;
	*ids = w->id;
	while (tried && (!at || !t->no_continuing)) {
		end = longest(t, p, n, at, &w->id[count]);
		if (end == at)
			break;
		count++;
		if (end == n)
			return count;
		at = end;
	}
	w->id[0] = t->unknown;
	return 1;
}
