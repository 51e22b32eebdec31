/* SPDX-License-Identifier: Apache-2.0
 *
 * load.h - reads a tokenizer.json: load.c, and a file for each part of it. Each function returns 0
 * or a negative code. Only files/tokenizer/ includes it.
 */
#ifndef ZR_TOKENIZER_LOAD_H
#define ZR_TOKENIZER_LOAD_H

#include <jansson.h>

#include "core/base/error.h"
#include "files/tokenizer/lists.h"
#include "files/tokenizer/regex.h"

struct zr_tokenizer;

enum { ZR_TOKEN_OTHER, ZR_TOKEN_MADE, ZR_TOKEN_BYTE };

struct zr_tokenizer_loading {
	const char *file;
	struct zr_tokenizer *t;
	const char *text; /* of the file, `bytes` of it */
	size_t bytes;
	struct zr_lists lists;
	struct zr_names names; /* of the vocabulary; in the end also those of added tokens */
	struct zr_error *err;
	int byte_level, metaspaces; /* how many of these the pre-tokenizer has so far */
	/* of SentencePiece: a merge makes a token with a space behind another character */
	int joins_words;
};

/* ---- load.c ---- */

/* The tokenizer of a text of n bytes, with a 0 behind them; file: for messages. Before l->names go,
 * `look` is called with all that was read; NULL: nothing is. */
typedef int zr_tokenizer_look(void *arg, struct zr_tokenizer_loading *l);
int zr_tokenizer_load(const char *file, const char *text, size_t n, zr_tokenizer_look *look,
		      void *arg, struct zr_tokenizer **out, struct zr_error *err);
/* The text of the file, owned. */
int zr_tokenizer_read(const char *file, char **text, size_t *n, struct zr_error *err);

/* ---- load_values.c: failures, and values of several parts ---- */

/* Fails with "FILE: place: text". */
int zr_load_fail(const struct zr_tokenizer_loading *l, int code, const char *place, const char *fmt,
		 ...) __attribute__((format(printf, 4, 5)));
/* Fails for a value of another type: "FILE: place: expected wanted, found ...". */
int zr_load_found(const struct zr_tokenizer_loading *l, const char *place, const char *wanted,
		  const json_t *found);
/* The same for a value that stands in the file's text, or for a file that is no JSON. found: NULL
 * where there is no value. */
int zr_load_unread(const struct zr_tokenizer_loading *l, const char *place, const char *wanted,
		   const char *found);
int zr_load_flag(const struct zr_tokenizer_loading *l, const json_t *o, const char *place,
		 const char *key, int otherwise, int *out);
const char *zr_load_type(const json_t *o); /* "": it has none */
/* The i-th step of a normalizer, pre-tokenizer or decoder, with those of sequences one after the
 * other; NULL: there are fewer. list: the key under which a sequence has its steps. */
const json_t *zr_load_step(const json_t *o, const char *list, size_t i);
int zr_load_regex(struct zr_tokenizer_loading *l, const char *place, const char *pattern,
		  int literal, struct zr_regex **out);

/* ---- load_vocabulary.c ---- */

int zr_load_vocab(struct zr_tokenizer_loading *l, const json_t *added);
/* Room for tokens of the vocabulary, which have `bytes`, and for the added ones. */
int zr_load_room(struct zr_tokenizer_loading *l, size_t bytes, const json_t *added);
/* Room for the names of the vocabulary, and of added tokens. */
int zr_load_names(struct zr_tokenizer_loading *l, const json_t *added);
int zr_load_token(struct zr_tokenizer_loading *l, const struct zr_name *name, int *kind);
/* The unknown token: what v names, or `otherwise` where the file has no v. */
int zr_load_unknown(struct zr_tokenizer_loading *l, const json_t *v, const char *otherwise);

/* ---- the parts of the file, in the order in which they are read ---- */

int zr_load_bpe(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added);
int zr_load_unigram(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added);
int zr_load_wordpiece(struct zr_tokenizer_loading *l, const json_t *model, const json_t *added);
int zr_load_normalizer(struct zr_tokenizer_loading *l, const json_t *o);
int zr_load_splits(struct zr_tokenizer_loading *l, const json_t *o); /* load_steps.c */
int zr_load_added(struct zr_tokenizer_loading *l, const json_t *o);
int zr_load_gaps(struct zr_tokenizer_loading *l); /* load_steps.c */
int zr_load_decoder(struct zr_tokenizer_loading *l, const json_t *o);
int zr_load_template(struct zr_tokenizer_loading *l, const json_t *o); /* load_steps.c */

#endif
