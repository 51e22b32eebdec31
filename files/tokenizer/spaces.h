/* SPDX-License-Identifier: Apache-2.0
 *
 * spaces.h - tokenizers that write a space as a character of its own: normalizer, Metaspace and
 * decoder. Only files/tokenizer/ includes it.
 */
#ifndef ZR_TOKENIZER_SPACES_H
#define ZR_TOKENIZER_SPACES_H

#include <jansson.h>

#include "files/tokenizer/buf.h"

struct zr_tokenizer_loading;
struct zr_split;
struct zr_tokenizer;

#define ZR_SPACE "\u2581" /* what a space is written as; 3 bytes */

/* Appends p[0..n), whole characters, with a space for each U+2581. 0 or ZR_ENOMEM. */
int zr_spaces(const char *p, size_t n, struct zr_buf *out);
/* Appends p[0..n) with U+2581 for each space. 0 or ZR_ENOMEM. */
int zr_spaces_write(const char *p, size_t n, struct zr_buf *out);
/* Where a byte of p[0..n) is when each U+2581 became a space. */
size_t zr_spaces_place(const void *unused, const char *p, size_t n, size_t at, int first);
/* The n bytes of a token to out, which has room for the text; returns its ZR_TOKEN_*. */
int zr_spaced_token(const struct zr_tokenizer *t, const char *text, char *out, size_t *n);
int zr_spaced_joins(const char *text); /* of U+2581 behind another character */

/* ---- load_spaces.c ---- */

/* Whether a step of the tokenizer writes spaces so. */
int zr_load_is_spaced(const json_t *root);
int zr_load_is_space_step(const json_t *o); /* the normalizer's */
int zr_load_takes_words(
	const struct zr_tokenizer_loading *l); /* BPE gives each word the ids it has alone */
int zr_load_metaspace(struct zr_tokenizer_loading *l, const json_t *o, const char *place,
		      struct zr_split *s, int last);

#endif
