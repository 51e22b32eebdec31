/* SPDX-License-Identifier: Apache-2.0
 *
 * unigram.c - the segmentation of a word whose tokens have the largest sum of scores (Kudo 2018,
 * "Subword Regularization", section 3.2; Viterbi's search). Sums are made in the order of the text
 * and in doubles, and of equal ones the first that was found stands, as in the library: ties and
 * roundings decide as they do there.
 *
 * A text that is not split at spaces is searched word by word where no token goes on behind a
 * word, each with the sum of those before it. The tokens of a word may be remembered where no
 * rounding changes them: the second best way is far from the best.
 *
 * Where a token ends that every way has in common, with none across, what comes before is settled:
 * a long text needs no more room than that between two such places.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

#define NOWHERE UINT32_MAX
#define SPACE "\u2581"
#define ENOUGH 256 /* characters that are worth being settled */

/* Roundings are below FAR in sums up to MOST_SUM and the 30 scores, each below MOST_SCORE, that a
 * remembered word has at most. */
#define MOST_SCORE 1e6
#define MOST_SUM 1e8
#define FAR 1e-5

static int make_room(struct zr_unigram_work *w)
{
	size_t room = w->room ? 2 * w->room : 4 * ENOUGH;
	struct zr_unigram_place *more = realloc(w->place, room * sizeof *more);
	if (!more)
		return ZR_ENOMEM;
	w->place = more;
	w->room = room;
	return 0;
}

/* Reads the character at the last place, so that there is one more. 0 or ZR_ENOMEM. */
static int read_on(struct zr_unigram_work *w, const char *p)
{
	size_t len;
	if (w->n + 2 > w->room && make_room(w))
		return ZR_ENOMEM;
	struct zr_unigram_place *last = &w->place[w->n++];
	last->c = zr_utf8_read(p + last->at, &len);
	last[1].at = last->at + (uint32_t)len;
	last[1].from = NOWHERE;
	return 0;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void reach(struct zr_unigram_work *w, size_t to, double more, size_t from, int32_t id)
{
	struct zr_unigram_place *place = &w->place[to];
	double score = w->place[from].score + more, second = w->place[from].second + more;
	w->farthest = to > w->farthest ? to : w->farthest;
	if (place->from != NOWHERE && score <= place->score) {
		place->second = larger(place->second, score);
		return;
	}
	place->second = place->from == NOWHERE ? second : larger(second, place->score);
	place->score = score;
	place->from = (uint32_t)from;
	place->id = id;
}

/* The tokens that start at place i. */
static int reach_from(const struct zr_tokenizer *t, struct zr_unigram_work *w, const char *p,
		      size_t n, size_t i)
{
	size_t end = i;
	int single = 0, rc = 0;
	uint32_t node = 0;
	do {
		if (end == w->n) {
			rc = w->place[end].at < n ? read_on(w, p) : 0;
			if (rc || end == w->n)
				break;
		}
		node = zr_trie_next(&t->trie, node, w->place[end++].c);
		int32_t id = node ? t->trie.node[node].id : -1;
		if (id < 0)
			continue;
		reach(w, end, t->score[id], i, id);
		single |= end == i + 1;
	} while (node && t->trie.node[node].has);
	if (!rc && !single)
		reach(w, i + 1, t->unknown_score, i, t->unknown);
	return rc;
}

/* ---- what is settled ---- */

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

/* Adds the ids up to place `last`, which becomes the first. */
static size_t settle(const struct zr_tokenizer *t, struct zr_unigram_work *w, const char *p,
		     size_t ids, size_t last)
{
	struct zr_unigram_place *place = w->place;
	int32_t *end = w->ids.id + ids + 3 * (place[last].at - place[0].at), *id = end;
	for (size_t at = last, from; at; at = from) {
		from = place[at].from;
		if (place[at].id != t->unknown) {
			*--id = place[at].id;
			continue;
		}
		w->sure = 0; /* its score is not that of its ids */
		while (from && place[from].id == t->unknown) /* neighbours are one */
			from = place[from].from;
		id -= put_unknown(t, id, p + place[from].at, place[at].at - place[from].at);
	}
	memmove(w->ids.id + ids, id, (size_t)(end - id) * sizeof *id);
	w->n -= last;
	w->farthest -= last;
	memmove(place, place + last, (w->n + 1) * sizeof *place);
	return ids + (size_t)(end - id);
}

int64_t zr_unigram_encode(const struct zr_tokenizer *t, struct zr_unigram_work *w, const char *p,
			  size_t n, const int32_t **ids)
{
	size_t count = 0, i = 0;
	if (zr_ids_room(&w->ids, 3 * n + 1) || (!w->room && make_room(w)))
		return ZR_ENOMEM;
	w->n = w->farthest = 0;
	w->place[0] = (struct zr_unigram_place){ .score = w->sum, .second = -INFINITY };
	for (; w->place[i].at < n; i++) {
		if (i == w->farthest && i >= ENOUGH && w->place[i].id != t->unknown) {
			count = settle(t, w, p, count, i);
			i = 0;
		}
		if (reach_from(t, w, p, n, i))
			return ZR_ENOMEM;
	}
	*ids = w->ids.id;
	w->sum = w->place[i].score;
	w->sure = w->sum - w->place[i].second > FAR && fabs(w->sum) < MOST_SUM;
	return (int64_t)settle(t, w, p, count, i);
}

/* ---- words of a text that is not split ---- */

int zr_unigram_apart(const struct zr_tokenizer *t)
{
	uint32_t space = t->trie.first[' '];
	int good = space && t->trie.node[space].id >= 0 && t->trie.node[space].id != t->unknown;
	for (int64_t i = 0; good && i < t->size; i++)
		good = fabs(t->score[i]) < MOST_SCORE;
	for (uint32_t i = 1; good && i < t->trie.n; i++)
		good = t->trie.node[i].c == ' ' || !zr_trie_next(&t->trie, i, ' ');
	return good;
}

size_t zr_unigram_part(const char *p, size_t n)
{
	size_t at = 0;
	while (at < n && p[at] == ' ')
		at++;
	const char *space = at < n ? memchr(p + at, ' ', n - at) : NULL;
	return space ? (size_t)(space - p) : n;
}

int zr_unigram_add(const struct zr_tokenizer *t, struct zr_unigram_work *w, const int32_t *ids,
		   size_t n)
{
	if (fabs(w->sum) >= MOST_SUM)
		return 0;
	for (size_t i = 0; i < n; i++)
		w->sum += t->score[ids[i]];
	return 1;
}
