/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.h - characters among bytes. Where a function takes text, it is well-formed UTF-8 unless the
 * comment says otherwise.
 */
#ifndef ZR_TOKENIZER_UTF8_H
#define ZR_TOKENIZER_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "files/tokenizer/buf.h"

/* ---- any bytes ---- */

/* How many bytes the character at p has, of which n > 0 bytes are there. 0: they are the start of a
 * character. -k: the first k bytes belong to no character. */
int zr_utf8_at(const char *p, size_t n);
/* How many bytes from p on are well-formed, of n. */
size_t zr_utf8_well_formed(const char *p, size_t n);

/* Places that are not UTF-8, of all bytes so far. */
struct zr_utf8_bad {
	uint64_t places; /* how many */
	uint64_t first;  /* bytes before the first of them */
	uint64_t bytes;
};
/* Moves the characters of `raw` to `out`, with U+FFFD for what is none. The start of a character
 * stays in `raw`, unless `final` says that no byte follows. 0 or ZR_ENOMEM. */
int zr_utf8_lossy(struct zr_buf *raw, int final, struct zr_buf *out, struct zr_utf8_bad *bad);

/* ---- text ---- */

int32_t zr_utf8_value(const char *p);   /* of the character at p */
char *zr_utf8_put(char *to, int32_t c); /* writes a character; returns where it ends */
/* Where the character starts that ends at byte `at`. */
size_t zr_utf8_previous(const char *p, size_t at);

/* The character at p, and how many bytes it has. */
static inline uint32_t zr_utf8_read(const char *p, size_t *len)
{
	const unsigned char *u = (const unsigned char *)p;
	uint32_t c = u[0];

	if (c < 0x80) {
		*len = 1;
		return c;
	}

	if (c < 0xe0) {
		*len = 2;
		return (c & 0x1f) << 6 | (u[1] & 0x3f);
	}

	if (c < 0xf0) {
		*len = 3;
		return (c & 0xf) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3f);
	}

	*len = 4;
	return (uint32_t)zr_utf8_value(p);
}

/* ---- white space ---- */

/* Whether a character has the property White_Space of Unicode. */
int zr_utf8_is_space(int32_t c);
/* Where the white space begins that ends at `at`, but not before `from`. */
size_t zr_utf8_spaces_before(const char *p, size_t from, size_t at);
/* Where the white space ends that begins at `at`, in a text of n bytes. */
size_t zr_utf8_spaces_after(const char *p, size_t at, size_t n);

#endif
