/* SPDX-License-Identifier: Apache-2.0
 *
 * content.c - see content.h. A file is called JSON only if it looks like nothing else.
 */
#include "files/content.h"

#include <string.h>

static size_t behind_blanks(const char *p, size_t at, size_t n)
{
	while (at < n && memchr(" \t\r\n", p[at], 4))
		at++;
	return at;
}

/* Behind the string that starts at `at`; n: none does, or it does not end on its line. */
static size_t behind_string(const char *p, size_t at, size_t n)
{
	if (at >= n || p[at++] != '"')
		return n;

	for (; at < n && p[at] != '"' && (unsigned char)p[at] >= ' '; at++)
		at += p[at] == '\\';
	if (at < n && p[at] == '"')
		return at + 1;

	return n;
}

/* It begins with a key and its colon within braces, which may be in brackets. */
int zr_content_is_json(const char *p, size_t n)
{
	size_t mark = 0;

	if (n > 2 && !memcmp(p, "\xef\xbb\xbf", 3))
		mark = 3;
	size_t at = behind_blanks(p, mark, n);

	if (at < n && p[at] == '[')
		at = behind_blanks(p, at + 1, n);
	if (at >= n || p[at] != '{')
		return 0;

	at = behind_string(p, behind_blanks(p, at + 1, n), n);
	at = behind_blanks(p, at, n);
	return at < n && p[at] == ':';
}
