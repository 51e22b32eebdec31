/* SPDX-License-Identifier: Apache-2.0
 *
 * decode.c - ids to text, as the decoder of tokenizer.json has it; see tokenizer.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

struct zr_decoder {
	const struct zr_tokenizer *t;
	int begun;          /* it had a token */
	int to_strip;       /* spaces that are still to go from the start of the text */
	struct zr_buf run;  /* bytes of tokens that are one byte each */
	struct zr_buf text; /* of the token under way */
	struct zr_buf out;
};

int zr_decoder_open(const struct zr_tokenizer *t, struct zr_decoder **out, struct zr_error *err)
{
	struct zr_decoder *d;

	if (t->decoding.kind == ZR_DECODE_UNKNOWN)
		return zr_err(err, ZR_ENOTSUP,
			      "the decoder of the tokenizer is none that is known; ByteLevel, "
			      "Metaspace, WordPiece, and sequences of Replace, ByteFallback, Fuse "
			      "and Strip are");

	d = *out = calloc(1, sizeof *d);
	if (!d)
		return zr_no_memory(err);

	d->t = t;
	zr_decoder_begin(d, 0);
	return 0;
}

void zr_decoder_close(struct zr_decoder *d)
{
	if (!d)
		return;

	zr_buf_free(&d->run);
	zr_buf_free(&d->text);
	zr_buf_free(&d->out);
	free(d);
}

void zr_decoder_begin(struct zr_decoder *d, int behind_text)
{
	d->begun = behind_text;
	d->to_strip = behind_text ? 0 : d->t->decoding.strip;
	d->run.n = 0;
}

/* Text goes out, but for the spaces before it. */
static int put_text(struct zr_decoder *d, const char *p, size_t n)
{
	for (; d->to_strip && n && *p == ' '; d->to_strip--)
		p++, n--;
	if (n)
		d->to_strip = 0;

	return zr_buf_add(&d->out, p, n);
}

/* Bytes that are characters all together are these, else each is U+FFFD. */
static int put_run(struct zr_decoder *d)
{
	size_t at = 0;
	int rc = 0, len = 1;
	while (at < d->run.n && (len = zr_utf8_at(d->run.p + at, d->run.n - at)) > 0)
		at += (size_t)len;
	if (at == d->run.n)
		rc = put_text(d, d->run.p ? d->run.p : "", d->run.n);
	else
		for (size_t i = 0; !rc && i < d->run.n; i++)
			rc = put_text(d, "\xef\xbf\xbd", 3);
	d->run.n = 0;
	return rc;
}

/* Copies b, which ends with a 0, to `to`, with one text for another wherever that is. */
static int replace_all(const struct zr_buf *b, const char *what, const char *by, struct zr_buf *to)
{
	const size_t len = strlen(what);
	const char *p = b->p, *found;
	int rc = 0;

	for (to->n = 0; !rc && (found = strstr(p, what)); p = found + len) {
		rc = zr_buf_add(to, p, (size_t)(found - p));
		if (!rc)
			rc = zr_buf_add(to, by, strlen(by));
	}

	if (!rc)
		rc = zr_buf_add(to, p, strlen(p) + 1);

	return rc;
}

/* What BERT's tokenizer takes back of the spaces it put: " ." is ".", and so on. The rules come
 * one after the other. */
static int clean_up(struct zr_buf *b)
{
	static const char *const rules[][2] = {
		{ " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
		{ " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
		{ " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
	};
	struct zr_buf to = { 0 };
	int rc = zr_buf_add(b, "", 1);

	for (size_t i = 0; !rc && i < sizeof rules / sizeof *rules; i++) {
		if (!strstr(b->p, rules[i][0]))
			continue;

		rc = replace_all(b, rules[i][0], rules[i][1], &to);
		b->n = 0;
		if (!rc)
			rc = zr_buf_add(b, to.p, to.n);
	}

	zr_buf_free(&to);
	b->n -= !rc;
	return rc;
}

static int put_word(struct zr_decoder *d, const char *p, size_t n)
{
	const struct zr_decoding *how = &d->t->decoding;
	size_t prefix = how->prefix ? strlen(how->prefix) : 0;
	int goes_on = how->prefix && n >= prefix && !memcmp(p, how->prefix, prefix), rc = 0;

	d->text.n = 0;
	if (d->begun && goes_on)
		p += prefix, n -= prefix;
	else if (d->begun)
		rc = zr_buf_add(&d->text, " ", 1);
	if (!rc)
		rc = zr_buf_add(&d->text, p, n);
	if (!rc && how->cleanup)
		rc = clean_up(&d->text);
	if (rc)
		return rc;

	return put_text(d, d->text.p, d->text.n);
}

static int put_spaced(struct zr_decoder *d, int32_t id, const char *p, size_t n)
{
	const struct zr_decoding *how = &d->t->decoding;
	char byte[8];
	int is_byte = n == 1 && d->t->byte_fallback && d->t->byte[(unsigned char)*p] == id;
	if (is_byte && how->bytes)
		return zr_buf_add(&d->run, p, 1);
	if (is_byte) {
		n = (size_t)snprintf(byte, sizeof byte, "<0x%02X>", (unsigned char)*p);
		p = byte;
	}

	int rc = put_run(d);
	if (rc)
		return rc;
	if (d->begun || !how->unspaced_first)
		return put_text(d, p, n);

	for (size_t i = 0; !rc && i < n; i++)
		if (p[i] != ' ')
			rc = put_text(d, p + i, 1);

	return rc;
}

/* A token that is no token of bytes may be of characters that stand for some, as the library has
 * it. */
static int put_bytes(struct zr_decoder *d, int32_t id, const char *p, size_t n)
{
	d->text.n = 0;
	if (d->t->token[id].made || zr_alphabet_read(p, n, &d->text))
		return put_text(d, p, n);
	return put_text(d, d->text.p, d->text.n);
}

/* Of an added token that is looked for in normalized text it is that text which comes back. */
static const char *text_of(const struct zr_tokenizer *t, int32_t id, size_t *n)
{
	const struct zr_added *a = &t->added[1];
	const char *p = zr_tokenizer_bytes(t, id, n);

	for (int32_t i = 0; p && i < a->n; i++)
		if (a->token[i].id == id) {
			*n = a->token[i].len;
			return a->token[i].content;
		}
	return p;
}

static const char *result(struct zr_decoder *d, int rc, size_t *n)
{
	*n = d->out.n;
	if (rc || zr_buf_reserve(&d->out, 1))
		return NULL;

	return d->out.p;
}

const char *zr_decode(struct zr_decoder *d, int32_t id, size_t *bytes)
{
	size_t n;
	const char *p = text_of(d->t, id, &n);
	int rc = 0;

	d->out.n = 0;
	if (!p)
		return result(d, 0, bytes);

	switch (d->t->decoding.kind) {
	case ZR_DECODE_WORDS:
		rc = put_word(d, p, n);
		break;
	case ZR_DECODE_SPACES:
		rc = put_spaced(d, id, p, n);
		break;
	default:
		rc = put_bytes(d, id, p, n);
	}
	d->begun = 1;
	return result(d, rc, bytes);
}

const char *zr_decode_end(struct zr_decoder *d, size_t *n)
{
	d->out.n = 0;
	return result(d, put_run(d), n);
}
