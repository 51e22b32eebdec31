/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - texts that are made as printf(3) makes them, and words of texts.
 */
#ifndef ZR_CORE_BASE_TEXT_H
#define ZR_CORE_BASE_TEXT_H

#include <stddef.h>

/* An owned text; NULL where there is no memory for it. asprintf(3) leaves its pointer undefined
 * then, and a caller that frees the pointer on its way out crashes. [any] */
char *zr_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A word as a shell takes it: in quotes; owned. NULL: no memory. [any] */
char *zr_text_quoted(const char *word);

/* Appends an item to the list in `out`, behind `between` unless it is the first one. What does not
 * fit is cut off. [any] */
void zr_text_add(char *out, size_t size, const char *between, const char *item);

/* The next blank separated word of *text, which moves behind it, and its length; NULL: none.
 * [any] */
const char *zr_next_word(const char **text, size_t *len);

#endif
