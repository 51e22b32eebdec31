/* SPDX-License-Identifier: Apache-2.0
 *
 * bpe.c - byte pair encoding of a word: as long as there are neighbours with a merge, the one of
 * the lowest rank is merged, of several the leftmost.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "files/tokenizer/parts.h"

#define FEW        ZR_MERGING_MOST /* symbols that need no heap */
#define MOST_BYTES (4 * FEW)       /* of them */
#define EXPECTED   288             /* words */
#define AHEAD      (EXPECTED * 32) /* and their symbols */

struct symbol {
	uint32_t id;
	int32_t prev, next; /* -1: none */
	int32_t gone;
};

/* A merge that was possible when it was put here. */
struct candidate {
	uint32_t rank, at, id;
};

struct zr_bpe_work {
	const struct zr_tokenizer *t;
	int32_t *to; /* where symbols are put */
	struct zr_merging_word expected[EXPECTED];
	size_t n_expected;
	size_t asked;         /* of these were asked for */
	int32_t ahead[AHEAD]; /* the ids of all */
	size_t n_ahead;
	struct zr_merging merging[ZR_MERGING_TURNS];
	struct symbol *symbol;
	struct candidate *heap;
	int32_t *id;
	size_t room, n_heap; /* symbols; a symbol brings at most three candidates */
	int lacking;         /* a byte of text for which there is no token; -1: none yet */
};

#define NO_TOKEN SIZE_MAX /* in place of a number of symbols: see `lacking` */

/* ---- tables ---- */

static size_t power_of_two(size_t least)
{
	size_t n = 16;
	while (n < least)
		n *= 2;
	return n;
}

/* Where the id of these bytes is, or would be. */
static size_t whole_place(const struct zr_tokenizer *t, const char *p, size_t n)
{
	const struct zr_bpe *b = &t->bpe;
	size_t i = (size_t)XXH3_64bits(p, n) & b->whole_mask;

	for (; b->whole[i] >= 0; i = (i + 1) & b->whole_mask) {
		const struct zr_token *o = &t->token[b->whole[i]];
		if (o->n == n && !memcmp(o->p, p, n))
			break;
	}

	return i;
}

static void put_character(struct zr_bpe *b, int32_t c, int32_t id)
{
	if (c < ZR_BMP)
		b->character[c] = id;
}

int zr_bpe_index(struct zr_tokenizer *t)
{
	struct zr_bpe *b = &t->bpe;

	b->whole_mask = power_of_two(2 * (size_t)t->size + 1) - 1;
	b->whole = malloc((b->whole_mask + 1) * sizeof *b->whole);
	if (b->characters)
		b->character = malloc(ZR_BMP * sizeof *b->character);
	else
		b->character = NULL;
	if (!b->whole || (b->characters && !b->character))
		return ZR_ENOMEM;
	if (b->characters)
		memset(b->character, 0xff, ZR_BMP * sizeof *b->character);
	memset(b->whole, 0xff, (b->whole_mask + 1) * sizeof *b->whole);
	for (int64_t i = 0; i < t->size; i++) {
		const struct zr_token *o = &t->token[i];
		if (o->made)
			b->whole[whole_place(t, o->p, o->n)] = (int32_t)i;
		if (b->characters && o->made && o->n && (size_t)zr_utf8_at(o->p, o->n) == o->n)
			put_character(b, zr_utf8_value(o->p), (int32_t)i);
	}

	return 0;
}

/* ---- the work of a thread ---- */

struct zr_bpe_work *zr_bpe_open(const struct zr_tokenizer *t)
{
	struct zr_bpe_work *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;

	w->t = t;
	w->lacking = -1;
	return w;
}

void zr_bpe_close(struct zr_bpe_work *w)
{
	if (!w)
		return;

	free(w->symbol);
	free(w->heap);
	free(w->id);
	free(w);
}

static int make_room(struct zr_bpe_work *w, size_t n)
{
	if (n <= w->room)
		return 0;

	n = power_of_two(n);
	free(w->symbol);
	free(w->heap);
	free(w->id);
	w->room = 0;
	w->symbol = malloc(n * sizeof *w->symbol);
	w->heap = malloc(3 * n * sizeof *w->heap);
	w->id = malloc(n * sizeof *w->id);
	if (!w->symbol || !w->heap || !w->id)
		return ZR_ENOMEM;

	w->room = n;
	return 0;
}

static int before(const struct candidate *a, const struct candidate *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank;

	return a->at < b->at;
}

static void push(struct zr_bpe_work *w, struct candidate c)
{
	size_t i = w->n_heap++;
	for (; i && before(&c, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = c;
}

static struct candidate pop(struct zr_bpe_work *w)
{
	struct candidate top = w->heap[0], last = w->heap[--w->n_heap];
	size_t i = 0, k;
	while ((k = 2 * i + 1) < w->n_heap) {
		k += k + 1 < w->n_heap && before(&w->heap[k + 1], &w->heap[k]);
		if (!before(&w->heap[k], &last))
			break;

		w->heap[i] = w->heap[k];
		i = k;
	}

	w->heap[i] = last;
	return top;
}

/* The rank of the merge of a symbol with the next one. */
static uint32_t rank_at(const struct zr_bpe_work *w, const struct symbol *s)
{
	if (s->next < 0)
		return ZR_NO_RANK;

	return zr_merges_find(&w->t->bpe.merges, s->id, w->symbol[s->next].id);
}

/* The merge of the symbol at `at` with the next one, if there is one, becomes a candidate. */
static void consider(struct zr_bpe_work *w, int32_t at)
{
	uint32_t rank = rank_at(w, &w->symbol[at]);
	if (rank != ZR_NO_RANK)
		push(w, (struct candidate){ rank, (uint32_t)at, w->t->bpe.merges.id[rank] });
}

/* A candidate still stands if its neighbours now make the token that it was to make, whichever
 * way. */
static int stands(const struct zr_bpe_work *w, const struct candidate *c)
{
	const struct symbol *s = &w->symbol[c->at];
	uint32_t rank = ZR_NO_RANK;
	if (!s->gone)
		rank = rank_at(w, s);

	return rank != ZR_NO_RANK && w->t->bpe.merges.id[rank] == c->id;
}

static void put_symbol(struct zr_bpe_work *w, size_t *n, int32_t id)
{
	w->to[(*n)++] = id;
}

/* A character as tokens of its bytes; of a space that stands for U+2581, of the bytes of U+2581.
 * 0: not all of them have one. */
static int put_bytes(struct zr_bpe_work *w, const char *p, size_t len, size_t *n)
{
	const int32_t *byte = w->t->byte;

	if (w->t->spaced && *p == ' ') {
		p = ZR_SPACE;
		len = strlen(ZR_SPACE);
	}

	for (size_t i = 0; i < len; i++)
		if (byte[(unsigned char)p[i]] < 0)
			return 0;

	for (size_t i = 0; i < len; i++)
		put_symbol(w, n, byte[(unsigned char)p[i]]);

	return 1;
}

/* Symbols of a word so far. What is unknown waits for the next symbol with a token, as it does in
 * the library. */
struct begun {
	size_t n, waiting;
};

static void put_unknown(struct zr_bpe_work *w, struct begun *o)
{
	if (o->waiting)
		put_symbol(w, &o->n, w->t->unknown);
	o->waiting = 0;
}

/* id: -1: the symbol has no token. */
static void put_or_wait(struct zr_bpe_work *w, struct begun *o, int32_t id)
{
	if (id >= 0 || !w->t->bpe.fuse_unknown)
		put_unknown(w, o);
	if (id >= 0)
		put_symbol(w, &o->n, id);
	else if (w->t->unknown >= 0)
		o->waiting++;
}

/* Merges begin with characters, of which those without a token are bytes, or else unknown. */
static size_t put_characters(struct zr_bpe_work *w, const char *p, size_t n)
{
	const struct zr_bpe *b = &w->t->bpe;
	struct begun o = { 0 };
	size_t len;

	for (size_t at = 0; at < n; at += len) {
		uint32_t c = zr_utf8_read(p + at, &len);
		int32_t id;
		if (c < ZR_BMP)
			id = b->character[c];
		else
			id = b->whole[whole_place(w->t, p + at, len)];
		if (id >= 0 || !put_bytes(w, p + at, len, &o.n))
			put_or_wait(w, &o, id);
	}

	put_unknown(w, &o);
	return o.n;
}

/* The bytes of a word of which some have no token: these are unknown, or the word has no ids. */
static size_t put_some_bytes(struct zr_bpe_work *w, const char *p, size_t n)
{
	struct begun o = { 0 };

	for (size_t i = 0; i < n; i++) {
		int byte = (unsigned char)p[i];
		int32_t id = w->t->byte[byte];

		if (id < 0 && w->t->unknown < 0) {
			w->lacking = byte;
			return NO_TOKEN;
		}

		put_or_wait(w, &o, id);
	}

	put_unknown(w, &o);
	return o.n;
}

static size_t put_symbols(struct zr_bpe_work *w, const char *p, size_t n)
{
	size_t symbols = 0;

	if (w->t->bpe.characters)
		return put_characters(w, p, n);
	if (put_bytes(w, p, n, &symbols))
		return symbols;

	return put_some_bytes(w, p, n);
}

/* The symbols in w->id[0..n) by a heap of candidates; returns how many are left. */
static size_t merge_many(struct zr_bpe_work *w, size_t n)
{
	size_t ids = 0;

	w->n_heap = 0;
	for (int32_t i = 0; i < (int32_t)n; i++)
		w->symbol[i] = (struct symbol){ (uint32_t)w->id[i], i - 1, i + 1, 0 };
	w->symbol[n - 1].next = -1;
	for (size_t i = 0; i < n; i++)
		consider(w, (int32_t)i);
	while (w->n_heap) {
		struct candidate c = pop(w);
		if (!stands(w, &c))
			continue;

		struct symbol *s = &w->symbol[c.at], *right = &w->symbol[s->next];
		s->id = c.id;
		s->next = right->next;
		right->gone = 1;
		if (s->next >= 0)
			w->symbol[s->next].prev = (int32_t)c.at;
		if (s->prev >= 0)
			consider(w, s->prev);
		consider(w, (int32_t)c.at);
	}

	for (int32_t i = 0; i >= 0; i = w->symbol[i].next)
		w->id[ids++] = (int32_t)w->symbol[i].id;

	return ids;
}

/* The most symbols of n bytes. */
static size_t most_symbols(const struct zr_bpe_work *w, size_t n)
{
	const struct zr_bpe *b = &w->t->bpe;
	if (w->t->spaced && b->character[' '] < 0)
		return strlen(ZR_SPACE) * n;

	return n;
}

/* The symbols that merges begin with, to `to`; or the one token that the word is. */
static size_t begin(struct zr_bpe_work *w, const char *p, size_t n, int32_t *to)
{
	const struct zr_bpe *b = &w->t->bpe;

	w->to = to;
	if (b->ignore_merges) {
		to[0] = b->whole[whole_place(w->t, p, n)];
		if (to[0] >= 0)
			return 1;
	}

	return put_symbols(w, p, n);
}

/* ---- words that are expected ---- */

int zr_bpe_expect(struct zr_bpe_work *w, const char *p, size_t n)
{
	if (w->n_expected == EXPECTED || n > MOST_BYTES || most_symbols(w, n) > AHEAD - w->n_ahead)
		return 0;

	int32_t *id = w->ahead + w->n_ahead;
	n = begin(w, p, n, id);
	if (n > FEW)
		return 0;

	w->n_ahead += n;
	w->expected[w->n_expected++] = (struct zr_merging_word){ id, n };
	return 1;
}

void zr_bpe_merge_expected(struct zr_bpe_work *w)
{
	zr_merge_word(w->merging, &w->t->bpe.merges, w->expected, w->n_expected);
}

int64_t zr_bpe_expected(struct zr_bpe_work *w, const int32_t **ids)
{
	const struct zr_merging_word *o = &w->expected[w->asked++];
	*ids = o->id;
	return (int64_t)o->n;
}

void zr_bpe_expect_again(struct zr_bpe_work *w)
{
	w->asked = 0;
}

void zr_bpe_expect_none(struct zr_bpe_work *w)
{
	w->n_expected = w->n_ahead = w->asked = 0;
}

/* ---- one word ---- */

static size_t merge_few(struct zr_bpe_work *w, size_t n)
{
	struct zr_merging_word word = { w->id, n };
	zr_merge_word(w->merging, &w->t->bpe.merges, &word, 1);
	return word.n;
}

int zr_bpe_lacking(const struct zr_bpe_work *w)
{
	return w->lacking;
}

int64_t zr_bpe_encode(struct zr_bpe_work *w, const char *p, size_t n, const int32_t **ids)
{
	if (make_room(w, most_symbols(w, n)))
		return ZR_ENOMEM;

	*ids = w->id;
	n = begin(w, p, n, w->id);
	if (n == NO_TOKEN)
		return ZR_ENOTSUP;

	return (int64_t)(n <= FEW ? merge_few(w, n) : merge_many(w, n));
}
