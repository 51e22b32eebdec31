/* SPDX-License-Identifier: Apache-2.0
 *
 * runs.c - see regex.h: patterns that match each character alone or in a run with others of its
 * class, whatever is around. PCRE2 is asked once for the class of each character that comes.
 */
#include <string.h>

#include "files/tokenizer/regex.h"
#include "files/tokenizer/utf8.h"

static const char *const patterns[ZR_RUNS] = {
	ZR_PATTERN_BERT,  ZR_PATTERN_NO_SPACES, ZR_PATTERN_PUNCTUATION,
	ZR_PATTERN_WORDS, ZR_PATTERN_DIGIT,
};

int zr_runs_known(const char *pattern)
{
	int i = 0;
	while (i < ZR_RUNS && strcmp(pattern, patterns[i]))
		i++;
	return i;
}

/* Of the character at p; its bytes. */
static inline unsigned class_at(const struct zr_runs *r, const char *p, size_t *len)
{
	uint32_t c = zr_utf8_read(p, len);
	if (!r->class_of[c])
		r->class_of[c] = (unsigned char)r->ask(r->arg, p, *len);
	return r->class_of[c];
}

int zr_runs_find(const struct zr_runs *r, const char *p, size_t n, size_t at, int open,
		 size_t *start, size_t *stop)
{
	unsigned class = ZR_CLASS_NONE;
	size_t len = 0;

	for (; at < n && class == ZR_CLASS_NONE; at += len)
		class = class_at(r, p + at, &len);
	*start = at - len;
	for (; class > ZR_CLASS_ALONE && at < n && class_at(r, p + at, &len) == class; at += len)
		;
	*stop = at;
	if (class == ZR_CLASS_NONE)
		return ZR_REGEX_NONE;
	if (at == n && class > ZR_CLASS_ALONE && open)
		return ZR_REGEX_MORE;

	return ZR_REGEX_FOUND;
}
