/* SPDX-License-Identifier: Apache-2.0
 *
 * spaces.c - vocabularies of SentencePiece as Hugging Face's tokenizer.json has them. They differ
 * from byte-level ones in that a space is written U+2581, and that a character without a token may
 * become tokens of its bytes, <0x00> to <0xFF>.
 */
#include <string.h>

#include "files/tokenizer/parts.h"

/* The first U+2581 in whole characters; NULL: there is none. */
static const char *find_space(const char *p, size_t n)
{
	const char *end = p + n;
	while ((p = memchr(p, ZR_SPACE[0], (size_t)(end - p))) && memcmp(p, ZR_SPACE, 3))
		p++;
	return p;
}

int zr_spaces(const char *p, size_t n, struct zr_buf *out)
{
	while (n) {
		const char *mark = find_space(p, n);
		if (!mark)
			return zr_buf_add(out, p, n);

		const size_t before = (size_t)(mark - p);
		if (zr_buf_add(out, p, before) || zr_buf_add(out, " ", 1))
			return ZR_ENOMEM;

		p = mark + 3;
		n -= before + 3;
	}

	return 0;
}

int zr_spaces_write(const char *p, size_t n, struct zr_buf *out)
{
	const char *end = p + n;
	int rc = 0;

	while (!rc && p < end) {
		const char *space = memchr(p, ' ', (size_t)(end - p));
		const char *stop = space ? space : end;

		rc = zr_buf_add(out, p, (size_t)(stop - p));
		if (!rc && space)
			rc = zr_buf_add(out, ZR_SPACE, strlen(ZR_SPACE));
		p = space ? space + 1 : end;
	}

	return rc;
}

size_t zr_spaces_place(const void *unused, const char *p, size_t n, size_t at, int first)
{
	size_t less = 0;

	(void)unused, (void)first;
	for (const char *q = p, *mark; (mark = memmem(q, n - (size_t)(q - p), ZR_SPACE, 3));
	     q = mark + 3) {
		size_t m = (size_t)(mark - p);
		if (m >= at)
			break;

		less += at >= m + 3 ? 2 : at - m;
	}

	return at - less;
}

static int hex(char c)
{
	const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
	if (at)
		return (int)(at - digits);

	return -1;
}

int zr_spaced_token(const struct zr_tokenizer *t, const char *text, char *out, size_t *n)
{
	struct zr_buf to = { .p = out, .room = SIZE_MAX }; /* out has the room; nothing grows */

	if (t->byte_fallback && strlen(text) == 6 && !memcmp(text, "<0x", 3) && text[5] == '>' &&
	    hex(text[3]) >= 0 && hex(text[4]) >= 0) {
		*out = (char)(hex(text[3]) << 4 | hex(text[4]));
		*n = 1;
		return ZR_TOKEN_BYTE;
	}

	if (t->spaced)
		zr_spaces(text, strlen(text), &to);
	else
		memcpy(out, text, to.n = strlen(text));
	*n = to.n;
	if (t->spaced && strchr(text, ' '))
		return ZR_TOKEN_OTHER;

	return ZR_TOKEN_MADE;
}

int zr_spaced_joins(const char *text)
{
	while (!strncmp(text, ZR_SPACE, 3))
		text += 3;
	return strstr(text, ZR_SPACE) != NULL;
}
