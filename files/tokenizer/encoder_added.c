/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder_added.c - added tokens are taken out of raw text, and of normalized text.
 */
#include "files/tokenizer/encoder.h"

static int added(struct zr_encoder *e, int which, const struct zr_found *f)
{
	int stage = which == RAW ? ZR_MARK_RAW : ZR_MARK_NORMALIZED;
	uint64_t *at = &e->marks.at[stage];
	*at += f->stop - f->start;
	zr_marks_token(&e->marks, stage, *at);
	return zr_encoder_emit(e, &f->token->id, 1);
}

/* Finds the next token behind `from`; what is before it, and is settled, goes to the next stage.
 * f: what was found. */
static int next_token(struct zr_encoder *e, int which, zr_encoder_stage *next, size_t from,
		      int final, struct zr_found *f)
{
	const struct zr_buf *b = &e->held[which];
	int rc = 0;

	zr_added_find(&e->t->added[which], e->match, b->p, b->n, from, final, e->in_word[which], f);
	int ends = f->token || final;
	if (f->start > from || ends)
		rc = next(e, b->p + from, f->start - from, ends);
	if (!f->token)
		return rc;

	e->not_first = 1;
	if (!rc)
		rc = added(e, which, f);

	return rc;
}

int zr_encoder_extract(struct zr_encoder *e, int which, zr_encoder_stage *next, const char *p,
		       size_t n, int final)
{
	const struct zr_added *a = &e->t->added[which];
	struct zr_buf *b = &e->held[which];
	struct zr_found f;
	size_t from = 0;
	int rc;

	if (!a->n)
		return next(e, p, n, final);
	if (zr_buf_add(b, p, n))
		return no_memory(e);

	do {
		rc = next_token(e, which, next, from, final, &f);
		from = f.token ? f.stop : f.start;
	} while (!rc && f.token);

	if (from && !final)
		e->in_word[which] = zr_added_in_word(a, e->match, b->p, from);
	e->in_word[which] &= !final;
	zr_buf_drop(b, from);
	if (rc)
		return rc;

	return zr_encoder_limit(e, b->n);
}
