/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder_normalize.c - the text of a section as the normalizer changes it.
 */
#include "files/tokenizer/encoder.h"

int zr_encoder_normalized(struct zr_encoder *e, const char *p, size_t n, int final)
{
	return zr_encoder_extract(e, NORMALIZED, zr_encoder_split, p, n, final);
}

static int composed(void *arg, const char *p, size_t n)
{
	return zr_encoder_normalized(arg, p, n, 0);
}

int zr_encoder_spaces(struct zr_encoder *e, const char *p, size_t n, int final)
{
	struct zr_buf *b = &e->composing;

	b->n = 0;
	if (n && !e->normalizing && e->t->prepend && zr_buf_add(b, " ", 1))
		return no_memory(e);

	e->normalizing = !final && (n || e->normalizing);
	e->marks.inserted = b->n;
	int rc = zr_encoder_pass(e, ZR_MARK_NORMALIZER, n, e->held[NORMALIZED].n + b->n,
				 zr_spaces_place, p);
	if (rc)
		return rc;
	if (zr_spaces(p, n, b))
		return no_memory(e);

	return zr_encoder_normalized(e, b->p, b->n, final);
}

/* Where a byte of a section's text is when the steps have changed that: at the end of its
 * character, or at the start, behind what is before it. */
static size_t place(const void *arg, const char *p, size_t n, size_t at, int first)
{
	const struct zr_encoder *e = arg;
	struct zr_buf out = { 0 };
	size_t end = at + 1;
	while (end < n && ((unsigned char)p[end] & 0xc0) == 0x80)
		end++;
	int rc = zr_normalize(&e->t->normalizer, e->match, p, end, !e->normalizing, &out, NULL);
	const size_t all = out.n;
	out.n = 0;
	if (!rc && first)
		rc = zr_normalize(&e->t->normalizer, e->match, p + at, end - at,
				  !at && !e->normalizing, &out, NULL);
	const size_t own = out.n;
	zr_buf_free(&out);
	if (rc) /* all of the section was normalized, so memory is what was missing */
		return ZR_MARK_LOST;
	if (own && own <= all)
		return all - own;

	return all ? all - 1 : 0;
}

/* Whether a step of the pre-tokenizer asks where a document starts. */
static int asks_for_start(const struct zr_tokenizer *t)
{
	for (int i = 0; i < t->n_splits; i++)
		if (t->split[i].prefix == ZR_PREFIX_FIRST)
			return 1;

	return 0;
}

/* If the normalizer leaves nothing of a document's first character, what follows is not taken for
 * the start of the document. */
static int find_first(struct zr_encoder *e, const char *p, size_t n)
{
	if (!n || e->not_first || e->normalizing || !asks_for_start(e->t))
		return 0;

	int rc = zr_normalize(&e->t->normalizer, e->match, p, (size_t)zr_utf8_at(p, n), 1,
			      &e->normalized, e->err);
	e->not_first = !e->normalized.n;
	e->normalized.n = 0;
	return rc;
}

int zr_encoder_normalize(struct zr_encoder *e, const char *p, size_t n, int final)
{
	const struct zr_normalizer *z = &e->t->normalizer;

	e->normalized.n = 0;
	int rc = find_first(e, p, n);
	if (!rc)
		rc = zr_normalize(z, e->match, p, n, !e->normalizing, &e->normalized, e->err);
	if (!rc)
		rc = zr_encoder_pass(e, ZR_MARK_NORMALIZER, n, e->held[NORMALIZED].n, place, p);
	e->normalizing = !final && (e->normalized.n || e->normalizing);
	if (rc)
		return rc;

	return zr_encoder_normalized(e, e->normalized.p, e->normalized.n, final);
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
	if (rc)
		return rc;

	return zr_encoder_limit(e, b->n);
}

int zr_encoder_form(struct zr_encoder *e, const char *p, size_t n, int final)
{
	struct zr_buf *b = &e->composing;
	if (zr_buf_add(b, p, n))
		return no_memory(e);

	size_t sure = zr_nfc_settled(b->p, b->n, final);
	int rc = zr_encoder_pass(e, ZR_MARK_NORMALIZER, sure, e->held[NORMALIZED].n, zr_nfc_place,
				 b->p);
	if (!rc)
		rc = zr_form(ZR_FORM_C, b->p, sure, composed, e, e->err);
	zr_buf_drop(b, sure);
	if (!rc && final)
		rc = zr_encoder_normalized(e, "", 0, 1);
	if (rc)
		return rc;

	return zr_encoder_limit(e, b->n);
}
