/* SPDX-License-Identifier: Apache-2.0
 *
 * lists.h - the vocabulary and the merges in the text of a tokenizer.json, which are read without
 * making values of them; and names by their text. Only files/tokenizer/ and its tests include it.
 */
#ifndef ZR_TOKENIZER_LISTS_H
#define ZR_TOKENIZER_LISTS_H

#include "files/tokenizer/buf.h"

/* An array or an object in the text of a file, or another value that stands in its place. */
struct zr_list {
	const char *text; /* where it starts; NULL: the file has none */
	const char *p;    /* the entry that is read next */
	size_t bytes, entries;
};

struct zr_lists {
	struct zr_list vocab, merges;
	struct zr_buf rest; /* the file's text without them, for jansson */
};

/* text: the n bytes of a tokenizer.json, with a 0 behind them. 0 or ZR_ENOMEM. */
int zr_lists_find(struct zr_lists *s, const char *text, size_t n);
/* 1: l->p is where the next entry starts, and whoever reads it sets l->p behind it. 0: there is no
 * other entry. -1: what follows is not JSON. */
int zr_list_next(struct zr_list *l);

/* Each of these reads a value that stands at p, behind white space, and returns where it ends.
 * NULL: something else stands there, or p is NULL. */
const char *zr_list_mark(const char *p, char mark);
const char *zr_list_string(const char *p, struct zr_buf *to); /* its text is appended */
const char *zr_list_integer(const char *p, int64_t *value);
const char *zr_list_number(const char *p, double *value); /* as the library rounds it */

/* ---- names.c ---- */

struct zr_name {
	const char *p; /* borrowed */
	uint32_t n;
	int32_t id;
};

struct zr_names {
	struct zr_name *name; /* [n] in the order they came */
	size_t n, mask;
	uint32_t *at;       /* [mask + 1] open addressing: one more than the number of a name */
	struct zr_buf text; /* their texts, which must not move: it has room for all of them */
};

int zr_names_room(struct zr_names *s, size_t n); /* for n names; 0 or ZR_ENOMEM */
void zr_names_free(struct zr_names *s);
const struct zr_name *zr_names_find(const struct zr_names *s, const char *p,
				    size_t n); /* or NULL */
/* From now on the id belongs to the name, for which there is room. Returns whether another id
 * belonged to it. */
int zr_names_put(struct zr_names *s, const char *p, size_t n, int64_t id);

#endif
