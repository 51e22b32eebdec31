/* SPDX-License-Identifier: Apache-2.0
 *
 * forms.c - normalization forms of text that comes in pieces; see parts.h. In form C, characters
 * below U+0300 and U+4000 to U+9FFF are composed with nothing before them and are their own normal
 * form: text may be cut before them, and stretches of them need no looking at. In the others so
 * are U+4000 to U+9FFF and those below U+0080.
 */
#include "files/tokenizer/parts.h"

/* Whether a byte starts such a character, or goes on in any. */
static int plain(int form, char byte)
{
	unsigned char c = (unsigned char)byte;
	return c < (form == ZR_FORM_C ? 0xcc : 0xc0) || (c >= 0xe4 && c <= 0xe9);
}

static int goes_on(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t zr_nfc_settled(const char *p, size_t n, int final)
{
	if (final)
		return n;

	while (n > 0 && (n--, goes_on(p[n]) || !plain(ZR_FORM_C, p[n])))
		;

	return n;
}

#ifdef HAVE_UTF8PROC

#include <stdlib.h>
#include <utf8proc.h>

static const int options[] = {
	[ZR_FORM_C] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
	[ZR_FORM_D] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
	[ZR_FORM_KC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
	[ZR_FORM_KD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

static int change(int form, const char *p, size_t n, zr_form_put *put, void *arg,
		  struct zr_error *err)
{
	utf8proc_uint8_t *out = NULL;
	utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, &out,
					    (utf8proc_option_t)options[form]);
	if (len < 0)
		return zr_err(err, len == UTF8PROC_ERROR_NOMEM ? ZR_ENOMEM : ZR_EINVAL,
			      "cannot normalize the text: %s", utf8proc_errmsg(len));
	int rc = put(arg, (const char *)out, (size_t)len);
	free(out);
	return rc;
}

int zr_form(int form, const char *p, size_t n, zr_form_put *put, void *arg, struct zr_error *err)
{
	int rc = 0;

	for (size_t at = 0, from, to; !rc && at < n; at = to) {
		for (to = at; to < n && plain(form, p[to]); to++)
			;
		for (from = to;
		     to < n && from > at &&
		     goes_on(p[--from]);) /* the character that what follows may compose with */
			;
		if (from > at)
			rc = put(arg, p + at, from - at);
		else
			rc = 0;
		if (rc || to == n)
			continue;

		for (to++; to < n && (goes_on(p[to]) || !plain(form, p[to])); to++)
			;
		rc = change(form, p + from, to - from, put, arg, err);
	}

	return rc;
}

/* The bytes that p[0..n) has when it is normalized, and where the last character starts in them;
 * ZR_MARK_LOST: there was no memory for them. */
static size_t normal_bytes(const char *p, size_t n, size_t *last)
{
	utf8proc_uint8_t *out = NULL;
	utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, &out,
					    (utf8proc_option_t)options[ZR_FORM_C]);
	if (len == UTF8PROC_ERROR_NOMEM)
		return *last = ZR_MARK_LOST;

	size_t bytes = *last = len < 0 ? n : (size_t)len;
	do
		*last -= *last > 0;
	while (len > 0 && *last && goes_on((char)out[*last]));
	free(out);
	return bytes;
}

size_t zr_nfc_place(const void *unused, const char *p, size_t n, size_t at, int first)
{
	size_t end = at + 1, start = at, last;

	(void)unused, (void)first;
	while (end < n && goes_on(p[end]))
		end++;
	while (start && goes_on(p[start]))
		start--;
	size_t bytes = normal_bytes(p, end, &last);
	if (bytes == ZR_MARK_LOST)
		return bytes;

	return at == start ? last : bytes - 1;
}

int zr_unicode_there(struct zr_error *err)
{
	(void)err;
	return 0;
}

#else

int zr_form(int form, const char *p, size_t n, zr_form_put *put, void *arg, struct zr_error *err)
{
	(void)form, (void)p, (void)n, (void)put, (void)arg;
	return zr_unicode_there(err);
}

size_t zr_nfc_place(const void *unused, const char *p, size_t n, size_t at, int first)
{
	(void)unused, (void)p, (void)n, (void)first;
	return at;
}

int zr_unicode_there(struct zr_error *err)
{
	return zr_err(
		err, ZR_ENOTSUP,
		"needs utf8proc, which this build lacks: install libutf8proc-dev, configure and "
		"build again");
}

#endif
