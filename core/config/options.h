/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - values by option table: text to value, value to text, ranges. Texts of errors say
 * what is wrong with the value ("expected a number, found 'abc'"); callers put the place before
 * them. [main] thread.
 */
#ifndef ZR_CORE_OPTIONS_H
#define ZR_CORE_OPTIONS_H

#include "core/base/error.h"

/* A table of options: the core's or a plugin's. */
struct zr_table {
	const struct zr_opt *opts;
	uint32_t n, stride; /* entries, bytes between them */
	uint32_t size;      /* bytes of the options struct */
};

struct zr_table zr_table_of(const struct zr_desc *desc);
/* Walks over a table: the first option from number *i on that has all of these flags, or NULL.
 * *i moves behind it. */
const struct zr_opt *zr_table_next(const struct zr_table *t, uint32_t flags, uint32_t *i);
const struct zr_opt *zr_table_find(const struct zr_table *t, const char *name); /* NULL: none */
/* NULL: none near */
const char *zr_table_nearest(const struct zr_table *t, const char *word);

/* Whether a plugin's table can be used at all: types, widths, offsets, defaults that parse. */
int zr_table_check(const struct zr_table *t, struct zr_error *err);

/* Stores the value of `text` in the options struct. Strings keep pointing at `text`. On failure the
 * struct is untouched. */
int zr_value_parse(const struct zr_opt *o, const char *text, void *opts, struct zr_error *err);
/* Range of a value that is in place. A value still `auto` passes. */
int zr_value_check(const struct zr_opt *o, const void *opts, struct zr_error *err);
int zr_value_is_auto(const struct zr_opt *o, const void *opts);
/* The value as text that parses to the same value. Returns its length like snprintf. */
int zr_value_format(const struct zr_opt *o, const void *opts, char *out, size_t size);

/* NULL: the option is no text */
const char *zr_value_text(const struct zr_opt *o, const void *opts);

/* near.c: the nearest candidate to `word` by edit distance, NULL if none is near. */
const char *zr_nearest(const char *word, const char *const *candidates, int n);

/* numbers.c: values that are numbers, or lists of them, at `at`. The whole text must parse, in any
 * locale, and be in range. */
#define ZR_LIST_MAX 16 /* numbers in a list */
int zr_number_parse(const struct zr_opt *o, const char *text, void *at, struct zr_error *err);
int zr_number_check(const struct zr_opt *o, const void *at, struct zr_error *err);
int zr_number_format(const struct zr_opt *o, const void *at, char *out, size_t size);
void zr_range_text(const struct zr_opt *o, char *out, size_t size); /* "[0, 1)", ">= 0", "" */
int zr_parse_double(const char *text, double *out);                 /* 0 or -1 */
int zr_format_double(double v, char *out, size_t size);             /* shortest that parses to v */

#endif
