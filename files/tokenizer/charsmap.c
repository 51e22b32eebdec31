/* SPDX-License-Identifier: Apache-2.0
 *
 * charsmap.c - what SentencePiece's normalization puts in place of characters, as the normalizer
 * Precompiled has it: the number of bytes of a double array (darts-clone), the double array, which
 * maps a text to a place in what follows, and there texts that each end with a 0. Of a grapheme
 * cluster of less than 6 bytes that starts with a text of the map, all is replaced by that of the
 * shortest one; else each character that does by itself.
 */
#include "files/tokenizer/parts.h"

#ifdef HAVE_UTF8PROC

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define CLUSTER 6

struct zr_charsmap {
	uint32_t *unit;
	size_t units;
	const char *text; /* behind the units */
	size_t n;
	const char *ascii[128]; /* what is put in place of these; NULL: nothing */
};

static int value_of(unsigned char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = NULL;

	if (c)
		at = strchr(digits, c);
	if (at)
		return (int)(at - digits);

	return -1;
}

/* Returns the number of bytes in `to`, -1: it is not base64. */
static int64_t decode(const char *text, unsigned char *to)
{
	uint32_t bits = 0;
	int64_t n = 0;
	size_t i = 0, more;

	for (; text[i] && text[i] != '='; i++) {
		int v = value_of((unsigned char)text[i]);
		if (v < 0)
			return -1;

		bits = bits << 6 | (uint32_t)v;
		if (i % 4)
			to[n++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
	}

	more = strlen(text + i);
	if (i % 4 == 1 || more > 2 || (more && (i + more) % 4) || strspn(text + i, "=") != more)
		return -1;

	return n;
}

/* What the map has for the shortest start of p[0..n) that it has; NULL: none. */
static const char *look_up(const struct zr_charsmap *m, const char *p, size_t n)
{
	size_t at = 0;
	uint32_t unit = m->unit[0];

	at ^= (size_t)(unit >> 10) << ((unit & 512) >> 6);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		at ^= c;
		if (!c || at >= m->units)
			return NULL;

		unit = m->unit[at];
		if ((unit & 0x800000ffu) != c)
			return NULL;

		at ^= (size_t)(unit >> 10) << ((unit & 512) >> 6);
		if (at >= m->units)
			return NULL;
		if (unit >> 8 & 1) {
			size_t to = m->unit[at] & 0x7fffffff;
			if (to < m->n)
				return m->text + to;

			return NULL;
		}
	}

	return NULL;
}

static int open_map(struct zr_charsmap *m, const char *base64, struct zr_error *err)
{
	m->unit = malloc(strlen(base64) + 16);
	if (!m->unit)
		return zr_no_memory(err);

	int64_t n = decode(base64, (unsigned char *)m->unit);
	uint32_t bytes = 0;
	if (n >= 4)
		bytes = m->unit[0];
	if (n < 4 || bytes % 4 || !bytes || bytes > n - 4)
		return zr_err(err, ZR_EINVAL, "is no map of SentencePiece in base64");

	memmove(m->unit, m->unit + 1, (size_t)n - 4);
	m->units = bytes / 4;
	m->text = (const char *)(m->unit + m->units);
	m->n = (size_t)n - 4 - bytes;
	((char *)m->unit)[n - 4] = 0; /* where the last text ends */
	for (int c = 1; c < 128; c++)
		m->ascii[c] = look_up(m, &(char){ (char)c }, 1);

	return 0;
}

int zr_charsmap_open(const char *base64, struct zr_charsmap **out, struct zr_error *err)
{
	struct zr_charsmap *m = calloc(1, sizeof *m);
	if (!m)
		return zr_no_memory(err);

	int rc = open_map(m, base64, err);
	if (rc)
		zr_charsmap_close(m);
	else
		*out = m;

	return rc;
}

void zr_charsmap_close(struct zr_charsmap *m)
{
	if (!m)
		return;
	free(m->unit);
	free(m);
}

/* Where the grapheme cluster ends that starts with p[0..n). */
static size_t cluster_end(const char *p, size_t n)
{
	int32_t c = zr_utf8_value(p), next;
	utf8proc_int32_t state = 0;
	size_t at = (size_t)zr_utf8_at(p, n);

	for (; at < n; at += (size_t)zr_utf8_at(p + at, n - at), c = next) {
		next = zr_utf8_value(p + at);
		if (utf8proc_grapheme_break_stateful(c, next, &state))
			break;
	}

	return at;
}

static int put_text(struct zr_buf *out, const char *text)
{
	return zr_buf_add(out, text, strlen(text));
}

static int put_cluster(const struct zr_charsmap *m, const char *p, size_t n, struct zr_buf *out)
{
	const char *to = NULL;

	if (n < CLUSTER)
		to = look_up(m, p, n);
	int rc = 0;
	if (to)
		rc = put_text(out, to);
	for (size_t at = 0, len; !to && !rc && at < n; at += len) {
		len = (size_t)zr_utf8_at(p + at, n - at);
		const char *one = look_up(m, p + at, len);
		if (one)
			rc = put_text(out, one);
		else
			rc = zr_buf_add(out, p + at, len);
	}

	return rc;
}

int zr_charsmap_apply(const struct zr_charsmap *m, const char *p, size_t n, struct zr_buf *out)
{
	int rc = 0;

	for (size_t at = 0, end; !rc && at < n; at = end) {
		/* ASCII before ASCII is a cluster, but for a line end of two characters */
		for (end = at; end < n && !(p[end] & 0x80) && !m->ascii[(int)p[end]] &&
			       (end + 1 == n || !(p[end + 1] & 0x80)) && p[end] != '\r';
		     end++)
			;
		if (end > at) {
			rc = zr_buf_add(out, p + at, end - at);
			continue;
		}

		end = at + cluster_end(p + at, n - at);
		rc = put_cluster(m, p + at, end - at, out);
	}

	return rc;
}

#else

int zr_charsmap_open(const char *base64, struct zr_charsmap **out, struct zr_error *err)
{
	(void)base64, (void)out;
	return zr_unicode_there(err);
}

void zr_charsmap_close(struct zr_charsmap *m)
{
	(void)m;
}

int zr_charsmap_apply(const struct zr_charsmap *m, const char *p, size_t n, struct zr_buf *out)
{
	(void)m, (void)p, (void)n, (void)out;
	return 0;
}

#endif
