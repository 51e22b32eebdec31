/* SPDX-License-Identifier: Apache-2.0
 *
 * t_words.c - what words.c and runs.c match by hand is what PCRE2 matches, whatever text comes
 * behind; and of ASCII words.c leaves nothing to PCRE2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/regex.h"

#include <cmocka.h> /* last: it defines fail() */

#define LLAMA3                                                                                     \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?"                \
	"[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN2                                                                                      \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?"                     \
	"[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const patterns[] = { ZR_PATTERN_GPT2, LLAMA3, QWEN2, ZR_PATTERN_SPACED_WORDS,
					ZR_PATTERN_SPACES_BEGIN };

/* With the marks of contractions, and with characters of which one more decides. */
static const char *const parts[] = {
	"a",      "B",      "z",      "word",   "'s",     "'S",     "'re",        "'LL",    "'v",
	"'",      "0",      "12",     "3456",   " ",      "  ",     "\t",         "\n",     "\r\n",
	"\v",     ".",      "...",    "!\n",    "{",      "~",      "@",          "\x7f",   "\x1c",
	"\u00e9", "\u0660", "\u3000", "\u201c", "\u017f", "\u0301", "\U0001f600", "\u00a0",
};
#define PARTS (sizeof parts / sizeof *parts)
#define ASCII 27 /* so many of them */

static uint64_t state = 1;

static size_t draw(size_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (size_t)(state >> 33) % n;
}

static size_t make(char *text, size_t of)
{
	size_t n = 0;
	for (size_t i = 0, all = 1 + draw(8); i < all; i++)
		n += (size_t)sprintf(text + n, "%s", parts[draw(of)]);
	return n;
}

static struct zr_match *match;

/* Where the match at the start of the text ends. */
static size_t plain(const struct zr_regex *re, const char *text, size_t n)
{
	size_t start, stop;
	assert_int_equal(zr_regex_find(re, match, text, n, 0, 0, &start, &stop, NULL),
			 ZR_REGEX_FOUND);
	assert_int_equal(start, 0);
	return stop;
}

static void check(int words, const struct zr_regex *re, char *text, size_t n, int ascii)
{
	size_t end = zr_words_end(words, text, n, 0, 0), open = zr_words_end(words, text, n, 0, 1);
	if (end && end != plain(re, text, n))
		fail_msg("pattern %d of \"%s\": %zu, not %zu", words, text, end,
			 plain(re, text, n));
	if (ascii && n > 2)
		assert_int_not_equal(end, 0);
	for (size_t i = 0; open && i < PARTS; i++) {
		size_t more = n + (size_t)sprintf(text + n, "%s", parts[i]);
		if (open != plain(re, text, more))
			fail_msg("pattern %d of \"%s\", %zu bytes: %zu, not %zu", words, text, n,
				 open, plain(re, text, more));
	}
}

static void test_same(void **unused)
{
	char pattern[256], text[128];
	struct zr_error why = { 0 };
	(void)unused;
	assert_int_equal(zr_match_open(&match, &why), 0);
	for (int k = 0; k < 5; k++) {
		struct zr_regex *re;
		struct zr_error err = { 0 };
		int words = zr_words_known(patterns[k]);
		assert_int_equal(words, ZR_WORDS_GPT2 + k);
		snprintf(pattern, sizeof pattern, "(?:%s)", patterns[k]);
		assert_int_equal(zr_words_known(pattern), ZR_WORDS_OTHER);
		if (zr_regex_compile(pattern, 0, &re, &err) == ZR_ENOTSUP)
			skip(); /* a build without PCRE2, where match is NULL */
		for (int i = 0; i < 20000; i++) {
			size_t of = i % 2 ? PARTS : ASCII;
			check(words, re, text, make(text, of), of == ASCII);
		}
		zr_regex_free(re);
	}
	zr_match_close(match);
}

/* Of ASCII that may go on, only the last word waits. */
static void test_open(void **unused)
{
	static const char text[] = "It's 1234 (words),\n\n  not much.\n end";
	const size_t n = sizeof text - 1, last = n - strlen(" end");
	(void)unused;
	for (int words = ZR_WORDS_GPT2; words <= ZR_WORDS_SPACES_BEGIN; words++) {
		size_t at = 0, end;
		while ((end = zr_words_end(words, text, n, at, 1))) {
			assert_in_range(end, at + 1, last);
			at = end;
		}
		assert_int_equal(at, last);
	}
}

static const char *const by_class[] = { ZR_PATTERN_BERT, ZR_PATTERN_NO_SPACES,
					ZR_PATTERN_PUNCTUATION, ZR_PATTERN_WORDS,
					ZR_PATTERN_DIGIT };

/* All matches in the text, one behind the other, as both have them. */
static void check_all(const struct zr_regex *re, const struct zr_regex *other, const char *text,
		      size_t n, int open)
{
	size_t start, stop = 0, from, to;
	int found, same;
	do {
		size_t at = stop;
		found = zr_regex_find(re, match, text, n, at, open, &start, &stop, NULL);
		same = zr_regex_find(other, match, text, n, at, open, &from, &to, NULL);
		if ((found == ZR_REGEX_FOUND) != (same == ZR_REGEX_FOUND))
			fail_msg("\"%s\" from %zu, %d: %d, not %d", text, at, open, found, same);
		if (found == ZR_REGEX_FOUND && (start != from || stop != to))
			fail_msg("\"%s\" from %zu, %d: %zu to %zu, not %zu to %zu", text, at, open,
				 start, stop, from, to);
	} while (found == ZR_REGEX_FOUND && stop < n);
}

static void test_classes(void **unused)
{
	static const char *const rare[] = {
		"\u2e43", "\u061d",   "\u00ab", "$",      "`",          "_",
		"\u4e2d", "\u200d",   "\u2160", "\u00b2", "\U0001d7ce", "\U00011660",
		"\u2028", "\xc2\x85", "\u00ad", "\u20ac", "\u1680",
	};
	char pattern[1024], text[256];
	struct zr_error err = { 0 };
	(void)unused;
	assert_int_equal(zr_match_open(&match, &err), 0);
	for (int k = 0; k < ZR_RUNS; k++) {
		struct zr_regex *re, *other;
		assert_int_equal(zr_runs_known(by_class[k]), k);
		snprintf(pattern, sizeof pattern, "(?:%s)", by_class[k]);
		assert_int_equal(zr_runs_known(pattern), ZR_RUNS);
		if (zr_regex_compile(pattern, 0, &other, &err) == ZR_ENOTSUP)
			skip(); /* a build without PCRE2 */
		assert_int_equal(zr_regex_compile(by_class[k], 0, &re, &err), 0);
		for (int i = 0; i < 20000; i++) {
			size_t n = make(text, i % 3 ? PARTS : ASCII);
			for (size_t more = draw(3); more--;)
				n += (size_t)sprintf(text + n, "%s%s",
						     rare[draw(sizeof rare / sizeof *rare)],
						     parts[draw(PARTS)]);
			check_all(re, other, text, n, i % 2);
		}
		zr_regex_free(re);
		zr_regex_free(other);
	}
	zr_match_close(match);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_classes),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
