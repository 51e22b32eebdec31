/* SPDX-License-Identifier: Apache-2.0
 *
 * damage.c - see damage.h.
 */
#include "damage.h"

#include <stdlib.h>
#include <string.h>

static uint64_t state;

void fuzz_seed(uint64_t seed)
{
	state = seed;
}

uint32_t fuzz_draw(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((state >> 33) % n);
}

static size_t put_in(char *text, size_t n, size_t room, size_t at, size_t cut, const char *with,
		     size_t len)
{
	if (at > n)
		at = n;
	if (cut > n - at)
		cut = n - at;
	if (n - cut + len >= room)
		return n;
	memmove(text + at + len, text + at + cut, n - at - cut);
	memcpy(text + at, with, len);
	return n - cut + len;
}

/* A number or a text elsewhere in the file, from its start to its end. */
static size_t token(const char *text, size_t n, size_t *len)
{
	static const char inside[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.+-@/ ";
	size_t at = fuzz_draw((uint32_t)n), start = at;
	while (start > 0 && text[start] && strchr(inside, text[start]))
		start--;
	for (*len = 0, start++;
	     start + *len < n && text[start + *len] && strchr(inside, text[start + *len]); ++*len)
		;
	return start;
}

size_t fuzz_damage(char *text, size_t n, size_t room)
{
	static const char *const strange[] = { "-1",
					       "0",
					       "9223372036854775807",
					       "18446744073709551616",
					       "1e308",
					       "null",
					       "true",
					       "[]",
					       "{}",
					       "\"\"",
					       "4294967296",
					       "1048577",
					       "\"F64\"",
					       "\"U8\"",
					       "[1,[2]]",
					       "-9223372036854775808" };
	char copy[256];
	size_t at, len, other;
	if (n < 2)
		return n;
	switch (fuzz_draw(6)) {
	case 0:
		text[fuzz_draw((uint32_t)n)] ^= (char)(1 << fuzz_draw(8));
		return n;
	case 1:
		return put_in(text, n, room, fuzz_draw((uint32_t)n), fuzz_draw(40), "", 0);
	case 2:
		at = fuzz_draw((uint32_t)n);
		len = fuzz_draw(sizeof copy);
		len = len > n - at ? n - at : len;
		memcpy(copy, text + at, len);
		return put_in(text, n, room, fuzz_draw((uint32_t)n), fuzz_draw(2) ? len : 0, copy,
			      len);
	case 3:
		at = token(text, n, &len);
		other = fuzz_draw(sizeof strange / sizeof *strange);
		return put_in(text, n, room, at, len, strange[other], strlen(strange[other]));
	case 4: /* one value in another's place */
		at = token(text, n, &len);
		len = len < sizeof copy ? len : sizeof copy;
		len = at + len > n ? 0 : len;
		memcpy(copy, text + (at < n ? at : 0), len);
		at = token(text, n, &other);
		return put_in(text, n, room, at, other, copy, len);
	default:
		return fuzz_draw(8) ? n : fuzz_draw((uint32_t)n);
	}
}
