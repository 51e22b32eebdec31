/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder.c - text to ids, stage by stage; see parts.h.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/encoder.h"

static int flush(struct zr_encoder *e)
{
	size_t n = e->n_out;
	e->n_out = 0;
	return n ? e->sink(e->arg, e->out, n) : 0;
}

/* They may fill `out`. */
static int emit_many(struct zr_encoder *e, const int32_t *ids, size_t n)
{
	int rc = 0;
	while (!rc && n) {
		size_t m = n < OUT - e->n_out ? n : OUT - e->n_out;
		memcpy(e->out + e->n_out, ids, m * sizeof *ids);
		e->n_out += m;
		ids += m;
		n -= m;
		rc = e->n_out == OUT ? flush(e) : 0;
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

/* ---- splits ---- */

static int too_long(struct zr_encoder *e)
{
	return zr_err(e->err, ZR_EINVAL, "more than %u MiB of text that the pre-tokenizer does not split", ZR_TOKENIZER_PIECE >> 20);
}

/* The tokens of a word that starts at a byte of what went into the section, where a mark is. */
static void mark_tokens(struct zr_encoder *e, const int32_t *ids, int64_t count, uint64_t start,
			size_t n)
{
	uint64_t end = start;
	for (int64_t i = 0; i < count; i++) {
		end += e->t->token[ids[i]].n;
		if (i + 1 == count || end > start + n) /* an unknown one may have any text */
			end = start + n;
		zr_marks_token(&e->marks, ZR_MARK_SECTION, end);
	}
}

/* The ids of a word, or of a part of one. */
static int take(void *arg, const int32_t *ids, size_t count, uint64_t start, size_t n)
{
	struct zr_encoder *e = arg;
	if (!zr_marks_before(&e->marks, ZR_MARK_SECTION, start + n))
		e->marks.tokens += count;
	else
		mark_tokens(e, ids, (int64_t)count, start, n);
	return e->keeping ? zr_chunks_keep(e, ids, count, start) : zr_encoder_emit(e, ids, count);
}

/* The ids of all words so far. */
static int finish_words(struct zr_encoder *e)
{
	int rc = zr_model_flush(e->model);
	return rc == ZR_ENOMEM ? no_memory(e) : rc;
}

static int word(struct zr_encoder *e, const char *p, size_t n)
{
	size_t at = (size_t)(p - e->origin);
	if (e->in_alphabet) {
		at = zr_alphabet_count(e->origin, at);
		e->bytes.n = 0;
		if (zr_alphabet_read(p, n, &e->bytes))
			return no_memory(e);
		p = e->bytes.p;
		n = e->bytes.n;
	}
	if (n > ZR_TOKENIZER_PIECE)
		return too_long(e);
	int rc = zr_model_put(e->model, p, n, e->origin_at + at);
	rc = rc == ZR_ENOMEM ? no_memory(e) : rc;
	return rc || !e->in_alphabet ? rc : finish_words(e);
}

static int pieces(struct zr_encoder *e, int step, const char *p, size_t n, int final, size_t *used);

/* p[0..n) in another buffer; it stands for what starts at `from` of the origin. */
static void move(struct zr_encoder *e, const char *from, const struct zr_buf *to, size_t prefix)
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
	move(e, *p, b, before + (size_t)prefix);
	*p = b->p + before;
	*n = b->n - before;
	return 0;
}

/* A piece that `step` made goes to the next one. */
static int piece(struct zr_encoder *e, int step, const char *p, size_t n)
{
	const struct zr_split *s = &e->t->split[step];
	const char *origin = e->origin;
	uint64_t origin_at = e->origin_at;
	int in_alphabet = e->in_alphabet;
	size_t used;
	if (step + 1 == e->t->n_splits)
		return word(e, p, n);
	int rc = write_spaces(e, s + 1, &p, &n);
	if (!rc && s->alphabet) {
		e->alphabet.n = 0;
		rc = zr_alphabet_write(p, n, &e->alphabet) ? no_memory(e) : 0;
		move(e, p, &e->alphabet, 0);
		p = e->alphabet.p;
		n = e->alphabet.n;
		e->in_alphabet = 1;
	}
	rc = rc ? rc : pieces(e, step + 1, p, n, 1, &used);
	e->origin = origin;
	e->origin_at = origin_at;
	e->in_alphabet = in_alphabet;
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
	return s->behavior == ZR_SPLIT_CONTIGUOUS ? before == matched :
	       s->behavior == ZR_SPLIT_WITH_PREVIOUS ? !before && matched : s->behavior == ZR_SPLIT_WITH_NEXT && before && !matched;
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
		found = zr_regex_find(s->regex, e->match, p, n, at, !final, &start, &stop,
				      e->err);
		if (found != ZR_REGEX_FOUND)
			break;
		rc = part(e, step, p, &w, (struct part){ at, start, 0 });
		rc = rc ? rc : part(e, step, p, &w, (struct part){ start, stop, 1 });
		if (rc)
			return rc;
	}
	*used = w.start < w.stop ? w.start : at;
	if (found < 0 || !final)
		return found < 0 ? found : 0;
	rc = part(e, step, p, &w, (struct part){ at, n, 0 });
	*used = n;
	return rc || w.start == w.stop ? rc : piece(e, step, p + w.start, w.stop - w.start);
}

/* n bytes of `stage` go to the next one, where there are `held` already. */
static void pass(struct zr_encoder *e, int stage, size_t n, size_t held, zr_marks_map *map,
		 const char *p)
{
	zr_marks_pass(&e->marks, stage, n, e->marks.at[stage + 1] + held, map, e, p);
}

int zr_encoder_split(struct zr_encoder *e, const char *p, size_t n, int final)
{
	size_t used = 0, given = n;
	const char *from = p;
	int rc = 0, spaces = e->t->spaces == ZR_SPACES_SPLIT, prefix = e->t->split[0].prefix;
	e->spaced.n = 0;
	if (spaces && zr_spaces(p, n, &e->spaced))
		return no_memory(e);
	if (spaces)
		p = e->spaced.p, n = e->spaced.n;
	if (n && !e->begun) {
		e->begun = 1;
		prefix = prefix == ZR_PREFIX_ALL || (prefix == ZR_PREFIX_FIRST && !e->not_first);
		rc = prefix && *p != ' ' ? zr_buf_add(&e->section, " ", 1) : 0;
	}
	pass(e, ZR_MARK_NORMALIZED, given, e->section.n, spaces ? zr_spaces_place : NULL, from);
	if (rc || zr_buf_add(&e->section, p, n))
		return no_memory(e);
	if (!final && e->section.n < e->enough)
		return 0;
	e->origin = e->section.p;
	e->origin_at = e->marks.at[ZR_MARK_SECTION];
	rc = pieces(e, 0, e->section.p, e->section.n, final, &used);
	rc = rc ? rc : finish_words(e);
	if (rc)
		return rc;
	e->marks.at[ZR_MARK_SECTION] += used;
	zr_buf_drop(&e->section, used);
	e->enough = 2 * e->section.n; /* so that a long piece is not looked at again for every few bytes */
	if (e->enough > ZR_TOKENIZER_PIECE)
		e->enough = ZR_TOKENIZER_PIECE + 1;
	e->begun &= !final;
	return e->section.n > ZR_TOKENIZER_PIECE ? too_long(e) : 0;
}

/* ---- normalization and added tokens ---- */

static int normalize(struct zr_encoder *e, const char *p, size_t n, int final);

static int settled(struct zr_encoder *e, int which, const char *p, size_t n, int final)
{
	return which == RAW ? normalize(e, p, n, final) : zr_encoder_split(e, p, n, final);
}

static int added(struct zr_encoder *e, int which, const struct zr_found *f)
{
	int stage = which == RAW ? ZR_MARK_RAW : ZR_MARK_NORMALIZED;
	uint64_t *at = &e->marks.at[stage];
	*at += f->stop - f->start;
	zr_marks_token(&e->marks, stage, *at);
	return zr_encoder_emit(e, &f->token->id, 1);
}

static int extract(struct zr_encoder *e, int which, const char *p, size_t n, int final)
{
	const struct zr_added *a = &e->t->added[which];
	struct zr_buf *b = &e->held[which];
	struct zr_found f;
	size_t from = 0;
	int rc = 0;
	if (!a->n)
		return settled(e, which, p, n, final);
	if (zr_buf_add(b, p, n))
		return no_memory(e);
	do {
		zr_added_find(a, e->match, b->p, b->n, from, final, e->in_word[which], &f);
		int ends = f.token || final;
		if (f.start > from || ends)
			rc = settled(e, which, b->p + from, f.start - from, ends);
		if (!rc && f.token)
			rc = added(e, which, &f);
		e->not_first |= f.token != NULL;
		from = f.token ? f.stop : f.start;
	} while (!rc && f.token);
	if (from && !final)
		e->in_word[which] = zr_added_in_word(a, e->match, b->p, from);
	e->in_word[which] &= !final;
	zr_buf_drop(b, from);
	return rc ? rc : b->n > ZR_TOKENIZER_PIECE ? too_long(e) : 0;
}

static int composed(void *arg, const char *p, size_t n)
{
	return extract(arg, NORMALIZED, p, n, 0);
}

/* Spaces as the normalizer has them. */
static int normalize_spaces(struct zr_encoder *e, const char *p, size_t n, int final)
{
	struct zr_buf *b = &e->composing;
	b->n = 0;
	if (n && !e->normalizing && e->t->prepend && zr_buf_add(b, " ", 1))
		return no_memory(e);
	e->normalizing = !final && (n || e->normalizing);
	pass(e, ZR_MARK_NORMALIZER, n, e->held[NORMALIZED].n + b->n, zr_spaces_place, p);
	return zr_spaces(p, n, b) ? no_memory(e) : extract(e, NORMALIZED, b->p, b->n, final);
}

/* Where a byte of a section's text is when the steps have changed that: at the end of its
 * character. */
static size_t place(const void *arg, const char *p, size_t n, size_t at)
{
	const struct zr_encoder *e = arg;
	struct zr_buf out = { 0 };
	size_t end = at + 1;
	while (end < n && ((unsigned char)p[end] & 0xc0) == 0x80)
		end++;
	int rc = zr_normalize(&e->t->normalizer, e->match, p, end, !e->normalizing, &out, NULL);
	size_t to = rc || !out.n ? 0 : out.n - 1;
	zr_buf_free(&out);
	return to;
}

int zr_encoder_normalize(struct zr_encoder *e, const char *p, size_t n, int final)
{
	const struct zr_normalizer *z = &e->t->normalizer;
	e->normalized.n = 0;
	int rc = zr_normalize(z, e->match, p, n, !e->normalizing, &e->normalized, e->err);
	pass(e, ZR_MARK_NORMALIZER, n, e->held[NORMALIZED].n, place, p);
	e->normalizing = !final && (e->normalized.n || e->normalizing);
	return rc ? rc : extract(e, NORMALIZED, e->normalized.p, e->normalized.n, final);
}

int zr_encoder_by_steps(struct zr_encoder *e, const char *p, size_t n, int final)
{
	struct zr_buf *b = &e->composing;
	if (zr_buf_add(b, p, n))
		return no_memory(e);
	if (!final && b->n < e->enough_to_normalize)
		return 0;
	size_t sure = zr_normalize_settled(&e->t->normalizer, b->p, b->n, final);
	int rc = zr_encoder_normalize(e, b->p, sure, final);
	zr_buf_drop(b, sure);
	e->enough_to_normalize = sure ? 0 : 2 * b->n;
	if (e->enough_to_normalize > ZR_TOKENIZER_PIECE)
		e->enough_to_normalize = ZR_TOKENIZER_PIECE + 1;
	return rc ? rc : b->n > ZR_TOKENIZER_PIECE ? too_long(e) : 0;
}

static int normalize_form(struct zr_encoder *e, const char *p, size_t n, int final)
{
	struct zr_buf *b = &e->composing;
	if (zr_buf_add(b, p, n))
		return no_memory(e);
	size_t sure = zr_nfc_settled(b->p, b->n, final);
	pass(e, ZR_MARK_NORMALIZER, sure, e->held[NORMALIZED].n, zr_nfc_place, b->p);
	int rc = zr_form(ZR_FORM_C, b->p, sure, composed, e, e->err);
	zr_buf_drop(b, sure);
	if (!rc && final)
		rc = extract(e, NORMALIZED, "", 0, 1);
	return rc ? rc : b->n > ZR_TOKENIZER_PIECE ? too_long(e) : 0;
}

static int normalize(struct zr_encoder *e, const char *p, size_t n, int final)
{
	const struct zr_tokenizer *t = e->t;
	pass(e, ZR_MARK_RAW, n, t->nfc || t->normalizer.n ? e->composing.n : 0, NULL, p);
	if (e->chunks)
		return zr_chunks_normalize(e, p, n, final);
	if (t->normalizer.n)
		return zr_encoder_by_steps(e, p, n, final);
	if (t->spaces == ZR_SPACES_NORMALIZED)
		return normalize_spaces(e, p, n, final);
	if (t->nfc)
		return normalize_form(e, p, n, final);
	pass(e, ZR_MARK_NORMALIZER, n, e->held[NORMALIZED].n, NULL, p);
	return extract(e, NORMALIZED, p, n, final);
}

/* ---- the outside ---- */

int zr_encoder_open(const struct zr_tokenizer *t, zr_token_sink *sink, void *arg, struct zr_encoder **out, struct zr_error *err)
{
	struct zr_encoder *e = calloc(1, sizeof *e);
	if (e)
		*e = (struct zr_encoder){
			.t = t, .sink = sink, .arg = arg, .model = zr_model_open(t, take, e)
		};
	int rc = e && e->model ? zr_match_open(&e->match, err) :
				 zr_err(err, ZR_ENOMEM, "out of memory");
	if (!rc && zr_chunks_open(e))
		rc = zr_err(err, ZR_ENOMEM, "out of memory");
	if (rc)
		zr_encoder_close(e);
	else
		*out = e;
	return rc;
}

void zr_encoder_close(struct zr_encoder *e)
{
	if (!e)
		return;
	zr_model_close(e->model);
	zr_match_close(e->match);
	zr_buf_free(&e->raw);
	zr_buf_free(&e->text);
	zr_buf_free(&e->held[RAW]);
	zr_buf_free(&e->held[NORMALIZED]);
	zr_buf_free(&e->composing);
	zr_buf_free(&e->section);
	zr_buf_free(&e->prefixed);
	zr_buf_free(&e->spaced);
	zr_buf_free(&e->normalized);
	zr_buf_free(&e->alphabet);
	zr_buf_free(&e->bytes);
	zr_chunks_close(e->chunks);
	free(e->marks.mark);
	free(e);
}

static int decode(struct zr_encoder *e, int final)
{
	e->text.n = 0;
	if (zr_utf8_lossy(&e->raw, final, &e->text, &e->replaced))
		return no_memory(e);
	return extract(e, RAW, e->text.p, e->text.n, final);
}

int zr_encode(struct zr_encoder *e, const void *bytes, size_t n, struct zr_error *err)
{
	e->err = err;
	return zr_buf_add(&e->raw, bytes, n) ? no_memory(e) : decode(e, 0);
}

int zr_encode_end(struct zr_encoder *e, struct zr_error *err)
{
	e->err = err;
	int rc = decode(e, 1);
	e->not_first = 0;
	zr_marks_end(&e->marks);
	return rc ? rc : flush(e);
}

int zr_encode_mark(struct zr_encoder *e, uint64_t at, struct zr_error *err)
{
	e->err = err;
	return zr_marks_add(&e->marks, at) ? no_memory(e) : 0;
}

uint64_t zr_encoder_marked(const struct zr_encoder *e, size_t i)
{
	return e->marks.mark[i].at;
}

uint64_t zr_encoder_replaced(const struct zr_encoder *e)
{
	return e->replaced;
}
