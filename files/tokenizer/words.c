/* SPDX-License-Identifier: Apache-2.0
 *
 * words.c - see regex.h: the patterns of GPT-2, Llama 3 and Qwen2 by hand, for ASCII, and those of
 * words with their spaces. A match that needs a byte that is not ASCII, or one that has not come,
 * is left to PCRE2.
 *
 *   GPT-2             'll| ?letters| ?digits| ?marks|white space but its last one|white space
 *   Llama 3, Qwen2    'll|any letters|digits|?marks and line ends|white space up to its last line
 *                     end|white space but its last one|white space
 */
#define _DEFAULT_SOURCE
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "files/tokenizer/regex.h"

#define UNDECIDED SIZE_MAX

struct text {
	const unsigned char *p;
	size_t n;
	int open; /* it may go on behind n */
};

static int is_letter(unsigned c)
{
	return (c | 32) - 'a' < 26;
}

static int is_digit(unsigned c)
{
	return c - '0' < 10;
}

static int is_white(unsigned c)
{
	return c == ' ' || c - 9 < 5;
}

static int is_mark(unsigned c)
{
	return c < 0x80 && !is_letter(c) && !is_digit(c) && !is_white(c);
}

static int is_line_end(unsigned c)
{
	return c == '\r' || c == '\n';
}

/* Where a run of such characters ends, whatever comes then. */
static inline size_t run_end(const struct text *t, size_t at, int (*is)(unsigned))
{
	while (at < t->n && is(t->p[at]))
		at++;
	return at;
}

/* The end of a run that no character that may come is part of. */
static size_t settled(const struct text *t, size_t end)
{
	if (end < t->n ? t->p[end] < 0x80 : !t->open)
		return end;

	return UNDECIDED;
}

/* Bytes of s, t, m, d, re, ve or ll behind an apostrophe; 0: none of them. */
static size_t contracted(unsigned a, unsigned b)
{
	if (a == 's' || a == 't' || a == 'm' || a == 'd')
		return 1;
	if ((a == 'r' || a == 'v') && b == 'e')
		return 2;
	if (a == 'l' && b == 'l')
		return 2;

	return 0;
}

/* 's, 't, 'm, 'd, 're, 've, 'll: where it ends; at: there is none. */
static size_t contraction(const struct text *t, size_t at, unsigned any_case)
{
	if (t->p[at] != '\'')
		return at;
	if (t->n - at < 3)
		return UNDECIDED;

	unsigned a = t->p[at + 1], b = t->p[at + 2];
	if (a >= 0x80 || b >= 0x80)
		return UNDECIDED;

	if (is_letter(a))
		a |= any_case;
	if (is_letter(b))
		b |= any_case;
	size_t n = contracted(a, b);
	return n ? at + 1 + n : at;
}

/* White space; the last one goes with what follows, if there is more than one. */
static size_t white(const struct text *t, size_t at)
{
	size_t end = settled(t, run_end(t, at, is_white));
	if (end == UNDECIDED || end == t->n || end - at == 1)
		return end;

	return end - 1;
}

static size_t gpt2(const struct text *t, size_t at)
{
	size_t end = contraction(t, at, 0);
	if (end != at)
		return end;

	size_t from = at + (t->p[at] == ' ' && at + 1 < t->n && !is_white(t->p[at + 1]));
	unsigned c = t->p[from];
	if (is_white(c))
		return white(t, at);
	if (c >= 0x80)
		return UNDECIDED;

	int (*is)(unsigned) = is_mark;
	if (is_letter(c))
		is = is_letter;
	else if (is_digit(c))
		is = is_digit;
	return settled(t, run_end(t, from, is));
}

static size_t digits(const struct text *t, size_t at, size_t most)
{
	size_t end = at;
	while (end < t->n && end - at < most && is_digit(t->p[end]))
		end++;
	if (end - at == most)
		return end;

	return settled(t, end);
}

static size_t lines(const struct text *t, size_t at)
{
	size_t end = settled(t, run_end(t, at, is_white)), last = end;
	if (end == UNDECIDED)
		return end;

	while (last > at && !is_line_end(t->p[last - 1]))
		last--;
	if (last > at)
		return last;

	return white(t, at);
}

static size_t llama3(const struct text *t, size_t at, size_t most)
{
	size_t end = contraction(t, at, 32);
	unsigned c = t->p[at];

	if (end != at)
		return end;
	if (is_letter(c))
		return settled(t, run_end(t, at, is_letter));
	if (is_digit(c))
		return digits(t, at, most);
	if (c >= 0x80 || at + 1 == t->n || t->p[at + 1] >= 0x80)
		return UNDECIDED;
	if (!is_line_end(c) && is_letter(t->p[at + 1]))
		return settled(t, run_end(t, at + 1, is_letter));

	size_t from = at + (c == ' ');
	if (!is_mark(t->p[from]))
		return lines(t, at);

	end = settled(t, run_end(t, from, is_mark));
	if (end == UNDECIDED)
		return end;

	end = run_end(t, end, is_line_end);
	if (end < t->n || !t->open)
		return end;

	return UNDECIDED;
}

/* Which of 8 bytes are a space: the lowest bit that is set is right. */
static inline uint64_t spaces(const char *p)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t x;
	memcpy(&x, p, sizeof x);
	x = le64toh(x) ^ ones * ' ';
	return (x - ones) & ~x & ones << 7;
}

/* n: there is none. */
static inline size_t next_space(const char *p, size_t n, size_t at)
{
	for (; n - at >= 8; at += 8) {
		uint64_t some = spaces(p + at);
		if (some)
			return at + (size_t)__builtin_ctzll(some) / 8;
	}

	while (at < n && p[at] != ' ')
		at++;

	return at;
}

/* A word with the spaces before it, or with one at most. */
static size_t spaced(const char *p, size_t n, size_t at, int one, int open)
{
	size_t from = at;
	while (from < n && p[from] == ' ' && !(one && from > at))
		from++;
	size_t end = next_space(p, n, from);
	return end < n || !open ? end : UNDECIDED;
}

/* ---- the outside ---- */

#define LLAMA3(digits)                                                                             \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                       \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const patterns[] = {
	[ZR_WORDS_GPT2] = ZR_PATTERN_GPT2,
	[ZR_WORDS_LLAMA3] = LLAMA3("\\p{N}{1,3}"),
	[ZR_WORDS_QWEN2] = LLAMA3("\\p{N}"),
	[ZR_WORDS_SPACED] = ZR_PATTERN_SPACED_WORDS,
	[ZR_WORDS_SPACES_BEGIN] = ZR_PATTERN_SPACES_BEGIN,
};

int zr_words_known(const char *pattern)
{
	for (int i = 1; i < (int)(sizeof patterns / sizeof *patterns); i++)
		if (!strcmp(pattern, patterns[i]))
			return i;
	return ZR_WORDS_OTHER;
}

size_t zr_words_end(int words, const char *p, size_t n, size_t at, int open)
{
	const struct text t = { (const unsigned char *)p, n, open };
	size_t end;

	if (words == ZR_WORDS_GPT2)
		end = gpt2(&t, at);
	else if (words >= ZR_WORDS_SPACED)
		end = spaced(p, n, at, words == ZR_WORDS_SPACES_BEGIN, open);
	else
		end = llama3(&t, at, words == ZR_WORDS_QWEN2 ? 1 : 3);

	return end == UNDECIDED ? 0 : end;
}
