/* SPDX-License-Identifier: Apache-2.0
 *
 * normalizer.c - the steps of the normalizer, one after the other; see parts.h.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

static int append(void *arg, const char *p, size_t n)
{
	return zr_buf_add(arg, p, n);
}

static int replace(const struct zr_step *s, struct zr_match *m, const char *p, size_t n,
		   struct zr_buf *out, struct zr_error *err)
{
	size_t at = 0, start, stop, len = strlen(s->text);
	int rc = 0, found;
	while (at < n && (found = zr_regex_find(s->regex, m, p, n, at, 0, &start, &stop, err))) {
		if (found < 0)
			return found;
		if (!rc)
			rc = zr_buf_add(out, p + at, start - at);
		if (!rc)
			rc = zr_buf_add(out, s->text, len);
		at = stop;
	}

	if (rc)
		return rc;

	return zr_buf_add(out, p + at, n - at);
}

static int strip(const struct zr_step *s, const char *p, size_t n, int begins, struct zr_buf *out)
{
	size_t from = 0;

	if (s->left && begins)
		from = zr_utf8_spaces_after(p, 0, n);
	size_t to = n;
	if (s->right)
		to = zr_utf8_spaces_before(p, from, n);

	return zr_buf_add(out, p + from, to - from);
}

static int step(const struct zr_step *s, struct zr_match *m, const char *p, size_t n, int begins,
		struct zr_buf *out, struct zr_error *err)
{
	switch (s->kind) {
	case ZR_STEP_FORM:
		return zr_form(s->form, p, n, append, out, err);
	case ZR_STEP_CHARACTERS:
		return zr_characters(s, p, n, out);
	case ZR_STEP_CHARSMAP:
		return zr_charsmap_apply(s->map, p, n, out);
	case ZR_STEP_REPLACE:
		return replace(s, m, p, n, out, err);
	case ZR_STEP_STRIP:
		return strip(s, p, n, begins, out);
	case ZR_STEP_PREPEND:
		if (begins && n && zr_buf_add(out, s->text, strlen(s->text)))
			return ZR_ENOMEM;
		return zr_buf_add(out, p, n);
	default:
		return zr_spaces(p, n, out);
	}
}

int zr_normalize(const struct zr_normalizer *z, struct zr_match *m, const char *p, size_t n,
		 int begins, struct zr_buf *out, struct zr_error *err)
{
	struct zr_buf text[2] = { { 0 } };
	int rc = 0;

	for (int i = 0; !rc && i < z->n; i++) {
		struct zr_buf *to = out;
		if (i + 1 != z->n)
			to = &text[i % 2];
		if (to != out)
			to->n = 0;
		rc = step(&z->step[i], m, p, n, begins, to, err);
		p = to->p;
		n = to->n;
	}

	zr_buf_free(&text[0]);
	zr_buf_free(&text[1]);
	if (rc == ZR_ENOMEM)
		return zr_err(err, rc, "out of memory");

	return rc;
}

size_t zr_normalize_settled(const struct zr_normalizer *z, const char *p, size_t n, int final)
{
	if (final)
		return n;
	if (z->whole)
		return 0;

	return zr_characters_cut(p, n);
}

void zr_normalizer_free(struct zr_normalizer *z)
{
	for (int i = 0; i < z->n; i++) {
		zr_regex_free(z->step[i].regex);
		zr_charsmap_close(z->step[i].map);
		free(z->step[i].text);
	}

	free(z->step);
}
