/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.c - bytes to characters; see parts.h. Well-formed is what Unicode's table 3-7 lists; of the
 * rest each maximal subpart becomes one U+FFFD.
 */
#include <string.h>

#include "files/tokenizer/parts.h"

/* What the second byte of a character may be, by its first one (table 3-7). */
static void second_byte(unsigned first, unsigned *low, unsigned *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (first == 0xe0) /* below are overlong forms */
		*low = 0xa0;
	else if (first == 0xed) /* above are surrogates */
		*high = 0x9f;
	else if (first == 0xf0) /* below are overlong forms */
		*low = 0x90;
	else if (first == 0xf4) /* above is nothing */
		*high = 0x8f;
}

/* Bytes of a character by its first one; 0: none begins so. */
static int character_bytes(unsigned first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc2) /* goes on with a character, or an overlong form */
		return 0;
	if (first < 0xe0)
		return 2;
	if (first < 0xf0)
		return 3;

	return first < 0xf5 ? 4 : 0;
}

int zr_utf8_at(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;
	int bytes = character_bytes(u[0]);
	unsigned low, high;

	if (bytes <= 1)
		return bytes ? 1 : -1;

	second_byte(u[0], &low, &high);
	for (int i = 1; i < bytes; i++) {
		if ((size_t)i == n)
			return 0;
		if (u[i] < low || u[i] > high)
			return -i;

		low = 0x80;
		high = 0xbf;
	}

	return bytes;
}

int32_t zr_utf8_value(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;
	if (u[0] < 0x80)
		return u[0];
	if (u[0] < 0xe0)
		return (u[0] & 0x1f) << 6 | (u[1] & 0x3f);
	if (u[0] < 0xf0)
		return (u[0] & 0xf) << 12 | (u[1] & 0x3f) << 6 | (u[2] & 0x3f);

	return (u[0] & 7) << 18 | (u[1] & 0x3f) << 12 | (u[2] & 0x3f) << 6 | (u[3] & 0x3f);
}

char *zr_utf8_put(char *to, int32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}

	int more;
	if (c < 0x800)
		more = 1;
	else if (c < 0x10000)
		more = 2;
	else
		more = 3;
	static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };
	*to++ = (char)(lead[more] | c >> (6 * more));
	while (more-- > 0)
		*to++ = (char)(0x80 | (c >> (6 * more) & 0x3f));

	return to;
}

size_t zr_utf8_previous(const char *p, size_t at)
{
	while (((unsigned char)p[--at] & 0xc0) == 0x80)
		;
	return at;
}

int zr_utf8_is_space(int32_t c)
{
	return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
	       c == 0x205f || c == 0x3000;
}

size_t zr_utf8_spaces_before(const char *p, size_t from, size_t at)
{
	while (at > from && zr_utf8_is_space(zr_utf8_value(p + zr_utf8_previous(p, at))))
		at = zr_utf8_previous(p, at);
	return at;
}

size_t zr_utf8_spaces_after(const char *p, size_t at, size_t n)
{
	while (at < n && zr_utf8_is_space(zr_utf8_value(p + at)))
		at += (size_t)zr_utf8_at(p + at, n - at);
	return at;
}

/* Bytes of the character at p, of which three are there, if it has two or three and nothing but its
 * first byte decides what the others may be; else 0. */
static size_t usual_bytes(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;
	int one = (u[1] & 0xc0) == 0x80, two = (u[2] & 0xc0) == 0x80;

	if (u[0] >= 0xc2 && u[0] < 0xe0 && one)
		return 2;
	if (u[0] > 0xe0 && u[0] < 0xf0 && u[0] != 0xed && one && two)
		return 3;

	return 0;
}

size_t zr_utf8_well_formed(const char *p, size_t n)
{
	size_t i = 0;

	for (;;) {
		for (size_t len; i + 3 <= n && (len = usual_bytes(p + i)); i += len)
			;
		uint64_t eight;
		for (; i + sizeof eight <= n; i += sizeof eight) {
			memcpy(&eight, p + i, sizeof eight);
			if (eight & 0x8080808080808080u)
				break;
		}

		int len = 0;
		if (i < n)
			len = zr_utf8_at(p + i, n - i);
		if (len <= 0)
			return i;

		i += (size_t)len;
	}
}

int zr_utf8_lossy(struct zr_buf *raw, int final, struct zr_buf *out, struct zr_utf8_bad *bad)
{
	size_t i = 0;
	int rc = 0;
	while (!rc && i < raw->n) {
		size_t good = zr_utf8_well_formed(raw->p + i, raw->n - i);
		rc = zr_buf_add(out, raw->p + i, good);
		i += good;
		if (rc || i == raw->n)
			break;

		int part = -zr_utf8_at(raw->p + i, raw->n - i);
		if (!part && !final)
			break;
		if (!bad->places++)
			bad->first = bad->bytes + i;
		i = part ? i + (size_t)part : raw->n;
		rc = zr_buf_add(out, "\xef\xbf\xbd", 3);
	}

	bad->bytes += i;
	zr_buf_drop(raw, i);
	return rc;
}
