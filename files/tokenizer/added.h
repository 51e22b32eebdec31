/* SPDX-License-Identifier: Apache-2.0
 *
 * added.h - added tokens, which are found in the text before a model sees it. Only files/tokenizer/
 * and its tests include it.
 */
#ifndef ZR_TOKENIZER_ADDED_H
#define ZR_TOKENIZER_ADDED_H

#include <stddef.h>
#include <stdint.h>

#include "files/tokenizer/regex.h"

struct zr_added_token {
	int32_t id;
	uint32_t len;
	const char *content; /* what is looked for: normalized where the text is normalized */
	int lstrip, rstrip;  /* white space before it, behind it, belongs to it */
	int single_word;     /* it is not found within a longer word */
};

/* Added tokens that are looked for in the same text: in raw text, or in normalized text. */
struct zr_added {
	/* sorted: tokens with the same first byte stand together, the longest of them first */
	struct zr_added_token *token;
	int32_t n, of[257];       /* token[of[b] .. of[b + 1]) start with byte b */
	unsigned char first[256]; /* the bytes that tokens start with */
	int n_first;
	uint32_t second[256]; /* by the first byte: bit b % 32 of each second byte b */
	size_t longest;
	int lstrip;            /* any token has it */
	int marked;            /* a space in the text stands for U+2581, which is no white space */
	struct zr_regex *word; /* a character of words; NULL: no token is a single word */
};

struct zr_found {
	const struct zr_added_token *token; /* NULL: there is none up to `start` */
	size_t start, stop;
};

/* When all tokens are there. */
void zr_added_sort(struct zr_added *a);
/* Finds the first token in p[from..n). The text before out->start is settled. Without `final` the
 * text goes on behind n. in_word: the character before p is one of a word. */
void zr_added_find(const struct zr_added *a, struct zr_match *m, const char *p, size_t n,
		   size_t from, int final, int in_word, struct zr_found *out);
/* Whether the last character of p[0..n), n > 0, is one of a word. */
int zr_added_in_word(const struct zr_added *a, struct zr_match *m, const char *p, size_t n);

#endif
