/* SPDX-License-Identifier: Apache-2.0
 *
 * regex.h - the regular expressions of pre-tokenizers, which are written for Oniguruma and run by
 * PCRE2. pattern.c lets pass what means the same in both, and writes out what does not; the rest is
 * refused by name.
 */
#ifndef ZR_TOKENIZER_REGEX_H
#define ZR_TOKENIZER_REGEX_H

#include <stddef.h>

#include "core/base/error.h"

struct zr_regex;
struct zr_match; /* what one thread needs to find with any of them */

/* ZR_ENOTSUP: what the pattern uses is not here, or this build has no PCRE2. literal: the pattern
 * is plain text. */
int zr_regex_compile(const char *pattern, int literal, struct zr_regex **out, struct zr_error *err);
void zr_regex_free(struct zr_regex *re);       /* NULL is fine */
int zr_regex_words(const struct zr_regex *re); /* which of words.c's patterns it is, ZR_WORDS_* */
/* Whether what it finds depends on nothing around: characters alone, and runs of a class. */
int zr_regex_is_by_class(const struct zr_regex *re);

int zr_match_open(struct zr_match **out, struct zr_error *err);
void zr_match_close(struct zr_match *m); /* NULL is fine */

#define ZR_REGEX_NONE  0 /* no match from `at` on */
#define ZR_REGEX_FOUND 1 /* *start and *stop */
#define ZR_REGEX_MORE  2 /* what is behind n decides; what is before *start is in no match */

/* The first match in p[at..n), well-formed UTF-8. partial: text may go on behind n. Else a negative
 * code. */
int zr_regex_find(const struct zr_regex *re, struct zr_match *m, const char *p, size_t n, size_t at,
		  int partial, size_t *start, size_t *stop, struct zr_error *err);

/* ---- words.c ---- */

/* The pattern of ByteLevel, as the library has it built in. */
#define ZR_PATTERN_GPT2                                                                            \
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* \w of Rust: letters and what else is Alphabetic, marks, digits, connectors and joiners. */
#define ZR_WORD_CLASS                                                                              \
	"\\p{L}\\p{M}\\p{Nl}\\p{Nd}\\p{Pc}\u200c\u200d\u24b6-\u24e9\U0001f130-\U0001f149"          \
	"\U0001f150-\U0001f169\U0001f170-\U0001f189"
/* What the library calls punctuation: its tables are of Unicode 8, so that what came later is none;
 * and what ASCII calls so. */
#define ZR_PUNCTUATION_CLASS "\\p{P}$+<=>\\^`|~\u166d\U000111c9"
#define ZR_LATER_PUNCTUATION                                                                       \
	"[\u061d\u09fd-\u0a76\u0c77-\u0c84\u1b4e\u1b4f\u1b7d-\u1b7f\u2e43-\u2e63"                  \
	"\U00010d6e-\U00010f89\U000113d4-\U0001145d\U00011660-\U000116b9"                          \
	"\U0001183b-\U00011fff\U00012ff1\U00012ff2"                                                \
	"\U00016d6d-\U00016fe2\U0001e5ff-\U0001e95f]"

/* Of the pre-tokenizers Digits, Punctuation, BertPreTokenizer, Whitespace and WhitespaceSplit, of
 * the last three what a piece is. */
#define ZR_PATTERN_DIGIT       "\\p{N}"
#define ZR_PATTERN_PUNCTUATION "(?!" ZR_LATER_PUNCTUATION ")[" ZR_PUNCTUATION_CLASS "]"
#define ZR_PATTERN_BERT                                                                            \
	"(?:[^\\s" ZR_PUNCTUATION_CLASS "]++|" ZR_LATER_PUNCTUATION ")+|[" ZR_PUNCTUATION_CLASS "]"
#define ZR_PATTERN_WORDS     "[" ZR_WORD_CLASS "]+|[^\\s" ZR_WORD_CLASS "]+"
#define ZR_PATTERN_NO_SPACES "[^\\s]+"
/* Pieces that no merge crosses where no token has a space behind another character, and where each
 * space begins a piece. */
#define ZR_PATTERN_SPACED_WORDS " *[^ ]+| +"
#define ZR_PATTERN_SPACES_BEGIN " [^ ]*|[^ ]+"

/* Patterns that are matched without PCRE2 where the text is ASCII, the last two where it is any.
 * All match at every character. */
enum {
	ZR_WORDS_OTHER,
	ZR_WORDS_GPT2,
	ZR_WORDS_LLAMA3,
	ZR_WORDS_QWEN2,
	ZR_WORDS_SPACED,
	ZR_WORDS_SPACES_BEGIN
};
int zr_words_known(const char *pattern); /* ZR_WORDS_* */
/* The end of the match at p[at], at < n. open: text may go on behind n. 0: PCRE2 has to say. */
size_t zr_words_end(int words, const char *p, size_t n, size_t at, int open);

/* ---- runs.c ---- */

enum { ZR_CLASS_NONE = 1, ZR_CLASS_ALONE, ZR_CLASS_RUN, ZR_CLASS_OTHER_RUN };
#define ZR_RUNS       5 /* patterns that are found by the classes of characters */
#define ZR_CHARACTERS 0x110000
struct zr_runs {
	unsigned char *class_of; /* [ZR_CHARACTERS] ZR_CLASS_*; 0: not asked for yet */
	unsigned (*ask)(const void *arg, const char *p, size_t n); /* of the character p[0..n) */
	const void *arg;
};
int zr_runs_known(const char *pattern); /* which of them it is; ZR_RUNS: none */
/* As zr_regex_find. */
int zr_runs_find(const struct zr_runs *r, const char *p, size_t n, size_t at, int open,
		 size_t *start, size_t *stop);

/* ---- pattern.c ---- */

/* The pattern as PCRE2 wants it; returns owned. */
int zr_pattern_translate(const char *pattern, int literal, char **out, struct zr_error *err);

#endif
