/* SPDX-License-Identifier: Apache-2.0
 *
 * encoder.c - text to ids, stage by stage; see parts.h.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/encoder.h"

static int normalize(struct zr_encoder *e, const char *p, size_t n, int final)
{
	const struct zr_tokenizer *t = e->t;
	size_t held = 0;

	if (t->nfc || t->normalizer.n)
		held = e->composing.n;
	int rc = zr_encoder_pass(e, ZR_MARK_RAW, n, held, NULL, p);
	if (rc)
		return rc;
	if (e->chunks)
		return zr_chunks_normalize(e, p, n, final);
	if (t->normalizer.n)
		return zr_encoder_by_steps(e, p, n, final);
	if (t->spaces == ZR_SPACES_NORMALIZED)
		return zr_encoder_spaces(e, p, n, final);
	if (t->nfc)
		return zr_encoder_form(e, p, n, final);

	rc = zr_encoder_pass(e, ZR_MARK_NORMALIZER, n, e->held[NORMALIZED].n, NULL, p);
	if (rc)
		return rc;

	return zr_encoder_normalized(e, p, n, final);
}

int zr_encoder_open(const struct zr_tokenizer *t, zr_token_sink *sink, void *arg,
		    struct zr_encoder **out, struct zr_error *err)
{
	struct zr_encoder *e = calloc(1, sizeof *e);
	if (e)
		*e = (struct zr_encoder){ .t = t,
					  .sink = sink,
					  .arg = arg,
					  .model = zr_model_open(t, zr_encoder_take, e) };
	int rc;
	if (e && e->model)
		rc = zr_match_open(&e->match, err);
	else
		rc = zr_no_memory(err);
	if (!rc && zr_chunks_open(e))
		rc = zr_no_memory(err);
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
	zr_buf_free(&e->written);
	zr_buf_free(&e->bytes);
	zr_chunks_close(e->chunks);
	free(e->marks.mark);
	free(e);
}

static int decode(struct zr_encoder *e, int final)
{
	e->text.n = 0;
	if (zr_utf8_lossy(&e->raw, final, &e->text, &e->bad))
		return no_memory(e);
	return zr_encoder_extract(e, RAW, normalize, e->text.p, e->text.n, final);
}

int zr_encode(struct zr_encoder *e, const void *bytes, size_t n, struct zr_error *err)
{
	e->err = err;
	int rc = zr_encoder_look(e, bytes, n);
	if (rc)
		return rc;
	if (zr_buf_add(&e->raw, bytes, n))
		return no_memory(e);

	return decode(e, 0);
}

int zr_encode_end(struct zr_encoder *e, struct zr_error *err)
{
	e->err = err;
	int rc = decode(e, 1);
	e->not_first = 0;
	e->given = 0;
	if (e->t->bpe.lacks)
		memset(e->lacking, 0, sizeof e->lacking);
	zr_marks_end(&e->marks);
	if (rc)
		return rc;

	return zr_encoder_flush(e);
}

int zr_encode_mark(struct zr_encoder *e, uint64_t at, int first, struct zr_error *err)
{
	e->err = err;
	if (zr_marks_add(&e->marks, at, first))
		return no_memory(e);

	return 0;
}

uint64_t zr_encoder_marked(const struct zr_encoder *e, size_t i)
{
	return e->marks.mark[i].at;
}

uint64_t zr_encoder_replaced(const struct zr_encoder *e)
{
	return e->bad.places;
}

uint64_t zr_encoder_replaced_first(const struct zr_encoder *e)
{
	return e->bad.first;
}
