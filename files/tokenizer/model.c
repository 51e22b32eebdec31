/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - a word to ids, whatever the model. The ids of short words, or
 * of their parts, are remembered.
 */
#include <stdlib.h>

#include "files/tokenizer/parts.h"

#define WAITING 256 /* words at a time: enough that many of them are new */

/* A word, or a part of one, whose place comes into the processor's cache while others are read. */
struct part {
	const char *p;
	size_t n;
	uint64_t start;
	struct zr_memo *place;       /* NULL: it is not remembered */
	const struct zr_memo *found; /* there; NULL: it is not yet */
	const int32_t *ids;          /* of it */
	int count;                   /* how many; 0: they are not known yet */
	int first;                   /* of what was put */
	int cut;                     /* if it is not remembered, its parts may be */
	int expected;                /* merged together with others */
};

struct zr_model_work {
	const struct zr_tokenizer *t;
	struct zr_memo *memo;
	struct zr_bpe_work *bpe;
	struct zr_unigram_work unigram;
	struct zr_ids wordpiece;
	zr_model_sink *sink;
	void *arg;
	struct part part[WAITING];
	size_t n, most;                           /* `most` of them wait */
	struct part cut[WAITING + ZR_MEMO_BYTES]; /* these, or their parts */
	int32_t id[WAITING][ZR_JOINS_IDS], cut_id[WAITING + ZR_MEMO_BYTES][ZR_JOINS_IDS];
};

struct zr_model_work *zr_model_open(const struct zr_tokenizer *t, zr_model_sink *sink, void *arg)
{
	struct zr_model_work *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;

	w->t = t;
	w->most = t->model == ZR_MODEL_BPE ? WAITING : ZR_WORDPIECES;
	w->sink = sink;
	w->arg = arg;
	w->bpe = zr_bpe_open(t);
	w->memo = zr_memo_open();
	if (w->bpe && w->memo)
		return w;

	zr_model_close(w);
	return NULL;
}

void zr_model_close(struct zr_model_work *w)
{
	if (!w)
		return;

	zr_bpe_close(w->bpe);
	free(w->unigram.place);
	free(w->unigram.ids.id);
	free(w->wordpiece.id);
	zr_memo_close(w->memo);
	free(w);
}

int zr_model_lacking(const struct zr_model_work *w)
{
	return zr_bpe_lacking(w->bpe);
}

struct zr_memo *zr_model_memo(struct zr_model_work *w)
{
	return w->memo;
}

static int64_t encode_wordpiece(struct zr_model_work *w, const char *p, size_t n,
				const int32_t **ids)
{
	struct zr_wordpiece word = { .p = p, .n = n };
	if (zr_wordpiece_encode(w->t, &w->wordpiece, &word, 1))
		return ZR_ENOMEM;

	*ids = word.id;
	return word.count;
}

static int64_t encode(struct zr_model_work *w, const char *p, size_t n, const int32_t **ids)
{
	switch (w->t->model) {
	case ZR_MODEL_UNIGRAM:
		return zr_unigram_encode(w->t, &w->unigram, p, n, ids);
	case ZR_MODEL_WORDPIECE:
		return encode_wordpiece(w, p, n, ids);
	default:
		return zr_bpe_encode(w->bpe, p, n, ids);
	}
}

/* The ids of a word that may be remembered. */
static int64_t look_up(struct zr_model_work *w, struct zr_memo *place, const char *p, size_t n,
		       const int32_t **ids)
{
	const struct zr_memo *found = zr_memo_find(place, ZR_MEMO_WORD, p, n);
	int apart = w->t->apart;
	if (found && (!apart || zr_unigram_add(w->t, &w->unigram, found->id, found->ids))) {
		*ids = found->id;
		return found->ids;
	}

	int64_t count = encode(w, p, n, ids);
	if (count >= 0 && (!apart || w->unigram.sure))
		zr_memo_put(place, ZR_MEMO_WORD, p, n, *ids, (size_t)count);

	return count;
}

/* ---- words that wait ---- */

/* Words of WordPiece that are not remembered, together; then they are. */
static int remember_all(struct zr_model_work *w)
{
	struct zr_wordpiece word[ZR_WORDPIECES];
	const struct part *of[ZR_WORDPIECES];
	size_t n = 0;

	for (const struct part *o = w->part; o < w->part + w->n; o++)
		if (o->place && !zr_memo_find(o->place, ZR_MEMO_WORD, o->p, o->n)) {
			of[n] = o;
			word[n++] = (struct zr_wordpiece){ .p = o->p, .n = o->n };
		}
	if (zr_wordpiece_encode(w->t, &w->wordpiece, word, n))
		return ZR_ENOMEM;

	for (size_t i = 0; i < n; i++)
		zr_memo_put(of[i]->place, ZR_MEMO_WORD, word[i].p, word[i].n, word[i].id,
			    (size_t)word[i].count);

	return 0;
}

static int sink_count(struct zr_model_work *w, const struct part *o, const int32_t *ids,
		      int64_t count)
{
	if (count < 0)
		return (int)count;

	return w->sink(w->arg, ids, (size_t)count, o->start, o->n);
}

/* The ids of a part go out. */
static int put_part(struct zr_model_work *w, const struct part *o)
{
	const int32_t *ids;
	int64_t count;

	if (o->first)
		w->unigram.sum = 0;
	if (o->place)
		count = look_up(w, o->place, o->p, o->n, &ids);
	else
		count = encode(w, o->p, o->n, &ids);

	return sink_count(w, o, ids, count);
}

static void find_place(struct zr_model_work *w, struct part *o)
{
	if (!o->count && o->n <= ZR_MEMO_BYTES)
		o->place = zr_memo_place(w->memo, ZR_MEMO_WORD, o->p, o->n);
}

/* The parts of a word, as many as its bytes at most; returns their number. */
static size_t cut_word(struct zr_model_work *w, const struct part *word, struct part *to)
{
	size_t n = 0, len;

	for (size_t at = 0; at < word->n; at += len, n++) {
		int32_t *ids = w->cut_id[to + n - w->cut];
		to[n] = (struct part){ .p = word->p + at, .start = word->start + at, .ids = ids };
		len = zr_joins_part(w->t->bpe.joins, to[n].p, word->n - at, ids, &to[n].count);
		to[n].n = len;
		find_place(w, &to[n]);
	}

	return n;
}

/* The ids of a part of BPE, of which those that are not remembered have been expected. */
static int64_t ids_of(struct zr_model_work *w, const struct part *o, const int32_t **ids)
{
	if (o->found)
		*ids = o->found->id;
	else
		*ids = o->ids;
	if (o->count)
		return o->count;
	if (o->found)
		return o->found->ids;
	if (o->expected)
		return zr_bpe_expected(w->bpe, ids);

	return zr_bpe_encode(w->bpe, o->p, o->n, ids);
}

/* Parts of BPE in their order. What is new is remembered behind them: until then the memory stays
 * as it is. */
/* What was expected of parts of BPE is remembered. */
static void remember_expected(struct zr_model_work *w, const struct part *part,
			      const struct part *end)
{
	const int32_t *ids;

	zr_bpe_expect_again(w->bpe);
	for (const struct part *o = part; o < end; o++) {
		if (!o->expected)
			continue;

		size_t count = (size_t)zr_bpe_expected(w->bpe, &ids);
		if (o->place && !zr_memo_find(o->place, ZR_MEMO_WORD, o->p, o->n))
			zr_memo_put(o->place, ZR_MEMO_WORD, o->p, o->n, ids, count);
	}
}

/* Parts of BPE in their order. What is new is remembered behind them: until then the memory stays
 * as it is. */
static int put_parts(struct zr_model_work *w, struct part *part, size_t n)
{
	struct part *o, *end = part + n;
	const int32_t *ids;
	int rc = 0;

	for (o = part; o < end; o++)
		o->expected = !o->count && !o->found && zr_bpe_expect(w->bpe, o->p, o->n);
	zr_bpe_merge_expected(w->bpe);
	for (o = part; !rc && o < end; o++) {
		int64_t count = ids_of(w, o, &ids);
		rc = sink_count(w, o, ids, count);
	}

	if (!rc)
		remember_expected(w, part, end);
	zr_bpe_expect_none(w->bpe);
	return rc;
}

static inline void find_part(struct part *o)
{
	o->found = NULL;
	if (o->place)
		o->found = zr_memo_find(o->place, ZR_MEMO_WORD, o->p, o->n);
}

/* A word of BPE as it is put: in parts, unless it is remembered or is not to be cut. Returns how
 * many parts. */
static size_t parts_of(struct zr_model_work *w, struct part *word, struct part *to)
{
	size_t n = 1;

	find_part(word);
	if (word->found || !word->cut)
		*to = *word;
	else
		n = cut_word(w, word, to);
	for (size_t k = 0; k < n; k++)
		find_part(&to[k]);

	return n;
}

/* Words of BPE, of which those that are not remembered are cut. */
static int put_words(struct zr_model_work *w)
{
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i < w->n; i++) {
		n += parts_of(w, &w->part[i], w->cut + n);
		if (n >= WAITING || i + 1 == w->n) {
			rc = put_parts(w, w->cut, n);
			n = 0;
		}
	}

	return rc;
}

static int put_all(struct zr_model_work *w)
{
	int rc = 0;

	if (w->t->model == ZR_MODEL_WORDPIECE)
		rc = remember_all(w);
	for (size_t i = 0; !rc && i < w->n; i++)
		rc = put_part(w, &w->part[i]);

	return rc;
}

int zr_model_flush(struct zr_model_work *w)
{
	int rc;

	if (w->t->model == ZR_MODEL_BPE)
		rc = put_words(w);
	else
		rc = put_all(w);
	w->n = 0;
	return rc;
}

int zr_model_put(struct zr_model_work *w, const char *p, size_t n, uint64_t start)
{
	const struct zr_joins *joins = w->t->bpe.joins;
	int first = 1, whole = !joins || n <= ZR_MEMO_BYTES;

	for (size_t len; n; p += len, n -= len, start += len, first = 0) {
		int32_t *ids = w->id[w->n];
		struct part *o = &w->part[w->n++];
		*o = (struct part){ .p = p, .start = start, .first = first, .ids = ids };
		o->cut = joins && whole;
		if (w->t->apart)
			len = zr_unigram_part(p, n);
		else if (whole)
			len = n;
		else
			len = zr_joins_part(joins, p, n, ids, &o->count);
		o->n = len;
		find_place(w, o);
		int rc = 0;
		if (w->n == w->most)
			rc = zr_model_flush(w);
		if (rc)
			return rc;
	}

	return 0;
}
