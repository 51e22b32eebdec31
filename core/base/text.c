/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - see text.h.
 */
#include "core/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *zr_text(const char *fmt, ...)
{
	char *text;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}

char *zr_text_quoted(const char *word)
{
	char *out = NULL;
	size_t n;
	FILE *f = open_memstream(&out, &n);
	if (!f)
		return NULL;

	putc('\'', f);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", f);
		else
			putc(*word, f);
	putc('\'', f);
	if (!fclose(f))
		return out;

	free(out);
	return NULL;
}

void zr_text_add(char *out, size_t size, const char *between, const char *item)
{
	size_t at = strlen(out);
	snprintf(out + at, size - at, "%s%s", at ? between : "", item);
}

const char *zr_next_word(const char **text, size_t *len)
{
	const char *word = *text + strspn(*text, " \t");

	*len = strcspn(word, " \t");
	*text = word + *len;
	return *len ? word : NULL;
}
