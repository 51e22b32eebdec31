/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder_split.c - normalized text to words, as the pre-tokenizer splits it, and their ids.
 */
#include <string.h>

#include "files/tokenizer/encoder.h"

int zr_encoder_flush(struct zr_encoder *e)
{
	size_t n = e->n_out;
	e->n_out = 0;
	if (n)
		return e->sink(e->arg, e->out, n);

	return 0;
}

/* They may fill `out`. */
static int emit_many(struct zr_encoder *e, const int32_t *ids, size_t n)
{
	int rc = 0;
	while (!rc && n) {
		size_t m = n;
		if (m > OUT - e->n_out)
			m = OUT - e->n_out;
		memcpy(e->out + e->n_out, ids, m * sizeof *ids);
		e->n_out += m;
		ids += m;
		n -= m;
		if (e->n_out == OUT)
			rc = zr_encoder_flush(e);
		else
			rc = 0;
	}

	return rc;
}

int zr_encoder_emit(struct zr_encoder *e, const int32_t *ids, size_t n)
{
	int32_t *to = e->out + e->n_out;
	if (n > 4 || e->n_out + n >= OUT)
		return emit_many(e, ids, n);

	for (size_t i = 0; i < n; i++) /* most words have few */
		to[i] = ids[i];
	e->n_out += n;
	return 0;
}

/* Bytes of text that the i-th token of a word has. */
static size_t text_of(const struct zr_tokenizer *t, int32_t id, int64_t i)
{
	size_t n = t->token[id].n;
	if (i && n >= t->prefix)
		return n - t->prefix;

	return n;
}

/* The tokens of a word that starts at a byte of what went into the section, where a mark is. */
static void mark_tokens(struct zr_encoder *e, const int32_t *ids, int64_t count, uint64_t start,
			size_t n)
{
	uint64_t end = start;
	size_t known = 0, unknown = 0;

	for (int64_t i = 0; i < count; i++)
		if (ids[i] == e->t->unknown)
			unknown++;
		else
			known += text_of(e->t, ids[i], i);
	/* unknown tokens share the rest equally: how much each has is not known */
	size_t each = 0;
	if (unknown && known < n)
		each = (n - known) / unknown;
	for (int64_t i = 0; i < count; i++) {
		if (ids[i] == e->t->unknown)
			end += each;
		else
			end += text_of(e->t, ids[i], i);
		if (i + 1 == count || end > start + n)
			end = start + n;
		zr_marks_token(&e->marks, ZR_MARK_SECTION, end);
	}
}

int zr_encoder_take(void *arg, const int32_t *ids, size_t count, uint64_t start, size_t n)
{
	struct zr_encoder *e = arg;
	if (!zr_marks_before(&e->marks, ZR_MARK_SECTION, start + n))
		e->marks.tokens += count;
	else
		mark_tokens(e, ids, (int64_t)count, start, n);
	if (e->keep)
		return e->keep(e, ids, count, start);

	return zr_encoder_emit(e, ids, count);
}

/* The ids of all words so far. */
static int finish_words(struct zr_encoder *e)
{
	return zr_encoder_model_failed(e, zr_model_flush(e->model));
}

/* A word of a piece that was written in other characters, in those of the text. *at: where it is in
 * the piece. */
static int read_back(struct zr_encoder *e, const char **p, size_t *n, size_t *at)
{
	e->bytes.n = 0;
	int rc;
	if (e->in_alphabet)
		rc = zr_alphabet_read(*p, *n, &e->bytes);
	else
		rc = zr_spaces(*p, *n, &e->bytes);
	if (rc)
		return no_memory(e);

	if (e->in_alphabet)
		*at = zr_alphabet_count(e->origin, *at);
	else
		*at = zr_spaces_place(NULL, e->origin, *at, *at, 0);
	*p = e->bytes.p;
	*n = e->bytes.n;
	return 0;
}

static int word(struct zr_encoder *e, const char *p, size_t n)
{
	const int written = e->in_alphabet || e->in_marks;
	size_t at = (size_t)(p - e->origin);
	int rc = 0;

	if (written)
		rc = read_back(e, &p, &n, &at);
	if (!rc)
		rc = zr_encoder_limit(e, n);
	if (rc)
		return rc;

	rc = zr_model_put(e->model, p, n, e->origin_at + at);
	rc = zr_encoder_model_failed(e, rc);
	if (rc || !written)
		return rc;

	return finish_words(e);
}

static int pieces(struct zr_encoder *e, int step, const char *p, size_t n, int final, size_t *used);

/* p[0..n) in another buffer; it stands for what starts at `from` of the origin. */
static void move_origin(struct zr_encoder *e, const char *from, const struct zr_buf *to,
			size_t prefix)
{
	e->origin_at += (uint64_t)(from - e->origin);
	e->origin = to->p + prefix;
}

/* Writes a piece as the next step reads it: with spaces, with one before it. */
static int write_spaces(struct zr_encoder *e, const struct zr_split *next, const char **p,
			size_t *n)
{
	uint64_t at = e->origin_at + (uint64_t)(*p - e->origin);
	int first = !e->not_first && !at;
	int starts = **p == ' ' || (next->spaces && *n >= 3 && !memcmp(*p, "\u2581", 3));
	int prefix = !starts &&
		     (next->prefix == ZR_PREFIX_ALL || (next->prefix == ZR_PREFIX_FIRST && first));

	if (!prefix && !next->spaces)
		return 0;

	struct zr_buf *b = &e->prefixed;
	if (b->room - b->n <= *n) { /* words that wait are in it */
		int rc = finish_words(e);
		if (rc)
			return rc;

		b->n = 0;
	}

	size_t before = b->n;
	if ((prefix && zr_buf_add(b, " ", 1)) ||
	    (next->spaces ? zr_spaces(*p, *n, b) : zr_buf_add(b, *p, *n)))
		return no_memory(e);

	move_origin(e, *p, b, before + (size_t)prefix);
	*p = b->p + before;
	*n = b->n - before;
	return 0;
}

/* Writes a piece in the characters that the steps behind ByteLevel or Metaspace read. */
static int write_characters(struct zr_encoder *e, const struct zr_split *s, const char **p,
			    size_t *n)
{
	if (!s->alphabet && !s->marks)
		return 0;

	e->written.n = 0;
	int rc;
	if (s->alphabet)
		rc = zr_alphabet_write(*p, *n, &e->written);
	else
		rc = zr_spaces_write(*p, *n, &e->written);
	if (rc)
		return no_memory(e);

	move_origin(e, *p, &e->written, 0);
	*p = e->written.p;
	*n = e->written.n;
	e->in_alphabet = s->alphabet;
	e->in_marks = s->marks;
	return 0;
}

/* A piece that `step` made goes to the next one. */
static int piece(struct zr_encoder *e, int step, const char *p, size_t n)
{
	const struct zr_split *s = &e->t->split[step];
	const char *origin = e->origin;
	uint64_t origin_at = e->origin_at;
	int in_alphabet = e->in_alphabet, in_marks = e->in_marks;
	size_t used;

	if (step + 1 == e->t->n_splits)
		return word(e, p, n);

	int rc = write_spaces(e, s + 1, &p, &n);
	if (!rc)
		rc = write_characters(e, s, &p, &n);
	if (!rc)
		rc = pieces(e, step + 1, p, n, 1, &used);

	e->origin = origin;
	e->origin_at = origin_at;
	e->in_alphabet = in_alphabet;
	e->in_marks = in_marks;
	return rc;
}

/* A part of the text that may go on in the next one. */
struct part {
	size_t start, stop; /* equal: there is none */
	int matched;
};

/* Whether a part is one piece with that before it. */
static int joins(const struct zr_split *s, int before, int matched)
{
	if (s->behavior == ZR_SPLIT_CONTIGUOUS)
		return before == matched;
	if (s->behavior == ZR_SPLIT_WITH_PREVIOUS)
		return !before && matched;

	return s->behavior == ZR_SPLIT_WITH_NEXT && before && !matched;
}

/* The next part is text[start..stop); *w is that before it, and becomes what may still grow. */
static int part(struct zr_encoder *e, int step, const char *text, struct part *w, struct part next)
{
	const struct zr_split *s = &e->t->split[step];
	int rc = 0;

	next.matched ^= s->invert;
	if (next.start == next.stop || (next.matched && s->behavior == ZR_SPLIT_REMOVED))
		return 0;
	if (s->behavior <= ZR_SPLIT_REMOVED)
		return piece(e, step, text + next.start, next.stop - next.start);
	if (w->start < w->stop && joins(s, w->matched, next.matched))
		next.start = w->start;
	else if (w->start < w->stop)
		rc = piece(e, step, text + w->start, w->stop - w->start);
	*w = next;
	return rc;
}

/* Words of the last step that words.c finds, one behind the other; *at: behind them. */
static int plain_words(struct zr_encoder *e, int step, const char *p, size_t n, int final,
		       size_t *at)
{
	const struct zr_split *s = &e->t->split[step];
	int words = zr_regex_words(s->regex), rc = 0;
	size_t end;

	if (!words || s->behavior != ZR_SPLIT_ISOLATED || step + 1 < e->t->n_splits)
		return 0;

	for (; !rc && *at < n && (end = zr_words_end(words, p, n, *at, !final)); *at = end)
		rc = word(e, p + *at, end - *at);

	return rc;
}

/* Splits p[0..n). *used: bytes whose pieces are settled; with final all. */
static int pieces(struct zr_encoder *e, int step, const char *p, size_t n, int final, size_t *used)
{
	const struct zr_split *s = &e->t->split[step];
	struct part w = { 0 };
	int rc = 0, found = ZR_REGEX_FOUND;
	size_t start, stop, at = 0;

	for (; s->regex && at < n; at = stop) {
		rc = plain_words(e, step, p, n, final, &at);
		if (rc)
			return rc;
		if (at == n)
			break;

		found = zr_regex_find(s->regex, e->match, p, n, at, !final, &start, &stop, e->err);
		if (found != ZR_REGEX_FOUND)
			break;

		rc = part(e, step, p, &w, (struct part){ at, start, 0 });
		if (!rc)
			rc = part(e, step, p, &w, (struct part){ start, stop, 1 });
		if (rc)
			return rc;
	}

	*used = w.start < w.stop ? w.start : at;
	if (found < 0 || !final)
		return found < 0 ? found : 0;

	rc = part(e, step, p, &w, (struct part){ at, n, 0 });
	*used = n;
	if (rc || w.start == w.stop)
		return rc;

	return piece(e, step, p + w.start, w.stop - w.start);
}

/* Whether the tokenizer wants a space before the section that begins with p. */
static int wants_space(const struct zr_encoder *e, const char *p)
{
	int prefix = e->t->split[0].prefix;

	if (*p == ' ')
		return 0;

	return prefix == ZR_PREFIX_ALL || (prefix == ZR_PREFIX_FIRST && !e->not_first);
}

/* Appends p[0..n) to the section, with the space that comes before one. */
static int append_to_section(struct zr_encoder *e, const char *p, size_t n)
{
	const int spaces = e->t->spaces == ZR_SPACES_SPLIT;
	const size_t before = e->section.n, given = n;
	const char *from = p;
	int rc = 0;

	e->spaced.n = 0;
	if (spaces) {
		if (zr_spaces(p, n, &e->spaced))
			return no_memory(e);

		p = e->spaced.p;
		n = e->spaced.n;
	}

	if (n && !e->begun) {
		e->begun = 1;
		if (wants_space(e, p))
			rc = zr_buf_add(&e->section, " ", 1);
	}

	e->marks.inserted = e->section.n - before;
	int lost = zr_encoder_pass(e, ZR_MARK_NORMALIZED, given, e->section.n,
				   spaces ? zr_spaces_place : NULL, from);
	if (rc || lost || zr_buf_add(&e->section, p, n))
		return no_memory(e);

	return 0;
}

int zr_encoder_split(struct zr_encoder *e, const char *p, size_t n, int final)
{
	size_t used = 0;
	int rc = append_to_section(e, p, n);
	if (rc)
		return rc;
	if (!final && e->section.n < e->enough)
		return 0;

	e->origin = e->section.p;
	e->origin_at = e->marks.at[ZR_MARK_SECTION];
	rc = pieces(e, 0, e->section.p, e->section.n, final, &used);
	if (!rc)
		rc = finish_words(e);
	if (rc)
		return rc;

	e->marks.at[ZR_MARK_SECTION] += used;
	zr_buf_drop(&e->section, used);
	/* so that a long piece is not looked at again for every few bytes */
	e->enough = 2 * e->section.n;
	if (e->enough > ZR_TOKENIZER_PIECE)
		e->enough = ZR_TOKENIZER_PIECE + 1;
	e->begun &= !final;
	return zr_encoder_limit(e, e->section.n);
}
