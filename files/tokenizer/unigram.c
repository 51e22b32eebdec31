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
#define SPACE   "\u2581"
#define ENOUGH  256 /* characters that are worth being settled */

/* Roundings are below FAR in sums up to MOST_SUM and the 30 scores, each below MOST_SCORE, that a
 * remembered word has at most. */
#define MOST_SCORE 1e6
#define MOST_SUM   1e8
#define FAR        1e-5

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

	if (to > w->farthest)
		w->farthest = to;
	if (place->from != NOWHERE && score <= place->score) {
		place->second = larger(place->second, score);
		return;
	}

	if (place->from == NOWHERE)
		place->second = second;
	else
		place->second = larger(second, place->score);
	place->score = score;
	place->from = (uint32_t)from;
	place->id = id;
}

/* Reads the characters up to a place, if there are so many. */
static int read_up_to(struct zr_unigram_work *w, const char *p, size_t n, size_t place)
{
	int rc = 0;
	while (!rc && w->n < place && w->place[w->n].at < n)
		rc = read_on(w, p);
	return rc;
}

/* The characters from place i on, as many as are looked at; returns how many there are. */
static size_t characters_ahead(const struct zr_unigram_work *w, size_t i, uint32_t *c)
{
	size_t n = 0;

	for (; n < ZR_AHEAD + ZR_AHEAD_DEPTH && i + n < w->n; n++)
		c[n] = w->place[i + n].c;

	return n;
}

/* Looks for the tokens that start at place i and those behind it. */
static int look_ahead(const struct zr_tokenizer *t, struct zr_unigram_work *w, const char *p,
		      size_t n, size_t i)
{
	struct zr_unigram_ahead *a = &w->ahead;
	uint32_t c[ZR_AHEAD + ZR_AHEAD_DEPTH], from[ZR_AHEAD], node[ZR_AHEAD];
	size_t active = 0;

	if (read_up_to(w, p, n, i + ZR_AHEAD + ZR_AHEAD_DEPTH))
		return ZR_ENOMEM;

	const size_t chars = characters_ahead(w, i, c);
	a->first = i;
	a->n = chars;
	if (a->n > ZR_AHEAD)
		a->n = ZR_AHEAD;
	for (uint32_t k = 0; k < a->n; k++) {
		a->length[k] = a->node[k] = 0;
		from[active] = k;
		node[active] = zr_trie_next(&t->trie, 0, c[k]);
		active += node[active] != 0;
	}

	for (uint32_t depth = 0; active && depth < ZR_AHEAD_DEPTH; depth++) {
		size_t still = 0, found = 0;

		/* the token of each node, and where its next node would be */
		for (size_t k = 0; k < active; k++) {
			uint32_t at = from[k], last = at + depth + 1;
			int32_t id = t->trie.node[node[k]].id;
			a->id[at][depth] = id;
			a->length[at] = last - at;
			__builtin_prefetch(&t->score[id < 0 ? 0 : id]);
			if (last >= chars)
				continue;

			from[still] = at;
			node[still] = zr_trie_place(&t->trie, node[k], c[last]);
			__builtin_prefetch(&t->trie.node[node[still]]);
			still += node[still] != 0;
		}

		for (size_t k = 0; k < still; k++) {
			from[found] = from[k];
			node[found] = zr_trie_at(&t->trie, node[k], c[from[k] + depth + 1]);
			found += node[found] != 0;
		}

		active = found;
	}

	for (size_t k = 0; k < active; k++)
		a->node[from[k]] = node[k];

	return 0;
}

/* The tokens that start at place i. */
static int reach_from(const struct zr_tokenizer *t, struct zr_unigram_work *w, const char *p,
		      size_t n, size_t i)
{
	const struct zr_unigram_ahead *a = &w->ahead;
	if (i - a->first >= a->n && look_ahead(t, w, p, n, i))
		return ZR_ENOMEM;

	size_t from = i - a->first, end = i + a->length[from];
	int single = a->length[from] && a->id[from][0] >= 0;
	uint32_t node = a->node[from];
	for (uint32_t k = 0; k < a->length[from]; k++)
		if (a->id[from][k] >= 0)
			reach(w, i + k + 1, t->score[a->id[from][k]], i, a->id[from][k]);
	while (node) {
		end++;
		if (t->trie.node[node].id >= 0)
			reach(w, end, t->score[t->trie.node[node].id], i, t->trie.node[node].id);
		if (read_up_to(w, p, n, end + 1))
			return ZR_ENOMEM;

		if (end < w->n)
			node = zr_trie_next(&t->trie, node, w->place[end].c);
		else
			node = 0;
	}

	if (!single)
		reach(w, i + 1, t->unknown_score, i, t->unknown);

	return 0;
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
	int32_t whole = -1;

	if (node)
		whole = t->trie.node[node].id;
	if (whole >= 0) {
		id[-1] = whole;
		return 1;
	}

	if (t->byte_fallback)
		ids = put_bytes(t, id, p, n);
	if (ids)
		return ids;

	id[-1] = t->unknown;
	return 1;
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

		w->sure = 0;                                 /* its score is not that of its ids */
		while (from && place[from].id == t->unknown) /* neighbours are one */
			from = place[from].from;
		id -= put_unknown(t, id, p + place[from].at, place[at].at - place[from].at);
	}

	memmove(w->ids.id + ids, id, (size_t)(end - id) * sizeof *id);
	w->n -= last;
	w->farthest -= last;
	memmove(place, place + last, (w->n + 1) * sizeof *place);
	w->ahead.n = 0;
	return ids + (size_t)(end - id);
}

int64_t zr_unigram_encode(const struct zr_tokenizer *t, struct zr_unigram_work *w, const char *p,
			  size_t n, const int32_t **ids)
{
	size_t count = 0, i = 0;

	if (zr_ids_room(&w->ids, 3 * n + 1) || (!w->room && make_room(w)))
		return ZR_ENOMEM;

	w->n = w->farthest = w->ahead.n = 0;
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
	const char *space = NULL;
	if (at < n)
		space = memchr(p + at, ' ', n - at);
	if (space)
		return (size_t)(space - p);

	return n;
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
