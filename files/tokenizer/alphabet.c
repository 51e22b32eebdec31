/* SPDX-License-Identifier: Apache-2.0
 *
 * alphabet.c - the characters that ByteLevel writes bytes as: a byte is itself where that is a
 * character to be seen, the others are U+0100 to U+0143 in order.
 */
#include "files/tokenizer/parts.h"

static int is_itself(int32_t c)
{
	return (c > 0x20 && c < 0x7f) || (c > 0xa0 && c < 0x100 && c != 0xad);
}

int zr_alphabet_byte(int32_t c)
{
	if (is_itself(c))
		return c;
	if (c < 0x100 || c > 0x143)
		return -1;
	if (c <= 0x120)
		return c - 0x100;
	if (c <= 0x142)
		return c - 0x121 + 0x7f;

	return 0xad;
}

static int32_t character_of(unsigned char byte)
{
	if (is_itself(byte))
		return byte;
	if (byte <= 0x20)
		return 0x100 + byte;
	if (byte <= 0xa0)
		return 0x121 + byte - 0x7f;

	return 0x143;
}

int zr_alphabet_write(const char *p, size_t n, struct zr_buf *out)
{
	if (zr_buf_reserve(out, 2 * n))
		return ZR_ENOMEM;

	for (size_t i = 0; i < n; i++) {
		int32_t c = character_of((unsigned char)p[i]);
		if (c >= 0x80)
			out->p[out->n++] = (char)(0xc0 | c >> 6);
		out->p[out->n++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3f));
	}

	return 0;
}

int zr_alphabet_read(const char *p, size_t n, struct zr_buf *out)
{
	int len;

	if (zr_buf_reserve(out, n))
		return ZR_ENOMEM;

	for (size_t i = 0; i < n; i += (size_t)len) {
		len = zr_utf8_at(p + i, n - i);
		int byte = -1;
		if (len > 0)
			byte = zr_alphabet_byte(zr_utf8_value(p + i));
		if (byte < 0)
			return ZR_EINVAL;

		out->p[out->n++] = (char)byte;
	}

	return 0;
}

size_t zr_alphabet_count(const char *p, size_t n)
{
	size_t characters = 0;
	for (size_t i = 0; i < n; i++)
		characters += ((unsigned char)p[i] & 0xc0) != 0x80;
	return characters;
}
