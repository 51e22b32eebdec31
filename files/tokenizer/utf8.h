/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.h - characters among bytes.
 */
#ifndef ZR_TOKENIZER_UTF8_H
#define ZR_TOKENIZER_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed character at p; 0: the n bytes are only the start of one; -k: the first
 * k are none. */
int zr_utf8_at(const char *p, size_t n);
int32_t zr_utf8_value(const char *p); /* of a well-formed character */
/* The well-formed character at p, and its bytes. */
static inline uint32_t zr_utf8_read(const char *p, size_t *len)
{
	const unsigned char *u = (const unsigned char *)p;
	uint32_t c = u[0];
	if (c < 0x80)
		*len = 1;
	else if (c < 0xe0)
		*len = 2;
	else if (c < 0xf0)
		*len = 3;
	else
		*len = 4;
	if (c < 0x80)
		return c;
	if (c < 0xe0)
		return (c & 0x1f) << 6 | (u[1] & 0x3f);
	if (c < 0xf0)
		return (c & 0xf) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3f);

	return (uint32_t)zr_utf8_value(p);
}
size_t zr_utf8_previous(const char *p, size_t at); /* where the character before `at` starts */

/* Whether a character has the property White_Space of Unicode. */
int zr_utf8_is_space(int32_t c);
/* Where the white space begins that ends at `at`, but not before `from`. */
size_t zr_utf8_spaces_before(const char *p, size_t from, size_t at);
/* Where the white space ends that begins at `at`, in a text of n bytes. */
size_t zr_utf8_spaces_after(const char *p, size_t at, size_t n);
#endif
